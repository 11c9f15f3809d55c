"""Draw the figures of `figures` as SVG to be placed inside a page.

Deterministic: no dates, ids derived from the figure's name, no global matplotlib state left changed. Text stays text
(`<text>`), is never parsed as mathematics, and takes its colour from the page, so that one drawing serves a light and a
dark page.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

from nixt_pipeline.reporting import figures
from nixt_pipeline.reporting.palette import DECADE_COLOURS, INK, NEUTRAL_COLOUR, colour_of
from nixt_pipeline.reporting.text import count, number, percent, shorten, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_INCHES = 8.6
_PANEL_COLUMNS = 2
_FEW_SIZES = 8
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
# The two patterns match markup only: in a label, `<` is escaped.
# Groups that matplotlib numbers from 1 in every figure: nothing refers to them, and in one page they would collide.
_NUMBERED_ID = re.compile(r'<g id="[^"]*"')
_TAG = re.compile(r"<[^>]*>")
# A hundredth of a point is finer than any screen; matplotlib writes a millionth.
_EXCESS_DIGITS = re.compile(r"(\.\d\d)\d+")
_LEGEND_ABOVE: dict[str, Any] = {"loc": "outside upper left", "handlelength": 1.2, "columnspacing": 1.5}


def render(name: str, height_inches: float, draw: Callable[["Figure"], object]) -> str:
    """The `<svg>` element that `draw` paints on an empty figure. `name` must be unique in the page."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = StringIO()
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        # A name in a script that the measuring font lacks is still drawn by the browser.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    text = buffer.getvalue()
    svg = _NUMBERED_ID.sub("<g", text[text.index("<svg") :])
    svg = _TAG.sub(lambda tag: _EXCESS_DIGITS.sub(r"\1", tag.group()), svg)
    return re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg).replace(
        "<svg ", '<svg role="img" ', 1
    )


def _nothing(name: str) -> str:
    """What stands in for a figure of no data."""
    return render(name, 0.5, lambda figure: figure.text(0.5, 0.5, "nothing to draw", ha="center", va="center"))


def draw_payload(data: figures.PayloadBars) -> str:
    """Stacked bars: share of the observed payload by function and placement."""
    if not data.total_bytes:
        return _nothing("payload")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, (_, segments) in enumerate(data.bars):
            left = 0.0
            for segment in segments:
                share = segment.payload_bytes / data.total_bytes
                axes.barh(position, share, left=left, height=0.62, color=colour_of(segment.coll_type))
                left += share
            total = sum(segment.payload_bytes for segment in segments)
            axes.text(left + 0.008, position, f"{percent(left)} ({size(total)})", va="center")
        _name_rows(axes, [shorten(coll, figures.LABEL_CHARACTERS) for coll, _ in data.bars])
        _percent_axis(
            axes, max((sum(s.payload_bytes for s in segments) for _, segments in data.bars)) / data.total_bytes * 1.25
        )
        axes.set_xlabel("share of the observed payload")
        _type_legend(figure, [segment.coll_type for _, segments in data.bars for segment in segments])

    return render("payload", 1.3 + 0.34 * len(data.bars), draw)


def draw_kernels(data: figures.KernelBars) -> str:
    """Bars for the share of each hot kernel, dots for the cumulative share."""
    if not data.kernels:
        return _nothing("kernels")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, kernel in enumerate(data.kernels):
            axes.barh(position, kernel.share, height=0.62, color=colour_of(kernel.coll_type))
        axes.plot(
            [kernel.cumulative for kernel in data.kernels],
            range(len(data.kernels)),
            color=INK,
            linewidth=1,
            marker="o",
            markersize=4,
            label="cumulative share",
            clip_on=False,
        )
        for position, kernel in enumerate(data.kernels):
            axes.text(1.02, position, percent(kernel.share), va="center")
        axes.text(1.02, -0.6, "share", va="bottom")
        _name_rows(axes, [kernel.label for kernel in data.kernels])
        _percent_axis(axes, 1.0)
        axes.set_xlabel("share of the observed payload")
        _type_legend(figure, [kernel.coll_type for kernel in data.kernels], axes)

    return render("kernels", 1.3 + 0.3 * len(data.kernels), draw)


_MEASURE_STYLE: dict[Any, Any] = {
    "busbw_gbs": ("every rank, waiting included", "-", 1.6),
    "transfer_busbw_gbs": ("last rank to arrive only", "--", 1.4),
}


