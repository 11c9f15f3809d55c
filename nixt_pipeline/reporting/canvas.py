"""What every drawing shares: the house style, and SVG that can be placed inside a page.

A figure consists of panels, each of them an `<svg>` as wide as a phone, so that the page can set one or several side by
side. Deterministic: no dates, ids derived from the panel's name, no global matplotlib state left changed. Text stays
text (`<text>`), is never parsed as mathematics, and takes its colour from the page, so that one drawing serves a light
and a dark page. Colours are attributes and cells are paths, never `style` or an image: a server that sends a content
security policy of its own (Jenkins, GitLab) has browsers ignore those, and what has no colour is black.
"""

import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from html import escape
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from nixt_pipeline.inert import visible
from nixt_pipeline.quantities import duration, number, percent
from nixt_pipeline.reporting.palette import ALERT_COLOUR, INK, SHARE_CLASSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
else:
    Axes = Any  # matplotlib takes a second to load, and is only when something is drawn

# 324 points: at the 360 CSS pixels that a phone leaves for it, text of 8 points is 9 pixels high.
WIDTH_INCHES = 4.5
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
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
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "text.color": INK,
}
SMALL = 7.5
_MOST_TICKS = 5
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
# The patterns match markup only: in a label, `<` is escaped.
# Groups that matplotlib numbers from 1 in every figure: nothing refers to them, and in one page they would collide.
_NUMBERED_ID = re.compile(r'<g id="[^"]*"')
_TAG = re.compile(r"<[^>]*>")
_STYLE_ATTRIBUTE = re.compile(r' style="([^"]*)"')
_STYLE_ELEMENT = re.compile(r"\s*<defs>\s*<style[^>]*>[^<]*</style>\s*</defs>")
# The shorthand of matplotlib before 3.10: weight and the like, size, family.
_FONT = re.compile(r"(?:.* )?([\d.]+px) (.+)")
# A hundredth of a point is finer than any screen; matplotlib writes a millionth.
_EXCESS_DIGITS = re.compile(r"-?\d+\.\d{3,}(?=[\s,)\"'])")
# What matplotlib spends five lines on for each bar and cell.
_RECTANGLE = re.compile(r"M (\S+) (\S+) \nL (\S+) \2 \nL \3 (\S+) \nL \1 \4 \n(?:L \1 \2 \n)?z")
_CRISP = "crisp-edges"


def render(name: str, height_inches: float, draw: Callable[["Figure"], object], alt: str = "") -> str:
    """The `<svg>` element that `draw` paints on an empty figure. `name` must be unique in the page; `alt` says in words
    what the panel shows."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = StringIO()
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        # A name in a script that the measuring font lacks is still drawn by the browser.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # All values of a short run may be equal: matplotlib then widens the axis, as it should.
        warnings.filterwarnings("ignore", message="Attempting to set identical low and high")
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        # Once: with a layout engine, `savefig` lays out and draws everything twice.
        engine = figure.get_layout_engine()
        if engine and figure.axes:
            engine.execute(figure)
        figure.set_layout_engine(None)
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    text = buffer.getvalue()
    svg = _TAG.sub(lambda tag: _tag(tag.group()), _STYLE_ELEMENT.sub("", text[text.index("<svg") :]))
    label = f'aria-label="{escape(visible(alt or name))}" '
    # What the style element says of everything: the ends of lines are what SVG gives them anyway.
    return svg.replace("<svg ", f'<svg role="img" {label}stroke-linejoin="round" ', 1)


def _tag(tag: str) -> str:
    """A tag of matplotlib's SVG without what is superfluous, and with attributes in place of its style."""
    tag = tag.replace(f'<g id="{_CRISP}"', '<g shape-rendering="crispEdges"')
    tag = _EXCESS_DIGITS.sub(lambda number: f"{float(number.group()):.2f}", _NUMBERED_ID.sub("<g", tag))
    if tag.startswith("<svg "):
        # From points to the pixels of a page that has no style.
        tag = re.sub(r'(width|height)="([\d.]+)pt"', lambda m: f'{m[1]}="{float(m[2]) * 4 / 3:.0f}"', tag)
    return _RECTANGLE.sub(r"M\1 \2H\3V\4H\1z", _STYLE_ATTRIBUTE.sub(_presentation, tag))


def _presentation(style: re.Match[str]) -> str:
    pairs = dict(part.strip().split(":", 1) for part in style[1].split(";") if ":" in part)
    font = _FONT.fullmatch(pairs.pop("font", "").strip())
    if font:
        pairs = {"font-size": font[1], "font-family": font[2], **pairs}
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs.items())


def chart(name: str, height_inches: float, draw: Callable[[Axes], object], alt: str, title: str = "") -> str:
    """`render` for a drawing on one pair of axes. The `title` begins at the panel's left edge: above the axes it would
    start behind the names of the rows."""

    def paint(figure: "Figure") -> None:
        draw(figure.subplots())
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=9.0)

    return render(name, height_inches, paint, alt)


