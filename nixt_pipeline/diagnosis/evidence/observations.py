"""What the diagnosis looks at: small aggregates of a run's records by process, communicator and stage of progress.

No clock is compared with another host's. The job's own progress is the clock: the sequence numbers of a communicator,
from its first to its last, are cut into equally many *blocks*, and in a synchronous job the n-th block of one
communicator is the n-th block of every other.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import duckdb
import numpy as np

from nixt_pipeline.arrays import Array, Floats
from nixt_pipeline.diagnosis.evidence import point_to_point as p2p
from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.diagnosis.evidence.block_times import ClockStep, block_times
from nixt_pipeline.diagnosis.evidence.machines import Machines, machines_of
from nixt_pipeline.diagnosis.evidence.occupation import read_occupation
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, process_of
from nixt_pipeline.diagnosis.evidence.recording import has_one_slot
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.stages import find_stages
from nixt_pipeline.diagnosis.evidence.stalls import Stall, read_stalls
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables
from nixt_pipeline.settings import Thresholds

Columns = dict[str, Array]
Edge = p2p.Edge

# Functions and message sizes of which transfers are compared: a model has hundreds of them.
_COMPARED_OPERATIONS = 4_096
# Incomplete collectives of which one has probably the rank that came last, when every third record is lost.
_LEAST_PARTIAL = 2


@dataclass(frozen=True)
class Communicator:
    """One communicator of the launch, with its members by rank. `certain` unless a member is one of several ranks of
    its process, of which any could be in it. `key`: the hash of its identity; `span`: when it was first and last
    written, where that is known."""

    number: int
    id: str
    name: str | None
    n_ranks: int
    nnodes: int
    coll_type: str
    role: str | None
    members: tuple[Process, ...]
    certain: bool = True
    key: int = 0
    span: Span | None = None

    @property
    def hosts(self) -> frozenset[str]:
        """Where its ranks run."""
        return frozenset(hosts_of(self.members))

    @property
    def shape(self) -> tuple[object, ...]:
        """What communicators have in common that do the same for different processes."""
        return self.n_ranks, self.nnodes, self.coll_type, len(self.hosts) > 1

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
    """In one block of one communicator: in how many collectives that waited noticeably `process` was seen to come last,
    and how long the first rank waited for it, in those that were not recorded as well. `squares_us2`: the sum of the
    squares of these waits, which tells many short ones from a few long ones; 0 where that is not known."""

    comm: int
    block: int
    process: Process
    cells: int
    waited_us: float
    squares_us2: float = 0.0


@dataclass(frozen=True)
class Observations:
    """One launch of a run.

    `communicating`: microseconds in collectives, Send and Recv, waiting included, by process (row) and block (column).
    `carried`: what their times add up to beyond that, for it was waited in the collective before already.
    `synchronised_bytes`: the largest collective of each communicator in which ranks wait for one another, by number.
    `matched_p2p`: pairs of Send and Recv, 0 when too few were recorded to know what waits for what.
    `clock_steps`: whose clocks were set while it ran. `lacking`: the numbers of communicators of which records are
    missing or were left out; `left_out`: of those of which many collectives that were recorded are not looked at;
    `looked_at`: how many of each were recorded, and are looked at. `not_compared`: how many functions and sizes of
    collectives are not among the transfers, and their share of the bytes. `ranks`: the global ranks that are known.
    `stalls`: single transfers that stalled. `pulse`: how many steps it has at most, 0 where that is unknown.
    `one_slot`: the plugin remembers one operation of a communicator, and no Send or Recv.
    `whole_stages`: the stages of the job that this is a part of; None where it is the whole.
    """

    incarnation: int
    processes: tuple[Process, ...]
    communicators: tuple[Communicator, ...]
    blocks: int
    communicating: Floats
    carried: Floats
    synchronised_bytes: Mapping[int, int]
    block_us: Floats
    block_end_us: tuple[int | None, ...]
    arrivals: tuple[Arrival, ...]
    transfers: tuple[Transfer, ...]
    edges: tuple[Edge, ...]
    matched_p2p: int
    large_message_bytes: int
    clock_steps: tuple[ClockStep, ...] = ()
    lacking: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    looked_at: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    not_compared: tuple[int, float] = (0, 0.0)
    ranks: Mapping[Process, int] = field(default_factory=dict)
    stalls: tuple[Stall, ...] = ()
    pulse: float = 0.0
    one_slot: bool = False
    whole_stages: tuple[frozenset[Process], ...] | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that wrote a record."""
        return hosts_of(self.processes)

    @cached_property
    def machines(self) -> Machines:
        """Which processes share a machine; see `machines.machines_of`."""
        return machines_of(self.processes, self.communicators)

    def stages(self) -> tuple[frozenset[Process], ...]:
        """Processes that do the same work; see `stages.find_stages`."""
        return self._stages

    def only(self, blocks: Sequence[int]) -> "Observations":
        """The job as if it had these blocks only; its stages stay those of the whole job."""
        number = {block: index for index, block in enumerate(blocks)}
        return replace(
            self,
            blocks=len(blocks),
            communicating=self.communicating[:, blocks],
            carried=self.carried[:, blocks],
            block_us=self.block_us[blocks],
            block_end_us=tuple(self.block_end_us[block] for block in blocks),
            arrivals=tuple(
                replace(arrival, block=number[arrival.block]) for arrival in self.arrivals if arrival.block in number
            ),
            whole_stages=self.stages(),
        )

    def in_pairs(self, first: int) -> "Observations":
        """The job in blocks that are two of these each, the first one alone where `first` is 1. What is done at the end
        of a block by one communicator is at the beginning of the next one by another: in pairs, it is together."""
        pair_of = (np.arange(self.blocks) + first) // 2
        begins = np.flatnonzero(np.diff(pair_of, prepend=-1))
        return replace(
            self,
            blocks=len(begins),
            communicating=np.add.reduceat(self.communicating, begins, axis=1),
            carried=np.add.reduceat(self.carried, begins, axis=1),
            block_us=np.add.reduceat(self.block_us, begins),
            block_end_us=tuple(self.block_end_us[begin - 1] for begin in (*begins[1:].tolist(), self.blocks)),
            arrivals=tuple(replace(arrival, block=int(pair_of[arrival.block])) for arrival in self.arrivals),
            whole_stages=self.stages(),
        )

    @cached_property
    def _stages(self) -> tuple[frozenset[Process], ...]:
        return find_stages(self) if self.whole_stages is None else self.whole_stages


