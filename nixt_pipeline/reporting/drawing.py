"""Draw the figures of `figures`, a panel for each part that can be read alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nixt_pipeline.reporting import figures, payload, shapes
from nixt_pipeline.reporting.canvas import (
    SMALL,
    gaps,
    head,
    mark_moments,
    name_rows,
    nothing,
    number_axis,
    percent_axis,
    percent_ticks,
    render,
    time_unit,
    title_rows,
)
from nixt_pipeline.reporting.palette import DECADE_COLOURS, INK, NEUTRAL_COLOUR, colour_of
from nixt_pipeline.reporting.text import count, duration, number, percent, shorten, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEW_SIZES = 5


def draw_payload(data: payload.PayloadBars) -> str:
    """Stacked bars: share of the observed payload by function and placement."""
    if not data.total_bytes:
        return nothing("payload")
    names = [shorten(coll, figures.LABEL_CHARACTERS) for coll, _ in data.bars]
    totals = [sum(segment.payload_bytes for segment in segments) for _, segments in data.bars]

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, (_, segments) in enumerate(data.bars):
            left = 0.0
            for segment in segments:
                share = segment.payload_bytes / data.total_bytes
                axes.barh(position, share, left=left, height=0.5, color=colour_of(segment.coll_type))
                left += share
        title_rows(axes, names, [f"{percent(total / data.total_bytes)}, {size(total)}" for total in totals])
        percent_axis(axes, max(totals) / data.total_bytes * 1.02)
        axes.set_xlabel("share of the observed payload")

    shares = (f"{name} {percent(total / data.total_bytes)}" for name, total in zip(names, totals, strict=True))
    return render("payload", 0.6 + 0.36 * len(data.bars), draw, "Share of the observed payload: " + ", ".join(shares))


def draw_kernels(data: figures.KernelBars) -> str:
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


# How a measure is drawn: line, width, and whether in the colour of the placement.
MEASURE_STYLE: dict[str, tuple[str, float, bool]] = {
    "busbw_gbs": ("-", 1.7, True),
    "transfer_busbw_gbs": ("--", 1.3, False),
    "exec_time_us": ("-", 1.7, True),
    "transfer_time_us": ("--", 1.3, False),
}


def draw_ecdf(data: figures.EcdfFigure, name: str = "ecdf", unit: str = "GB/s") -> str:
    """A cumulative distribution for each kernel, all on the same axis, with the percentiles in figures."""
    if not data.panels:
        return nothing(name)
    words = number if unit == "GB/s" else duration

    def panel_of(panel: figures.EcdfPanel, number_of_panel: int) -> str:
        first = panel.curves[0]
        tenths = ", ".join(f"p{q:.0f} {words(first.at(q / 100))}" for q in (10, 50, 90))
        captured = "" if panel.capture_rate is None else f", {percent(panel.capture_rate)} captured"
        facts = f"{tenths}{' GB/s' if unit == 'GB/s' else ''}; n = {count(first.samples)}{captured}"

        def draw(figure: "Figure") -> None:
            axes = figure.subplots()
            for curve in panel.curves:
                style, width, coloured = MEASURE_STYLE[curve.measure]
                colour = colour_of(panel.coll_type) if coloured else INK
                axes.plot(curve.values, curve.quantiles, linestyle=style, linewidth=width, color=colour)
            for quantile in (0.1, 0.5, 0.9):
                axes.plot(first.at(quantile), quantile, marker="o", markersize=4, color=colour_of(panel.coll_type))
            head(figure, panel.label)
            axes.set_title(facts, fontsize=SMALL)
            percent_ticks(axes.yaxis, (0, 0.5, 1))
            number_axis(axes, "x", data.log_axis)
            axes.set_xlim(data.low, data.high)
            axes.grid(True)
            axes.set_xlabel("bus bandwidth, GB/s" if unit == "GB/s" else "execution time, us")
            axes.set_ylabel("share of samples")

        return render(f"{name}-{number_of_panel}", 2.0, draw, f"{panel.label}: {facts}")

    return "".join(panel_of(panel, position) for position, panel in enumerate(data.panels, start=1))


def draw_time(data: figures.TimeFigure, name: str, onsets_us: Sequence[int] = ()) -> str:
    """Bandwidth over time: band p25 to p75, line for the median, dashes for the transfer; onsets of findings marked."""
    unit, scale = time_unit((data.end_us - data.start_us) / 1e6)
    moments = [(onset - data.start_us) / 1e6 / scale for onset in onsets_us if data.start_us <= onset <= data.end_us]

    def panel_of(panel: figures.TimePanel, position: int) -> str:
        def draw(figure: "Figure") -> None:
            axes = figure.subplots()
            at, colour = [second / scale for second in panel.seconds], colour_of(panel.coll_type)
            axes.fill_between(at, gaps(panel.p25), gaps(panel.p75), color=colour, alpha=0.3, linewidth=0)
            axes.plot(at, gaps(panel.p50), color=colour, linewidth=1.5)
            axes.plot(at, gaps(panel.transfer), color=INK, linewidth=1.1, linestyle="--")
            # A line through a single bin is nothing to see.
            alone = _isolated(panel.p50)
            dots = [gaps(panel.p50)[index] for index in alone]
            axes.plot([at[index] for index in alone], dots, color=colour, linewidth=0, marker=".")
            mark_moments(axes, moments)
            head(figure, f"{shorten(panel.coll, 20)} {panel.coll_type or ''}")
            drawn = [value for value in (*panel.p50, *panel.p75, *panel.transfer) if value is not None]
            axes.set_ylim(0, max(drawn, default=1.0) * 1.08 or 1.0)
            axes.set_xlim(0, (data.end_us - data.start_us) / 1e6 / scale)
            number_axis(axes, "x")
            number_axis(axes, "y")
            axes.grid(True)
            axes.set_xlabel(f"{unit} since the start")
            axes.set_ylabel("bus bandwidth, GB/s")

        medians = [value for value in panel.p50 if value is not None]
        spread = f"medians from {number(min(medians))} to {number(max(medians))} GB/s" if medians else "no bandwidth"
        return render(
            f"{name}-{position}", 1.9, draw, f"{shorten(panel.coll, 24)} {panel.coll_type} over time: {spread}"
        )

    return "".join(panel_of(panel, position) for position, panel in enumerate(data.panels, start=1)) or nothing(name)


def draw_last_arrivals(data: figures.LastArrivals, name: str) -> str:
    """Bars for the observed share of last arrivals, a tick for the share that chance alone gives."""
    if not data.rows:
        return nothing(name)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        positions = range(len(data.rows))
        axes.barh(positions, [row.observed for row in data.rows], height=0.42, color=NEUTRAL_COLOUR)
        expected = [row.expected for row in data.rows]
        axes.plot(expected, positions, linewidth=0, marker="|", markersize=12, markeredgewidth=2, color=INK)
        notes = [f"{percent(row.observed)} of {count(row.cells)}" for row in data.rows]
        title_rows(axes, [row.label for row in data.rows], notes)
        percent_axis(axes, max(max(row.observed, row.expected) for row in data.rows) * 1.04)
        axes.set_xlabel("share of complete collectives in which it arrived last")

    first = data.rows[0]
    alt = f"{first.label} arrived last in {percent(first.observed)} of {count(first.cells)} collectives"
    return render(name, 0.6 + 0.34 * len(data.rows), draw, f"{alt}, expected {percent(first.expected)}")


def draw_ranges(panels: Sequence[figures.RangePanel], name: str) -> str:
    """Range bars p10 to p90 with a dot at the median, a panel for each function and placement."""

    def panel_of(panel: figures.RangePanel, position: int) -> str:
        def draw(figure: "Figure") -> None:
            axes = figure.subplots()
            colour, positions = colour_of(panel.coll_type), range(len(panel.ranges))
            lows, highs = [item.p10 for item in panel.ranges], [item.p90 for item in panel.ranges]
            axes.hlines(positions, lows, highs, color=colour, linewidth=5, alpha=0.55)
            medians = [item.p50 for item in panel.ranges]
            axes.plot(medians, positions, color=colour, linewidth=0, marker="o", markersize=5)
            name_rows(axes, [item.label for item in panel.ranges])
            head(figure, f"{shorten(panel.coll, 20)} {panel.coll_type or ''}")
            axes.set_xlim(left=0)
            number_axis(axes, "x")
            axes.grid(True, axis="x")
            axes.set_xlabel("bus bandwidth, GB/s")

        ends = f"medians from {number(panel.ranges[0].p50)} to {number(panel.ranges[-1].p50)} GB/s"
        alt = f"{shorten(panel.coll, 24)} {panel.coll_type}: {ends}"
        return render(f"{name}-{position}", 0.9 + 0.19 * len(panel.ranges), draw, alt)

    return "".join(panel_of(panel, position) for position, panel in enumerate(panels, start=1)) or nothing(name)


def draw_heat_map(data: shapes.HeatMap) -> str:
    """Squares coloured by the decade of the number of records; nothing drawn where there are none."""
    from matplotlib.patches import Rectangle

    if not data.cells:
        return nothing("heat-map")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for row, column, records in data.cells:
            colour = DECADE_COLOURS[decade_of(records)]
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor=INK, linewidth=0.5))
        name_rows(axes, [label for label, _ in data.rows])
        for position, (_, coll_type) in enumerate(data.rows):
            beside: dict[str, Any] = {"clip_on": False, "transform": axes.get_yaxis_transform()}
            axes.plot([-0.03], [position], marker="s", markersize=5, color=colour_of(coll_type), **beside)
        axes.tick_params(axis="y", pad=13)
        axes.set_xlim(-0.5, len(data.columns) - 0.5)
        many = len(data.columns) > _FEW_SIZES
        slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if many else {}
        axes.set_xticks(range(len(data.columns)), data.columns, **slanted)
        axes.set_xlabel("message size" + (", from this size up" if data.sizes_grouped else ""))
        axes.grid(True)

    alt = f"{len(data.cells)} combinations of {len(data.rows)} communicator shapes and {len(data.columns)} sizes"
    return render("heat-map", 1.2 + 0.22 * len(data.rows), draw, alt)


def decade_of(records: int) -> int:
    """Index into `DECADE_COLOURS`."""
    return min(len(str(records)), len(DECADE_COLOURS)) - 1


def decade_label(decade: int) -> str:
    """`100–999 records`; the last decade is open."""  # noqa: RUF002
    open_ended = decade == len(DECADE_COLOURS) - 1
    return f"{10**decade:,}{'+' if open_ended else f'–{10 ** (decade + 1) - 1:,}'} records"  # noqa: RUF001


def _isolated(values: Sequence[float | None]) -> list[int]:
    """Positions of values between two gaps."""
    padded = [None, *values, None]
    return [i for i, value in enumerate(values) if value is not None and padded[i] is None and padded[i + 2] is None]
