"""Hand-made observations: four blocks or more of a second each, in which every process communicates for a while."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nixt_pipeline.diagnosis.detectors.late_ranks import grouped
from nixt_pipeline.diagnosis.detectors.lateness import Late
from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.evidence.observations import Arrival, Communicator, Edge, Observations, Transfer
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording.late import late_finding
from nixt_pipeline.settings import Thresholds

SECOND_US = 1e6
LARGE = 10_000_000
# Two processes on each of two hosts.
A1, A2, B1, B2 = ("a", 1), ("a", 2), ("b", 1), ("b", 2)
# Microseconds of each block: none in the first half of 40, and 0.3 s in the second.
HALF = [0.0] * 20 + [300_000.0] * 20


def last(comm: int, process: Process, blocks: range = range(20, 40), waited_us: float = 300_000.0) -> list[Arrival]:
    """In five collectives of each block."""
    return [Arrival(comm, block, process, 5, waited_us) for block in blocks]


def communicator(number: int, *members: Process, role: str | None = "data") -> Communicator:
    hosts = hosts_of(members)
    kind = "nvlink-only" if len(hosts) == 1 else "nic-only" if len(hosts) == len(members) else "mixed"
    span = (0, int(40 * SECOND_US))
    return Communicator(number, f"0x{number}", None, len(members), len(hosts), kind, role, members, span=span)


def collective(comm: Communicator, times_us: Sequence[float], size: int = LARGE) -> list[Transfer]:
    """One AllReduce of the communicator in each block."""
    alike = ("AllReduce", comm.n_ranks, comm.nnodes, size)
    path = ("collective", comm.number, "AllReduce", size)
    return [
        Transfer(path, comm.number, comm.members, alike, size, block, time, 1.0) for block, time in enumerate(times_us)
    ]


def observations(
    communicators: Sequence[Communicator],
    *,
    wait_us: Mapping[Any, Sequence[float]] | None = None,
    transfer_us: Mapping[Any, Sequence[float]] | None = None,
    carried_us: Mapping[Any, Sequence[float]] | None = None,
    arrivals: Sequence[Arrival] = (),
    transfers: Sequence[Transfer] | None = None,
    blocks: int = 10,
    edges: Sequence[Edge] = (),
    matched_p2p: int = 0,
    lacking: Sequence[int] = (),
    left_out: Sequence[int] = (),
) -> Observations:
    """A launch of one second to the block; what is not given is zero. Each communicator has fast, large collectives
    unless `transfers` says otherwise. `lacking`, `left_out`: communicators of which not all was recorded, or is looked
    at."""
    processes = tuple(sorted({member for comm in communicators for member in comm.members}))
    if transfers is None:
        transfers = [entry for comm in communicators for entry in collective(comm, [100.0] * blocks)]

    def matrix(values: Mapping[Any, Sequence[float]] | None) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array([list((values or {}).get(process, [0.0] * blocks)) for process in processes])

    return Observations(
        incarnation=1,
        processes=processes,
        communicators=tuple(communicators),
        blocks=blocks,
        communicating=matrix(wait_us) + matrix(transfer_us),
        carried=matrix(carried_us),
        synchronised_bytes={
            **{entry.comm: 1 for entry in arrivals},
            **{entry.comm: entry.size_bytes for entry in transfers if entry.path[0] == "collective"},
        },
        block_us=np.full(blocks, SECOND_US),
        block_end_us=tuple(int((block + 1) * SECOND_US) for block in range(blocks)),
        arrivals=tuple(arrivals),
        transfers=tuple(transfers),
        edges=tuple(edges),
        matched_p2p=matched_p2p,
        large_message_bytes=1_000_000,
        lacking=frozenset(lacking),
        left_out=frozenset(left_out),
    )


def late_findings(seen: Observations, late: list[Late]) -> list[Finding]:
    """What is told of some late entities."""
    return [late_finding(seen, group) for group in grouped(seen, late, Thresholds())]


def stages(series: Iterable[Series], processes: Sequence[Process]) -> dict[Process, int]:
    """A number for each process, equal for those joined by communicators short of the whole launch."""
    groups = {process: frozenset({process}) for process in processes}
    for item in series:
        if len(item.comm.members) < len(processes):
            joined = frozenset().union(*(groups[member] for member in item.comm.members))
            groups.update(dict.fromkeys(joined, joined))
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups.values()))}
    return {process: numbers[group] for process, group in groups.items()}