def observe(tables: LaunchTables, limits: Thresholds) -> Observations:
    """Aggregate one launch, or one era of it."""
    con, blocks = tables.con, tables.blocks
    one_slot, whole = has_one_slot(tables.run), limits.diagnosis.whole_log_share
    rows = con.sql("SELECT hostname, pid, name, global_rank FROM diagnosed_processes ORDER BY process").fetchall()
    processes = tuple(process_of(host, pid, name) for host, pid, name, _ in rows)
    communicators = _communicators(con, processes)
    edges = p2p.point_to_point(tables, processes, limits)
    communicating, carried = read_occupation(
        tables, processes, [comm.number for comm in communicators if not comm.certain], edges
    )
    span_us = con.sql(queries.SPAN, params={"incarnation": tables.incarnation}).fetchall()[0][0]
    times = block_times(tables, float(span_us or 0), limits)
    last = {"blocks": blocks, "floor_us": limits.diagnosis.late_floor_us, "share": limits.diagnosis.late_spread_share}
    return Observations(
        incarnation=tables.incarnation,
        processes=processes,
        communicators=communicators,
        blocks=blocks,
        communicating=communicating,
        carried=carried,
        synchronised_bytes=dict(con.sql(queries.SYNCHRONISED).fetchall()),
        # Write times of a plugin that writes once, at the end, say nothing: a block lasts at least as long as what half
        # of the processes did in it.
        block_us=np.maximum(times.lasted_us, np.median(communicating, axis=0) if processes else 0.0),
        block_end_us=times.ends_us,
        arrivals=tuple(
            Arrival(comm, block, processes[process], cells, waited, squares)
            for comm, block, process, cells, waited, squares in con.sql(queries.LAST_ARRIVALS, params=last).fetchall()
        ),
        transfers=(*_collective_transfers(con, communicators, one_slot), *_edge_transfers(edges.pairs)),
        edges=tuple(edges.edges),
        matched_p2p=sum(edge.operations for edge in edges.edges) if edges.complete else 0,
        large_message_bytes=limits.analysis.large_message_bytes,
        one_slot=one_slot,
        clock_steps=times.steps,
        pulse=con.sql(queries.PULSE).fetchall()[0][0],
        stalls=(*read_stalls(tables, {comm.number: comm.members for comm in communicators}, limits), *edges.stalls),
        ranks={process: row[3] for process, row in zip(processes, rows, strict=True) if row[3] is not None},
        lacking=frozenset(at.comm for at in tables.looked_at if one_slot or at.records_used < whole * at.records),
        not_compared=con.sql(queries.NOT_COMPARED, params={"operations": _COMPARED_OPERATIONS}).fetchall()[0],
        looked_at={at.comm: (at.cells, at.cells_used) for at in tables.looked_at},
        left_out=frozenset(
            at.comm
            for at in tables.looked_at
            if at.cells - at.cells_used > limits.diagnosis.max_unordered_share * at.cells
        ),
    )


