"""The code location: everything that Dagster shows, named in one place. Start reading here.

    raw_log_inventory -> validated_records -> typed_events -> event_store -> collective_cells -> analyses, findings
    -> run_report
    and across runs:  run_catalog -> baselines -> run_comparison; host_health; scaling; benchmark_variation
    -> fleet_report

Each asset of the upper line has one partition per run (a training job's dump directory). The sensor `finished_runs`
looks for new ones and starts the job `ingest_run`; `fleet_automation` then brings the cross-run assets up to date.
What an asset computes is a plain function of `nixt_pipeline.store`, `.analysis` or `.reporting`, which also work
without Dagster (see `nixt_pipeline.api`).
"""

import dagster as dg

from nixt_pipeline.defs.analyses import all_analysis_checks, analysis_assets
from nixt_pipeline.defs.automation import fleet_automation
from nixt_pipeline.defs.baselines import baselines, baselines_checks
from nixt_pipeline.defs.collective_cells import collective_cells, collective_cells_checks
from nixt_pipeline.defs.comparison import run_comparison, run_comparison_checks
from nixt_pipeline.defs.event_store import event_store, event_store_checks
from nixt_pipeline.defs.findings import findings, findings_checks
from nixt_pipeline.defs.fleet import fleet_report, fleet_report_checks, run_catalog, run_catalog_checks
from nixt_pipeline.defs.host_health import host_health, host_health_checks
from nixt_pipeline.defs.jobs import analyse_run, ingest_run
from nixt_pipeline.defs.raw_log_inventory import raw_log_inventory, raw_log_inventory_checks
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.defs.retention import retention, retention_checks, retention_job, retention_schedule
from nixt_pipeline.defs.run_report import run_report, run_report_checks
from nixt_pipeline.defs.scaling import benchmark_variation, benchmark_variation_checks, scaling, scaling_checks
from nixt_pipeline.defs.sensors import finished_runs_sensor
from nixt_pipeline.defs.typed_events import typed_events, typed_events_checks
from nixt_pipeline.defs.validated_records import validated_records, validated_records_checks


def build_definitions(nixt: NixtSettings | None = None) -> dg.Definitions:
    """Put everything together; tests pass settings of their own."""
    nixt = nixt or NixtSettings()
    return dg.Definitions(
        assets=[
            raw_log_inventory,
            validated_records,
            typed_events,
            event_store,
            collective_cells,
            *analysis_assets,
            findings,
            run_report,
            run_catalog,
            baselines,
            run_comparison,
            host_health,
            scaling,
            benchmark_variation,
            fleet_report,
            retention,
        ],
        asset_checks=[
            raw_log_inventory_checks,
            validated_records_checks,
            typed_events_checks,
            event_store_checks,
            collective_cells_checks,
            *all_analysis_checks,
            findings_checks,
            run_report_checks,
            run_catalog_checks,
            baselines_checks,
            run_comparison_checks,
            host_health_checks,
            scaling_checks,
            benchmark_variation_checks,
            fleet_report_checks,
            retention_checks,
        ],
        jobs=[ingest_run, analyse_run, retention_job],
        schedules=[retention_schedule],
        sensors=[finished_runs_sensor(ingest_run.name, nixt.load().sensor_interval_s), fleet_automation],
        resources={"nixt": nixt},
        # Also for what is materialised by hand in the UI, see `defs.jobs`.
        executor=dg.in_process_executor,
    )


defs = build_definitions()
