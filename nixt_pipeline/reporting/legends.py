"""Legends that several figures share: set as text of the page, so that they wrap and can be read at any width."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inspector.operations import COLL_TYPES
from nixt_pipeline.quantities import size
from nixt_pipeline.reporting.palette import SHARE_CLASSES, TRANSFER_COLOUR, WAIT_COLOUR, colour_of
from nixt_pipeline.reporting.views import LegendEntry

WAIT_AND_TRANSFER = (LegendEntry("waiting", WAIT_COLOUR), LegendEntry("transfer", TRANSFER_COLOUR))


def type_legend(coll_types: Iterable[str | None]) -> tuple[LegendEntry, ...]:
    """The placements that occur, in display order."""
    present = set(coll_types)
    return tuple(LegendEntry(name, colour_of(name)) for name in COLL_TYPES if name in present)


def share_legend(scale: float = 1.0) -> tuple[LegendEntry, ...]:
    """The classes of a map of shares; the last one is open when the limits are scaled down."""
    lower = (0.0, *(upper for upper, _ in SHARE_CLASSES[:-1]))
    entries = []
    for low, (upper, colour) in zip(lower, SHARE_CLASSES, strict=True):
        rest = "% and more" if upper == 1 and scale < 1 else f"to {upper * scale * 100:g} %"
        entries.append(LegendEntry(f"{low * scale * 100:g} {rest}", colour))
    return tuple(entries)


def type_order(coll_type: str | None) -> int:
    """Position of a placement class in displays; unknown ones last."""
    return COLL_TYPES.index(coll_type) if coll_type in COLL_TYPES else len(COLL_TYPES)


def message_sizes(table: pa.Table) -> str:
    """Which message sizes the bandwidths of a result are of."""
    smallest: int = pc.max(table["min_message_bytes"]).as_py() or 0
    if smallest:
        return f"Bandwidths cover messages of {size(smallest)} and more: small messages have low bandwidths by nature."
    return "Bandwidths cover messages of every size, because there are no large ones."
