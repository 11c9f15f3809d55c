"""Sends and Recvs between processes: how long both ends take, and which of them waits."""

from dataclasses import dataclass

import pyarrow as pa

from nixt_pipeline.grouping import grouped
from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, percent, size
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.palette import COLL_COLOURS, INK
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, first_rows
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, table_view

MAX_EDGES = 12
MAX_PANELS = 4
_PLACE_CHARACTERS = 22
# Both ends of a message take about as long if neither waits.
_WAITING_RATIO = 1.5


@dataclass(frozen=True)
class EdgePanel:
    """Messages of one size, within hosts or between them: the slowest and the fastest edges of `total`, as rows of
    `p2p_edges` with a `label`. A time is None where an end has no records."""

    title: str
    edges: tuple[Row, ...]
    total: int


def edge_panels(table: pa.Table, limit: int = MAX_EDGES) -> tuple[EdgePanel, ...]:
    """`p2p_edges` by size and reach, those with most bytes first; edges by the shorter of their two times."""
    groups = grouped(table.to_pylist(), lambda row: (row["coll_msg_size_bytes"] or 0, row["same_host"]))
    by_bytes = sorted(groups, key=lambda key: (-sum(row["payload_bytes"] or 0 for row in groups[key]), str(key)))
    return tuple(_panel(key, groups[key], limit) for key in by_bytes[:MAX_PANELS])


def _panel(key: tuple[int, bool | None], rows: list[Row], limit: int) -> EdgePanel:
    rows = sorted(rows, key=lambda row: (-(row["shorter_time_us"] or 0.0), _label(row)))
    shown = rows if len(rows) <= limit else rows[: limit // 2] + rows[-(limit - limit // 2) :]
    reach = {True: "within a host", False: "between hosts", None: "one end unknown"}[key[1]]
    edges = tuple({**row, "label": _label(row)} for row in shown)
    return EdgePanel(f"{size(key[0])} {reach}", edges, len(rows))


def _label(row: Row) -> str:
    source, target = (row[f"{end}_process"] or f"rank {row[f'{end}_rank']}" for end in ("source", "target"))
    return f"{shorten(source, _PLACE_CHARACTERS)} → {shorten(target, _PLACE_CHARACTERS)}"


def edges_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Dumbbells of both ends' times, and the edges as a table."""
    panels = edge_panels(table)
    cut = max(panel.total for panel in panels)
    which = f" Of up to {count(cut)} edges those with the longest and the shortest transfers."
    shown = which if cut > MAX_EDGES else ""
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
    )
    rows = first_rows(table, SHOWN_ROWS, "-shorter_time_us", "-payload_bytes")
    for row in rows:
        row["source"] = row["source_process"] or f"rank {row['source_rank']}"
        row["target"] = row["target_process"] or f"rank {row['target_rank']}"
    columns = columns_of(
        "source target comm_name coll_msg_size_bytes send_records recv_records send_time_p50_us"
        " recv_time_p50_us shorter_time_us waiting_side",
        comm_name="Communicator",
    )
    tables = (table_view("Edges, longest transfers first", rows, columns, total=table.num_rows, source="p2p_edges"),)
    return SectionView("", "", figures=(figure,), tables=tables)


def _reading(table: pa.Table) -> str:
    rows = [row for row in table.to_pylist() if row["shorter_time_us"]]
    if not rows:
        return "No edge has records of both ends, so waiting and transfer cannot be separated."
    waits = {
        side: sum(
            row["waiting_side"] == side
            and max(row["send_time_p50_us"], row["recv_time_p50_us"]) > _WAITING_RATIO * row["shorter_time_us"]
            for row in rows
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


def draw_edges(data: EdgePanel, name: str) -> str:
    """A dot for each end of an edge, a line between them."""

    def draw(axes: canvas.Axes) -> None:
        ends = [(edge["send_time_p50_us"], edge["recv_time_p50_us"]) for edge in data.edges]
        for position, (send_us, recv_us) in enumerate(ends):
            if send_us is not None and recv_us is not None:
                axes.hlines(position, send_us, recv_us, color=INK, linewidth=1.5)
            for side, value in (("Send", send_us), ("Recv", recv_us)):
                if value is not None:
                    axes.plot(value, position, marker="o", markersize=5, color=COLL_COLOURS[side])
        notes = [f"n = {count(max(edge['send_records'], edge['recv_records']))}" for edge in data.edges]
        canvas.title_rows(axes, [edge["label"] for edge in data.edges], notes)
        times = [value for both in ends for value in both if value is not None]
        axes.set_xlim(min(times, default=1.0) / 1.5, max(times, default=1.0) * 1.5)
        canvas.duration_axis(axes, "x", 10.0)
        axes.grid(True, axis="x")
        axes.set_xlabel("median time")

    alt = f"{data.title}: {len(data.edges)} of {data.total} edges"
    return canvas.chart(name, 0.8 + 0.34 * len(data.edges), draw, alt, data.title)
