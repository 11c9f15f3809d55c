"""Launches told apart: a directory can hold several jobs, even of one host and process id, and they must not be pooled.

Everything that shares a communicator belongs to one launch, and so does what shares a process. What shares neither is
another launch if it ran at another time, however short the pause: benchmarks in a row, a job that was started again.
What shares neither and ran side by side from the first to the last record is one launch, for a job of which not all
communicators were recorded has the same shape; the diagnosis concludes nothing from one such part about another.
A process id that is used again much later, with other communicators, is another process. So is one that is used again
after a shorter pause over which no communicator lasts, by a job with communicators of the same sizes: a job that is
started again in containers has the process ids that it had. What one process id wrote into other directories, where no
communicator is in both, was written by another process, however short the pause.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from nixt_pipeline.disjoint_sets import DisjointSets
from nixt_pipeline.grouping import grouped

Communicator = tuple[str | None, str | None, int | None, int | None]  # id, comm_name, n_ranks, nnodes
Process = tuple[str | None, int | None]  # hostname, pid

# Parts of one job begin and end within a step or two of one another, which is less than a tenth of its length.
_SIDE_BY_SIDE = 0.1
# No job starts within this: its processes load their libraries and set up NCCL.
_START_US = 2_000_000
# Processes that write once do so within the usual interval of the dump thread.
_ONE_PASS_US = 100_000


@dataclass(frozen=True)
class Presence:
    """One process's records of one communicator, and the directories of the files that have them; times are plausible
    Unix microseconds, None when it has none."""

    communicator: Communicator
    process: Process
    first_us: int | None
    last_us: int | None
    directories: frozenset[str] = frozenset()


def number_incarnations(presences: list[Presence], gap_us: int) -> dict[Communicator, int]:
    """The incarnation (1, 2, ... by time) of every communicator. A process id that is used again after `gap_us` is
    another process."""
    groups: DisjointSets[Communicator] = DisjointSets()
    for of_process in grouped(presences, lambda presence: presence.process).values():
        for together in _by_directory(of_process):
            for earlier, later in _neighbours(together, gap_us):
                groups.join(earlier.communicator, later.communicator)
    members: dict[Communicator, dict[Communicator, list[int]]] = defaultdict(lambda: defaultdict(list))
    for presence in presences:
        times = [time for time in (presence.first_us, presence.last_us) if time is not None]
        members[groups.find(presence.communicator)][presence.communicator].extend(times)
    part_of = {comm: part[0] for group in members.values() for part in _started_again(group) for comm in part}
    spans: dict[Communicator, list[int]] = defaultdict(list)
    for group in members.values():
        for comm, times in group.items():
            spans[part_of[comm]].extend(times)
    launch = _number_by_time(spans)
    return {comm: launch[part] for comm, part in part_of.items()}


def _by_directory(presences: list[Presence]) -> list[list[Presence]]:
    """What one process id did, divided where no communicator is in the directories of both sides: a log that goes on in
    another directory goes on with its communicators."""
    joined: DisjointSets[str] = DisjointSets()
    for presence in presences:
        for directory in presence.directories:
            joined.join(min(presence.directories), directory)
    parts = grouped(presences, lambda p: joined.find(min(p.directories)) if p.directories else None)
    return list(parts.values())


def _started_again(times: Mapping[Communicator, list[int]]) -> list[list[Communicator]]:
    """The communicators of a group of processes, divided where after a while without any a job starts that has
    communicators of the same sizes. One that goes on without a rank, or begins in earnest, has others."""
    timed = sorted((comm for comm in times if times[comm]), key=lambda comm: (min(times[comm]), max(times[comm])))
    parts: list[list[Communicator]] = []
    reached = 0
    for comm in timed:
        if not parts or min(times[comm]) - reached > _START_US:
            parts.append([])
        parts[-1].append(comm)
        reached = max(reached, *times[comm])
    launches: list[list[Communicator]] = []
    sizes: set[tuple[int | None, int | None]] = set()  # of the last launch
    for part in parts:
        own = {(n_ranks, nnodes) for _, _, n_ranks, nnodes in part}
        if launches and own != sizes:
            launches[-1] += part
            sizes |= own
        else:
            launches.append(part)
            sizes = own
    timeless = [comm for comm in times if not times[comm]]
    return [timeless + launches[0], *launches[1:]] if launches else [timeless]


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


def _number_by_time(spans: dict[Communicator, list[int]]) -> dict[Communicator, int]:
    """Groups that run side by side are one launch; those without any time go with the first."""
    numbers = dict.fromkeys(spans, 1)
    timed = [(min(times), max(times), root) for root, times in spans.items() if times]
    launches: list[tuple[int, int, int]] = []  # number, first and last time of those that may have company yet
    number = 0
    for first, last, root in sorted(timed, key=lambda span: (span[:2], str(span[2]))):
        launches = [launch for launch in launches if launch[2] + _ONE_PASS_US >= first]
        together = [launch for launch in launches if _side_by_side(launch[1], launch[2], first, last)]
        if not together:
            number += 1
            together = [(number, first, last)]
            launches += together
        numbers[root] = together[0][0]
    return numbers


def _side_by_side(first: int, last: int, other_first: int, other_last: int) -> bool:
    """Whether two spans of time begin and end nearly together."""
    tolerance = max(_ONE_PASS_US, _SIDE_BY_SIDE * (max(last, other_last) - min(first, other_first)))
    return abs(first - other_first) <= tolerance and abs(last - other_last) <= tolerance
