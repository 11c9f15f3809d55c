"""The analyses of a run: one asset for each entry of `nixt_pipeline.analysis.ANALYSES`, made by one factory.

A new analysis appears in the graph by being added there; only what the UI shows of it is said here.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import dagster as dg
import pyarrow as pa

from nixt_pipeline.analysis import ANALYSES as ALL_ANALYSES
from nixt_pipeline.analysis.base import Analysis, materialise
from nixt_pipeline.analysis.highlights import highlights
from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import ANALYSES, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview, flat_numbers, picture
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.quality.results import Counted, judge_result, result_rules
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.reporting import (
    drawing,
    edges,
    figures,
    lateness,
    payload,
    progress,
    rank_map,
    shapes,
    variation,
    waiting,
)
from nixt_pipeline.reporting.rows import first_launches
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout

# Panels of a figure with several: the report has them all.
_PANELS = 2


def _first_launch(table: pa.Table) -> pa.Table:
    return first_launches(table, limit=1)[0]


# The report's figure of an analysis, drawn from its result; the others are tables.
PICTURES: dict[str, Callable[[pa.Table], str]] = {
    "summary_histogram": lambda table: drawing.draw_payload(payload.payload_bars(table)),
    "temporal_correlation": lambda table: drawing.draw_time(
        figures.time_figures(_first_launch(table), _PANELS)[0], "time"
    ),
    "spatial_correlation": lambda table: drawing.draw_last_arrivals(figures.last_arrivals(table, "host"), "hosts"),
    "resource_correlation": lambda table: drawing.draw_heat_map(shapes.heat_map(table)),
    "hot_kernels": lambda table: drawing.draw_kernels(figures.kernel_bars(table)),
    "bandwidth_ecdf": lambda table: drawing.draw_ecdf(figures.ecdf_figure(table, _PANELS)),
    "time_ecdf": lambda table: drawing.draw_ecdf(figures.ecdf_figure(table, _PANELS), "times", "us"),
    "waiting_over_time": lambda table: waiting.draw_total(waiting.waiting_of(_first_launch(table))[0], "waiting"),
    "waiting_by_progress": lambda table: progress.draw_progress(
        progress.progress_of(_first_launch(table))[0], "progress"
    ),
    "host_lateness": lambda table: lateness.draw_lateness(lateness.lateness_maps(_first_launch(table))[0], "lateness"),
    "rank_times": lambda table: rank_map.draw_map(rank_map.rank_maps(_first_launch(table))[0], "ranks"),
    "p2p_edges": lambda table: edges.draw_edges(edges.edge_panels(table)[0], "edges"),
    "variation": lambda table: variation.draw_variation(variation.variations(_first_launch(table)), "variation"),
}


def analysis_asset(analysis: Analysis) -> dg.AssetsDefinition:
    """The asset of one analysis. Its code version is the analysis' own: a change makes exactly its results stale."""

    @run_asset(
        name=analysis.name,
        description=f"**{analysis.question}**\n\n{analysis.reading}",
        group=ANALYSES,
        kinds={"duckdb", "parquet"},
        code_version=analysis.version,
        columns=analysis.columns,
        deps=["collective_cells"],
    )
    def asset(context: dg.AssetExecutionContext, nixt: NixtSettings) -> Result:
        settings, run = nixt.load(), context.partition_key
        return result_of(analysis, materialise(analysis, run, settings), run, settings)

    return asset


def result_of(analysis: Analysis, table: pa.Table, run: str, settings: Settings) -> Result:
    """What the UI shows of a result: its place, first rows, key figures and, where the report has one, its figure."""
    shown = [name for name in table.column_names if name != "run"]
    draw = PICTURES.get(analysis.name)
    path = layout.results_path(settings, analysis.name, run)
    return result(
        table.num_rows,
        {
            "dagster/uri": path.resolve().as_uri(),
            **({"figure": picture(draw(table), analysis.title)} if draw and table.num_rows else {}),
            "first rows": arrow_preview(table, shown),
            "query": dg.MetadataValue.md(f"```sql\n{analysis.sql.strip()}\n```"),
            **flat_numbers(highlights(analysis.name, table)),
        },
    )


def analysis_checks(analysis: Analysis) -> dg.AssetChecksDefinition:
    """The checks of one analysis' result."""

    def judge(run: str, settings: Settings) -> Iterator[Verdict]:
        with closing(catalog.open_run(settings, run)) as con:
            result = con.table(analysis.name).to_arrow_table()
            events, collectives = con.sql(
                "SELECT count(*), count(*) FILTER (kind = 'collective') FROM events"
            ).fetchall()[0]
        stored: dict[Counted, int] = {"events": int(events), "collectives": int(collectives)}
        yield from judge_result(analysis.name, result, stored, settings.thresholds)

    return run_checks(analysis.name, result_rules(analysis.name), judge)


analysis_assets = [analysis_asset(analysis) for analysis in ALL_ANALYSES]
all_analysis_checks = [analysis_checks(analysis) for analysis in ALL_ANALYSES]
