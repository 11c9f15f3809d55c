"""Parts of a launch: communicators that share processes, directly or through others, while they are in use.

What shares no process says nothing about one another: replicas side by side, or stages of which no common communicator
was recorded. Nor do communicators that follow one another: one that shrinks is replaced by a smaller one, which gets
further.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy  # its parts are loaded when they are used

from nixt_pipeline.diagnosis.evidence.alike import classes
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations, Transfer
from nixt_pipeline.diagnosis.evidence.processes import Process

# What one pass of the dump thread writes of several communicators is no sequence in time: a pause is longer, or between
# two communicators that were each in use for longer.
_PAUSE_US = 1_000_000

# Blocks in which a communicator that joins its members for the whole job is seen.
_LASTING = 3

# Parts of one job do their operations in lockstep, and lose a few of them at the ends of the log.
_AS_MANY = 1.02


@dataclass(frozen=True)
class Part:
    """Communicators, by number, that are held against one another, and their processes."""

    communicators: frozenset[int]
    processes: tuple[Process, ...]


def components(communicators: Sequence[Communicator]) -> dict[int, int]:
    """The communicators, by number, with a number for each group that shares processes, directly or through others."""
    of_process = _by_process(communicators)
    pairs = [(one.number, other.number) for comms in of_process.values() for one, other in pairwise(comms)]
    return _labels([comm.number for comm in communicators], pairs)


def parts_of(communicators: Sequence[Communicator]) -> list[Part]:
    """The parts of a launch, those of more processes first."""
    pairs = [pair for comms in _by_process(communicators).values() for pair in _in_use_together(comms)]
    labels = _labels([comm.number for comm in communicators], pairs)
    found: dict[int, list[Communicator]] = defaultdict(list)
    for comm in communicators:
        found[labels[comm.number]].append(comm)
    parts = [
        Part(
            frozenset(comm.number for comm in comms),
            tuple(sorted({member for comm in comms for member in comm.members})),
        )
        for comms in found.values()
    ]
    return sorted(parts, key=lambda part: (-len(part.processes), part.processes, min(part.communicators)))


def waiting_together(seen: Observations) -> dict[Process, frozenset[Process]]:
    """Those who wait for one another, directly or through others, by each of them. A collective of the start, which is
    in a few blocks only, makes nobody wait later."""
    blocks_of: dict[int, set[int]] = defaultdict(set)
    for transfer in seen.transfers:
        blocks_of[transfer.comm].add(transfer.block)
    lasting = [
        comm
        for comm in seen.communicators
        if comm.number not in blocks_of or len(blocks_of[comm.number]) >= min(_LASTING, seen.blocks)
    ]
    labels = components(lasting)
    groups: dict[int, set[Process]] = defaultdict(set)
    for comm in lasting:
        groups[labels[comm.number]].update(comm.members)
    waiting = {process: frozenset(group) for group in groups.values() for process in group}
    return {process: waiting.get(process, frozenset({process})) for process in seen.processes}


def in_lockstep(
    communicators: Sequence[Communicator], transfers: Sequence[Transfer]
) -> dict[tuple[int, tuple[object, ...]], int]:
    """A number for each communicator and kind of transfer, equal for those that share processes, directly or through
    others, or did as many operations, as the parts of one job do of which nothing in common was recorded. Replicas and
    other jobs beside it may run with other settings."""
    component = components(communicators)
    paths: dict[tuple[tuple[object, ...], int], dict[tuple[object, ...], float]] = defaultdict(dict)
    for transfer in transfers:
        counts = paths[transfer.alike, component[transfer.comm]]
        counts[transfer.path] = counts.get(transfer.path, 0.0) + transfer.stands_for
    of_kind: dict[tuple[object, ...], list[tuple[int, float]]] = defaultdict(list)
    for (kind, number), counts in paths.items():
        of_kind[kind].append((number, float(np.mean(list(counts.values())))))
    numbers = {
        (kind, number): lane
        for kind, items in of_kind.items()
        for (number, _), lane in zip(items, classes([count for _, count in items], _AS_MANY), strict=True)
    }
    return {(t.comm, t.alike): numbers[t.alike, component[t.comm]] for t in transfers}


def _by_process(communicators: Iterable[Communicator]) -> dict[Process, list[Communicator]]:
    of_process: dict[Process, list[Communicator]] = defaultdict(list)
    for comm in communicators:
        for member in comm.members:
            of_process[member].append(comm)
    return of_process


def _in_use_together(comms: Sequence[Communicator]) -> list[tuple[int, int]]:
    """Pairs of the communicators of one process that were in use together. Those without a time go with the first."""
    timed = sorted((*comm.span, comm.number) for comm in comms if comm.span is not None)
    timeless = [comm.number for comm in comms if comm.span is None]
    first = timed[0][2] if timed else timeless[0]
    pairs = [(first, number) for number in timeless]
    begun, reached = (timed[0][0], timed[0][1]) if timed else (0, 0)
    for (_, _, earlier), (begin, end, later) in pairwise(timed):
        long = min(reached - begun, end - begin) > _PAUSE_US
        if begin - reached > (0 if long else _PAUSE_US):
            begun = begin
        else:
            pairs.append((earlier, later))
        reached = max(reached, end)
    return pairs


def _labels(numbers: Sequence[int], pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """A label for each number, equal for those that pairs join."""
    place = {number: index for index, number in enumerate(numbers)}
    ends = np.array([(place[one], place[other]) for one, other in pairs], dtype=np.int64).reshape(-1, 2).T
    graph = scipy.sparse.coo_array((np.ones(ends.shape[1], dtype=np.int8), tuple(ends)), shape=(len(place),) * 2)
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return dict(zip(numbers, labels.tolist(), strict=True))
