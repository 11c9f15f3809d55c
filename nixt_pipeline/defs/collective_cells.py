"""Stage 5: one row per collective, across the ranks that took part in it."""

from collections.abc import Iterator
from contextlib import closing

import dagster as dg

from nixt_pipeline.analysis import cells
from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import ANALYSES, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.defs.resources import StoreDuckDB
from nixt_pipeline.inspector.taxonomy import CELL_COLUMNS
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.cells import CELL_RULES, cell_profile, judge_cells
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.manifest import read_manifest

_PREVIEW = (
    "coll", "coll_type", "coll_sn", "n_ranks", "ranks_seen", "coll_msg_size_bytes", "min_exec_time_us", "min_hostname",
    "wait_us", "transfer_busbw_gbs",
)  # fmt: skip


@run_asset(
    group=ANALYSES,
    kinds={"duckdb", "parquet"},
    code_version=cells.VERSION,
    columns=CELL_COLUMNS,
    deps=reads("collective_cells"),
)
def collective_cells(
    context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings], duckdb: StoreDuckDB
) -> Result:
    """**One row per collective**, assembled from the records of its ranks.

    A collective cannot proceed before its last rank arrives, so the *shortest* time among the ranks is the closest to
    the pure transfer, and the rank that has it arrived last. `wait_us` is the time that all others spent waiting for
    it.
    """
    run = context.partition_key
    rows = cells.build_cells(run, settings)
    path = layout.table_files(read_manifest(settings, run).directory(settings), "cells")[0]
    with duckdb.get_connection(run) as con:
        longest = con.sql("SELECT * FROM cells ORDER BY wait_us DESC NULLS LAST LIMIT 12").to_arrow_table()
        numbers = cell_profile(con).to_pylist()[0]
    return result(path, rows, {"longest waits": arrow_preview(longest, _PREVIEW)}, numbers)


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    with closing(catalog.open_run(run, settings)) as con:
        yield from judge_cells(cell_profile(con), settings.thresholds)


defs = dg.Definitions(assets=[collective_cells], asset_checks=[run_checks("collective_cells", CELL_RULES, _judge)])
