"""How bandwidth and time of the hot kernels are distributed: cumulative curves on one axis."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count, duration, number, percent
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import INK, colour_of
from nixt_pipeline.reporting.rows import Row
from nixt_pipeline.reporting.text import unique_labels
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView

MAX_ECDF_PANELS = 10


@dataclass(frozen=True)
class Curve:
    """A cumulative distribution: `quantiles[i]` of the samples are at or below `values[i]`."""

    measure: str
    values: tuple[float, ...]
    quantiles: tuple[float, ...]
    samples: int

    def at(self, quantile: float) -> float:
        """The value at the quantile that is nearest to `quantile`."""
        nearest = min(range(len(self.quantiles)), key=lambda index: abs(self.quantiles[index] - quantile))
        return self.values[nearest]


@dataclass(frozen=True)
class EcdfPanel:
    """The distributions of one kernel; `capture_rate` says of which part of its operations."""

    label: str
    coll_type: str | None
    curves: tuple[Curve, ...]
    capture_rate: float | None = None


@dataclass(frozen=True)
class EcdfFigure:
    """Panels share one axis of absolute values, from `low` to `high`."""

    panels: tuple[EcdfPanel, ...]
    log_axis: bool
    low: float = 0.0
    high: float = 1.0


def ecdf_figure(
    ecdf: pa.Table, limit: int = MAX_ECDF_PANELS, capture_rates: Mapping[str, float | None] | None = None
) -> EcdfFigure:
    """One panel for each kernel of `bandwidth_ecdf` or `time_ecdf`, in its order; `capture_rates` are by label.

    The axis is logarithmic when the central 98 % of the values span more than `LOG_AXIS_RATIO`; it spans what all
    panels show, so that curves can be compared.
    """
    kernels: dict[str, dict[str, list[Row]]] = {}
    for row in ecdf.to_pylist():
        if row["value"] is not None:
            kernels.setdefault(row["label"], {}).setdefault(row["measure"], []).append(row)
    chosen = list(kernels.items())[:limit]
    labels = unique_labels((label for label, _ in chosen), canvas.LABEL_CHARACTERS)
    panels = tuple(
        EcdfPanel(
            label,
            next(iter(measures.values()))[0]["coll_type"],
            tuple(_curve(measure, rows) for measure, rows in sorted(measures.items())),
            (capture_rates or {}).get(name),
        )
        for label, (name, measures) in zip(labels, chosen, strict=True)
    )
    central = [
        value
        for panel in panels
        for curve in panel.curves
        for value, quantile in zip(curve.values, curve.quantiles, strict=True)
        if 0.01 <= quantile <= 0.99 and value > 0
    ]
    if not central:
        return EcdfFigure(panels, log_axis=False)
    log_axis = max(central) / min(central) > canvas.LOG_AXIS_RATIO
    return EcdfFigure(panels, log_axis, min(central) / 1.1 if log_axis else 0.0, max(central) * 1.06)


def _curve(measure: str, rows: list[Row]) -> Curve:
    rows = sorted(rows, key=lambda row: row["quantile"])
    values, quantiles = tuple(row["value"] for row in rows), tuple(row["quantile"] for row in rows)
    return Curve(measure, values, quantiles, rows[0]["samples"])


# How a measure is drawn: line, width, and whether in the colour of the placement.
MEASURE_STYLE: dict[str, tuple[str, float, bool]] = {
    "busbw_gbs": ("-", 1.7, True),
    "transfer_busbw_gbs": ("--", 1.3, False),
    "exec_time_us": ("-", 1.7, True),
    "transfer_time_us": ("--", 1.3, False),
}


def draw_ecdf(data: EcdfFigure, name: str = "ecdf", unit: str = "GB/s") -> str:
    """A cumulative distribution for each kernel, all on the same axis, with the percentiles in figures."""
    if not data.panels:
        return canvas.nothing(name)
    words = number if unit == "GB/s" else duration

    def panel_of(panel: EcdfPanel, number_of_panel: int) -> str:
        first = panel.curves[0]
        tenths = ", ".join(f"p{q:.0f} {words(first.at(q / 100))}" for q in (10, 50, 90))
        captured = "" if panel.capture_rate is None else f", {percent(panel.capture_rate)} captured"
        facts = f"{tenths}{' GB/s' if unit == 'GB/s' else ''}; n = {count(first.samples)}{captured}"

        def draw(axes: canvas.Axes) -> None:
            for curve in panel.curves:
                style, width, coloured = MEASURE_STYLE[curve.measure]
                colour = colour_of(panel.coll_type) if coloured else INK
                axes.plot(curve.values, curve.quantiles, linestyle=style, linewidth=width, color=colour)
            for quantile in (0.1, 0.5, 0.9):
                axes.plot(first.at(quantile), quantile, marker="o", markersize=4, color=colour_of(panel.coll_type))
            axes.set_title(facts, fontsize=canvas.SMALL)
            canvas.percent_ticks(axes.yaxis, (0, 0.5, 1))
            canvas.number_axis(axes, "x", data.log_axis)
            axes.set_xlim(data.low, data.high)
            axes.grid(True)
            axes.set_xlabel("bus bandwidth, GB/s" if unit == "GB/s" else "execution time, us")
            axes.set_ylabel("share of samples")

        return canvas.chart(f"{name}-{number_of_panel}", 2.0, draw, f"{panel.label}: {facts}", panel.label)

    return "".join(panel_of(panel, position) for position, panel in enumerate(data.panels, start=1))


# A bandwidth below half of what the last rank reaches is mostly waiting.
_MOSTLY_WAITING = 0.5


def bandwidth_section(content: RunContent, table: pa.Table) -> SectionView:
    """Bandwidth of the hot kernels, all on one absolute axis."""
    caption = (
        "A steep curve is steady, a long foot is a slow tail. The dashed curve keeps, of each complete collective, "
        "only the last rank to arrive: the closest to the transfer itself. Dots: p10, p50, p90."
    )
    data = ecdf_figure(table, capture_rates=_capture_rates(content, table))
    if not data.panels:
        return SectionView("", "", notes=("No kernel has a usable bandwidth.",))
    return _section(data, "ecdf", caption, "Bandwidth of the hot kernels, on one axis", _bandwidth_reading(data))


def _section(data: EcdfFigure, name: str, caption: str, title: str, reading: str) -> SectionView:
    dashed = any(curve.measure.startswith("transfer") for panel in data.panels for curve in panel.curves)
    figure = FigureView(
        draw_ecdf(data, name, "us" if name == "time-ecdf" else "GB/s"),
        caption + (" Logarithmic axis." if data.log_axis else ""),
        anchor=f"figure-{name}",
        title=title,
        reading=reading,
        legend=(
            *type_legend(panel.coll_type for panel in data.panels),
            *((LegendEntry("last rank to arrive only", INK, "dashes"),) if dashed else ()),
        ),
    )
    return SectionView("", "", figures=(figure,))


def _bandwidth_reading(data: EcdfFigure) -> str:
    """Which kernel loses most to waiting, by its medians."""
    found = []
    for panel in data.panels:
        medians = {curve.measure: curve.at(0.5) for curve in panel.curves}
        if medians.get("transfer_busbw_gbs"):
            found.append((medians["busbw_gbs"] / medians["transfer_busbw_gbs"], panel.label, medians))
    if not found:
        return "No collective was recorded by every rank, so waiting and transfer cannot be separated."
    ratio, label, medians = min(found)
    if ratio >= _MOSTLY_WAITING:
        return f"Medians with waiting reach {percent(ratio)} of the transfer's or more: little is lost to waiting."
    return (
        f"{label} has a median of {number(medians['busbw_gbs'])} GB/s with waiting and "
        f"{number(medians['transfer_busbw_gbs'])} GB/s without: it mostly waits."
    )


def time_section(content: RunContent, table: pa.Table) -> SectionView:
    """Execution times of the kernels that are called most, small messages included."""
    data = ecdf_figure(table, capture_rates=_capture_rates(content, table))
    if not data.panels:
        return SectionView("", "", notes=("No kernel has a usable time.",))
    first = data.panels[0].curves[0]
    reading = (
        f"{data.panels[0].label}, of which there are most records, takes {duration(first.at(0.5))} in the median and "
        f"{duration(first.at(0.99))} at p99."
    )
    caption = "Waiting included; the dashed curve is the last rank to arrive. Whole microseconds make steps."
    return _section(
        data, "time-ecdf", caption, "Execution times of the kernels with most records, on one axis", reading
    )


def _capture_rates(content: RunContent, curves: pa.Table) -> dict[str, float | None]:
    """By label of a kernel, of those that have curves."""
    kernels = content.tables.get("hot_kernels")
    if kernels is None:
        return {}
    drawn = kernels.filter(pc.is_in(kernels["label"], value_set=pc.unique(curves["label"])))
    return dict(zip(drawn["label"].to_pylist(), drawn["capture_rate"].to_pylist(), strict=True))
