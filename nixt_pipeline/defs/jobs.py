"""Jobs: what is launched together for a run.

A job runs in one process. The steps of a run follow one another anyway and DuckDB uses every core by itself, while a
process per step would cost five CPU-seconds of imports each; parallelism comes from several runs at once
(`dagster.yaml` limits them).
"""

import dagster as dg

from nixt_pipeline.pipeline import ANALYSE, INGEST, REPORT

_RESULTS = [step.name for step in (*ANALYSE, *REPORT)]

ingest_run = dg.define_asset_job(
    "ingest_run",
    dg.AssetSelection.assets(*(step.name for step in INGEST), *_RESULTS),
    description="Processes one run from its log files to its report. Started by the sensor `finished_runs`.",
    executor_def=dg.in_process_executor,
)
analyse_run = dg.define_asset_job(
    "analyse_run",
    dg.AssetSelection.assets(*_RESULTS),
    description="Cells, analyses and report of one stored run, without reading the logs. "
    "Launch it as a backfill of all runs when an analysis has changed.",
    executor_def=dg.in_process_executor,
)

defs = dg.Definitions(jobs=[ingest_run, analyse_run])
