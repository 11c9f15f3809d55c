"""Legends that several figures share: set as text of the page, so that they wrap and can be read at any width."""

from collections.abc import Iterable

from nixt_pipeline.reporting.figures import types_present
from nixt_pipeline.reporting.palette import TRANSFER_COLOUR, WAIT_COLOUR, coll_colour, colour_of
from nixt_pipeline.reporting.text import shorten
from nixt_pipeline.reporting.views import LegendEntry

_NAME_CHARACTERS = 24

WAIT_AND_TRANSFER = (LegendEntry("waiting", WAIT_COLOUR), LegendEntry("transfer", TRANSFER_COLOUR))


def type_legend(coll_types: Iterable[str | None]) -> tuple[LegendEntry, ...]:
    """The placements that occur."""
    return tuple(LegendEntry(name, colour_of(name)) for name in types_present(coll_types))


def coll_legend(colls: Iterable[str]) -> tuple[LegendEntry, ...]:
    """The functions that occur, in the order of their names."""
    return tuple(LegendEntry(shorten(coll, _NAME_CHARACTERS), coll_colour(coll)) for coll in sorted(set(colls)))
