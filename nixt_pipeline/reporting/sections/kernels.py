"""The hot kernels: their share of the bytes, and their bandwidth."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, duration, gbs, number, percent, size
from nixt_pipeline.reporting.anchors import kernel_anchor
from nixt_pipeline.reporting.canvas import (
    LABEL_CHARACTERS,
    LOG_AXIS_RATIO,
    nothing,
    number_axis,
    percent_axis,
    render,
    title_rows,
)
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import INK, colour_of
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.text import unique_labels
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, table_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_KERNELS = 12


@dataclass(frozen=True)
class KernelBar:
    """One hot kernel; shares are of the payload of the whole run."""

    label: str
    coll_type: str | None
    share: float
    cumulative: float


@dataclass(frozen=True)
class KernelBars:
    """The hottest kernels of `total`."""

    kernels: tuple[KernelBar, ...]
    total: int


def kernel_bars(hot_kernels: pa.Table, limit: int = MAX_KERNELS) -> KernelBars:
    """The kernels that carry most of the observed payload, from `hot_kernels`."""
    shared = hot_kernels.filter(pc.is_valid(hot_kernels["share_of_payload"]))
    top = first_rows(shared, limit, ("rank_by_bytes", "ascending"))
    labels = unique_labels((row["label"] for row in top), LABEL_CHARACTERS)
    return KernelBars(
        tuple(
            KernelBar(label, row["coll_type"], row["share_of_payload"], row["cumulative_share_of_payload"])
            for label, row in zip(labels, top, strict=True)
        ),
        hot_kernels.num_rows,
    )


def draw_kernels(data: KernelBars) -> str:
    """Bars for the share of each hot kernel, dots for the cumulative share."""
    if not data.kernels:
        return nothing("kernels")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, kernel in enumerate(data.kernels):
            axes.barh(position, kernel.share, height=0.42, color=colour_of(kernel.coll_type))
        axes.plot(
            [kernel.cumulative for kernel in data.kernels],
            range(len(data.kernels)),
            color=INK,
            linewidth=0.5,
            alpha=0.6,
            marker="o",
            markersize=4,
            clip_on=False,
        )
        notes = [f"{percent(kernel.share)}, in all {percent(kernel.cumulative)}" for kernel in data.kernels]
        title_rows(axes, [kernel.label for kernel in data.kernels], notes)
        percent_axis(axes, 1.0)
        axes.set_xlabel("share of the observed payload")

    last = data.kernels[-1]
    alt = f"{len(data.kernels)} of {data.total} kernels carry {percent(last.cumulative)} of the observed payload"
    return render("kernels", 0.6 + 0.36 * len(data.kernels), draw, alt)


def kernel_ranges(kernels: pa.Table) -> tuple[FigureView, ...]:
    """p10, median and p90 of the bandwidth of each hot kernel, and the median of its transfers, in absolute GB/s."""
    measured = kernels.filter(pc.is_valid(kernels["busbw_p50_gbs"]))
    timed = first_rows(measured, MAX_KERNELS, ("rank_by_bytes", "ascending"))
    if not timed:
        return ()
    labels = unique_labels((row["label"] for row in timed), LABEL_CHARACTERS)
    lowest = min(row["busbw_p10_gbs"] for row in timed)
    log_axis = lowest > 0 and max(row["busbw_p90_gbs"] for row in timed) / lowest > LOG_AXIS_RATIO

    def draw(canvas: "Figure") -> None:
        axes = canvas.subplots()
        for position, row in enumerate(timed):
            colour = colour_of(row["coll_type"])
            axes.hlines(position, row["busbw_p10_gbs"], row["busbw_p90_gbs"], color=colour, linewidth=5, alpha=0.55)
            axes.plot(row["busbw_p50_gbs"], position, color=colour, marker="o", markersize=5)
            if row["transfer_busbw_p50_gbs"] is not None:
                axes.plot(row["transfer_busbw_p50_gbs"], position, color=INK, marker="|", markersize=11)
        notes = [
            f"{gbs(row['busbw_p10_gbs'])} / {gbs(row['busbw_p50_gbs'])} / {gbs(row['busbw_p90_gbs'])}" for row in timed
        ]
        title_rows(axes, labels, notes)
        number_axis(axes, "x", log_axis)
        if not log_axis:
            axes.set_xlim(left=0)
        axes.grid(True, axis="x")
        axes.set_xlabel("bus bandwidth, GB/s")

    fastest = max(timed, key=lambda row: row["busbw_p50_gbs"])
    slowest = min(timed, key=lambda row: row["busbw_p50_gbs"])
    reading = (
        f"Medians reach from {gbs(slowest['busbw_p50_gbs'])} GB/s ({shorten(slowest['label'], 40)}) to "
        f"{gbs(fastest['busbw_p50_gbs'])} GB/s ({shorten(fastest['label'], 40)})."
    )
    return (
        FigureView(
            render("kernel-ranges", 0.6 + 0.36 * len(timed), draw, reading),
            "Waiting included. The numbers are p10 / p50 / p90"
            f" over {count(sum(row['records'] for row in timed))} records."
            + (" Logarithmic axis." if log_axis else ""),
            anchor="figure-kernel-ranges",
            title="Bandwidth of the hot kernels",
            reading=reading,
            legend=(
                *type_legend(row["coll_type"] for row in timed),
                LegendEntry("median of the last rank to arrive", INK, "line"),
            ),
            source="hot_kernels",
        ),
    )


def kernels_section(_content: RunContent, table: pa.Table) -> SectionView:
    """The share of the bytes of each hot kernel, its bandwidth and time, and a table."""
    data = kernel_bars(table)
    rows = first_rows(table, SHOWN_ROWS, ("rank_by_bytes", "ascending"))
    payload = (
        Spec("Rank", "rank_by_bytes", count, numeric=True),
        Spec("Kernel", "label"),
        Spec("Records", "records", count, numeric=True),
        Spec("Observed payload", "payload_bytes", size, numeric=True),
        Spec("Share", "share_of_payload", percent, numeric=True),
        Spec("Cumulative", "cumulative_share_of_payload", percent, numeric=True),
        Spec("Share of rank time", "share_of_rank_time", percent, numeric=True),
        Spec("Capture rate", "capture_rate", percent, numeric=True),
        Spec("Hosts", "hosts", count, numeric=True),
    )
    # A table of all columns would be wider than most screens.
    times = (
        Spec("Rank", "rank_by_bytes", count, numeric=True),
        Spec("Kernel", "label"),
        Spec("Bandwidth p10, GB/s", "busbw_p10_gbs", gbs, numeric=True),
        Spec("p50", "busbw_p50_gbs", gbs, numeric=True),
        Spec("p90", "busbw_p90_gbs", gbs, numeric=True),
        Spec("Transfer p50, GB/s", "transfer_busbw_p50_gbs", gbs, numeric=True),
        Spec("Variation (CV)", "busbw_cv", number, numeric=True),
        Spec("Time p50", "exec_time_p50_us", duration, numeric=True),
        Spec("Time p99", "exec_time_p99_us", duration, numeric=True),
        Spec("Time waited", "wait_us", duration, numeric=True),
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
                draw_kernels(data),
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
            payload,
            total=table.num_rows,
            source="hot_kernels",
            anchor_of=kernel_anchor,
        ),
        table_view("Bandwidth and time of the same kernels", rows, times, total=table.num_rows, source="hot_kernels"),
    )
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)
