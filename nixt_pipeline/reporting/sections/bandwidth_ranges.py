"""Bandwidth by host or process, as ranges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import number
from nixt_pipeline.reporting.canvas import SHORT_LABEL_CHARACTERS, head, name_rows, nothing, number_axis, render
from nixt_pipeline.reporting.palette import colour_of
from nixt_pipeline.reporting.rows import matching, most_recorded
from nixt_pipeline.reporting.sections.last_arrivals import MAX_ENTITIES, at_level
from nixt_pipeline.reporting.text import unique_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_RANGE_PANELS = 4


@dataclass(frozen=True)
class Range:
    """Bandwidth of one entity, GB/s."""

    label: str
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class RangePanel:
    """Entities by median, lowest first; when `total` is larger these are the lowest and the highest."""

    coll: str
    coll_type: str | None
    ranges: tuple[Range, ...]
    total: int


def range_panels(spatial: pa.Table, level: str, limit: int = MAX_ENTITIES) -> tuple[RangePanel, ...]:
    """Bandwidth ranges by host or process for the functions and placements with most records."""
    rows = at_level(spatial, level)
    timed = rows.filter(pc.is_valid(rows["busbw_p50_gbs"]))
    return tuple(_range_panel(*key, timed, limit) for key in most_recorded(timed, MAX_RANGE_PANELS))


def _range_panel(coll: str, coll_type: str | None, timed: pa.Table, limit: int) -> RangePanel:
    rows = matching(timed, {"coll": coll, "coll_type": coll_type})
    order = rows.take(pc.sort_indices(rows, sort_keys=[("busbw_p50_gbs", "ascending"), ("entity", "ascending")]))
    half = limit // 2
    highest = max(half, rows.num_rows - (limit - half))
    shown = [*order.slice(0, half).to_pylist(), *order.slice(highest).to_pylist()]
    labels = unique_labels((row["entity"] for row in shown), SHORT_LABEL_CHARACTERS)
    ranges = tuple(
        Range(label, row["busbw_p10_gbs"], row["busbw_p50_gbs"], row["busbw_p90_gbs"])
        for label, row in zip(labels, shown, strict=True)
    )
    return RangePanel(coll, coll_type, ranges, rows.num_rows)


def draw_bandwidth_ranges(panels: Sequence[RangePanel], name: str) -> str:
    """Range bars p10 to p90 with a dot at the median, a panel for each function and placement."""

    def panel_of(panel: RangePanel, position: int) -> str:
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
