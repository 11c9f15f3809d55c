"""Bandwidth over time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import duration, number, percent, utc
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import message_sizes, type_legend, type_order
from nixt_pipeline.reporting.palette import INK, colour_of
from nixt_pipeline.reporting.rows import Row, first_rows, matching, most_recorded
from nixt_pipeline.reporting.sections.launches import launch_section
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView

MAX_TIME_PANELS = 8
# A function that runs once per step leaves every other bin empty; a longer silence shows as a gap.
MAX_BRIDGED_BINS = 3


@dataclass(frozen=True)
class TimePanel:
    """Bandwidth over time of one function and placement. Lists run parallel; None marks a gap."""

    coll: str
    coll_type: str | None
    seconds: tuple[float, ...]
    p25: tuple[float | None, ...]
    p50: tuple[float | None, ...]
    p75: tuple[float | None, ...]
    transfer: tuple[float | None, ...]


@dataclass(frozen=True)
class TimeFigure:
    """One launch; `seconds` of its panels count from `start_us`."""

    start_us: int
    end_us: int
    panels: tuple[TimePanel, ...]


def time_figures(temporal: pa.Table, limit: int = MAX_TIME_PANELS) -> tuple[TimeFigure, ...]:
    """One figure for each launch (incarnation) in `temporal_correlation`, earliest first."""
    launches = (
        matching(temporal, {"incarnation": number}) for number in pc.unique(temporal["incarnation"]).to_pylist()
    )
    return tuple(sorted((_time_figure(launch, limit) for launch in launches), key=lambda figure: figure.start_us))


def _time_figure(launch: pa.Table, limit: int) -> TimeFigure:
    start_us = pc.min(launch["bin_start_us"]).as_py()
    end_us = pc.max(pc.add(launch["bin_start_us"], launch["bin_width_us"])).as_py()
    chosen = sorted(most_recorded(launch, limit), key=lambda key: (type_order(key[1]), key[0]))
    panels = tuple(
        _time_panel(coll, coll_type, _series(launch, coll, coll_type), start_us) for coll, coll_type in chosen
    )
    return TimeFigure(start_us, end_us, panels)


def _series(launch: pa.Table, coll: str, coll_type: str | None) -> list[Row]:
    bins = matching(launch, {"coll": coll, "coll_type": coll_type})
    return first_rows(bins, bins.num_rows, "bin_start_us")


def _time_panel(coll: str, coll_type: str | None, rows: list[Row], start_us: int) -> TimePanel:
    """The series of one panel, drawn at the middle of each bin, with a None where more than a few bins are missing."""
    seconds: list[float] = []
    series: dict[str, list[float | None]] = {
        name: [] for name in ("busbw_p25_gbs", "busbw_p50_gbs", "busbw_p75_gbs", "transfer_busbw_p50_gbs")
    }
    for before, row in pairwise([None, *rows]):
        assert row is not None
        middle = (row["bin_start_us"] + row["bin_width_us"] / 2 - start_us) / 1e6
        silent_us = row["bin_start_us"] - (before["bin_start_us"] + before["bin_width_us"]) if before else 0
        if silent_us > MAX_BRIDGED_BINS * row["bin_width_us"]:
            seconds.append((seconds[-1] + middle) / 2)
            for values in series.values():
                values.append(None)
        seconds.append(middle)
        for name, values in series.items():
            values.append(row[name])
    return TimePanel(coll, coll_type, tuple(seconds), *(tuple(values) for values in series.values()))


def draw_time(data: TimeFigure, name: str, onsets_us: Sequence[int] = ()) -> str:
    """Bandwidth over time: band p25 to p75, line for the median, dashes for the transfer; onsets of findings marked."""
    unit, scale = canvas.time_unit((data.end_us - data.start_us) / 1e6)
    moments = [(onset - data.start_us) / 1e6 / scale for onset in onsets_us if data.start_us <= onset <= data.end_us]

    def panel_of(panel: TimePanel, position: int) -> str:
        def draw(axes: canvas.Axes) -> None:
            at, colour = [second / scale for second in panel.seconds], colour_of(panel.coll_type)
            axes.fill_between(at, canvas.gaps(panel.p25), canvas.gaps(panel.p75), color=colour, alpha=0.3, linewidth=0)
            axes.plot(at, canvas.gaps(panel.p50), color=colour, linewidth=1.5)
            axes.plot(at, canvas.gaps(panel.transfer), color=INK, linewidth=1.1, linestyle="--")
            # A line through a single bin is nothing to see.
            alone = _isolated(panel.p50)
            dots = [canvas.gaps(panel.p50)[index] for index in alone]
            axes.plot([at[index] for index in alone], dots, color=colour, linewidth=0, marker=".")
            canvas.mark_moments(axes, moments)
            drawn = [value for value in (*panel.p50, *panel.p75, *panel.transfer) if value is not None]
            axes.set_ylim(0, max(drawn, default=1.0) * 1.08 or 1.0)
            axes.set_xlim(0, (data.end_us - data.start_us) / 1e6 / scale)
            canvas.number_axis(axes, "x")
            canvas.number_axis(axes, "y")
            axes.grid(True)
            axes.set_xlabel(f"{unit} since the start")
            axes.set_ylabel("bus bandwidth, GB/s")

        medians = [value for value in panel.p50 if value is not None]
        spread = f"medians from {number(min(medians))} to {number(max(medians))} GB/s" if medians else "no bandwidth"
        alt = f"{shorten(panel.coll, 24)} {panel.coll_type} over time: {spread}"
        title = f"{shorten(panel.coll, 20)} {panel.coll_type or ''}"
        return canvas.chart(f"{name}-{position}", 1.9, draw, alt, title)

    drawn = (panel_of(panel, position) for position, panel in enumerate(data.panels, start=1))
    return "".join(drawn) or canvas.nothing(name)


def _isolated(values: Sequence[float | None]) -> list[int]:
    """Positions of values between two gaps."""
    padded = [None, *values, None]
    return [i for i, value in enumerate(values) if value is not None and padded[i] is None and padded[i + 2] is None]


# A transfer that stays above this share of its median is steady.
_STEADY_SHARE = 0.9


def over_time_section(content: RunContent, table: pa.Table) -> SectionView:
    """A figure for each of the first launches, with the onsets of findings."""
    section = launch_section(content, table, "time", time_figures, _view)
    return replace(section, notes=(message_sizes(table), *section.notes))


def _view(launch: TimeFigure, name: str, onsets_us: Sequence[int]) -> FigureView:
    lines = "Line: median; band: p25 to p75; dashes: median of the last rank to arrive. Scales differ by panel."
    return FigureView(
        draw_time(launch, name, onsets_us),
        f"{utc(launch.start_us)} to {utc(launch.end_us)}. {lines}",
        title="bandwidth over time",
        reading=_steadiness(launch),
        legend=(
            *type_legend(panel.coll_type for panel in launch.panels),
            LegendEntry("median of the last rank to arrive", INK, "dashes"),
        ),
    )


def _steadiness(launch: TimeFigure) -> str:
    """Which transfer fell most below its own median, and when: transfers do not contain the waiting."""
    worst: tuple[float, str] | None = None
    for panel in launch.panels:
        known = [(value, second) for value, second in zip(panel.transfer, panel.seconds, strict=True) if value]
        if known:
            middle = median(value for value, _ in known)
            lowest, second = min(known)
            words = (
                f"{plain(panel.coll)} {plain(panel.coll_type)} transfers fall at most to {percent(lowest / middle)} of "
                f"their median, {duration(second * 1e6)} after the start."
            )
            worst = min(worst or (2.0, ""), (lowest / middle, words))
    if worst is None:
        return "No collective was recorded by every rank, so transfers cannot be separated."
    if worst[0] > _STEADY_SHARE:
        return f"Transfers are steady: no bin falls below {percent(worst[0])} of its panel's median."
    return worst[1]
