"""Hosts and processes: who came last, how bandwidth differs, and a row for each host to which links lead."""

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, duration, gbs, number, percent, utc
from nixt_pipeline.reporting.anchors import host_anchor
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.facts import within_host
from nixt_pipeline.reporting.legends import message_sizes, type_legend
from nixt_pipeline.reporting.palette import INK, NEUTRAL_COLOUR
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Order, Row, first_rows
from nixt_pipeline.reporting.sections.bandwidth_ranges import draw_bandwidth_ranges, range_panels
from nixt_pipeline.reporting.sections.last_arrivals import at_level, between_hosts, draw_last_arrivals, last_arrivals
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, TableView, table_view

SHORTEST_IS_LAST = (
    "The rank that arrives last does not wait: it has the SHORTEST time and the HIGHEST bandwidth, and the "
    "time of all others includes the wait for it. Low bandwidth here does not mean a slow host."
)
# Every host of a job of 2,048 GPUs has a row, so that every link to a host leads somewhere.
SHOWN_HOSTS = 512
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


def entities_section(content: RunContent, table: pa.Table) -> SectionView:
    """Who came last, bandwidth ranges, and all hosts and processes as tables."""
    drawn, tables = [], []
    one_host_types = within_host(content)
    for level, plural_name in (("host", "hosts"), ("process", "processes")):
        of_level = at_level(table, level)
        if of_level.num_rows:
            drawn += _level_figures(table, level, plural_name, one_host_types)
            columns = (Spec(level.capitalize(), "entity"), *_SPATIAL_COLUMNS)
            caption = f"By {level}, most last arrivals beyond the expected first"
            rows, total = _most_often_last(of_level), of_level.num_rows
            tables.append(table_view(caption, rows, columns, total=total, source="spatial_correlation"))
    if "hosts" in content.tables:
        tables.append(_hosts_table(content, between_hosts(at_level(table, "host"), one_host_types)))
    return SectionView(
        "", "", notes=(SHORTEST_IS_LAST, message_sizes(table)), figures=tuple(drawn), tables=tuple(tables)
    )


def _most_often_last(of_level: pa.Table) -> list[Row]:
    last, expected = (pc.fill_null(of_level[name], 0) for name in ("last_arrivals", "expected_last_arrivals"))
    order: tuple[Order, ...] = (
        ("excess", "descending"),
        ("entity", "ascending"),
        ("coll", "ascending"),
        ("coll_type", "ascending"),
    )
    return first_rows(of_level.append_column("excess", pc.subtract(last, expected)), SHOWN_ROWS, *order)


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


def _level_figures(table: pa.Table, level: str, plural_name: str, one_host_types: set[str]) -> list[FigureView]:
    drawn = []
    arrivals = last_arrivals(table, level, one_host_types)
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
                draw_last_arrivals(arrivals, f"last-{level}"),
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
    panels = range_panels(table, level)
    if panels and (level == "process" or any(panel.total > 1 for panel in panels)):
        caption = f"Bus bandwidth by {level}, for what has most records. Waiting is included: low is not slow."
        if any(panel.total > len(panel.ranges) for panel in panels):
            total = max(panel.total for panel in panels)
            caption += f" Shown are the {plural_name} with the lowest and the highest medians, of {count(total)}."
        low, high = panels[0].ranges[0], panels[0].ranges[-1]
        drawn.append(
            FigureView(
                draw_bandwidth_ranges(panels, f"range-{level}"),
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