def draw_ecdf(data: figures.EcdfFigure) -> str:
    """Small multiples of cumulative distributions on one shared bandwidth axis."""
    if not data.panels:
        return _nothing("ecdf")

    def draw(figure: "Figure") -> None:
        panels = _grid(figure, len(data.panels), sharex=True, sharey=True)
        for axes, panel in zip(panels, data.panels, strict=True):
            for curve in panel.curves:
                _, style, width = _MEASURE_STYLE[curve.measure]
                colour = colour_of(panel.coll_type) if curve.measure == "busbw_gbs" else INK
                axes.plot(curve.values, curve.quantiles, linestyle=style, linewidth=width, color=colour)
            axes.set_title(panel.label, loc="left")
            _percent_ticks(axes.yaxis, (0, 0.5, 1))
            axes.grid(True)
        # The axis is shared: its limits can only be set when every curve is drawn.
        if data.log_axis:
            _log_bandwidth_axis(panels[0])
        else:
            panels[0].set_xlim(left=0)
        figure.supxlabel("bus bandwidth, GB/s" + (" (logarithmic)" if data.log_axis else ""), fontsize=9)
        figure.supylabel("share of samples at or below", fontsize=9)
        present = {curve.measure for panel in data.panels for curve in panel.curves}
        styles = [(label, INK, style) for measure, (label, style, _) in _MEASURE_STYLE.items() if measure in present]
        _type_legend(figure, [panel.coll_type for panel in data.panels], lines=styles)

    return render("ecdf", 1.2 + 1.35 * _grid_rows(len(data.panels)), draw)


def draw_time(data: figures.TimeFigure, name: str) -> str:
    """Small multiples over time: band p25 to p75, line for the median, dashes for the transfer bandwidth."""

    def draw(figure: "Figure") -> None:
        unit, scale = _time_unit((data.end_us - data.start_us) / 1e6)
        panels = _grid(figure, len(data.panels), sharex=True, sharey=False)
        for axes, panel in zip(panels, data.panels, strict=True):
            moments, colour = [second / scale for second in panel.seconds], colour_of(panel.coll_type)
            axes.fill_between(moments, _gaps(panel.p25), _gaps(panel.p75), color=colour, alpha=0.3, linewidth=0)
            axes.plot(moments, _gaps(panel.p50), color=colour, linewidth=1.5)
            axes.plot(moments, _gaps(panel.transfer), color=INK, linewidth=1.1, linestyle="--")
            # A line through a single bin is nothing to see.
            alone = _isolated(panel.p50)
            dots = [_gaps(panel.p50)[i] for i in alone]
            axes.plot([moments[i] for i in alone], dots, color=colour, linewidth=0, marker=".")
            axes.set_title(f"{shorten(panel.coll, 20)} {panel.coll_type or ''}", loc="left")
            drawn = [value for value in (*panel.p50, *panel.p75, *panel.transfer) if value is not None]
            axes.set_ylim(0, max(drawn, default=1.0) * 1.08 or 1.0)
            axes.grid(True)
        panels[0].set_xlim(0, (data.end_us - data.start_us) / 1e6 / scale)
        figure.supxlabel(f"{unit} since the start", fontsize=9)
        figure.supylabel("bus bandwidth, GB/s", fontsize=9)
        _type_legend(
            figure,
            [panel.coll_type for panel in data.panels],
            lines=[("median; band: p25 to p75", INK, "-"), ("median of the last rank to arrive", INK, "--")],
        )

    return render(name, 1.2 + 1.5 * _grid_rows(len(data.panels)), draw)


