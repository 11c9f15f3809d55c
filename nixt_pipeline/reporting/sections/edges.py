"""Sends and Recvs between processes: how long both ends take, and which of them waits."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, duration, percent, size
from nixt_pipeline.reporting.canvas import duration_axis, head, render, title_rows
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.palette import COLL_COLOURS, INK
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, first_rows
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, table_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_EDGES = 12
MAX_PANELS = 4
_PLACE_CHARACTERS = 22
# Both ends of a message that nobody waits for take about as long.
_WAITING_RATIO = 1.5


@dataclass(frozen=True)
class Edge:
    """Median times of both ends, in microseconds; None where an end has no records."""

    label: str
    send_us: float | None
    recv_us: float | None
    records: int


@dataclass(frozen=True)
class EdgePanel:
    """Messages of one size, within hosts or between them: the slowest and the fastest edges of `total`."""

    title: str
    edges: tuple[Edge, ...]
    total: int


def edge_panels(table: pa.Table, limit: int = MAX_EDGES) -> tuple[EdgePanel, ...]:
    """`p2p_edges` by size and reach, those with most bytes first; edges by the shorter of their two times."""
    groups: dict[tuple[int, bool | None], list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        groups[row["coll_msg_size_bytes"] or 0, row["same_host"]].append(row)
    by_bytes = sorted(groups, key=lambda key: (-sum(row["payload_bytes"] or 0 for row in groups[key]), str(key)))
    return tuple(_panel(key, groups[key], limit) for key in by_bytes[:MAX_PANELS])


def _panel(key: tuple[int, bool | None], rows: list[Row], limit: int) -> EdgePanel:
    rows = sorted(rows, key=lambda row: (-(row["shorter_time_us"] or 0.0), _label(row)))
    shown = rows if len(rows) <= limit else rows[: limit // 2] + rows[-(limit - limit // 2) :]
    reach = {True: "within a host", False: "between hosts", None: "one end unknown"}[key[1]]
    edges = tuple(
        Edge(
            _label(row), row["send_time_p50_us"], row["recv_time_p50_us"], max(row["send_records"], row["recv_records"])
        )
        for row in shown
    )
    return EdgePanel(f"{size(key[0])} {reach}", edges, len(rows))


def _label(row: Row) -> str:
    source, target = (row[f"{end}_process"] or f"rank {row[f'{end}_rank']}" for end in ("source", "target"))
    return f"{shorten(source, _PLACE_CHARACTERS)} → {shorten(target, _PLACE_CHARACTERS)}"


def edges_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Dumbbells of both ends' times, and the edges as a table."""
    panels = edge_panels(table)
    cut = max(panel.total for panel in panels)
    shown = (
        f" Of up to {count(cut)} edges those with the longest and the shortest transfers." if cut > MAX_EDGES else ""
    )
    figure = FigureView(
        "".join(draw_edges(panel, f"edges-{position}") for position, panel in enumerate(panels, start=1)),
        f"Median times of both ends; the line between them is the waiting of the longer one.{shown} Logarithmic axis.",
        anchor="figure-edges",
        title="P2P edges",
        reading=_reading(table),
        legend=(
            LegendEntry("Send", COLL_COLOURS["Send"], "dot"),
            LegendEntry("Recv", COLL_COLOURS["Recv"], "dot"),
            LegendEntry("waiting of one end", INK, "line"),
        ),
        source="p2p_edges",
    )
    rows = first_rows(table, SHOWN_ROWS, ("shorter_time_us", "descending"), ("payload_bytes", "descending"))
    for row in rows:
        row["source"] = row["source_process"] or f"rank {row['source_rank']}"
        row["target"] = row["target_process"] or f"rank {row['target_rank']}"
    columns = (
        Spec("From", "source"),
        Spec("To", "target"),
        Spec("Communicator", "comm_name"),
        Spec("Size", "coll_msg_size_bytes", size, numeric=True),
        Spec("Sends", "send_records", count, numeric=True),
        Spec("Recvs", "recv_records", count, numeric=True),
        Spec("Send p50", "send_time_p50_us", duration, numeric=True),
        Spec("Recv p50", "recv_time_p50_us", duration, numeric=True),
        Spec("Shorter of both", "shorter_time_us", duration, numeric=True),
        Spec("Who waits", "waiting_side"),
    )
    tables = (table_view("Edges, longest transfers first", rows, columns, total=table.num_rows, source="p2p_edges"),)
    return SectionView("", "", figures=(figure,), tables=tables)


def _reading(table: pa.Table) -> str:
    rows = [row for row in table.to_pylist() if row["shorter_time_us"]]
    if not rows:
        return "No edge has records of both ends, so waiting and transfer cannot be separated."
    waits = {
        side: sum(
            row["waiting_side"] == side and _longer(row) > _WAITING_RATIO * row["shorter_time_us"] for row in rows
        )
        for side in ("Recv", "Send")
    }
    side = max(waits, key=lambda name: waits[name])
    if not waits[side]:
        return f"On none of {count(len(rows))} edges does either end wait noticeably."
    other = {"Recv": "sender", "Send": "receiver"}[side]
    return (
        f"On {percent(waits[side] / len(rows))} of {count(len(rows))} edges the {plain(side)} takes more than "
        f"{_WAITING_RATIO:g} times as long as its counterpart: it waits for the {other}."
    )


def _longer(row: Row) -> float:
    return float(max(row["send_time_p50_us"], row["recv_time_p50_us"]))


def draw_edges(data: EdgePanel, name: str) -> str:
    """A dot for each end of an edge, a line between them."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        times = [value for edge in data.edges for value in (edge.send_us, edge.recv_us) if value is not None]
        for position, edge in enumerate(data.edges):
            if edge.send_us is not None and edge.recv_us is not None:
                axes.hlines(position, edge.send_us, edge.recv_us, color=INK, linewidth=1.5)
            for side, value in (("Send", edge.send_us), ("Recv", edge.recv_us)):
                if value is not None:
                    axes.plot(value, position, marker="o", markersize=5, color=COLL_COLOURS[side])
        title_rows(axes, [edge.label for edge in data.edges], [f"n = {count(edge.records)}" for edge in data.edges])
        head(figure, data.title)
        axes.set_xlim(min(times, default=1.0) / 1.5, max(times, default=1.0) * 1.5)
        duration_axis(axes, "x", 10.0)
        axes.grid(True, axis="x")
        axes.set_xlabel("median time")

    return render(name, 0.8 + 0.34 * len(data.edges), draw, f"{data.title}: {len(data.edges)} of {data.total} edges")
