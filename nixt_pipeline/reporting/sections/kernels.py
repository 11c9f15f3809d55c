"""The hot kernels: their share of the bytes, and their bandwidth."""

from typing import Any

import pyarrow as pa

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, number, percent
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.anchors import kernel_anchor
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import INK, colour_of
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, first_rows, labelled
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, table_view

MAX_KERNELS = 12


def hottest(hot_kernels: pa.Table, limit: int, known: str) -> list[Row]:
    """The first `limit` kernels by payload of those whose column `known` has a value, with a label to show."""
    return labelled(first_rows(hot_kernels, limit, "rank_by_bytes", known=known), canvas.LABEL_CHARACTERS)


def draw_kernels(hot_kernels: pa.Table) -> str:
    """Bars for the share of each hot kernel, dots for the cumulative share."""
    kernels = hottest(hot_kernels, MAX_KERNELS, "share_of_payload")
    if not kernels:
        return canvas.nothing("kernels")
    cumulative = [row["cumulative_share_of_payload"] for row in kernels]

    def draw(axes: canvas.Axes) -> None:
        for position, row in enumerate(kernels):
            axes.barh(position, row["share_of_payload"], height=0.42, color=colour_of(row["coll_type"]))
        line: dict[str, Any] = {"color": INK, "linewidth": 0.5, "alpha": 0.6, "marker": "o", "markersize": 4}
        axes.plot(cumulative, range(len(kernels)), clip_on=False, **line)
        notes = [
            f"{percent(row['share_of_payload'])}, in all {percent(share)}"
            for row, share in zip(kernels, cumulative, strict=True)
        ]
        canvas.title_rows(axes, [row["label"] for row in kernels], notes)
        canvas.percent_axis(axes, 1.0)
        axes.set_xlabel("share of the observed payload")

    alt = f"{len(kernels)} of {hot_kernels.num_rows} kernels carry {percent(cumulative[-1])} of the observed payload"
    return canvas.chart("kernels", 0.6 + 0.36 * len(kernels), draw, alt)


def kernel_ranges(kernels: pa.Table) -> tuple[FigureView, ...]:
    """p10, median and p90 of the bandwidth of each hot kernel, and the median of its transfers, in absolute GB/s."""
    timed = hottest(kernels, MAX_KERNELS, "busbw_p50_gbs")
    if not timed:
        return ()
    lowest = min(row["busbw_p10_gbs"] for row in timed)
    log_axis = lowest > 0 and max(row["busbw_p90_gbs"] for row in timed) / lowest > canvas.LOG_AXIS_RATIO

    def draw(axes: canvas.Axes) -> None:
        for position, row in enumerate(timed):
            colour = colour_of(row["coll_type"])
            axes.hlines(position, row["busbw_p10_gbs"], row["busbw_p90_gbs"], color=colour, linewidth=5, alpha=0.55)
            axes.plot(row["busbw_p50_gbs"], position, color=colour, marker="o", markersize=5)
            if row["transfer_busbw_p50_gbs"] is not None:
                axes.plot(row["transfer_busbw_p50_gbs"], position, color=INK, marker="|", markersize=11)
        notes = [
            f"{number(row['busbw_p10_gbs'])} / {number(row['busbw_p50_gbs'])} / {number(row['busbw_p90_gbs'])}"
            for row in timed
        ]
        canvas.title_rows(axes, [row["label"] for row in timed], notes)
        canvas.number_axis(axes, "x", log_axis)
        if not log_axis:
            axes.set_xlim(left=0)
        axes.grid(True, axis="x")
        axes.set_xlabel("bus bandwidth, GB/s")

    fastest = max(timed, key=lambda row: row["busbw_p50_gbs"])
    slowest = min(timed, key=lambda row: row["busbw_p50_gbs"])
    reading = (
        f"Medians reach from {number(slowest['busbw_p50_gbs'])} GB/s ({shorten(slowest['label'], 40)}) to "
        f"{number(fastest['busbw_p50_gbs'])} GB/s ({shorten(fastest['label'], 40)})."
    )
    return (
        FigureView(
            canvas.chart("kernel-ranges", 0.6 + 0.36 * len(timed), draw, reading),
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
        ),
    )


def kernels_section(_content: RunContent, table: pa.Table) -> SectionView:
    """The share of the bytes of each hot kernel, its bandwidth and time, and a table."""
    kernels = hottest(table, MAX_KERNELS, "share_of_payload")
    rows = first_rows(table, SHOWN_ROWS, "rank_by_bytes")
    payload = columns_of(
        "rank_by_bytes label records payload_bytes share_of_payload cumulative_share_of_payload"
        " share_of_rank_time capture_rate hosts",
        share_of_payload="Share",
    )
    # A table of all columns would be wider than most screens.
    times = columns_of(
        "rank_by_bytes label busbw_p10_gbs busbw_p50_gbs busbw_p90_gbs transfer_busbw_p50_gbs busbw_cv"
        " exec_time_p50_us exec_time_p99_us wait_us",
        busbw_cv="Variation (CV)",
    )
    total = table.num_rows
    drawn: tuple[FigureView, ...] = ()
    if kernels:
        shown = len(kernels)
        hottest_ones = f"The {shown} hottest of {count(total)} kernels"
        which = hottest_ones if shown < total else f"All {total} kernels together"
        drawn = (
            FigureView(
                draw_kernels(table),
                "Bars: share of the payload of the whole run; line: cumulative share.",
                anchor="figure-kernels",
                title="Share of the bytes",
                reading=f"{which} carry {percent(kernels[-1]['cumulative_share_of_payload'])} of the observed payload.",
                legend=(
                    *type_legend(row["coll_type"] for row in kernels),
                    LegendEntry("cumulative share", INK, "line"),
                ),
            ),
            *kernel_ranges(table),
        )
    notes = ("A kernel is one function on one communicator shape (ranks r, NCCL nodes n) with one message size.",)
    by_bytes, source = "Hot kernels by observed payload", "hot_kernels"
    tables = (
        table_view(by_bytes, rows, payload, total=total, source=source, anchor_of=kernel_anchor),
        table_view("Bandwidth and time of the same kernels", rows, times, total=total, source=source),
    )
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)
