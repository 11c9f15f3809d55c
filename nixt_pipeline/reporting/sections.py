"""The sections that show analyses. Each takes its table as computed; the words never say more than the table does."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pyarrow as pa

from nixt_pipeline.reporting import drawing, figures
from nixt_pipeline.reporting.anchors import host_anchor, kernel_anchor
from nixt_pipeline.reporting.content import Reading, RunContent
from nixt_pipeline.reporting.distributions import bandwidth_section, kernel_ranges, time_section
from nixt_pipeline.reporting.edges import edges_section
from nixt_pipeline.reporting.lateness import lateness_section
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import ALERT_COLOUR, DECADE_COLOURS, INK, NEUTRAL_COLOUR
from nixt_pipeline.reporting.progress import progress_section
from nixt_pipeline.reporting.quality import SHOWN_ROWS, coverage_of, coverage_parts, within_host
from nixt_pipeline.reporting.rank_map import ranks_section
from nixt_pipeline.reporting.text import count, duration, gbs, number, percent, plain, sentence, shorten, size, utc
from nixt_pipeline.reporting.variation import variation_section
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, TableView, table_view
from nixt_pipeline.reporting.waiting import waiting_section

SHORTEST_IS_LAST = (
    "The rank that arrives last does not wait: it has the SHORTEST time and the HIGHEST bandwidth, and everybody "
    "else's time contains the wait for it. Low bandwidth here does not mean a slow host."
)
# A transfer that stays above this share of its median is steady.
_STEADY_SHARE = 0.9
# Every host of a job of 2,048 GPUs has a row, so that every link to a host leads somewhere.
SHOWN_HOSTS = 512


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
    caveats = coverage_of(content).caveats(content.thresholds)
    return replace(
        frame, caveats=caveats, notes=built.notes, facts=built.facts, figures=built.figures, tables=built.tables
    )


def _payload(_content: RunContent, table: pa.Table) -> SectionView:
    data = figures.payload_bars(table)
    rows = sorted(
        table.to_pylist(),
        key=lambda row: (-(row["payload_bytes"] or 0), row["kind"], row["coll"], row["coll_type"] or ""),
    )
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
    tables = (table_view("By function and placement", rows, columns, SHOWN_ROWS, source="summary_histogram"),)
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)


def _hot_kernels(_content: RunContent, table: pa.Table) -> SectionView:
    data = figures.kernel_bars(table)
    rows = sorted(table.to_pylist(), key=lambda row: row["rank_by_bytes"])
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
            *kernel_ranges(rows),
        )
    notes = ("A kernel is one function on one communicator shape (ranks r, NCCL nodes n) with one message size.",)
    tables = (
        table_view(
            "Hot kernels by observed payload", rows, columns, SHOWN_ROWS, source="hot_kernels", anchor_of=kernel_anchor
        ),
    )
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)


def _time(content: RunContent, table: pa.Table) -> SectionView:
    launches = figures.time_figures(table)
    onsets = content.onsets_us()
    drawn = []
    for position, launch in enumerate(launches[: figures.MAX_LAUNCHES], start=1):
        which = f"Launch {position} of {len(launches)}: " if len(launches) > 1 else ""
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
    notes = [_message_sizes(table)]
    if len(launches) > figures.MAX_LAUNCHES:
        notes.append(f"Of {len(launches)} launches the first {figures.MAX_LAUNCHES} are drawn.")
    return SectionView("", "", notes=tuple(notes), figures=tuple(drawn))


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


def _message_sizes(table: pa.Table) -> str:
    """Which message sizes the bandwidths of a result are of."""
    smallest: int = max(value or 0 for value in table["min_message_bytes"].to_pylist())
    if smallest:
        return f"Bandwidths are of messages of {size(smallest)} and more: small messages have low bandwidths by nature."
    return "Bandwidths are of messages of every size: there are no large ones."


_SPATIAL_COLUMNS = (
    Spec("Function", "coll"),
    Spec("Placement", "coll_type"),
    Spec("Records", "records", count, numeric=True),
    Spec("Complete collectives", "cells", count, numeric=True),
    Spec("Last to arrive", "last_arrivals", count, numeric=True),
    Spec("Expected if equal", "expected_last_arrivals", number, numeric=True),
    Spec("Bandwidth p10, GB/s", "busbw_p10_gbs", gbs, numeric=True),
    Spec("p50", "busbw_p50_gbs", gbs, numeric=True),
    Spec("p90", "busbw_p90_gbs", gbs, numeric=True),
    Spec("Time p50", "exec_time_p50_us", duration, numeric=True),
)


def _entities(content: RunContent, table: pa.Table) -> SectionView:
    drawn, tables = [], []
    for level, plural_name in (("host", "hosts"), ("process", "processes")):
        drawn += _level_figures(table, level, plural_name, within_host(content))
        rows = [row for row in table.to_pylist() if row["level"] == level]
        if rows:
            rows.sort(key=lambda row: (-_excess(row), figures.entity_name(row), row["coll"], row["coll_type"] or ""))
            for row in rows:
                row["entity"] = figures.entity_name(row)
            columns = (Spec(level.capitalize(), "entity"), *_SPATIAL_COLUMNS)
            caption = f"By {level}, most last arrivals beyond the expected first"
            tables.append(table_view(caption, rows, columns, SHOWN_ROWS, source="spatial_correlation"))
    tables.append(_hosts_table(content, table))
    return SectionView(
        "", "", notes=(SHORTEST_IS_LAST, _message_sizes(table)), figures=tuple(drawn), tables=tuple(tables)
    )


def _hosts_table(content: RunContent, table: pa.Table) -> TableView:
    """A row for each host, to which links to a host lead."""
    findings = content.diagnosis["findings"] if content.diagnosis else []
    sums: dict[Any, list[float]] = defaultdict(lambda: [0, 0])
    for row in table.to_pylist():
        if row["level"] == "host" and row["coll_type"] not in within_host(content):
            sums[row["hostname"]][0] += row["last_arrivals"] or 0
            sums[row["hostname"]][1] += row["expected_last_arrivals"] or 0
    rows = [
        {
            **host,
            "last": sums[host["hostname"]][0],
            "expected": sums[host["hostname"]][1],
            "findings": ", ".join(finding["kind"] for finding in findings if host["hostname"] in finding["hosts"]),
        }
        for host in content.rows("hosts")
    ]
    rows.sort(key=lambda row: (not row["findings"], row["expected"] - row["last"], str(row["hostname"])))
    columns = (
        Spec("Host", "hostname"),
        Spec("Findings", "findings"),
        Spec("Processes", "processes", count, numeric=True),
        Spec("Communicators", "communicators", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Last to arrive", "last", count, numeric=True),
        Spec("Expected if equal", "expected", number, numeric=True),
        Spec("First record", "first_dump_us", utc),
        Spec("Last record", "last_dump_us", utc),
    )
    return table_view(
        "Hosts, those with findings first",
        rows,
        columns,
        SHOWN_HOSTS,
        source="hosts",
        anchor_of=lambda row: host_anchor(row["hostname"]),
    )


def _excess(row: Mapping[str, Any]) -> float:
    return float((row["last_arrivals"] or 0) - (row["expected_last_arrivals"] or 0))


def _level_figures(table: pa.Table, level: str, plural_name: str, one_host_types: set[str]) -> list[FigureView]:
    drawn = []
    arrivals = figures.last_arrivals(table, level, one_host_types)
    if arrivals.rows:
        first = arrivals.rows[0]
        everyone = len(arrivals.rows) == arrivals.total
        shown = (
            f"All {plural_name}, by"
            if everyone
            else f"The {len(arrivals.rows)} of {count(arrivals.total)} {plural_name} with most"
        )
        drawn.append(
            FigureView(
                drawing.draw_last_arrivals(arrivals, f"last-{level}"),
                f"{shown} last arrivals beyond the expected share; collectives within one {level} are left out.",
                anchor=f"figure-last-{level}",
                title=f"Last to arrive, by {level}",
                reading=(
                    f"{first.label} arrived last in {percent(first.observed)} of {count(first.cells)} complete "
                    f"collectives; {percent(first.expected)} if all were equal."
                ),
                legend=(
                    LegendEntry("observed", NEUTRAL_COLOUR),
                    LegendEntry("if all were equal", INK, "line"),
                ),
                source="spatial_correlation",
            )
        )
    panels = figures.range_panels(table, level)
    if panels and (level == "process" or any(panel.total > 1 for panel in panels)):
        caption = f"Bus bandwidth by {level}, for what has most records. Waiting is included: low is not slow."
        if any(panel.total > len(panel.ranges) for panel in panels):
            total = max(panel.total for panel in panels)
            caption += f" Shown are the {plural_name} with the lowest and the highest medians, of {count(total)}."
        low, high = panels[0].ranges[0], panels[0].ranges[-1]
        drawn.append(
            FigureView(
                drawing.draw_ranges(panels, f"range-{level}"),
                caption + " Dot: median; bar: p10 to p90.",
                anchor=f"figure-range-{level}",
                title=f"Bandwidth by {level}",
                reading=(
                    f"{shorten(panels[0].coll, 24)} {plain(panels[0].coll_type)}: medians from {gbs(low.p50)} GB/s "
                    f"({low.label}) to {gbs(high.p50)} GB/s ({high.label})."
                ),
                legend=type_legend(panel.coll_type for panel in panels),
                source="spatial_correlation",
            )
        )
    return drawn


def _sizes(_content: RunContent, table: pa.Table) -> SectionView:
    data = figures.heat_map(table)
    rows = sorted(
        table.to_pylist(),
        key=lambda row: (-row["records"], row["coll"], row["n_ranks"] or 0, row["coll_msg_size_bytes"] or 0),
    )
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
        total = sum(row["records"] for row in rows)
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
    tables = (table_view("By records", rows, columns, SHOWN_ROWS, source="resource_correlation"),)
    return SectionView("", "", figures=drawn, tables=tables)


def _others(_content: RunContent, table: pa.Table) -> SectionView:
    values: dict[str, set[str]] = defaultdict(set)
    for row in table.to_pylist():
        values[row["attribute"]].add(plain(row["value"]))
    # An attribute with one value correlates with nothing.
    same = [f"{name} is {shorten(next(iter(found)), 60)}" for name, found in sorted(values.items()) if len(found) == 1]
    rows = [row for row in table.to_pylist() if len(values[row["attribute"]]) > 1]
    rows.sort(
        key=lambda row: (row["attribute"], row["coll"], row["coll_type"] or "", -row["records"], plain(row["value"]))
    )
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
    table_of = table_view("Bandwidth by attribute", rows, columns, SHOWN_ROWS, source="other_correlation")
    tables = (table_of,) if rows else ()
    return SectionView("", "", notes=notes, tables=tables)


def communicators_section(content: RunContent) -> SectionView:
    """Communicators with their role and how it was told."""
    rows = content.rows("communicators")
    title = "Communicators"
    if not rows:
        return SectionView("communicators", title, state="empty")
    rows.sort(key=lambda row: (-row["records"], str(row["id"])))
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
    table = table_view("Communicators with most records", rows, columns, SHOWN_ROWS, source="communicators")
    return SectionView("communicators", title, notes=notes, tables=(table,))


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
    AnalysisSection("spatial_correlation", "entities", "Hosts and processes", _entities),
    AnalysisSection("rank_times", "ranks", "Ranks", ranks_section),
    AnalysisSection("p2p_edges", "edges", "Pipeline and P2P", edges_section),
    AnalysisSection("variation", "variation", "Variation", variation_section),
    AnalysisSection("other_correlation", "others", "Other correlations", _others),
)