def nothing(name: str) -> str:
    """What stands in for a figure of no data."""
    return render(name, 0.5, lambda figure: figure.text(0.5, 0.5, "nothing to draw", ha="center", va="center"))


def gaps(values: Sequence[float | None]) -> list[float]:
    """Values for matplotlib, which draws nothing at a NaN."""
    return [float("nan") if value is None else value for value in values]


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Short names at the left of horizontal rows, the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.45, -0.55)


def title_rows(axes: Axes, names: Sequence[str], notes: Sequence[str]) -> None:
    """Long names above thin horizontal rows, and at their right end a note: the whole width is left for the bars."""
    for position, (name, note) in enumerate(zip(names, notes, strict=True)):
        axes.text(0, position - 0.3, name, va="bottom", transform=axes.get_yaxis_transform())
        axes.text(1, position - 0.3, note, va="bottom", ha="right", transform=axes.get_yaxis_transform())
    axes.set_yticks([])
    axes.set_ylim(len(names) - 0.6, -0.95)


def percent_axis(axes: Axes, top: float) -> None:
    """An x axis of shares from 0 to `top`, without ticks beyond the whole."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(0, top)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= min(1, top)])
    axes.set_xlim(0, top)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    axes.grid(True, axis="x")


def percent_ticks(axis: Any, ticks: Sequence[float]) -> None:
    """Ticks at shares of 1, written as percentages."""
    axis.set_ticks(ticks, [f"{tick * 100:.0f} %" for tick in ticks])


def number_axis(axes: Axes, which: Literal["x", "y"], logarithmic: bool = False) -> None:
    """Few plain numbers: the default formatters write offsets and mathematics, and let wide numbers overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    if logarithmic:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(base=10, numticks=6))
        # Dozens of unnamed ticks take longer to draw than all else in a panel.
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def duration_axis(axes: Axes, which: Literal["x", "y"], lowest_us: float) -> None:
    """A logarithmic axis of microseconds between its limits, which may be 0, each tick in the unit that suits it."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("symlog", linthresh=lowest_us, linscale=0.5)
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    round_numbers = [digit * 10.0**exponent for exponent in range(12) for digit in (1, 2, 5)]
    ticks = [tick for tick in round_numbers if max(low, lowest_us) <= tick <= high]
    if len(ticks) > _MOST_TICKS:
        ticks = [tick for tick in ticks if str(tick).startswith("1")]
    axis.set_major_locator(FixedLocator([0.0, *ticks[:: 1 + len(ticks) // _MOST_TICKS]]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value) if value else "0"))


def share_map(
    axes: Axes, shares: Sequence[Sequence[float | None]], width: float, start: float = 0.0, scale: float = 1.0
) -> None:
    """A map of shares in classes of colour, whose limits are multiplied by `scale`: a row for each sequence, the first
    at the top, `width` wide from `start`; nothing where there is no value."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    column = width / len(shares[0])
    corners: dict[str, list[tuple[float, float]]] = {}
    for row, values in enumerate(shares):
        first = 0
        for colour, run in groupby(values, lambda value: _share_colour(value, scale)):
            after = first + len(list(run))
            left, right = start + first * column, start + after * column
            if colour:
                corners.setdefault(colour, []).extend(
                    [(left, row - 0.5), (right, row - 0.5), (right, row + 0.5), (left, row + 0.5), (left, row - 0.5)]
                )
            first = after
    for colour, points in corners.items():
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(points) // 5)
        axes.add_patch(PathPatch(Path(points, codes), facecolor=colour, linewidth=0, gid=_CRISP))
    axes.set_xlim(start, start + width)
    axes.set_ylim(len(shares) - 0.5, -0.5)


def _share_colour(value: float | None, scale: float) -> str | None:
    if value is None or value != value:
        return None
    position = bisect_right([upper * scale for upper, _ in SHARE_CLASSES], value)
    return SHARE_CLASSES[min(position, len(SHARE_CLASSES) - 1)][1]


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit for an axis that spans `seconds`, and its length in seconds."""
    if seconds < 0.1:
        return "milliseconds", 1e-3
    if seconds < 180:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 3 * 3600 else ("hours", 3600.0)


def mark_moments(axes: Axes, moments: Sequence[float]) -> None:
    """Vertical lines at onsets of findings."""
    for moment in moments:
        axes.axvline(moment, color=ALERT_COLOUR, linewidth=1.2, linestyle=(0, (1, 1.5)))


LABEL_CHARACTERS = 42
SHORT_LABEL_CHARACTERS = 24
# Beyond this ratio between the largest and the smallest value a linear axis hides the small ones.
LOG_AXIS_RATIO = 20.0
