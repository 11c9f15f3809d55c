"""Figures and labels by launch: a directory can hold several."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.palette import ALERT_COLOUR
from nixt_pipeline.reporting.text import sentence
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView

# Launches with figures of their own.
MAX_LAUNCHES = 3

_Part = TypeVar("_Part")


def first_launches(table: pa.Table, limit: int = MAX_LAUNCHES) -> tuple[pa.Table, int]:
    """The rows of the earliest `limit` launches of an analysis, and of how many launches it has rows."""
    launches = pc.unique(table["incarnation"])
    earliest = launches.take(pc.sort_indices(launches)[:limit])
    return table.filter(pc.is_in(table["incarnation"], value_set=earliest)), len(launches)


def not_drawn(launches: int) -> tuple[str, ...]:
    """The note that counts the launches without figures; none when all have some."""
    return (f"Of {launches:,} launches the first {MAX_LAUNCHES} are drawn.",) if launches > MAX_LAUNCHES else ()


def prefixes(launches: Iterable[int]) -> dict[int, str]:
    """What stands before the label of something in a launch: nothing where there is only one."""
    found = {*launches}
    return {launch: f"launch {launch}: " if len(found) > 1 else "" for launch in found}


def launch_section(
    content: RunContent,
    table: pa.Table,
    name: str,
    parts: Callable[[pa.Table], Sequence[_Part]],
    view: Callable[[_Part, str, Sequence[int]], FigureView],
) -> SectionView:
    """A figure for each of the first launches, with the onsets of findings. `parts` divides the table by launch,
    earliest first; `view` draws a part, given the figure's name and the onsets."""
    onsets = content.onsets_us()
    onset = (LegendEntry("onset of a finding", ALERT_COLOUR, "dashes"),) if onsets else ()
    earliest, launches = first_launches(table)
    drawn = []
    for position, part in enumerate(parts(earliest), start=1):
        which = f"Launch {position} of {count(launches)}: " if launches > 1 else ""
        figure = view(part, f"{name}-{position}", onsets)
        drawn.append(
            replace(
                figure,
                caption=sentence(which + figure.caption),
                title=sentence(which + figure.title),
                anchor=f"figure-{name}-{position}",
                legend=(*figure.legend, *onset),
            )
        )
    return SectionView("", "", notes=not_drawn(launches), figures=tuple(drawn))
