"""The sections that show analyses. Each takes its table as computed; the words never say more than the table does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import pyarrow as pa

from nixt_pipeline.analysis import REPORTED, Analysis
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
from nixt_pipeline.reporting.anchors import kernel_anchor
from nixt_pipeline.reporting.content import Reading, RunContent
from nixt_pipeline.reporting.distributions import bandwidth_section, kernel_ranges, time_section
from nixt_pipeline.reporting.entities import entities_section, message_sizes
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import ALERT_COLOUR, INK
from nixt_pipeline.reporting.quality import SHOWN_ROWS, coverage_parts
from nixt_pipeline.reporting.rows import first_launches, first_rows, not_drawn
from nixt_pipeline.reporting.structure import others_section, payload_section, sizes_section
from nixt_pipeline.reporting.text import count, duration, gbs, number, percent, plain, sentence, size, utc
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, table_view

# A transfer that stays above this share of its median is steady.
_STEADY_SHARE = 0.9
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
        return replace(frame, state="missing", notes=(f"The result {section.analysis} of this run does not exist.",))
    if table.num_rows == 0:
        return replace(frame, state="empty")
    built = section.build(content, table)
    caveats = content.coverage.caveats(content.thresholds)
    return replace(
        frame, caveats=caveats, notes=built.notes, facts=built.facts, figures=built.figures, tables=built.tables
    )


def _hot_kernels(_content: RunContent, table: pa.Table) -> SectionView:
    data = figures.kernel_bars(table)
    rows = first_rows(table, SHOWN_ROWS, ("rank_by_bytes", "ascending"))
    columns = (
        Spec("Rank", "rank_by_bytes", count, numeric=True),
        Spec("Kernel", "label"),
        Spec("Records", "records", count, numeric=True),
        Spec("Observed payload", "payload_bytes", size, numeric=True),
        Spec("Share", "share_of_payload", percent, numeric=True),
        Spec("Cumulative", "cumulative_share_of_payload", percent, numeric=True),
        Spec("Share of rank time", "share_of_rank_time", percent, numeric=True),
        Spec("Bandwidth p10, GB/s", "busbw_p10_gbs", gbs, numeric=True),
        Spec("p50", "busbw_p50_gbs", gbs, numeric=True),
        Spec("p90", "busbw_p90_gbs", gbs, numeric=True),
        Spec("Transfer p50, GB/s", "transfer_busbw_p50_gbs", gbs, numeric=True),
        Spec("Variation (CV)", "busbw_cv", number, numeric=True),
        Spec("Time p50", "exec_time_p50_us", duration, numeric=True),
        Spec("Time p99", "exec_time_p99_us", duration, numeric=True),
        Spec("Time waited", "wait_us", duration, numeric=True),
        Spec("Capture rate", "capture_rate", percent, numeric=True),
        Spec("Hosts", "hosts", count, numeric=True),
    )
    drawn: tuple[FigureView, ...] = ()
    if data.kernels:
        last = data.kernels[-1]
        shown, total = len(data.kernels), data.total
        which = (
            f"The {shown} hottest of {count(total)} kernels carry"
            if shown < total
            else f"All {total} kernels together carry"
        )
        drawn = (
            FigureView(
                drawing.draw_kernels(data),
                "Bars: share of the payload of the whole run; line: cumulative share.",
                anchor="figure-kernels",
                title="Share of the bytes",
                reading=f"{which} {percent(last.cumulative)} of the observed payload.",
                legend=(
                    *type_legend(kernel.coll_type for kernel in data.kernels),
                    LegendEntry("cumulative share", INK, "line"),
                ),
                source="hot_kernels",
            ),
            *kernel_ranges(table),
        )
    notes = ("A kernel is one function on one communicator shape (ranks r, NCCL nodes n) with one message size.",)
    tables = (
        table_view(
            "Hot kernels by observed payload",
            rows,
            columns,
            total=table.num_rows,
            source="hot_kernels",
            anchor_of=kernel_anchor,
        ),
    )
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)


def _time(content: RunContent, table: pa.Table) -> SectionView:
    earliest, launches = first_launches(table)
    onsets = content.onsets_us()
    drawn = []
    for position, launch in enumerate(figures.time_figures(earliest), start=1):
        which = f"Launch {position} of {count(launches)}: " if launches > 1 else ""
        marked = (LegendEntry("onset of a finding", ALERT_COLOUR, "dashes"),) if onsets else ()
        lines = "Line: median; band: p25 to p75; dashes: median of the last rank to arrive. Scales differ by panel."
        drawn.append(
            FigureView(
                drawing.draw_time(launch, f"time-{position}", onsets),
                f"{which}{utc(launch.start_us)} to {utc(launch.end_us)}. {lines}",
                anchor=f"figure-time-{position}",
                title=sentence(f"{which}bandwidth over time"),
                reading=_steadiness(launch),
                legend=(
                    *type_legend(panel.coll_type for panel in launch.panels),
                    LegendEntry("median of the last rank to arrive", INK, "dashes"),
                    *marked,
                ),
                source="temporal_correlation",
            )
        )
    return SectionView("", "", notes=(message_sizes(table), *not_drawn(launches)), figures=tuple(drawn))


def _steadiness(launch: figures.TimeFigure) -> str:
    """Which transfer fell most below its own median, and when: transfers do not contain the waiting."""
    worst: tuple[float, str] | None = None
    for panel in launch.panels:
        known = [(value, second) for value, second in zip(panel.transfer, panel.seconds, strict=True) if value]
        if known:
            middle = median(value for value, _ in known)
            lowest, second = min(known)
            words = (
                f"{plain(panel.coll)} {plain(panel.coll_type)} transfers fall at most to {percent(lowest / middle)} of "
                f"their median, {duration(second * 1e6)} after the start."
            )
            worst = min(worst or (2.0, ""), (lowest / middle, words))
    if worst is None:
        return "No collective was recorded by every rank, so that transfers cannot be told apart."
    if worst[0] > _STEADY_SHARE:
        return f"Transfers are steady: no bin falls below {percent(worst[0])} of its panel's median."
    return worst[1]


def _any_table(analysis: Analysis) -> Callable[[RunContent, pa.Table], SectionView]:
    """For an analysis that no section was made for: its first rows as they are."""
    columns = tuple(
        Spec(column.name, column.name, numeric=column.unit != "")
        for column in analysis.columns[1:]
        if not pa.types.is_list(column.type)
    )

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
        "summary_histogram",
        "payload",
        "Communication structure",
        payload_section,
        lambda table: drawing.draw_payload(payload.payload_bars(table)),
    ),
    AnalysisSection(
        "hot_kernels",
        "kernels",
        "Hot kernels",
        _hot_kernels,
        lambda table: drawing.draw_kernels(figures.kernel_bars(table)),
    ),
    AnalysisSection(
        "resource_correlation",
        "sizes",
        "Sizes and shapes",
        sizes_section,
        lambda table: drawing.draw_heat_map(shapes.heat_map(table)),
    ),
    AnalysisSection(
        "bandwidth_ecdf",
        "distributions",
        "Bandwidth distributions",
        bandwidth_section,
        lambda table: drawing.draw_ecdf(figures.ecdf_figure(table, _PANELS)),
    ),
    AnalysisSection(
        "time_ecdf",
        "times",
        "Time distributions",
        time_section,
        lambda table: drawing.draw_ecdf(figures.ecdf_figure(table, _PANELS), "times", "us"),
    ),
    AnalysisSection(
        "temporal_correlation",
        "time",
        "Bandwidth over time",
        _time,
        lambda table: drawing.draw_time(figures.time_figures(_first_launch(table), _PANELS)[0], "time"),
    ),
    AnalysisSection(
        "waiting_over_time",
        "waiting",
        "Waiting over time",
        waiting.waiting_section,
        lambda table: waiting.draw_total(waiting.waiting_of(_first_launch(table))[0], "waiting"),
    ),
    AnalysisSection(
        "waiting_by_progress",
        "progress",
        "Waiting by progress",
        progress.progress_section,
        lambda table: progress.draw_progress(progress.progress_of(_first_launch(table))[0], "progress"),
    ),
    AnalysisSection(
        "host_lateness",
        "lateness",
        "Lateness of hosts",
        lateness.lateness_section,
        lambda table: lateness.draw_lateness(lateness.lateness_maps(_first_launch(table))[0], "lateness"),
    ),
    AnalysisSection(
        "spatial_correlation",
        "entities",
        "Hosts and processes",
        entities_section,
        lambda table: drawing.draw_last_arrivals(figures.last_arrivals(table, "host"), "hosts"),
    ),
    AnalysisSection(
        "rank_times",
        "ranks",
        "Ranks",
        rank_map.ranks_section,
        lambda table: rank_map.draw_map(rank_map.rank_maps(_first_launch(table))[0], "ranks"),
    ),
    AnalysisSection(
        "p2p_edges",
        "edges",
        "Pipeline and P2P",
        edges.edges_section,
        lambda table: edges.draw_edges(edges.edge_panels(table)[0], "edges"),
    ),
    AnalysisSection(
        "variation",
        "variation",
        "Variation",
        variation.variation_section,
        lambda table: variation.draw_variation(variation.variations(_first_launch(table)), "variation"),
    ),
    AnalysisSection("other_correlation", "others", "Other correlations", others_section),
)
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
