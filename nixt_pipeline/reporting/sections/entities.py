"""Hosts and processes: who came last, how bandwidth differs, and a row for each host to which links lead."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.inspector.operations import COLL_TYPES
from nixt_pipeline.quantities import count, number, percent
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.anchors import host_anchor
from nixt_pipeline.reporting.columns import Column, columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import message_sizes, type_legend
from nixt_pipeline.reporting.palette import INK, NEUTRAL_COLOUR, colour_of
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, as_floats, first_rows, labelled, matching, most_recorded
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, TableView, table_view

MAX_ENTITIES = 12
MAX_RANGE_PANELS = 4
SHORTEST_IS_LAST = (
    "The rank that arrives last does not wait: it has the SHORTEST time and the HIGHEST bandwidth, and the "
    "time of all others includes the wait for it. Low bandwidth here does not mean a slow host."
)
# Every host of a job of 2,048 GPUs has a row, so that every link to a host leads somewhere.
SHOWN_HOSTS = 512
_SPATIAL_COLUMNS = columns_of(
    "coll coll_type records cells last_arrivals expected_last_arrivals busbw_p10_gbs busbw_p50_gbs"
    " busbw_p90_gbs exec_time_p50_us"
)


def entities_section(content: RunContent, table: pa.Table) -> SectionView:
    """Who came last, bandwidth ranges, and all hosts and processes as tables."""
    drawn: list[FigureView] = []
    tables: list[TableView] = []
    one_host_types = _within_host(content)
    for level, plural_name in (("host", "hosts"), ("process", "processes")):
        of_level = at_level(table, level)
        if of_level.num_rows:
            drawn += _last_figure(table, level, plural_name, one_host_types)
            drawn += _range_figure(table, level, plural_name)
            columns = (Column("entity", level.capitalize()), *_SPATIAL_COLUMNS)
            caption = f"By {level}, largest excess of last arrivals first"
            rows, total = _most_often_last(of_level), of_level.num_rows
            tables.append(table_view(caption, rows, columns, total=total, source="spatial_correlation"))
    if "hosts" in content.tables:
        tables.append(_hosts_table(content, between_hosts(at_level(table, "host"), one_host_types)))
    notes = (SHORTEST_IS_LAST, message_sizes(table))
    return SectionView("", "", notes=notes, figures=tuple(drawn), tables=tuple(tables))


def _within_host(content: RunContent) -> set[str]:
    """The placements of which no communicator spans hosts. On an NVLink rack `nvlink-only` does, elsewhere not."""
    communicators = content.tables.get("communicators")
    if communicators is None:
        return set(COLL_TYPES)
    spanning = communicators.filter(pc.greater(communicators["hosts_seen"], 1))
    return set(COLL_TYPES) - set(pc.unique(spanning["coll_type"]).to_pylist())


def _most_often_last(of_level: pa.Table) -> list[Row]:
    last, expected = (pc.fill_null(of_level[name], 0) for name in ("last_arrivals", "expected_last_arrivals"))
    with_excess = of_level.append_column("excess", pc.subtract(last, expected))
    return first_rows(with_excess, SHOWN_ROWS, "-excess", "entity", "coll", "coll_type")


def _hosts_table(content: RunContent, compared: pa.Table) -> TableView:
    """A row for each host, to which links to a host lead."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for finding in content.diagnosis.findings if content.diagnosis else ():
        for host in finding.hosts:
            kinds[host].append(finding.kind)
    sums = compared.group_by("hostname").aggregate([("last_arrivals", "sum"), ("expected_last_arrivals", "sum")])
    arrivals = {
        host: (last or 0, due or 0) for host, last, due in zip(*(c.to_pylist() for c in sums.columns), strict=True)
    }
    rows = [
        {**host, "last": last, "expected": expected, "findings": ", ".join(kinds.get(host["hostname"], ()))}
        for host in content.rows("hosts")
        for last, expected in (arrivals.get(host["hostname"], (0, 0)),)
    ]
    rows.sort(key=lambda row: (not row["findings"], row["expected"] - row["last"], str(row["hostname"])))
    columns = columns_of(
        "hostname findings processes communicators records last expected first_dump_us last_dump_us",
        expected="Expected if equal",
        first_dump_us="First record",
    )
    caption = "Hosts, those with findings first"
    return table_view(
        caption, rows, columns, SHOWN_HOSTS, source="hosts", anchor_of=lambda row: host_anchor(row["hostname"])
    )


