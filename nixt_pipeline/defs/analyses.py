"""The analyses of a run: one asset for each entry of `nixt_pipeline.analysis.ANALYSES`, made by one factory.

A new analysis appears in the graph by being added there.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from duckdb import DuckDBPyConnection

from nixt_pipeline.analysis import ANALYSES as ALL_ANALYSES
from nixt_pipeline.analysis.base import Analysis, Counted
from nixt_pipeline.analysis.failures import noted_error, try_to_materialise, withhold
from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import ANALYSES, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview, picture
from nixt_pipeline.defs.resources import StoreDuckDB
from nixt_pipeline.isolation import Failure, attempt
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.results import error_in, judge_failure, judge_result, result_rules
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.reporting.sections import pictures
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.reading import read_table


def analysis_asset(analysis: Analysis) -> dg.AssetsDefinition:
    """The asset of one analysis. Its code version is the analysis' own: a change makes exactly its results stale."""

    @run_asset(
        name=analysis.name,
        description=f"**{analysis.question}**\n\n{analysis.reading}",
        group=ANALYSES,
        kinds={"duckdb", "parquet"},
        code_version=analysis.version,
        columns=analysis.columns,
        deps=reads(analysis.name),
    )
    def asset(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings], duckdb: StoreDuckDB) -> Result:
        run = context.partition_key
        path = layout.results_path(settings, analysis.name, run)
        with duckdb.get_connection(run) as con:
            failure = try_to_materialise(analysis, run, settings, con)
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
        with closing(catalog.open_run(run, settings)) as con:
            result, stored = con.table(analysis.name).to_arrow_table(), _stored(con)
        yield from judge_result(analysis, result, stored, settings.thresholds)

    return run_checks(analysis.name, result_rules(analysis), judge)


defs = dg.Definitions(
    assets=[analysis_asset(analysis) for analysis in ALL_ANALYSES],
    asset_checks=[analysis_checks(analysis) for analysis in ALL_ANALYSES],
)
