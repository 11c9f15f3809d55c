"""Legends that several figures share: set as text of the page, so that they wrap and can be read at any width."""

from collections.abc import Iterable

from nixt_pipeline.reporting.figures import types_present
from nixt_pipeline.reporting.palette import SHARE_CLASSES, TRANSFER_COLOUR, WAIT_COLOUR, colour_of
from nixt_pipeline.reporting.views import LegendEntry

WAIT_AND_TRANSFER = (LegendEntry("waiting", WAIT_COLOUR), LegendEntry("transfer", TRANSFER_COLOUR))


def type_legend(coll_types: Iterable[str | None]) -> tuple[LegendEntry, ...]:
    """The placements that occur."""
    return tuple(LegendEntry(name, colour_of(name)) for name in types_present(coll_types))


def share_legend(scale: float = 1.0) -> tuple[LegendEntry, ...]:
    """The classes of a map of shares; the last one is open when the limits are scaled down."""
    lower = (0.0, *(upper for upper, _ in SHARE_CLASSES[:-1]))
    return tuple(
        LegendEntry(
            f"{low * scale * 100:g} % and more"
            if upper == 1 and scale < 1
            else f"{low * scale * 100:g} to {upper * scale * 100:g} %",
            colour,
        )
        for low, (upper, colour) in zip(lower, SHARE_CLASSES, strict=True)
    )
