"""What the diagnosis looks at: small aggregates of a run's records by process, communicator and stage of progress.

No clock is compared with another host's. The job's own progress is the clock: the sequence numbers of a communicator,
from its first to its last, are cut into equally many *blocks*, and in a synchronous job the n-th block of one
communicator is the n-th block of every other.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from nixt_pipeline.diagnosis import queries
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

Floats = NDArray[np.float64]

Process = tuple[str, int]  # hostname, pid

# The column of `queries.EDGES` that counts operations, and the share of all Sends that must have met their Recv.
_EDGE_OPERATIONS = 8
# Matching a million Sends with their Recvs takes about half of the default memory limit.
_SENDS_PER_PASS = 1_000_000
_MATCHED_ENOUGH = 0.9

# Fewer collectives than this tell no step from the next: a communicator of the start-up is not the job's pulse.
_PULSE = 20
MIN_BLOCKS, MAX_BLOCKS = 4, 40


@dataclass(frozen=True)
class Communicator:
    """One communicator of the launch, with its members by rank."""

    number: int
    id: str
    name: str | None
    n_ranks: int
    nnodes: int
    coll_type: str
    role: str | None
    members: tuple[Process, ...]

    @property
    def hosts(self) -> frozenset[str]:
        """Where its ranks run."""
        return frozenset(host for host, _ in self.members)

    @property
    def label(self) -> str:
        """For people: the name, or else the id."""
        return self.name or self.id


@dataclass(frozen=True)
class Transfer:
    """One block of one kind of transfer: a collective of a communicator, or Send and Recv between two processes.

    `path` identifies what carried it, `members` all who took part, `alike` what may be compared.
    """

    path: tuple[object, ...]
    comm: int
    members: tuple[Process, ...]
    alike: tuple[object, ...]
    size_bytes: int
    block: int
    transfer_us: float
    stands_for: float


@dataclass(frozen=True)
class Arrival:
    """In one block of one communicator: how often `process` came last in collectives that waited noticeably."""

    comm: int
    block: int
    process: Process
    cells: int


@dataclass(frozen=True)
class Observations:
    """One launch of a run. `wait` and `transfer` are microseconds by process (row) and block (column)."""

    incarnation: int
    processes: tuple[Process, ...]
    communicators: tuple[Communicator, ...]
    blocks: int
    wait: Floats
    transfer: Floats
    block_us: Floats
    block_end_us: tuple[int | None, ...]
    arrivals: tuple[Arrival, ...]
    transfers: tuple[Transfer, ...]
    matched_p2p: int
    large_message_bytes: int

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that wrote a record."""
        return tuple(sorted({host for host, _ in self.processes}))

    def stages(self) -> tuple[frozenset[Process], ...]:
        """Processes that do the same work: joined by any collective short of the whole launch.

        Pipeline stages fall apart, for only Send, Recv and small messages of the whole launch (a loss, a flag) join
        them. Where the whole launch exchanges large messages, they are gradients, and all do the same.
        """
        if any(
            transfer.path[0] == "collective"
            and transfer.size_bytes >= self.large_message_bytes
            and len(transfer.members) == len(self.processes)
            for transfer in self.transfers
        ):
            return (frozenset(self.processes),)
        parent = {process: process for process in self.processes}

        def root(process: Process) -> Process:
            while parent[process] != process:
                process = parent[process]
            return process

        synchronising = {transfer.comm for transfer in self.transfers if transfer.path[0] == "collective"}
        for comm in self.communicators:
            if comm.number in synchronising and len(comm.members) < len(self.processes):
                for member in comm.members[1:]:
                    parent[root(member)] = root(comm.members[0])
        groups: dict[Process, set[Process]] = defaultdict(set)
        for process in self.processes:
            groups[root(process)].add(process)
        return tuple(frozenset(group) for _, group in sorted(groups.items()))


