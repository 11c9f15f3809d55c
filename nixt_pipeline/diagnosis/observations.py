"""What the diagnosis looks at: small aggregates of a run's records by process, communicator and stage of progress.

No clock is compared with another host's. The job's own progress is the clock: the sequence numbers of a communicator,
from its first to its last, are cut into equally many *blocks*, and in a synchronous job the n-th block of one
communicator is the n-th block of every other.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nixt_pipeline.diagnosis import queries
from nixt_pipeline.diagnosis.p2p_order import find_order
from nixt_pipeline.diagnosis.sampled import filled, typical_times
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

Floats = NDArray[np.float64]

Process = tuple[str, int]  # hostname, pid

# Matching a million Sends with their Recvs takes about half of the default memory limit.
_SENDS_PER_PASS = 1_000_000
# Write times closer than this share of a mean block are those of one pass of the dump thread.
_SAME_PASS = 0.05
# The share of the ranks that send or receive of which the place of every operation must be known.
_NUMBERED_ENOUGH = 0.9
# Incomplete collectives that are looked at in each block of a communicator: more tell hardly more, but take memory.
_MOST_PARTIAL = 24
# Incomplete collectives of which one has probably the rank that came last, when every second record is lost.
_LEAST_PARTIAL = 4

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
    """In one block of one communicator: how often `process` came last in collectives that waited noticeably, and how
    long the first rank waited in them."""

    comm: int
    block: int
    process: Process
    cells: int
    waited_us: float


@dataclass(frozen=True)
class Edge:
    """Send and Recv from one process to another: how many operations each end completed, by its records, and which
    share of its operations each end recorded."""

    comm: int
    source: Process
    target: Process
    sent: int
    received: int
    source_recorded: float
    target_recorded: float

    @property
    def lossless(self) -> bool:
        """Whether both ends recorded everything, so that their counts are exact."""
        return self.source_recorded >= 1 and self.target_recorded >= 1

    @property
    def operations(self) -> int:
        """How many operations were completed at both ends. Who lost records may have lost the last ones."""
        return min(self.sent, self.received) if self.lossless else max(self.sent, self.received)

    @property
    def lost(self) -> float:
        """How likely an operation that was completed left a record at neither end."""
        return max(0.0, 1 - self.source_recorded) * max(0.0, 1 - self.target_recorded)


@dataclass(frozen=True)
class Observations:
    """One launch of a run.

    `communicating`: microseconds in collectives, Send and Recv, waiting included, by process (row) and block (column).
    `matched_p2p`: pairs of Send and Recv, 0 when too few were recorded to know what waits for what.
    """

    incarnation: int
    processes: tuple[Process, ...]
    communicators: tuple[Communicator, ...]
    blocks: int
    communicating: Floats
    block_us: Floats
    block_end_us: tuple[int | None, ...]
    arrivals: tuple[Arrival, ...]
    transfers: tuple[Transfer, ...]
    edges: tuple[Edge, ...]
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
    index = {process: row for row, process in enumerate(processes)}
    p2p = _point_to_point(con, launch, blocks, index)
    entries = [*_in_collectives(con, launch, index), *(p2p.entries if p2p.complete else [])]
    communicating = _communicating(entries, len(processes), blocks)
    last = {"floor_us": limits.late_floor_us, "share": limits.late_spread_share}
    return Observations(
        incarnation=incarnation,
        processes=processes,
        communicators=communicators,
        blocks=blocks,
        communicating=communicating,
        # Write times of a plugin that writes once, at the end, say nothing: a block lasts at least as long as what half
        # of the processes did in it.
        block_us=np.maximum(_block_durations(con, blocks, launch), np.median(communicating, axis=0)),
        block_end_us=_block_ends(con, blocks),
        arrivals=tuple(
            Arrival(comm, block, (host, pid), cells, waited)
            for comm, block, host, pid, cells, waited in con.sql(queries.LAST_ARRIVALS, params=last).fetchall()
        ),
        transfers=(*_collective_transfers(con, communicators), *_edge_transfers(p2p.pairs)),
        edges=tuple(p2p.edges),
        matched_p2p=sum(pair[-1] for pair in p2p.pairs) if p2p.complete else 0,
        large_message_bytes=limits.large_message_bytes,
    )


# Time of one process in one block of one series: key of the series, row of the process, block, microseconds.
Entry = tuple[tuple[Any, ...], int, int, float]


@dataclass(frozen=True)
class _PointToPoint:
    """Send and Recv: pairs by edge and block (`queries.EDGES`), times of each process, and whether hardly a rank's
    operations are unknown. With some of them only, processes would differ by what was recorded of them."""

    edges: list[Edge]
    pairs: list[tuple[Any, ...]]
    entries: list[Entry]
    complete: bool


def _point_to_point(
    con: duckdb.DuckDBPyConnection, launch: dict[str, Any], blocks: int, index: dict[Process, int]
) -> _PointToPoint:
    [(sends,)] = con.sql(
        "SELECT count(*) FROM p2p WHERE incarnation = $incarnation AND coll = 'Send'", params=launch
    ).fetchall()
    passes = 1 + sends // _SENDS_PER_PASS
    edges: list[Edge] = []
    pairs: list[tuple[Any, ...]] = []
    entries: list[Entry] = []
    ranks, numbered = 0, 0
    for number in range(passes):
        con.execute(queries.P2P_OPERATIONS, launch | {"passes": passes, "pass": number})
        positions, ordered = _positions(con)
        con.register("p2p_positions", positions)
        con.execute(queries.P2P_NUMBERED)
        con.unregister("p2p_positions")
        for comm, source, source_pid, target, target_pid, *counts in con.sql(queries.P2P_PROGRESS).fetchall():
            edges.append(Edge(comm, (source, source_pid), (target, target_pid), *counts))
        pairs += con.sql(queries.EDGES, params={"blocks": blocks}).fetchall()
        for *series, host, pid, block, time in con.sql(queries.P2P_OCCUPATION, params={"blocks": blocks}).fetchall():
            entries.append((tuple(series), index[host, pid], block, time))
        [(all_ranks, lossless)] = con.sql(
            "SELECT count(*), count(*) FILTER (lossless)"
            " FROM (SELECT comm, rank, bool_and(lossless) AS lossless FROM p2p_operations GROUP BY comm, rank)"
        ).fetchall()
        ranks += all_ranks
        numbered += lossless + ordered
    pairs.sort(key=lambda pair: tuple(map(str, pair)))
    edges.sort(key=lambda edge: (edge.comm, edge.source, edge.target))
    return _PointToPoint(edges, pairs, entries, bool(pairs) and numbered >= _NUMBERED_ENOUGH * ranks)


def _positions(con: duckdb.DuckDBPyConnection) -> tuple[pa.Table, int]:
    """The table `p2p_positions` of `queries.P2P_NUMBERED`: the order in which each rank that lost records repeats its
    operations; and of how many ranks all of it is known."""
    lossy = con.sql(queries.LOSSY_OPERATIONS).fetchnumpy()
    rows: list[dict[str, int]] = []
    periods: list[int] = []
    known = 0
    _, starts = np.unique(np.stack([lossy["comm"], lossy["rank"]]), axis=1, return_index=True)
    for start, end in pairwise([*sorted(starts.tolist()), len(lossy["sn"])]):
        numbers, codes = lossy["sn"][start:end].astype(np.int64), lossy["code"][start:end].astype(np.int64)
        order = find_order(numbers, codes, periods)
        if order is None:
            continue
        known += -1 not in order.codes
        periods = [order.period, *(period for period in periods if period != order.period)]
        comm, rank = int(lossy["comm"][start]), int(lossy["rank"][start])
        rows += [
            {
                "comm": comm, "rank": rank, "period": order.period, "residue": residue,
                "before": before, "in_period": in_period,
            }
            for residue, before, in_period in order.positions()
        ]  # fmt: skip
    columns = ("comm", "rank", "period", "residue", "before", "in_period")
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.int64()) for name in columns])), known


def _prepare(con: duckdb.DuckDBPyConnection, launch: dict[str, Any]) -> int:
    """Create the temporary tables of usable collectives, cut into blocks; returns the number of blocks."""
    con.execute(queries.COMMUNICATORS, launch)
    con.execute(queries.USABLE_CELLS, launch | {"sync": list(SYNC_COLLECTIVES)})
    con.execute(queries.SERIES, {"least": _PULSE})
    [(pulse,)] = con.sql("SELECT max(pulse) FROM series").fetchall()
    [(recorded,)] = con.sql(queries.RECORDED_SHARE).fetchall()
    blocks = _number_of_blocks(int(pulse or 0), recorded)
    con.execute(queries.BLOCKED_CELLS, {"blocks": blocks, "most": _MOST_PARTIAL})
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


def _communicating(entries: list[Entry], processes: int, blocks: int) -> Floats:
    """Sums by process and block. A block of a series in which a process has no record is filled from its neighbours,
    lest what was not recorded looks like time spent elsewhere."""
    rows: dict[tuple[Any, ...], int] = {}
    places = [rows.setdefault((series, process), len(rows)) for series, process, _, _ in entries]
    by_series = np.full((len(rows), blocks), np.nan)
    for row, (_, _, block, time) in zip(places, entries, strict=True):
        by_series[row, block] = time
    result = np.zeros((processes, blocks))
    np.add.at(result, [process for _, process in rows], filled(by_series))
    return result


def _in_collectives(
    con: duckdb.DuckDBPyConnection, launch: dict[str, Any], index: dict[Process, int]
) -> Iterator[Entry]:
    """What each process spent in collectives: sums where they are complete, fitted where they are not."""
    for comm, coll, host, pid, block, time in con.sql(queries.OCCUPATION, params=launch).fetchall():
        yield (comm, coll), index[host, pid], block, time
    records = con.sql(queries.PARTIAL_RECORDS, params=launch).fetchnumpy()
    if not len(records["comm"]):
        return
    process = np.array([index[key] for key in zip(records["hostname"], records["pid"].tolist(), strict=True)])
    functions, function = np.unique(records["coll"].astype(str), return_inverse=True)
    key = np.stack([records["comm"], function.ravel(), records["block"]]).astype(np.int64)
    keys, group = np.unique(key, axis=1, return_inverse=True)
    group = group.ravel()
    in_block = np.zeros(keys.shape[1])
    in_block[group] = records["in_block"]
    fitted = typical_times(
        group, records["coll_sn"], records["position"], process, records["time_us"].astype(np.float64)
    )
    for number, member, time in zip(*(part.tolist() for part in fitted), strict=True):
        comm, coll, block = keys[:, number].tolist()
        yield (comm, str(functions[coll])), member, block, float(in_block[number]) * time


def _edge_transfers(pairs: list[tuple[Any, ...]]) -> list[Transfer]:
    transfers = []
    for comm, source_host, source_pid, host, pid, size, block, median, stands_for, _ in pairs:
        source, target = (source_host, source_pid), (host, pid)
        alike = ("p2p", size, source_host == host)
        path = ("p2p", source, target, size)
        transfers.append(Transfer(path, comm, (source, target), alike, size, block, median, stands_for))
    return transfers


def _number_of_blocks(pulse: int, recorded: float) -> int:
    """Blocks for a job whose rarest regular collective came `pulse` times: whole steps, where that is possible.

    When only a share of the records is there (`recorded`), a block is as much longer.
    """
    wanted = max(MIN_BLOCKS, round(MAX_BLOCKS * min(1.0, recorded)))
    steps_per_block = max(1, -(-pulse // wanted), round(1 / max(recorded, 0.01)))
    return min(max(pulse // steps_per_block, MIN_BLOCKS), wanted)


def _collective_transfers(con: duckdb.DuckDBPyConnection, communicators: tuple[Communicator, ...]) -> list[Transfer]:
    transfers = []
    for number, coll, size, block, median, _, stands_for in con.sql(
        queries.TRANSFERS, params={"least": _LEAST_PARTIAL}
    ).fetchall():
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

    Blocks that were written by the same pass of the dump thread share the time since the pass before. The first block
    gets its share of the whole log.
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
        if steps:
            durations[block] = max(0.0, float(np.median(steps)))
    return shared_out(durations, _SAME_PASS * share)


def shared_out(durations: Floats, least: float) -> Floats:
    """Each run of durations below `least` shares the duration before it."""
    passes = np.cumsum((durations > least).astype(np.int64))
    passes = passes - passes[0]
    shared: Floats = (np.bincount(passes, durations) / np.bincount(passes))[passes]
    return shared
