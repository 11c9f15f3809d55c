"""Which rank of a communicator waits: maps of communicators and ranks, and the ranges of the most uneven one."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, duration, percent
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import share_legend, type_legend
from nixt_pipeline.reporting.palette import colour_of
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, as_floats, first_rows, labelled, matching
from nixt_pipeline.reporting.sections.launches import first_launches, not_drawn, prefixes
from nixt_pipeline.reporting.text import plain, unique_labels
from nixt_pipeline.reporting.views import FigureView, SectionView, table_view

MAX_COMMUNICATORS = 24
MAX_RANK_COLUMNS = 64
MAX_RANGES = 16


@dataclass(frozen=True)
class RankMap:
    """One kernel: `shares[communicator][column]` is the share of a rank's time that is waiting. The most uneven
    communicators of `total`; `ranges` are the rows of `rank_times` of the first of them, labelled by process. A column
    is `ranks_per_column` ranks, the largest share of them."""

    label: str
    coll_type: str | None
    communicators: tuple[str, ...]
    shares: tuple[tuple[float | None, ...], ...]
    total: int
    n_ranks: int
    ranks_per_column: int
    ranges: tuple[Row, ...]


def _with_shares(table: pa.Table) -> pa.Table:
    """`rank_times` with `share`: how much of a rank's mean time lies above the lowest mean of its communicator."""
    mean = as_floats(table["exec_time_mean_us"])
    above = as_floats(table["above_lowest_us"])
    share = pc.if_else(pc.greater(mean, 0), pc.divide(above, mean), pa.scalar(None, pa.float64()))
    return table.append_column("share", share)


def rank_maps(table: pa.Table) -> tuple[RankMap, ...]:
    """A map for each launch and kernel of `rank_times`."""
    shares = _with_shares(table)
    kernels = shares.group_by(["incarnation", "rank_by_bytes"]).aggregate([]).to_pylist()
    prefix = prefixes(kernel["incarnation"] for kernel in kernels)
    return tuple(
        _map(prefix[kernel["incarnation"]], matching(shares, kernel))
        for kernel in sorted(kernels, key=lambda kernel: (kernel["incarnation"], kernel["rank_by_bytes"]))
    )


