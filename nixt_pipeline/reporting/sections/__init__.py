"""The sections of a report, one module each. The words never say more than the table does."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from nixt_pipeline.analysis import REPORTED, Analysis
from nixt_pipeline.reporting.columns import Column
from nixt_pipeline.reporting.content import Reading, RunContent
from nixt_pipeline.reporting.rows import SHOWN_ROWS
from nixt_pipeline.reporting.sections.coverage import coverage_parts
from nixt_pipeline.reporting.sections.distributions import bandwidth_section, draw_ecdf, ecdf_figure, time_section
from nixt_pipeline.reporting.sections.edges import draw_edges, edge_panels, edges_section
from nixt_pipeline.reporting.sections.entities import draw_last_arrivals, entities_section, last_arrivals
from nixt_pipeline.reporting.sections.kernels import draw_kernels, kernels_section
from nixt_pipeline.reporting.sections.lateness import draw_lateness, lateness_maps, lateness_section
from nixt_pipeline.reporting.sections.launches import first_launches
from nixt_pipeline.reporting.sections.others import others_section
from nixt_pipeline.reporting.sections.over_time import draw_time, over_time_section, time_figures
from nixt_pipeline.reporting.sections.payload import draw_payload, payload_bars, payload_section
from nixt_pipeline.reporting.sections.ranks import draw_map, rank_maps, ranks_section
from nixt_pipeline.reporting.sections.sizes import draw_heat_map, heat_map, sizes_section
from nixt_pipeline.reporting.sections.variation import draw_variation, variation_section, variations
from nixt_pipeline.reporting.sections.waiting import (
    draw_progress,
    draw_total,
    progress_of,
    progress_section,
    waiting_of,
    waiting_section,
)
from nixt_pipeline.reporting.views import SectionView, table_view

# Panels of a picture of several: the section has them all.
_PANELS = 2


@dataclass(frozen=True)
class AnalysisSection:
    """A section that rests on one analysis."""

    analysis: str
    anchor: str
    title: str
    build: Callable[[RunContent, pa.Table], SectionView]
    # One figure of it, for the Dagster UI: SVG, from a result with rows. None where it has only tables.
    picture: Callable[[pa.Table], str] | None = None


def analysis_section(content: RunContent, section: AnalysisSection) -> SectionView:
    """The section with its analysis' question and reading; only that when there is no result or nothing in it."""
    reading = content.readings.get(section.analysis, Reading(section.title, "", ""))
    table = content.tables.get(section.analysis)
    frame = SectionView(section.anchor, section.title, question=reading.question, reading=reading.reading)
    if table is None:
        error = content.errors.get(section.analysis)
        why = f"It failed: {error}" if error else f"The result {section.analysis} of this run does not exist."
        return replace(frame, state="missing", notes=(why,))
    if table.num_rows == 0:
        return replace(frame, state="empty")
    built = section.build(content, table)
    figures = tuple(replace(figure, source=section.analysis) for figure in built.figures)
    caveats = content.coverage.caveats(content.thresholds)
    return replace(frame, caveats=caveats, notes=built.notes, facts=built.facts, figures=figures, tables=built.tables)


def _any_table(analysis: Analysis) -> Callable[[RunContent, pa.Table], SectionView]:
    """For an analysis that no section was made for: its first rows as they are."""
    columns = [Column(column.name, column.name) for column in analysis.columns[1:] if not pa.types.is_list(column.type)]

    def build(_content: RunContent, table: pa.Table) -> SectionView:
        rows = table.slice(0, SHOWN_ROWS).to_pylist()
        view = table_view("First rows", rows, columns, total=table.num_rows, source=analysis.name)
        return SectionView("", "", tables=(view,))

    return build


def _first_launch(table: pa.Table) -> pa.Table:
    return first_launches(table, limit=1)[0]


COVERAGE = AnalysisSection("coverage", "coverage", "Coverage", lambda content, _: coverage_parts(content))
_OWN_SECTIONS = (
    AnalysisSection(
        "summary_histogram", "payload", "Communication structure", payload_section,
        lambda table: draw_payload(payload_bars(table)),
    ),
    AnalysisSection(
        "hot_kernels", "kernels", "Hot kernels", kernels_section,
        draw_kernels,
    ),
    AnalysisSection(
        "resource_correlation", "sizes", "Sizes and shapes", sizes_section,
        lambda table: draw_heat_map(heat_map(table)),
    ),
    AnalysisSection(
        "bandwidth_ecdf", "distributions", "Bandwidth distributions", bandwidth_section,
        lambda table: draw_ecdf(ecdf_figure(table, _PANELS)),
    ),
    AnalysisSection(
        "time_ecdf", "times", "Time distributions", time_section,
        lambda table: draw_ecdf(ecdf_figure(table, _PANELS), "times", "us"),
    ),
    AnalysisSection(
        "temporal_correlation", "time", "Bandwidth over time", over_time_section,
        lambda table: draw_time(time_figures(_first_launch(table), _PANELS)[0], "time"),
    ),
    AnalysisSection(
        "waiting_over_time", "waiting", "Waiting over time", waiting_section,
        lambda table: draw_total(waiting_of(_first_launch(table))[0], "waiting"),
    ),
    AnalysisSection(
        "waiting_by_progress", "progress", "Waiting by progress", progress_section,
        lambda table: draw_progress(progress_of(_first_launch(table))[0], "progress"),
    ),
    AnalysisSection(
        "host_lateness", "lateness", "Lateness of hosts", lateness_section,
        lambda table: draw_lateness(lateness_maps(_first_launch(table))[0], "lateness"),
    ),
    AnalysisSection(
        "spatial_correlation", "entities", "Hosts and processes", entities_section,
        lambda table: draw_last_arrivals(last_arrivals(table, "host")[0], "hosts"),
    ),
    AnalysisSection(
        "rank_times", "ranks", "Ranks", ranks_section,
        lambda table: draw_map(rank_maps(_first_launch(table))[0], "ranks"),
    ),
    AnalysisSection(
        "p2p_edges", "edges", "Pipeline and P2P", edges_section,
        lambda table: draw_edges(edge_panels(table)[0], "edges"),
    ),
    AnalysisSection(
        "variation", "variation", "Variation", variation_section,
        lambda table: draw_variation(variations(_first_launch(table)), "variation"),
    ),
    AnalysisSection("other_correlation", "others", "Other correlations", others_section),
)  # fmt: skip
ANALYSIS_SECTIONS = (
    *_OWN_SECTIONS,
    *(
        AnalysisSection(item.name, item.name.replace("_", "-"), item.title, _any_table(item))
        for item in REPORTED
        if item.name not in {COVERAGE.analysis, *(section.analysis for section in _OWN_SECTIONS)}
    ),
)


def pictures() -> dict[str, Callable[[pa.Table], str]]:
    """The figure of each analysis that has one, by its name."""
    return {section.analysis: section.picture for section in ANALYSIS_SECTIONS if section.picture}
