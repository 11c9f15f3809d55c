"""Which processes of a launch do the same work, so that what they spend in communication can be compared.

Collectives of tensor, data and expert parallelism join processes that do the same. Others reach across pipeline stages,
which do not: control messages (a loss, a gradient norm, a flag), and the gradients of an embedding that the first and
the last stage share. Names rarely tell them apart, and releases before 2.30 write none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process

# Losses, norms and flags have some bytes to some kilobytes; what a layer exchanges is hundreds of times as much.
_CONTROL_BYTES = 64 * 1024
_CONTROL_SHARE = 1 / 16
# Whatever happens once in a step happens equally often, except for what was lost.
_ONCE = 1.25
# Stages whose processes differ by less of the time in communication may be compared: no rank is named for so little.
_LEAST_DIFFERENCE = 0.02
# A role lasts for the whole job, a fault begins: parts of the job that must show the same.
_PARTS = 5
# What processes reach that the others do not wait for: with two, the one that waits; with many, one that is not itself
# late, and not the one that waits most, for a Send may wait while its process computes on.
UNHINDERED_QUANTILE = 0.75


def find_stages(seen: Observations) -> tuple[frozenset[Process], ...]:
    """The processes of a launch, divided into those that do the same work.

    Communicators join their members, unless they reach across pipeline stages: because one sends the other its
    activations, or, of two that share an embedding, because all on the one side communicate less than those on the
    other throughout the job, which is no fault but a role. Where the whole launch exchanges large messages, they are
    gradients, and all do the same.
    """
    whole = [comm for comm in seen.communicators if len(comm.members) == len(seen.processes)]
    if any(seen.synchronised_bytes.get(comm.number, 0) >= seen.large_message_bytes for comm in whole):
        return (frozenset(seen.processes),)
    part = _Partition(seen)
    for comm in _joining(seen):
        for member in comm.members[1:]:
            part.join(comm, comm.members[0], member)
    return part.groups()


def _joining(seen: Observations) -> list[Communicator]:
    """The communicators that may join processes: those within a host, then the largest and busiest first."""
    largest = max(seen.synchronised_bytes.values(), default=0)
    control = min(_CONTROL_BYTES, largest * _CONTROL_SHARE)
    candidates = [
        comm
        for comm in seen.communicators
        if seen.synchronised_bytes.get(comm.number, 0) > control
        and len(comm.members) < len(seen.processes)
        and comm.role != "pipeline"
    ]
    operations = operations_of(seen)
    inside = Counter(member for comm in candidates if len(comm.hosts) == 1 for member in comm.members)
    once = _ONCE * min(operations.values(), default=0.0)
    # Those who share data within their host, and once a step with one other host, tie the first and the last stage.
    across = [
        comm
        for comm in candidates
        if len(comm.hosts) > 1
        and not (
            len(comm.members) == 2
            and operations[comm.number] <= once
            and all(inside[member] > 1 for member in comm.members)
        )
    ]
    # So do those who share messages with another host where some share none.
    bridged = {member for comm in across for member in comm.members}
    joining = [comm for comm in candidates if len(comm.hosts) == 1]
    joining += across if len(bridged) == len(seen.processes) else []
    # Embeddings are shared by two, and rarely.
    return sorted(
        joining, key=lambda comm: (len(comm.hosts) > 1, -len(comm.members), -operations[comm.number], comm.number)
    )


def operations_of(seen: Observations) -> dict[int, float]:
    """About how many collectives each communicator did, by number; none that did none."""
    operations: dict[int, float] = defaultdict(float)
    for transfer in seen.transfers:
        if transfer.path[0] == "collective":
            operations[transfer.comm] += transfer.stands_for
    return operations


def tensor_groups(seen: Observations) -> dict[Process, frozenset[Process]]:
    """With whom each process shares most collectives within its host; none for a process that shares no communicator
    within it."""
    operations = operations_of(seen)
    inside = [comm for comm in seen.communicators if len(comm.hosts) == 1 < len(comm.members)]
    busiest = sorted((comm for comm in inside if operations[comm.number]), key=lambda comm: operations[comm.number])
    return {member: frozenset(comm.members) for comm in busiest for member in comm.members}


class _Partition:
    """Processes joined so far."""

    def __init__(self, seen: Observations) -> None:
        self._group = {process: frozenset({process}) for process in seen.processes}
        self._sends = pipeline_peers(seen)
        # A host name for each process is a container's: which of them share a machine is not known.
        self._machines_known = len(seen.hosts) < len(seen.processes)
        # Warming up takes some longer than others.
        share = (seen.communicating / np.maximum(seen.block_us, 1.0))[:, 1:]
        parts = [share, *np.array_split(share, min(_PARTS, share.shape[1]), axis=1)]
        self._spent, *self._by_part = (
            dict(zip(seen.processes, np.median(part, axis=1).tolist(), strict=True)) for part in parts
        )

    def groups(self) -> tuple[frozenset[Process], ...]:
        """As they are now."""
        return tuple(sorted(set(self._group.values()), key=min))

    def join(self, comm: Communicator, one: Process, other: Process) -> None:
        """Put the groups of two members of a communicator together, unless they are different stages."""
        first, second = self._group[one], self._group[other]
        if first is second or self._exchange(first, second):
            return
        may_tie_stages = len(comm.members) == 2 and self._machines_known
        if may_tie_stages and (self._less(first, second) or self._less(second, first)):
            return
        joined = first | second
        self._group.update(dict.fromkeys(joined, joined))

    def _exchange(self, first: frozenset[Process], second: frozenset[Process]) -> bool:
        small, large = sorted((first, second), key=len)
        return any(not large.isdisjoint(self._sends[process]) for process in small if process in self._sends)

    def _less(self, first: frozenset[Process], second: frozenset[Process]) -> bool:
        """Whether each host of `first` communicates clearly less than those of `second` that nobody waits for, and the
        middle one less in every part of the job. One slow host among others does not, and of a group on one host it
        could not be told."""
        if min(len({process[0] for process in group}) for group in (first, second)) < 2:
            return False
        less, more = _by_host(first, self._spent), _by_host(second, self._spent)
        difference = _unhindered(more) - _unhindered(less)
        middle = _unhindered(more) - difference / 2
        half = float(np.quantile(more, 0.5, method="higher"))
        if difference <= _LEAST_DIFFERENCE or not max(less) < middle <= half:
            return False
        return all(
            np.median(_by_host(second, spent)) - np.median(_by_host(first, spent)) > _LEAST_DIFFERENCE / 2
            for spent in self._by_part
        )


def _by_host(group: frozenset[Process], spent: dict[Process, float]) -> list[float]:
    by_host: dict[str, list[float]] = defaultdict(list)
    for process in group:
        by_host[process[0]].append(spent[process])
    return [float(np.median(values)) for values in by_host.values()]


def _unhindered(values: list[float]) -> float:
    return float(np.quantile(values, UNHINDERED_QUANTILE, method="nearest"))


def pipeline_peers(seen: Observations) -> dict[Process, set[Process]]:
    """To whom each process sends through a pipeline: a communicator without collectives in which everybody exchanges
    with at most two others, as no all-to-all of three ranks or more does."""
    edges: dict[int, dict[Process, set[Process]]] = defaultdict(lambda: defaultdict(set))
    for edge in seen.edges:
        edges[edge.comm][edge.source].add(edge.target)
        edges[edge.comm][edge.target].add(edge.source)
    sends: dict[Process, set[Process]] = defaultdict(set)
    for number, peers in edges.items():
        comm = seen.communicators[number]
        ring = len(peers) > 3 or comm.role == "pipeline" or len(peers) < len(comm.members)
        chain = len(peers) == 2 or sum(map(len, peers.values())) == 2 * (len(peers) - 1)
        fewest = all(len(others) <= 2 for others in peers.values())
        if number not in seen.synchronised_bytes and comm.role != "expert" and (chain or (fewest and ring)):
            for process, others in peers.items():
                sends[process] |= others
    return sends
