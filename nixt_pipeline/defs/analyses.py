"""What is computed from the stored events of a run: its collectives, every analysis, and the findings.

One factory makes the assets of `nixt_pipeline.analysis.ANALYSES`; a new analysis appears in the graph by being added
there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from duckdb import DuckDBPyConnection

from nixt_pipeline.analysis import ANALYSES as ALL_ANALYSES
from nixt_pipeline.analysis import cells
from nixt_pipeline.analysis.base import Analysis, Counted, origin_of
from nixt_pipeline.analysis.failures import noted_error, result_is_current, try_to_materialise, withhold
from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import ANALYSES, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview, picture
from nixt_pipeline.defs.resources import StoreDuckDB
from nixt_pipeline.diagnosis import VERSION
from nixt_pipeline.diagnosis.results import FINDING_COLUMNS, NAME, findings_table, json_path, materialise_findings
from nixt_pipeline.diagnosis.wording.text import as_markdown
from nixt_pipeline.fleet.regression import with_regression
from nixt_pipeline.inspector.taxonomy import CELL_COLUMNS
from nixt_pipeline.isolation import Failure, attempt
from nixt_pipeline.quality.cells import CELL_RULES, cell_profile, judge_cells
from nixt_pipeline.quality.findings import FINDING_RULES, judge_findings
from nixt_pipeline.quality.results import error_in, judge_failure, judge_result, result_rules
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.reporting.sections import pictures
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_json, read_table

_CELLS = (
    "coll", "coll_type", "coll_sn", "n_ranks", "ranks_seen", "coll_msg_size_bytes", "min_exec_time_us", "min_hostname",
    "wait_us", "transfer_busbw_gbs",
)  # fmt: skip
_FINDINGS = ("severity", "kind", "level", "hosts", "ambiguous", "onset_us", "cost_share", "lost_rank_seconds")


@run_asset(group=ANALYSES, kinds={"duckdb", "parquet"}, code_version=cells.VERSION, columns=CELL_COLUMNS)
def collective_cells(
    context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings], duckdb: StoreDuckDB
) -> Result:
    """**One row per collective**, assembled from the records of its ranks.

    A collective cannot proceed before its last rank arrives, so the *shortest* time among the ranks is the closest to
    the pure transfer, and the rank that has it arrived last. `wait_us` is the time that all others spent waiting for
    it.
    """
    run = context.partition_key
    if not cells.cells_are_current(run, settings):
        cells.build_cells(run, settings)
    path = layout.table_files(read_manifest(run, settings).directory(settings), "cells")[0]
    with duckdb.get_connection(run) as con:
        [(rows,)] = con.sql("SELECT count(*) FROM cells").fetchall()
        longest = con.sql("SELECT * FROM cells ORDER BY wait_us DESC NULLS LAST LIMIT 12").to_arrow_table()
        numbers = cell_profile(con).to_pylist()[0]
    return result(path, rows, {"longest waits": arrow_preview(longest, _CELLS)}, numbers)


def _judge_cells(run: str, settings: Settings) -> Iterator[Verdict]:
    with catalog.open_run(run, settings) as con:
        yield from judge_cells(cell_profile(con), settings.thresholds)


def analysis_asset(analysis: Analysis) -> dg.AssetsDefinition:
    """The asset of one analysis. Its code version is the analysis' own: a change makes exactly its results stale."""

    @run_asset(
        name=analysis.name,
        description=f"**{analysis.question}**\n\n{analysis.reading}",
        group=ANALYSES,
        kinds={"duckdb", "parquet"},
        code_version=analysis.version,
        columns=analysis.columns,
    )
    def asset(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings], duckdb: StoreDuckDB) -> Result:
        run = context.partition_key
        path = layout.results_path(analysis.name, run, settings)
        made_from = origin_of(analysis, run, settings)
        with duckdb.get_connection(run) as con:
            current = result_is_current(analysis, run, made_from, settings)
            failure = None if current else try_to_materialise(analysis, run, settings, con, made_from)
            if failure:
                return failed(failure, path)
            table = read_table(path)
            error = error_in(analysis, table, _stored(con), settings.thresholds)
        if error:
            # Taken back before anything is made of it.
            withhold(analysis.name, run, error, settings)
            return failed(Failure(analysis.name, error), path)
        return result_of(analysis, table, path)

    return asset