def observe(con: duckdb.DuckDBPyConnection, incarnation: int, limits: Thresholds) -> Observations:
    """Aggregate one launch of the run behind `con`, a connection of `store.catalog.open_run`."""
    launch: dict[str, Any] = {"incarnation": incarnation}
    blocks = _prepare(con, launch)
    communicators = _communicators(con, launch)
    processes = tuple(
        con.sql(
            "SELECT hostname, pid FROM processes"
            " WHERE incarnation = $incarnation AND hostname IS NOT NULL AND pid IS NOT NULL ORDER BY ALL",
            params=launch,
        ).fetchall()
    )
    [(sends,)] = con.sql(
        "SELECT count(*) FROM p2p WHERE incarnation = $incarnation AND coll = 'Send'", params=launch
    ).fetchall()
    edges = _edges(con, launch | {"blocks": blocks}, passes=1 + sends // _SENDS_PER_PASS)
    matched = sum(edge[_EDGE_OPERATIONS] for edge in edges)
    # With some of the edges only, processes would differ by what was recorded of them, not by what they did.
    matched = matched if matched >= _MATCHED_ENOUGH * sends else 0
    wait, transfer = _occupation(con, launch, processes, blocks, edges if matched else [])
    last = {"floor_us": limits.late_floor_us, "share": limits.late_spread_share}
    return Observations(
        incarnation=incarnation,
        processes=processes,
        communicators=communicators,
        blocks=blocks,
        wait=wait,
        transfer=transfer,
        block_us=_block_durations(con, blocks, launch),
        block_end_us=_block_ends(con, blocks),
        arrivals=tuple(
            Arrival(comm, block, (host, pid), cells)
            for comm, block, host, pid, cells in con.sql(queries.LAST_ARRIVALS, params=last).fetchall()
        ),
        transfers=(*_collective_transfers(con, communicators), *_edge_transfers(edges)),
        matched_p2p=matched,
        large_message_bytes=limits.large_message_bytes,
    )


def _edges(con: duckdb.DuckDBPyConnection, parameters: dict[str, Any], passes: int) -> list[tuple[Any, ...]]:
    """The matched operations of every directed edge by block, in the order of `queries.EDGES`."""
    found: list[tuple[Any, ...]] = []
    for number in range(passes):
        found += con.sql(queries.EDGES, params=parameters | {"passes": passes, "pass": number}).fetchall()
    return sorted(found, key=lambda edge: tuple(map(str, edge)))


def _prepare(con: duckdb.DuckDBPyConnection, launch: dict[str, Any]) -> int:
    """Create the temporary tables of usable collectives, cut into blocks; returns the number of blocks."""
    con.execute(queries.COMMUNICATORS, launch)
    con.execute(queries.USABLE_CELLS, launch | {"sync": list(SYNC_COLLECTIVES)})
    con.execute(queries.SERIES)
    [(pulse,)] = con.sql(
        "SELECT min(hi - lo + 1) FROM series WHERE cells >= $least", params={"least": _PULSE}
    ).fetchall()
    blocks = _number_of_blocks(int(pulse or 0))
    con.execute(queries.BLOCKED_CELLS, {"blocks": blocks})
    return blocks


def _communicators(con: duckdb.DuckDBPyConnection, launch: dict[str, Any]) -> tuple[Communicator, ...]:
    members: dict[int, list[Process]] = defaultdict(list)
    for comm, _, host, pid in con.sql(queries.MEMBERS, params=launch).fetchall():
        members[comm].append((host, pid))
    rows = con.sql(
        "SELECT comm, id, comm_name, n_ranks, nnodes, coll_type, parallel_role"
        " FROM diagnosed_communicators ORDER BY comm"
    ).fetchall()
    return tuple(
        Communicator(number, name, label, ranks, nodes, kind, role, tuple(members[number]))
        for number, name, label, ranks, nodes, kind, role in rows
    )


def _occupation(
    con: duckdb.DuckDBPyConnection,
    launch: dict[str, Any],
    processes: tuple[Process, ...],
    blocks: int,
    edges: list[tuple[Any, ...]],
) -> tuple[Floats, Floats]:
    """Microseconds of waiting and of transferring, by process and block, in collectives and on the given edges."""
    index = {process: row for row, process in enumerate(processes)}
    wait, transfer = np.zeros((len(processes), blocks)), np.zeros((len(processes), blocks))
    for host, pid, block, waited, moved in con.sql(queries.OCCUPATION, params=launch).fetchall():
        wait[index[host, pid], block] += waited
        transfer[index[host, pid], block] += moved
    for _, source_host, source_pid, host, pid, _, block, _, _, moved, send_wait, recv_wait in edges:
        for process, waited in (((source_host, source_pid), send_wait), ((host, pid), recv_wait)):
            wait[index[process], block] += waited
            transfer[index[process], block] += moved
    return wait, transfer


def _edge_transfers(edges: list[tuple[Any, ...]]) -> list[Transfer]:
    transfers = []
    for comm, source_host, source_pid, host, pid, size, block, median, operations, *_ in edges:
        source, target = (source_host, source_pid), (host, pid)
        alike = ("p2p", size, source_host == host)
        path = ("p2p", source, target, size)
        transfers.append(Transfer(path, comm, (source, target), alike, size, block, median, operations))
    return transfers


def _number_of_blocks(pulse: int) -> int:
    """Blocks for a job whose rarest regular collective came `pulse` times: whole steps, where that is possible."""
    steps_per_block = max(1, -(-pulse // MAX_BLOCKS))
    return min(max(pulse // steps_per_block, MIN_BLOCKS), MAX_BLOCKS)


def _collective_transfers(con: duckdb.DuckDBPyConnection, communicators: tuple[Communicator, ...]) -> list[Transfer]:
    transfers = []
    for number, coll, size, block, median, _, stands_for in con.sql(queries.TRANSFERS).fetchall():
        comm = communicators[number]
        alike = (coll, comm.n_ranks, comm.nnodes, size)
        path = ("collective", number, coll, size)
        transfers.append(Transfer(path, number, comm.members, alike, size, block, median, stands_for))
    return transfers


def _block_ends(con: duckdb.DuckDBPyConnection, blocks: int) -> tuple[int | None, ...]:
    """When each block was written, by the median over communicators (a host's clock can be off)."""
    ends: dict[int, list[int]] = defaultdict(list)
    for _, block, until in con.sql(queries.BLOCK_ENDS).fetchall():
        if until is not None:
            ends[block].append(until)
    return tuple(int(np.median(ends[block])) if ends[block] else None for block in range(blocks))


def _block_durations(con: duckdb.DuckDBPyConnection, blocks: int, launch: dict[str, Any]) -> Floats:
    """Wall time of each block: differences of one communicator's own write times, the median over communicators.

    The sum is the span of the log; a block shorter than a dump interval gets its share of the whole.
    """
    by_comm: dict[int, dict[int, int]] = defaultdict(dict)
    for comm, block, until in con.sql(queries.BLOCK_ENDS).fetchall():
        if until is not None:
            by_comm[comm][block] = until
    [(span,)] = con.sql(
        "SELECT median(last_dump_us - first_dump_us) FROM processes WHERE incarnation = $incarnation", params=launch
    ).fetchall()
    share = float(span or 0) / blocks
    durations = np.full(blocks, share)
    for block in range(1, blocks):
        steps = [ends[block] - ends[block - 1] for ends in by_comm.values() if block in ends and block - 1 in ends]
        if steps and np.median(steps) > 0:
            durations[block] = float(np.median(steps))
    return durations
