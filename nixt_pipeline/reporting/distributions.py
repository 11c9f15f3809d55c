"""How bandwidth and time of the hot kernels are distributed: cumulative curves on one axis, and percentiles as bars."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.reporting import drawing, figures
from nixt_pipeline.reporting.canvas import number_axis, render, title_rows
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import INK, colour_of
from nixt_pipeline.reporting.rows import first_rows
from nixt_pipeline.reporting.text import count, duration, gbs, percent, shorten, unique_labels
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A bandwidth below half of what the last rank reaches is mostly waiting.
_MOSTLY_WAITING = 0.5


def bandwidth_section(content: RunContent, table: pa.Table) -> SectionView:
    """Bandwidth of the hot kernels, all on one absolute axis."""
    data = figures.ecdf_figure(table, capture_rates=_capture_rates(content, table))
    if not data.panels:
        return SectionView("", "", notes=("No kernel has a usable bandwidth.",))
    caption = (
        "A steep curve is steady, a long foot is a slow tail. The dashed curve keeps, of each complete collective, "
        "only the last rank to arrive: the closest to the transfer itself. Dots: p10, p50, p90."
    )
    figure = FigureView(
        drawing.draw_ecdf(data),
        caption + (" Logarithmic axis." if data.log_axis else ""),
        anchor="figure-ecdf",
        title="Bandwidth of the hot kernels, on one axis",
        reading=_bandwidth_reading(data),
        legend=_legend(data),
        source="bandwidth_ecdf",
    )
    return SectionView("", "", figures=(figure,))


def _bandwidth_reading(data: figures.EcdfFigure) -> str:
    """Which kernel loses most to waiting, by its medians."""
    found = []
    for panel in data.panels:
        medians = {curve.measure: curve.at(0.5) for curve in panel.curves}
        if medians.get("transfer_busbw_gbs"):
            found.append((medians["busbw_gbs"] / medians["transfer_busbw_gbs"], panel.label, medians))
    if not found:
        return "No collective was recorded by every rank, so that waiting and transfer cannot be told apart."
    ratio, label, medians = min(found)
    if ratio >= _MOSTLY_WAITING:
        return f"Medians with waiting reach {percent(ratio)} of the transfer's or more: little is lost to waiting."
    return (
        f"{label} has a median of {gbs(medians['busbw_gbs'])} GB/s with waiting and "
        f"{gbs(medians['transfer_busbw_gbs'])} GB/s without: it mostly waits."
    )


def time_section(content: RunContent, table: pa.Table) -> SectionView:
    """Execution times of the kernels that are called most, small messages included."""
    data = figures.ecdf_figure(table, capture_rates=_capture_rates(content, table))
    if not data.panels:
        return SectionView("", "", notes=("No kernel has a usable time.",))
    first = data.panels[0].curves[0]
    reading = (
        f"{data.panels[0].label}, of which there are most records, takes {duration(first.at(0.5))} in the median and "
        f"{duration(first.at(0.99))} at p99."
    )
    figure = FigureView(
        drawing.draw_ecdf(data, "time-ecdf", "us"),
        "Waiting included; the dashed curve is the last rank to arrive. Whole microseconds make steps."
        + (" Logarithmic axis." if data.log_axis else ""),
        anchor="figure-time-ecdf",
        title="Execution times of the kernels with most records, on one axis",
        reading=reading,
        legend=_legend(data),
        source="time_ecdf",
    )
    return SectionView("", "", figures=(figure,))


def _capture_rates(content: RunContent, curves: pa.Table) -> dict[str, float | None]:
    """By label of a kernel, of those that have curves."""
    kernels = content.tables.get("hot_kernels")
    if kernels is None:
        return {}
    drawn = kernels.filter(pc.is_in(kernels["label"], value_set=pc.unique(curves["label"])))
    return dict(zip(drawn["label"].to_pylist(), drawn["capture_rate"].to_pylist(), strict=True))


def _legend(data: figures.EcdfFigure) -> tuple[LegendEntry, ...]:
    dashed = any(curve.measure.startswith("transfer") for panel in data.panels for curve in panel.curves)
    return (
        *type_legend(panel.coll_type for panel in data.panels),
        *((LegendEntry("last rank to arrive only", INK, "dashes"),) if dashed else ()),
    )


def kernel_ranges(kernels: pa.Table) -> tuple[FigureView, ...]:
    """p10, median and p90 of the bandwidth of each hot kernel, and the median of its transfers, in absolute GB/s."""
    measured = kernels.filter(pc.is_valid(kernels["busbw_p50_gbs"]))
    timed = first_rows(measured, figures.MAX_KERNELS, ("rank_by_bytes", "ascending"))
    if not timed:
        return ()
    labels = unique_labels((row["label"] for row in timed), figures.LABEL_CHARACTERS)
    lowest = min(row["busbw_p10_gbs"] for row in timed)
    log_axis = lowest > 0 and max(row["busbw_p90_gbs"] for row in timed) / lowest > figures.LOG_AXIS_RATIO

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
