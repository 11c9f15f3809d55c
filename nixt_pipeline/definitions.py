"""The code location: everything that Dagster shows, named in one place. Start reading here.

    raw_log_inventory -> validated_records -> typed_events -> event_store -> collective_cells -> analyses, findings
    -> run_report
    and for the fleet:  run_catalog -> baselines -> run_comparison; host_health; scaling; benchmark_variation
    -> fleet_report

Each asset of the upper line has one partition per run (a training job's dump directory). The sensor `finished_runs`
looks for new ones and starts the job `ingest_run`; `fleet_automation` then brings the fleet's assets up to date.
What an asset computes is a plain function of `nixt_pipeline.store`, `.analysis` or `.reporting`, which also work
without Dagster (see `nixt_pipeline.api`).
"""

import logging
from collections.abc import Sequence
from types import ModuleType

import dagster as dg

from nixt_pipeline.defs import analyses, fleet, ingest, jobs, reports, retention, sensors
from nixt_pipeline.defs.resources import NixtSettings, resources
from nixt_pipeline.settings import SettingsError, doubts, load_settings

_LOG = logging.getLogger(__name__)

# In the order of the graph.
MODULES: Sequence[ModuleType] = (ingest, analyses, reports, fleet, retention, jobs, sensors)


def build_definitions(settings: NixtSettings | None = None) -> dg.Definitions:
    """Put everything together; tests pass settings of their own."""
    # The executor is also for what is materialised by hand in the UI, see `defs.jobs`.
    shared = dg.Definitions(resources=resources(settings), executor=dg.in_process_executor)
    return dg.Definitions.merge(*(module.defs for module in MODULES), shared)


def log_doubts() -> None:
    """Log what is wrong with the settings. The code location loads all the same, so that it can be read in the UI."""
    for doubt in doubts():
        _LOG.warning(doubt)
    try:
        load_settings()
    except SettingsError as error:
        _LOG.error("%s. Runs and sensor ticks fail until this is corrected.", error)


log_doubts()
defs = build_definitions()
