"""Launches told apart: one directory can hold two jobs, even of one host and process id, and they must not be pooled.

Everything that shares a communicator belongs to one launch. A process id that is used again much later, with other
communicators, belongs to another. What runs at the same time without sharing a communicator (a partly recorded job) is
one launch too.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

Communicator = tuple[str | None, str | None, int | None, int | None]  # id, comm_name, n_ranks, nnodes
Process = tuple[str | None, int | None]  # hostname, pid


@dataclass(frozen=True)
class Presence:
    """One process's records of one communicator; times are plausible Unix microseconds, None when it has none."""

    communicator: Communicator
    process: Process
    first_us: int | None
    last_us: int | None


def number_incarnations(presences: list[Presence], gap_us: int) -> dict[Communicator, int]:
    """The incarnation (1, 2, ... by time) of every communicator; launches are at least `gap_us` apart."""
    groups = _Groups()
    by_process: dict[Process, list[Presence]] = defaultdict(list)
    for presence in presences:
        groups.find(presence.communicator)
        by_process[presence.process].append(presence)
    for of_process in by_process.values():
        for earlier, later in _neighbours(of_process, gap_us):
            groups.join(earlier.communicator, later.communicator)
    spans: dict[Communicator, list[int]] = defaultdict(list)
    for presence in presences:
        times = [time for time in (presence.first_us, presence.last_us) if time is not None]
        spans[groups.find(presence.communicator)].extend(times)
    launch = _number_by_time(spans, gap_us)
    return {presence.communicator: launch[groups.find(presence.communicator)] for presence in presences}


def _neighbours(presences: list[Presence], gap_us: int) -> list[tuple[Presence, Presence]]:
    """Pairs of one process's communicators that follow one another without a long pause; timeless ones go with the
    first."""
    timed = sorted((p for p in presences if p.first_us is not None), key=lambda p: (p.first_us, p.last_us))
    timeless = [p for p in presences if p.first_us is None]
    pairs = [((timed or timeless)[0], presence) for presence in timeless]
    reached = 0
    for earlier, later in pairwise(timed):
        reached = max(reached, earlier.last_us or 0)
        if (later.first_us or 0) - reached <= gap_us:
            pairs.append((earlier, later))
    return pairs


def _number_by_time(spans: dict[Communicator, list[int]], gap_us: int) -> dict[Communicator, int]:
    """Groups that overlap in time, or nearly, are one launch."""
    numbers: dict[Communicator, int] = {}
    number, reached = 1, None
    for root, times in sorted(spans.items(), key=lambda item: (min(item[1], default=0), str(item[0]))):
        if times and reached is not None and min(times) - reached > gap_us:
            number += 1
            reached = max(times)
        elif times:
            reached = max(*times, reached or 0)
        numbers[root] = number
    return numbers


class _Groups:
    """Disjoint sets of communicators."""

    def __init__(self) -> None:
        self._parent: dict[Communicator, Communicator] = {}

    def find(self, item: Communicator) -> Communicator:
        parent = self._parent.setdefault(item, item)
        while parent != item:
            grandparent = self._parent[parent]
            self._parent[item] = grandparent
            item, parent = grandparent, self._parent[grandparent]
        return item

    def join(self, a: Communicator, b: Communicator) -> None:
        self._parent[self.find(a)] = self.find(b)