def _stored(con: DuckDBPyConnection) -> dict[Counted, int]:
    """The number of records of each kind in the store."""
    query = "SELECT count(*), count(*) FILTER (kind = 'collective') FROM events"
    [(events, collectives)] = con.sql(query).fetchall()
    return {"events": int(events), "collectives": int(collectives)}


def failed(failure: Failure, path: Path) -> Result:
    """The outcome of an analysis that failed, whose result would be at `path`. Its step ends well, or Dagster skips
    the report; its check is what fails."""
    return result(path, None, {"could not be computed": failure.error})


def result_of(analysis: Analysis, table: pa.Table, path: Path) -> Result:
    """What the UI shows of a result: its place, first rows, key figures and, where the report has one, its figure."""
    # Lists are too long for a preview.
    shown = [field.name for field in table.schema if field.name != "run" and not pa.types.is_list(field.type)]
    return result(
        path,
        table.num_rows,
        {
            **_figure(analysis, table),
            "first rows": arrow_preview(table, shown),
            "query": dg.MetadataValue.md(f"```sql\n{analysis.sql.strip()}\n```"),
        },
        analysis.highlights(table.to_pylist()),
    )


def _figure(analysis: Analysis, table: pa.Table) -> dict[str, dg.MetadataValue[Any]]:
    draw = pictures().get(analysis.name)
    if draw is None or not table.num_rows:
        return {}
    drawn = attempt(f"the figure of {analysis.name}", draw, table)
    if isinstance(drawn, Failure):
        return {"figure": dg.MetadataValue.text(f"could not be drawn: {drawn.error}")}
    return {"figure": picture(drawn, analysis.title)}


def analysis_checks(analysis: Analysis) -> dg.AssetChecksDefinition:
    """The checks of one analysis' result."""

    def judge(run: str, settings: Settings) -> Iterator[Verdict]:
        if (error := noted_error(analysis.name, run, settings)) is not None:
            yield from judge_failure(analysis, error)
            return
        with catalog.open_run(run, settings) as con:
            result, stored = con.table(analysis.name).to_arrow_table(), _stored(con)
        yield from judge_result(analysis, result, stored, settings.thresholds)

    return run_checks(analysis.name, result_rules(analysis), judge)


@run_asset(name=NAME, group=ANALYSES, kinds={"duckdb", "parquet"}, code_version=VERSION, columns=FINDING_COLUMNS)
def findings(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**Stragglers, slow links and hangs**, with evidence and a severity for each.

    The rank that all others wait for has the shortest time and the highest bandwidth, so low bandwidth alone names no
    culprit. A finding comes with its effect, its evidence and the counter-evidence. If the log cannot tell, it names
    all candidates, or none. "Not assessable" does not mean healthy. If the run's workload has a baseline, being slower
    than it is a finding as well.
    """
    run = context.partition_key
    diagnosis = materialise_findings(run, settings, with_regression)
    table = findings_table(diagnosis)
    coverage = {name: value for name, value in diagnosis.to_json()["coverage"].items() if value is not None}
    shown = {
        "verdict": diagnosis.verdict,
        "in words": dg.MetadataValue.md(as_markdown(diagnosis)),
        "json": dg.MetadataValue.path(str(json_path(run, settings).resolve())),
        "first rows": arrow_preview(table, _FINDINGS),
    }
    numbers = {"urgent": len(diagnosis.at_least("P1")), **coverage}
    return result(layout.results_path(NAME, run, settings), table.num_rows, shown, numbers)


def _judge_findings(run: str, settings: Settings) -> Iterator[Verdict]:
    path = json_path(run, settings)
    content = read_json(path, dict, f"materialise {NAME} again")
    if content is None:
        raise FileNotFoundError(f"run {run} has no {path}; rematerialise {NAME}")
    yield from judge_findings(content)


defs = dg.Definitions(
    assets=[collective_cells, *(analysis_asset(analysis) for analysis in ALL_ANALYSES), findings],
    asset_checks=[
        run_checks("collective_cells", CELL_RULES, _judge_cells),
        *(analysis_checks(analysis) for analysis in ALL_ANALYSES),
        run_checks(NAME, FINDING_RULES, _judge_findings),
    ],
)
