"""Which rank of a communicator waits: maps of communicators and ranks, and the ranges of the most uneven one."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nixt_pipeline.reporting.canvas import duration_axis, head, name_rows, render, share_map
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.figures import LABEL_CHARACTERS, SHORT_LABEL_CHARACTERS
from nixt_pipeline.reporting.legends import share_legend, type_legend
from nixt_pipeline.reporting.palette import colour_of
from nixt_pipeline.reporting.quality import SHOWN_ROWS
from nixt_pipeline.reporting.text import count, duration, percent, plain, shorten, unique_labels
from nixt_pipeline.reporting.views import FigureView, SectionView, Spec, table_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]

MAX_COMMUNICATORS = 24
MAX_RANK_COLUMNS = 64
MAX_RANGES = 16


@dataclass(frozen=True)
class RankRange:
    """Execution times of one rank in microseconds; `label` is the process behind it."""

    label: str
    low: float
    p25: float
    p50: float
    p75: float
    high: float


@dataclass(frozen=True)
class RankMap:
    """One kernel: `shares[communicator][column]` is the share of a rank's time that is waiting. The most uneven
    communicators of `total`, and the ranges of the first of them. A column is `ranks_per_column` ranks, the largest
    share of them."""

    label: str
    coll_type: str | None
    communicators: tuple[str, ...]
    shares: tuple[tuple[float | None, ...], ...]
    total: int
    n_ranks: int
    ranks_per_column: int
    ranges: tuple[RankRange, ...]


def waiting_share(row: Row) -> float | None:
    """How much of a rank's mean time lies above the lowest mean of its communicator."""
    if row["above_lowest_us"] is None or not row["exec_time_mean_us"]:
        return None
    return float(row["above_lowest_us"] / row["exec_time_mean_us"])


def rank_maps(table: pa.Table, limit: int = MAX_COMMUNICATORS) -> tuple[RankMap, ...]:
    """A map for each launch and kernel of `rank_times`."""
    kernels: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        kernels[row["incarnation"], row["rank_by_bytes"]].append(row)
    several = len({incarnation for incarnation, _ in kernels}) > 1
    return tuple(
        _map(f"launch {launch}: " if several else "", rows, limit) for (launch, _), rows in sorted(kernels.items())
    )