def draw_last_arrivals(data: figures.LastArrivals, name: str) -> str:
    """Bars for the observed share of last arrivals, a tick for the share that chance alone gives."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not data.rows:
        return _nothing(name)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        positions = range(len(data.rows))
        axes.barh(positions, [row.observed for row in data.rows], height=0.6, color=NEUTRAL_COLOUR)
        axes.plot(
            [row.expected for row in data.rows],
            positions,
            linewidth=0,
            marker="|",
            markersize=13,
            markeredgewidth=2,
            color=INK,
        )
        top = max(max(row.observed, row.expected) for row in data.rows)
        for position, row in enumerate(data.rows):
            end = max(row.observed, row.expected) + top * 0.015
            axes.text(end, position, f"{percent(row.observed)} of {count(row.cells)}", va="center")
        _name_rows(axes, [row.label for row in data.rows])
        _percent_axis(axes, top * 1.22)
        axes.set_xlabel("share of complete collectives in which it arrived last")
        observed = Patch(color=NEUTRAL_COLOUR, label="observed")
        expected = Line2D(
            [], [], color=INK, linewidth=0, marker="|", markersize=11, markeredgewidth=2, label="if all were equal"
        )
        figure.legend(handles=[observed, expected], ncols=2, **_LEGEND_ABOVE)

    return render(name, 1.3 + 0.27 * len(data.rows), draw)


def draw_ranges(panels: Sequence[figures.RangePanel], name: str) -> str:
    """Range bars p10 to p90 with a dot at the median, a panel for each function and placement."""
    if not panels:
        return _nothing(name)

    def draw(figure: "Figure") -> None:
        for axes, panel in zip(_grid(figure, len(panels), sharex=False, sharey=False), panels, strict=True):
            colour = colour_of(panel.coll_type)
            positions = range(len(panel.ranges))
            lows, highs = [item.p10 for item in panel.ranges], [item.p90 for item in panel.ranges]
            axes.hlines(positions, lows, highs, color=colour, linewidth=5, alpha=0.55)
            axes.plot(
                [item.p50 for item in panel.ranges], positions, color=colour, linewidth=0, marker="o", markersize=5
            )
            _name_rows(axes, [item.label for item in panel.ranges])
            axes.set_title(f"{shorten(panel.coll, 20)} {panel.coll_type or ''}", loc="left")
            axes.set_xlim(left=0)
            axes.grid(True, axis="x")
        figure.supxlabel("bus bandwidth, GB/s: dot at the median, bar from p10 to p90", fontsize=9)

    longest = max(len(panel.ranges) for panel in panels)
    return render(name, 0.5 + _grid_rows(len(panels)) * (0.65 + 0.2 * longest), draw)


def draw_heat_map(data: figures.HeatMap) -> str:
    """Squares coloured by the decade of the number of records; nothing drawn where there are none."""
    from matplotlib.patches import Patch, Rectangle

    if not data.cells:
        return _nothing("heat-map")

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for row, column, records in data.cells:
            colour = DECADE_COLOURS[_decade(records)]
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor=INK, linewidth=0.5))
        _name_rows(axes, [label for label, _ in data.rows])
        for position, (_, coll_type) in enumerate(data.rows):
            beside_axis = axes.get_yaxis_transform()
            axes.plot(
                [-0.011],
                [position],
                marker="s",
                markersize=6,
                color=colour_of(coll_type),
                clip_on=False,
                transform=beside_axis,
            )
        axes.tick_params(axis="y", pad=13)
        axes.set_xlim(-0.5, len(data.columns) - 0.5)
        many = len(data.columns) > _FEW_SIZES
        slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if many else {}
        axes.set_xticks(range(len(data.columns)), data.columns, **slanted)
        axes.set_xlabel("message size" + (", from this power of two up" if data.sizes_grouped else ""))
        axes.grid(True)
        decades = sorted({_decade(records) for _, _, records in data.cells})
        handles = [
            Patch(facecolor=DECADE_COLOURS[d], edgecolor=INK, linewidth=0.5, label=_decade_label(d)) for d in decades
        ]
        types = figures.types_present(coll_type for _, coll_type in data.rows)
        handles += [Patch(color=colour_of(name), label=name) for name in types]
        figure.legend(handles=handles, ncols=5, **_LEGEND_ABOVE)

    return render("heat-map", 2.0 + 0.26 * len(data.rows), draw)


def _decade(records: int) -> int:
    return min(len(str(records)), len(DECADE_COLOURS)) - 1


def _decade_label(decade: int) -> str:
    open_ended = decade == len(DECADE_COLOURS) - 1
    return f"{10**decade:,}{'+' if open_ended else f'–{10 ** (decade + 1) - 1:,}'} records"  # noqa: RUF001


def _gaps(values: Sequence[float | None]) -> list[float]:
    """Values for matplotlib, which draws nothing at a NaN."""
    return [float("nan") if value is None else value for value in values]


def _isolated(values: Sequence[float | None]) -> list[int]:
    """Positions of values between two gaps."""
    padded = [None, *values, None]
    return [i for i, value in enumerate(values) if value is not None and padded[i] is None and padded[i + 2] is None]


def _grid_rows(panels: int) -> int:
    return -(-panels // _PANEL_COLUMNS)


def _grid(figure: "Figure", panels: int, sharex: bool, sharey: bool) -> list["Axes"]:
    """Axes in two columns; a left-over one is hidden, and the panel above it keeps its tick labels."""
    rows = _grid_rows(panels)
    columns = min(panels, _PANEL_COLUMNS)
    grid = list(figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False).flat)
    for axes in grid[panels:]:
        axes.set_visible(False)
        grid[panels - 2].tick_params(labelbottom=True)
    return grid[:panels]


def _name_rows(axes: "Axes", names: Sequence[str]) -> None:
    """Names for horizontal rows, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.45, -0.55)


def _percent_axis(axes: "Axes", top: float) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xlim(0, top)
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= 1])
    axes.set_xlim(0, top)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:.3g} %"))
    axes.grid(True, axis="x")


def _percent_ticks(axis: Any, ticks: Sequence[float]) -> None:
    axis.set_ticks(ticks, [f"{tick * 100:.0f} %" for tick in ticks])


def _log_bandwidth_axis(axes: "Axes") -> None:
    """Decades with plain numbers: the default formatter writes mathematics."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _time_unit(seconds: float) -> tuple[str, float]:
    """The unit for an axis that spans `seconds`, and its length in seconds."""
    if seconds < 180:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 3 * 3600 else ("hours", 3600.0)


def _type_legend(
    figure: "Figure",
    coll_types: Sequence[str | None],
    axes: "Axes | None" = None,
    lines: Sequence[tuple[str, str, Literal["-", "--"]]] = (),
) -> None:
    """One legend above the panels: placements, the labelled lines of `axes`, the given (label, colour, style)."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=colour_of(name), label=name) for name in figures.types_present(coll_types)]
    if axes is not None:
        handles += axes.get_legend_handles_labels()[0]
    handles += [Line2D([], [], color=colour, linestyle=style, label=label) for label, colour, style in lines]
    if handles:
        figure.legend(handles=handles, ncols=len(handles), **_LEGEND_ABOVE)
