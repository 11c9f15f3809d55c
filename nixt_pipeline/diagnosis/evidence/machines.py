"""Which processes share a machine, where host names do not say.

Containers with a host name each make a machine of every GPU, and one name for all (`localhost`) makes one of them all.
NCCL counts the nodes of every communicator, and launchers number the ranks of a machine one after the other: where that
agrees with the count of every communicator, it tells the machines apart. A rack that is one NVLink domain is one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of

if TYPE_CHECKING:
    from nixt_pipeline.diagnosis.evidence.observations import Communicator


@dataclass(frozen=True)
class Machines:
    """The machine of each process: its host name, or the number of its node. `by_name`: host names tell which processes
    share one, and no communicator counts other nodes."""

    of: Mapping[Process, str]
    by_name: bool = True


def machines_of(processes: Sequence[Process], communicators: Iterable[Communicator]) -> Machines:
    """The machines of a launch. Where they are known neither by name nor by number, each process counts as one."""
    comms = [comm for comm in communicators if comm.nnodes and len(comm.members) == comm.n_ranks]
    hosts = hosts_of(processes)
    own_name = len(hosts) == len(processes) > 1 and any(comm.nnodes < comm.n_ranks for comm in comms)
    if not own_name and all(comm.nnodes <= len(comm.hosts) for comm in comms):
        # A rack that is one NVLink domain has several hosts, and so has a machine with several containers.
        told = len(hosts) > 1 and all(comm.nnodes == len(comm.hosts) for comm in comms)
        return Machines({process: process[0] for process in processes}, by_name=told)
    for comm in comms:
        if comm.n_ranks % comm.nnodes == 0 and set(comm.members) == set(processes):
            size = comm.n_ranks // comm.nnodes
            nodes = {process: f"node {rank // size}" for rank, process in enumerate(comm.members)}
            if _agree(nodes, comms):
                return Machines(nodes, by_name=False)
    joined = _joined(processes, comms)
    # One node for all may as well be a rack, of which each process has a machine.
    if len(set(joined.values())) > 1 and _agree(joined, comms):
        return Machines(joined, by_name=False)
    return Machines({process: str(number) for number, process in enumerate(processes)}, by_name=False)


def _joined(processes: Sequence[Process], comms: Iterable[Communicator]) -> dict[Process, str]:
    """The machine of each process where no communicator has all: those that one counts as a node, directly or through
    others."""
    parts: dict[Process, frozenset[Process]] = {process: frozenset({process}) for process in processes}
    for comm in comms:
        size = comm.n_ranks // comm.nnodes if comm.n_ranks % comm.nnodes == 0 else 1
        for first in range(0, comm.n_ranks, size):
            part = frozenset().union(*(parts[member] for member in comm.members[first : first + size]))
            parts.update(dict.fromkeys(part, part))
    numbers = {part: number for number, part in enumerate(dict.fromkeys(parts.values()))}
    return {process: f"node {numbers[part]}" for process, part in parts.items()}


def _agree(machine_of: Mapping[Process, str], comms: Iterable[Communicator]) -> bool:
    """Whether every communicator counts as many nodes as its members have machines."""
    return all(len({machine_of[member] for member in comm.members}) == comm.nnodes for comm in comms)