def at_level(spatial: pa.Table, level: str) -> pa.Table:
    """The rows of `spatial_correlation` at a level, with `entity`: the process or host, without the domain that all
    hosts share, or a placeholder when the log does not name it."""
    rows = spatial.filter(pc.equal(spatial["level"], level))
    name = pc.cast(rows["process" if level == "process" else "hostname"], pa.string())
    domain = common_domain(spatial)
    if domain:
        name = pc.replace_substring(name, domain, "", max_replacements=1)
    return rows.append_column("entity", pc.fill_null(name, "(not named)"))


def between_hosts(rows: pa.Table, within_host: Collection[str]) -> pa.Table:
    """The rows of placements that are not in `within_host`."""
    return rows.filter(pc.invert(pc.is_in(rows["coll_type"], value_set=pa.array(within_host, pa.string()))))


def common_domain(spatial: pa.Table) -> str:
    """The domain that every host name ends with, from its first dot on; "" when they differ: labels do without it."""
    domains = {name[len(name.partition(".")[0]) :] for name in pc.unique(spatial["hostname"].drop_null()).to_pylist()}
    return domains.pop() if len(domains) == 1 else ""


def last_arrivals(spatial: pa.Table, level: str, within_host: Collection[str] = ()) -> tuple[list[Row], int]:
    """Who arrived last more often than by chance, from `spatial_correlation` at `level` (`host` or `process`): those
    with the largest excess, with the shares of complete collectives `observed` and `expected`, and of how many.

    `within_host` names the placements whose communicators all sit on one host: between hosts they say nothing, because
    a host that holds every rank is last by definition.
    """
    counted = at_level(spatial, level)
    if level != "process":
        counted = between_hosts(counted, within_host)
    counted = counted.filter(pc.greater(counted["cells"], 0))
    names = ("last_arrivals", "expected_last_arrivals", "cells")
    sums = counted.group_by("entity").aggregate([(name, "sum") for name in names])
    last, expected, cells = (as_floats(pc.fill_null(sums[f"{name}_sum"], 0)) for name in names)
    shares = {"observed": pc.divide(last, cells), "expected": pc.divide(expected, cells)}
    shares["excess"] = pc.divide(pc.subtract(last, expected), cells)
    for name, share in shares.items():
        sums = sums.append_column(name, share)
    rows = first_rows(sums.rename_columns({"cells_sum": "cells"}), MAX_ENTITIES, "-excess", "entity")
    return labelled(rows, canvas.LABEL_CHARACTERS, "entity"), sums.num_rows


def draw_last_arrivals(rows: Sequence[Row], name: str) -> str:
    """Bars for the observed share of last arrivals, a tick for the share that chance alone gives."""
    if not rows:
        return canvas.nothing(name)

    def draw(axes: canvas.Axes) -> None:
        positions = range(len(rows))
        axes.barh(positions, [row["observed"] for row in rows], height=0.42, color=NEUTRAL_COLOUR)
        expected = [row["expected"] for row in rows]
        axes.plot(expected, positions, linewidth=0, marker="|", markersize=12, markeredgewidth=2, color=INK)
        notes = [f"{percent(row['observed'])} of {count(row['cells'])}" for row in rows]
        canvas.title_rows(axes, [row["label"] for row in rows], notes)
        canvas.percent_axis(axes, max(max(row["observed"], row["expected"]) for row in rows) * 1.04)
        axes.set_xlabel("share of complete collectives in which it arrived last")

    first = rows[0]
    alt = f"{first['label']} arrived last in {percent(first['observed'])} of {count(first['cells'])} collectives"
    return canvas.chart(name, 0.6 + 0.34 * len(rows), draw, f"{alt}, expected {percent(first['expected'])}")


@dataclass(frozen=True)
class RangePanel:
    """Entities by median bandwidth, lowest first; when `total` is larger these are the lowest and the highest."""

    coll: str
    coll_type: str | None
    ranges: tuple[Row, ...]
    total: int


def range_panels(spatial: pa.Table, level: str, limit: int = MAX_ENTITIES) -> tuple[RangePanel, ...]:
    """Bandwidth ranges by host or process for the functions and placements with most records."""
    rows = at_level(spatial, level)
    timed = rows.filter(pc.is_valid(rows["busbw_p50_gbs"]))
    return tuple(_range_panel(*key, timed, limit) for key in most_recorded(timed, MAX_RANGE_PANELS))