def _map(prefix: str, kernel: pa.Table) -> RankMap:
    worst = kernel.group_by(["comm_name", "id"]).aggregate([("share", "max")])
    worst = worst.append_column("worst", pc.fill_null(worst["share_max"], 0.0))
    uneven = first_rows(worst, MAX_COMMUNICATORS, "-worst", "comm_name", "id")
    shown = [matching(kernel, {name: row[name] for name in ("comm_name", "id")}).to_pylist() for row in uneven]
    first = shown[0][0]
    n_ranks = first["n_ranks"]
    per_column = -(-n_ranks // MAX_RANK_COLUMNS)
    names = unique_labels((row["comm_name"] or row["id"] or "" for row in uneven), canvas.SHORT_LABEL_CHARACTERS)
    return RankMap(
        prefix + shorten(first["label"], canvas.LABEL_CHARACTERS),
        first["coll_type"],
        tuple(names),
        tuple(_shares(rows, n_ranks, per_column) for rows in shown),
        worst.num_rows,
        n_ranks,
        per_column,
        _ranges(shown[0]),
    )


def _shares(rows: list[Row], n_ranks: int, per_column: int) -> tuple[float | None, ...]:
    columns: list[float | None] = [None] * -(-n_ranks // per_column)
    for row in rows:
        share = row["share"]
        if share is not None and row["rank"] is not None and 0 <= row["rank"] < n_ranks:
            column = row["rank"] // per_column
            columns[column] = max(columns[column] or 0.0, share)
    return tuple(columns)


def _ranges(rows: list[Row]) -> tuple[Row, ...]:
    timed = [row for row in rows if row["exec_time_p50_us"] is not None]
    timed.sort(key=lambda row: row["exec_time_p50_us"])
    half = MAX_RANGES // 2
    shown = timed if len(timed) <= MAX_RANGES else timed[:half] + timed[-half:]
    named = [{**row, "process": plain(row["process"])} for row in shown]
    return tuple(labelled(named, canvas.SHORT_LABEL_CHARACTERS, "process"))


def ranks_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Maps of all kernels, ranges of the most uneven communicator of each, and who is waited for."""
    earliest, launches = first_launches(table)
    rows = first_rows(_with_shares(table), SHOWN_ROWS, "-share")
    maps = rank_maps(earliest)
    cut = max(maps, key=lambda data: data.total)
    note, drawn = "", len(cut.communicators)
    if cut.total > drawn:
        note = f" The most uneven {drawn} of up to {count(cut.total)} communicators."
    grouped = max(data.ranks_per_column for data in maps)
    note += f" A column is up to {grouped} ranks, the largest share of them." if grouped > 1 else ""
    figures = (
        FigureView(
            "".join(draw_map(data, f"ranks-{position}") for position, data in enumerate(maps, start=1)),
            "Rows are communicators, columns the ranks inside them. Colour: share of the rank's mean time above the "
            f"lowest mean of its communicator.{note} The table says where each rank runs.",
            anchor="figure-ranks",
            title="Waiting by communicator and rank",
            reading=_reading(rows[0]),
            legend=share_legend(),
        ),
        FigureView(
            "".join(draw_ranges(data, f"rank-range-{position}") for position, data in enumerate(maps, start=1)),
            "Whisker: shortest to longest; box: p25 to p75; dot: median. The process with the lowest times is the one "
            "that the others wait for. Logarithmic axis.",
            anchor="figure-rank-ranges",
            title="Times of the ranks of the most uneven communicator of each kernel",
            legend=type_legend(data.coll_type for data in maps),
        ),
    )
    columns = columns_of("label communicator rank process records exec_time_mean_us above_lowest_us")
    shown = [{**row, "communicator": row["comm_name"] or row["id"]} for row in rows]
    tables = (table_view("Ranks that wait most", shown, columns, total=table.num_rows, source="rank_times"),)
    return SectionView("", "", notes=not_drawn(launches), figures=figures, tables=tables)


def _reading(worst: Row) -> str:
    if worst["share"] is None:
        return "No rank has a usable time."
    name = shorten(plain(worst["comm_name"] or worst["id"]), canvas.SHORT_LABEL_CHARACTERS)
    return (
        f"Most uneven: {name}, in which {shorten(plain(worst['process']), canvas.LABEL_CHARACTERS)} waits for "
        f"{percent(worst['share'])} of its time ({shorten(worst['label'], canvas.LABEL_CHARACTERS)})."
    )


def draw_map(data: RankMap, name: str) -> str:
    """Communicators as rows, ranks as columns."""

    def draw(axes: canvas.Axes) -> None:
        canvas.share_map(axes, data.shares, len(data.shares[0]) * data.ranks_per_column, -0.5)
        canvas.name_rows(axes, data.communicators)
        axes.set_xticks(sorted({0, data.n_ranks // 4, data.n_ranks // 2, data.n_ranks * 3 // 4, data.n_ranks - 1}))
        axes.set_xlim(-0.5, data.n_ranks - 0.5)
        axes.set_xlabel("rank inside the communicator")

    worst = max((share or 0.0 for shares in data.shares for share in shares), default=0.0)
    alt = f"{data.label}: {len(data.communicators)} communicators; the most that a rank waits is {percent(worst)}"
    return canvas.chart(name, 0.9 + 0.15 * len(data.communicators), draw, alt, data.label)


def draw_ranges(data: RankMap, name: str) -> str:
    """Whiskers, boxes and medians by process, the one that is waited for at the top."""

    def times(quantile: str) -> list[float]:
        return [row[f"exec_time_{quantile}_us"] for row in data.ranges]

    def draw(axes: canvas.Axes) -> None:
        colour, positions = colour_of(data.coll_type), range(len(data.ranges))
        axes.hlines(positions, times("min"), times("max"), color=colour, linewidth=1)
        axes.hlines(positions, times("p25"), times("p75"), color=colour, linewidth=6, alpha=0.55)
        axes.plot(times("p50"), positions, color=colour, linewidth=0, marker="o", markersize=4)
        canvas.name_rows(axes, [row["label"] for row in data.ranges])
        axes.set_xlim(min(times("min"), default=1.0) / 1.2, max(times("max"), default=1.0) * 1.2)
        canvas.duration_axis(axes, "x", 10.0)
        axes.grid(True, axis="x")
        axes.set_xlabel("execution time")

    medians = [duration(value) for value in times("p50")]
    ends = f"medians from {medians[0]} to {medians[-1]}" if medians else "no usable time"
    alt, title = f"{data.communicators[0]}, {data.label}: {ends}", f"{data.communicators[0]}: {data.label}"
    return canvas.chart(name, 0.9 + 0.17 * len(data.ranges), draw, alt, title)
