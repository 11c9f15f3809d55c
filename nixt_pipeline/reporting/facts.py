"""What the run is, counted from its tables."""

import pyarrow.compute as pc

from nixt_pipeline.inspector.operations import COLL_TYPES
from nixt_pipeline.quantities import duration
from nixt_pipeline.reporting.content import RunContent


def time_span(content: RunContent) -> tuple[int | None, int | None, str]:
    """Earliest and latest plausible write time of any process, in microseconds, and the time between in words."""
    first, last = (content.values("processes", name) for name in ("first_dump_us", "last_dump_us"))
    begin, end = min(first, default=None), max(last, default=None)
    return begin, end, duration(end - begin if begin is not None and end is not None else None)


def within_host(content: RunContent) -> set[str]:
    """The placements of which no communicator spans hosts. On an NVLink rack `nvlink-only` does, elsewhere not."""
    communicators = content.tables.get("communicators")
    if communicators is None:
        return set(COLL_TYPES)
    spanning = communicators.filter(pc.greater(communicators["hosts_seen"], 1))
    return set(COLL_TYPES) - set(pc.unique(spanning["coll_type"]).to_pylist())