def _range_panel(coll: str, coll_type: str | None, timed: pa.Table, limit: int) -> RangePanel:
    table = matching(timed, {"coll": coll, "coll_type": coll_type})
    rows = first_rows(table, table.num_rows, "busbw_p50_gbs", "entity")
    half = limit // 2
    shown = rows[:half] + rows[max(half, len(rows) - (limit - half)) :]
    return RangePanel(coll, coll_type, tuple(labelled(shown, canvas.SHORT_LABEL_CHARACTERS, "entity")), len(rows))


def draw_bandwidth_ranges(panels: Sequence[RangePanel], name: str) -> str:
    """Range bars p10 to p90 with a dot at the median, a panel for each function and placement."""

    def panel_of(panel: RangePanel, position: int) -> str:
        def bandwidths(quantile: str) -> list[float]:
            return [row[f"busbw_{quantile}_gbs"] for row in panel.ranges]

        def draw(axes: canvas.Axes) -> None:
            colour, positions = colour_of(panel.coll_type), range(len(panel.ranges))
            axes.hlines(positions, bandwidths("p10"), bandwidths("p90"), color=colour, linewidth=5, alpha=0.55)
            axes.plot(bandwidths("p50"), positions, color=colour, linewidth=0, marker="o", markersize=5)
            canvas.name_rows(axes, [row["label"] for row in panel.ranges])
            axes.set_xlim(left=0)
            canvas.number_axis(axes, "x")
            axes.grid(True, axis="x")
            axes.set_xlabel("bus bandwidth, GB/s")

        medians = bandwidths("p50")
        ends = f"medians from {number(medians[0])} to {number(medians[-1])} GB/s"
        alt = f"{shorten(panel.coll, 24)} {panel.coll_type}: {ends}"
        title = f"{shorten(panel.coll, 20)} {panel.coll_type or ''}"
        return canvas.chart(f"{name}-{position}", 0.9 + 0.19 * len(panel.ranges), draw, alt, title)

    drawn = (panel_of(panel, position) for position, panel in enumerate(panels, start=1))
    return "".join(drawn) or canvas.nothing(name)


def _last_figure(table: pa.Table, level: str, plural_name: str, one_host_types: set[str]) -> Iterator[FigureView]:
    rows, total = last_arrivals(table, level, one_host_types)
    if not rows:
        return
    first = rows[0]
    all_of_them = len(rows) == total
    shown = f"All {plural_name}, by" if all_of_them else f"The {len(rows)} of {count(total)} {plural_name} with most"
    yield FigureView(
        draw_last_arrivals(rows, f"last-{level}"),
        f"{shown} last arrivals beyond the expected share; collectives within one {level} are left out.",
        anchor=f"figure-last-{level}",
        title=f"Last to arrive, by {level}",
        reading=(
            f"{first['label']} arrived last in {percent(first['observed'])} of {count(first['cells'])} complete "
            f"collectives; {percent(first['expected'])} if all were equal."
        ),
        legend=(LegendEntry("observed", NEUTRAL_COLOUR), LegendEntry("if all were equal", INK, "line")),
    )


def _range_figure(table: pa.Table, level: str, plural_name: str) -> Iterator[FigureView]:
    panels = range_panels(table, level)
    if not panels or (level != "process" and all(panel.total <= 1 for panel in panels)):
        return
    caption = f"Bus bandwidth by {level}, for what has most records. Waiting is included: low is not slow."
    if any(panel.total > len(panel.ranges) for panel in panels):
        total = max(panel.total for panel in panels)
        caption += f" Shown are the {plural_name} with the lowest and the highest medians, of {count(total)}."
    low, high = panels[0].ranges[0], panels[0].ranges[-1]
    yield FigureView(
        draw_bandwidth_ranges(panels, f"range-{level}"),
        caption + " Dot: median; bar: p10 to p90.",
        anchor=f"figure-range-{level}",
        title=f"Bandwidth by {level}",
        reading=(
            f"{shorten(panels[0].coll, 24)} {plain(panels[0].coll_type)}: medians from "
            f"{number(low['busbw_p50_gbs'])} GB/s ({low['label']}) to {number(high['busbw_p50_gbs'])} GB/s "
            f"({high['label']})."
        ),
        legend=type_legend(panel.coll_type for panel in panels),
    )
