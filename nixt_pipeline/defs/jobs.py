"""Jobs: what is launched together for a run.

A job runs in one process. The steps of a run follow one another anyway and DuckDB uses every core by itself, while a
process per step would cost five CPU-seconds of imports each; parallelism comes from several runs at once
(`dagster.yaml` limits them).
"""

import dagster as dg

from nixt_pipeline.analysis import ANALYSES

STAGES = ("raw_log_inventory", "validated_records", "typed_events", "event_store")
RESULTS = ("collective_cells", *(analysis.name for analysis in ANALYSES), "findings", "run_report")

ingest_run = dg.define_asset_job(
    "ingest_run",
    dg.AssetSelection.assets(*STAGES, *RESULTS),
    description="Everything for one run, from its log files to its report. The sensor `finished_runs` starts it.",
    executor_def=dg.in_process_executor,
)
analyse_run = dg.define_asset_job(
    "analyse_run",
    dg.AssetSelection.assets(*RESULTS),
    description="Cells, analyses and report of one run that is in the store; the logs are not read. "
    "Launch it as a backfill over all runs after an analysis has changed.",
    executor_def=dg.in_process_executor,
)