def _map(prefix: str, rows: list[Row], limit: int) -> RankMap:
    by_communicator: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_communicator[row["comm_name"] or "", row["id"] or ""].append(row)
    worst = {key: max(waiting_share(row) or 0.0 for row in found) for key, found in by_communicator.items()}
    keys = sorted(by_communicator, key=lambda key: (-worst[key], key))
    n_ranks = rows[0]["n_ranks"]
    per_column = -(-n_ranks // MAX_RANK_COLUMNS)
    names = unique_labels((name or number for name, number in keys[:limit]), SHORT_LABEL_CHARACTERS)
    return RankMap(
        prefix + shorten(rows[0]["label"], LABEL_CHARACTERS),
        rows[0]["coll_type"],
        tuple(names),
        tuple(_shares(by_communicator[key], n_ranks, per_column) for key in keys[:limit]),
        len(keys),
        n_ranks,
        per_column,
        _ranges(by_communicator[keys[0]]),
    )


def _shares(rows: list[Row], n_ranks: int, per_column: int) -> tuple[float | None, ...]:
    columns: list[float | None] = [None] * -(-n_ranks // per_column)
    for row in rows:
        share = waiting_share(row)
        if share is not None and row["rank"] is not None and 0 <= row["rank"] < n_ranks:
            column = row["rank"] // per_column
            columns[column] = max(columns[column] or 0.0, share)
    return tuple(columns)


def _ranges(rows: list[Row]) -> tuple[RankRange, ...]:
    timed = sorted(
        (row for row in rows if row["exec_time_p50_us"] is not None), key=lambda row: row["exec_time_p50_us"]
    )
    half = MAX_RANGES // 2
    shown = timed if len(timed) <= MAX_RANGES else timed[:half] + timed[-half:]
    labels = unique_labels((plain(row["process"]) for row in shown), SHORT_LABEL_CHARACTERS)
    names = ("exec_time_min_us", "exec_time_p25_us", "exec_time_p50_us", "exec_time_p75_us", "exec_time_max_us")
    return tuple(RankRange(label, *(row[name] for name in names)) for label, row in zip(labels, shown, strict=True))


def ranks_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Maps of all kernels, ranges of the most uneven communicator of each, and who is waited for."""
    maps = rank_maps(table)
    cut = max(maps, key=lambda data: data.total)
    note = (
        f" The most uneven {len(cut.communicators)} of up to {count(cut.total)} communicators."
        if (cut.total > len(cut.communicators))
        else ""
    )
    grouped = max(data.ranks_per_column for data in maps)
    note += f" A column is up to {grouped} ranks, the largest share of them." if grouped > 1 else ""
    figures = (
        FigureView(
            "".join(draw_map(data, f"ranks-{position}") for position, data in enumerate(maps, start=1)),
            "Rows are communicators, columns the ranks inside them. Colour: share of the rank's mean time above the "
            f"lowest mean of its communicator.{note} The table says where each rank runs.",
            anchor="figure-ranks",
            title="Waiting by communicator and rank",
            reading=_reading(table),
            legend=share_legend(),
            source="rank_times",
        ),
        FigureView(
            "".join(draw_ranges(data, f"rank-range-{position}") for position, data in enumerate(maps, start=1)),
            "Whisker: shortest to longest; box: p25 to p75; dot: median. The process with the lowest times is the one "
            "that the others wait for. Logarithmic axis.",
            anchor="figure-rank-ranges",
            title="Times of the ranks of the most uneven communicator of each kernel",
            legend=type_legend(data.coll_type for data in maps),
            source="rank_times",
        ),
    )
    rows = sorted(table.to_pylist(), key=lambda row: -(waiting_share(row) or 0.0))
    columns = (
        Spec("Kernel", "label"),
        Spec("Communicator", "communicator"),
        Spec("Rank", "rank", count, numeric=True),
        Spec("Process", "process"),
        Spec("Records", "records", count, numeric=True),
        Spec("Mean time", "exec_time_mean_us", duration, numeric=True),
        Spec("Above the lowest of its communicator", "above_lowest_us", duration, numeric=True),
    )
    shown = [{**row, "communicator": row["comm_name"] or row["id"]} for row in rows[:SHOWN_ROWS]]
    tables = (table_view("Ranks that wait most", shown, columns, total=len(rows), source="rank_times"),)
    return SectionView("", "", figures=figures, tables=tables)


def _reading(table: pa.Table) -> str:
    rows = [row for row in table.to_pylist() if waiting_share(row) is not None]
    if not rows:
        return "No rank has a usable time."
    worst = max(rows, key=lambda row: waiting_share(row) or 0.0)
    name = shorten(plain(worst["comm_name"] or worst["id"]), SHORT_LABEL_CHARACTERS)
    return (
        f"Most uneven: {name}, in which {shorten(plain(worst['process']), LABEL_CHARACTERS)} waits for "
        f"{percent(waiting_share(worst))} of its time ({shorten(worst['label'], LABEL_CHARACTERS)})."
    )


def draw_map(data: RankMap, name: str) -> str:
    """Communicators as rows, ranks as columns."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        share_map(axes, data.shares, len(data.shares[0]) * data.ranks_per_column, -0.5)
        name_rows(axes, data.communicators)
        head(figure, data.label)
        axes.set_xticks(sorted({0, data.n_ranks // 4, data.n_ranks // 2, data.n_ranks * 3 // 4, data.n_ranks - 1}))
        axes.set_xlim(-0.5, data.n_ranks - 0.5)
        axes.set_xlabel("rank inside the communicator")

    worst = max((share or 0.0 for shares in data.shares for share in shares), default=0.0)
    alt = f"{data.label}: {len(data.communicators)} communicators; the most that a rank waits is {percent(worst)}"
    return render(name, 0.9 + 0.15 * len(data.communicators), draw, alt)


def draw_ranges(data: RankMap, name: str) -> str:
    """Whiskers, boxes and medians by process, the one that is waited for at the top."""

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        colour, positions = colour_of(data.coll_type), range(len(data.ranges))
        axes.hlines(positions, [r.low for r in data.ranges], [r.high for r in data.ranges], color=colour, linewidth=1)
        boxes = [r.p25 for r in data.ranges], [r.p75 for r in data.ranges]
        axes.hlines(positions, *boxes, color=colour, linewidth=6, alpha=0.55)
        axes.plot([r.p50 for r in data.ranges], positions, color=colour, linewidth=0, marker="o", markersize=4)
        name_rows(axes, [r.label for r in data.ranges])
        head(figure, f"{data.communicators[0]}: {data.label}")
        lowest, highest = (
            min((r.low for r in data.ranges), default=1.0),
            max((r.high for r in data.ranges), default=1.0),
        )
        axes.set_xlim(lowest / 1.2, highest * 1.2)
        duration_axis(axes, "x", 10.0)
        axes.grid(True, axis="x")
        axes.set_xlabel("execution time")

    alt = f"{data.communicators[0]}, {data.label}: no usable time"
    if data.ranges:
        ends = f"{duration(data.ranges[0].p50)} to {duration(data.ranges[-1].p50)}"
        alt = f"{data.communicators[0]}, {data.label}: medians from {ends}"
    return render(name, 0.9 + 0.17 * len(data.ranges), draw, alt)