def _communicators(con: duckdb.DuckDBPyConnection, processes: Sequence[Process]) -> tuple[Communicator, ...]:
    members: dict[int, list[Process]] = defaultdict(list)
    for comm, process in con.sql("SELECT comm, process FROM diagnosed_members ORDER BY comm, rank, process").fetchall():
        members[comm].append(processes[process])
    unsure = {comm for (comm,) in con.sql(queries.UNSURE).fetchall()}
    rows = con.sql(
        "SELECT comm, coalesce(id, '(no id)'), comm_name, n_ranks, nnodes, coll_type, parallel_role, comm_key,"
        " first_dump_us, last_dump_us FROM diagnosed_communicators ORDER BY comm"
    ).fetchall()
    return tuple(
        Communicator(
            number, id_, name, ranks, nodes, kind, role, tuple(members[number]), number not in unsure, key,
            None if first is None else (first, last),
        )
        for number, id_, name, ranks, nodes, kind, role, key, first, last in rows
    )  # fmt: skip


def _edge_transfers(pairs: list[p2p.Pairs]) -> list[Transfer]:
    transfers = []
    for pair in pairs:
        alike = ("p2p", pair.size_bytes, pair.source[0] == pair.target[0])
        path = ("p2p", pair.source, pair.target, pair.size_bytes)
        members = (pair.source, pair.target)
        transfers.append(
            Transfer(path, pair.comm, members, alike, pair.size_bytes, pair.block, pair.transfer_us, pair.stands_for)
        )
    return transfers


def _collective_transfers(
    con: duckdb.DuckDBPyConnection,
    communicators: tuple[Communicator, ...],
    one_slot: bool,
    operations: int = _COMPARED_OPERATIONS,
) -> list[Transfer]:
    transfers = []
    for number, coll, size, block, median, _, stands_for in con.sql(
        queries.TRANSFERS, params={"least": _LEAST_PARTIAL, "one_slot": one_slot, "operations": operations}
    ).fetchall():
        comm = communicators[number]
        if not comm.members:  # whose records do not say which processes wrote them
            continue
        alike = (coll, comm.n_ranks, comm.nnodes, size)
        path = ("collective", number, coll, size)
        transfers.append(Transfer(path, number, comm.members, alike, size, block, median, stands_for))
    return transfers
