"""The sections that show analyses. Each takes its table as computed; the words never say more than the table does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.reporting import drawing, figures, payload, shapes
from nixt_pipeline.reporting.anchors import kernel_anchor
from nixt_pipeline.reporting.content import Reading, RunContent
from nixt_pipeline.reporting.distributions import bandwidth_section, kernel_ranges, time_section
from nixt_pipeline.reporting.edges import edges_section
from nixt_pipeline.reporting.entities import entities_section, message_sizes
from nixt_pipeline.reporting.lateness import lateness_section
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import ALERT_COLOUR, DECADE_COLOURS, INK
from nixt_pipeline.reporting.progress import progress_section
from nixt_pipeline.reporting.quality import SHOWN_ROWS, coverage_parts
from nixt_pipeline.reporting.rank_map import ranks_section
from nixt_pipeline.reporting.rows import Order, first_launches, first_rows, not_drawn
from nixt_pipeline.reporting.text import count, duration, gbs, number, percent, plain, sentence, shorten, size, utc
from nixt_pipeline.reporting.variation import variation_section
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, table_view
from nixt_pipeline.reporting.waiting import waiting_section

# A transfer that stays above this share of its median is steady.
_STEADY_SHARE = 0.9


@dataclass(frozen=True)
class AnalysisSection:
    """A section that rests on one analysis."""

    analysis: str
    anchor: str
    title: str
    build: Callable[[RunContent, pa.Table], SectionView]


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


def _payload(_content: RunContent, table: pa.Table) -> SectionView:
    data = payload.payload_bars(table)
    order: tuple[Order, ...] = (
        ("payload_bytes", "descending"),
        ("kind", "ascending"),
        ("coll", "ascending"),
        ("coll_type", "ascending"),
    )
    rows = first_rows(table, SHOWN_ROWS, *order)
    columns = (
        Spec("Function", "coll"),
        Spec("Placement", "coll_type"),
        Spec("Kind", "kind"),
        Spec("Records", "records", count, numeric=True),
        Spec("Collectives", "collectives", count, numeric=True),
        Spec("Observed payload", "payload_bytes", size, numeric=True),
        Spec("Share of payload", "share_of_payload", percent, numeric=True),
        Spec("Share of records", "share_of_records", percent, numeric=True),
        Spec("Median time", "exec_time_p50_us", duration, numeric=True),
        Spec("Median bandwidth, GB/s", "busbw_p50_gbs", gbs, numeric=True),
        Spec("Unusable times", "unusable_times", count, numeric=True),
    )
    drawn: tuple[FigureView, ...] = ()
    if data.total_bytes:
        coll, segments = data.bars[0]
        largest = max(segments, key=lambda segment: segment.payload_bytes)
        share = sum(segment.payload_bytes for segment in segments) / data.total_bytes
        reading = (
            f"{shorten(coll, 24)} carries {percent(share)} of the observed {size(data.total_bytes)}, "
            f"most of it on {plain(largest.coll_type)} communicators."
        )
        drawn = (
            FigureView(
                drawing.draw_payload(data),
                "Shares of the payload of the whole run, by function, coloured by placement.",
                anchor="figure-payload",
                title="Bytes by function and placement",
                reading=reading,
                legend=type_legend(segment.coll_type for _, segments in data.bars for segment in segments),
                source="summary_histogram",
            ),
        )
    notes = ("Payload is summed over the records of all ranks: what was observed, and at most what the job sent.",)
    tables = (table_view("By function and placement", rows, columns, total=table.num_rows, source="summary_histogram"),)
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)


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


def _sizes(_content: RunContent, table: pa.Table) -> SectionView:
    data = shapes.heat_map(table)
    order: tuple[Order, ...] = (
        ("records", "descending"),
        ("coll", "ascending"),
        ("n_ranks", "ascending"),
        ("coll_msg_size_bytes", "ascending"),
    )
    rows = first_rows(table, SHOWN_ROWS, *order)
    columns = (
        Spec("Ranks", "n_ranks", count, numeric=True),
        Spec("NCCL nodes", "nnodes", count, numeric=True),
        Spec("Placement", "coll_type"),
        Spec("Function", "coll"),
        Spec("Message size", "coll_msg_size_bytes", size, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Collectives", "collectives", count, numeric=True),
        Spec("Observed payload", "payload_bytes", size, numeric=True),
    )
    drawn: tuple[FigureView, ...] = ()
    if data.cells:
        cut = (
            f" The {len(data.rows)} of {count(data.total_rows)} shapes with most records."
            if data.total_rows > len(data.rows)
            else ""
        )
        decades = sorted({drawing.decade_of(records) for _, _, records in data.cells})
        total = pc.sum(table["records"]).as_py()
        drawn = (
            FigureView(
                drawing.draw_heat_map(data),
                f"Records by communicator shape (ranks r / NCCL nodes n), function and message size.{cut}",
                anchor="figure-sizes",
                title="Calls by topology and size",
                reading=(
                    f"{plain(rows[0]['coll'])} of {size(rows[0]['coll_msg_size_bytes'])} is recorded most often: "
                    f"{percent(rows[0]['records'] / total)} of {count(total)} records."
                ),
                legend=(
                    *(LegendEntry(drawing.decade_label(decade), DECADE_COLOURS[decade]) for decade in decades),
                    *type_legend(coll_type for _, coll_type in data.rows),
                ),
                source="resource_correlation",
            ),
        )
    tables = (table_view("By records", rows, columns, total=table.num_rows, source="resource_correlation"),)
    return SectionView("", "", figures=drawn, tables=tables)


def _others(_content: RunContent, table: pa.Table) -> SectionView:
    # An attribute with one value correlates with nothing.
    distinct = table.group_by(["attribute", "value"]).aggregate([])
    values = distinct.group_by("attribute").aggregate([([], "count_all")])
    single = values.filter(pc.equal(values["count_all"], 1))["attribute"].combine_chunks()
    is_single = pc.is_in(distinct["attribute"], value_set=single)
    same = [
        f"{row['attribute']} is {shorten(plain(row['value']), 60)}"
        for row in sorted(distinct.filter(is_single).to_pylist(), key=lambda row: row["attribute"])
    ]
    several = table.filter(pc.invert(pc.is_in(table["attribute"], value_set=single)))
    order: tuple[Order, ...] = (
        ("attribute", "ascending"),
        ("coll", "ascending"),
        ("coll_type", "ascending"),
        ("records", "descending"),
        ("value", "ascending"),
    )
    rows = first_rows(several, SHOWN_ROWS, *order)
    columns = (
        Spec("Attribute", "attribute"),
        Spec("Value", "value"),
        Spec("Function", "coll"),
        Spec("Placement", "coll_type"),
        Spec("Records", "records", count, numeric=True),
        Spec("Bandwidth p25, GB/s", "busbw_p25_gbs", gbs, numeric=True),
        Spec("p50", "busbw_p50_gbs", gbs, numeric=True),
        Spec("p75", "busbw_p75_gbs", gbs, numeric=True),
        Spec("Time p50", "exec_time_p50_us", duration, numeric=True),
    )
    notes = (f"The same in every record, so nothing to compare: {'; '.join(same)}.",) if same else ()
    table_of = table_view("Bandwidth by attribute", rows, columns, total=several.num_rows, source="other_correlation")
    tables = (table_of,) if rows else ()
    return SectionView("", "", notes=notes, tables=tables)


def communicators_section(content: RunContent) -> SectionView:
    """Communicators with their role and how it was told."""
    table = content.tables.get("communicators")
    title = "Communicators"
    if table is None or table.num_rows == 0:
        return SectionView("communicators", title, state="empty")
    rows = first_rows(table, SHOWN_ROWS, ("records", "descending"), ("id", "ascending"))
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    columns = (
        Spec("Communicator", "id"),
        Spec("Name", "comm_name"),
        Spec("Placement", "coll_type"),
        Spec("Role", "parallel_role", lambda role: "not told" if role is None else plain(role)),
        Spec("Role told by", "parallel_role_source"),
        Spec("Ranks seen", "ranks"),
        Spec("NCCL nodes", "nnodes", count, numeric=True),
        Spec("Hosts", "hosts_seen", count, numeric=True),
        Spec("Launch", "incarnation", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
    )
    notes = (
        "The log does not name the parallel role. It is told from the name the framework gave, or guessed from the "
        "shape; the table says which.",
    )
    view = table_view("Communicators with most records", rows, columns, total=table.num_rows, source="communicators")
    return SectionView("communicators", title, notes=notes, tables=(view,))


COVERAGE = AnalysisSection("coverage", "coverage", "Coverage", lambda content, _: coverage_parts(content))
ANALYSIS_SECTIONS = (
    AnalysisSection("summary_histogram", "payload", "Communication structure", _payload),
    AnalysisSection("hot_kernels", "kernels", "Hot kernels", _hot_kernels),
    AnalysisSection("resource_correlation", "sizes", "Sizes and shapes", _sizes),
    AnalysisSection("bandwidth_ecdf", "distributions", "Bandwidth distributions", bandwidth_section),
    AnalysisSection("time_ecdf", "times", "Time distributions", time_section),
    AnalysisSection("temporal_correlation", "time", "Bandwidth over time", _time),
    AnalysisSection("waiting_over_time", "waiting", "Waiting over time", waiting_section),
    AnalysisSection("waiting_by_progress", "progress", "Waiting by progress", progress_section),
    AnalysisSection("host_lateness", "lateness", "Lateness of hosts", lateness_section),
    AnalysisSection("spatial_correlation", "entities", "Hosts and processes", entities_section),
    AnalysisSection("rank_times", "ranks", "Ranks", ranks_section),
    AnalysisSection("p2p_edges", "edges", "Pipeline and P2P", edges_section),
    AnalysisSection("variation", "variation", "Variation", variation_section),
    AnalysisSection("other_correlation", "others", "Other correlations", _others),
)
