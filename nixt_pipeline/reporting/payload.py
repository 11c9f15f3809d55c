"""The payload by function and placement, as data: the figure stays small however many functions there are."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from nixt_pipeline.reporting.figures import type_order

MAX_FUNCTIONS = 24


@dataclass(frozen=True)
class Segment:
    """Part of a stacked bar."""

    coll_type: str | None
    payload_bytes: float


@dataclass(frozen=True)
class PayloadBars:
    """Observed payload by function, split by placement; largest function first, and a last bar for all
    beyond `MAX_FUNCTIONS`."""

    bars: tuple[tuple[str, tuple[Segment, ...]], ...]
    total_bytes: float


def payload_bars(summary: pa.Table) -> PayloadBars:
    """Observed payload by function and placement, from `summary_histogram`. Sizes the log does not give count as 0."""
    parts: dict[str, list[Segment]] = defaultdict(list)
    for row in summary.select(["coll", "coll_type", "payload_bytes"]).to_pylist():
        if row["payload_bytes"]:
            parts[row["coll"]].append(Segment(row["coll_type"], row["payload_bytes"]))
    totals = {coll: sum(segment.payload_bytes for segment in segments) for coll, segments in parts.items()}
    largest_first = sorted(parts, key=lambda coll: (-totals[coll], coll))
    shown = MAX_FUNCTIONS if len(parts) > MAX_FUNCTIONS + 1 else len(parts)
    bars = [(coll, _by_type(parts[coll])) for coll in largest_first[:shown]]
    others = largest_first[shown:]
    if others:
        rest = [segment for coll in others for segment in parts[coll]]
        bars.append((f"{len(others):,} other functions", _by_type(rest)))
    return PayloadBars(tuple(bars), sum(totals.values()))


def _by_type(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """One segment for each placement, in their order."""
    sums: dict[str | None, float] = defaultdict(float)
    for segment in segments:
        sums[segment.coll_type] += segment.payload_bytes
    return tuple(Segment(coll_type, sums[coll_type]) for coll_type in sorted(sums, key=type_order))
