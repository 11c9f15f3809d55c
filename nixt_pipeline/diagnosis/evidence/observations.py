"""What the diagnosis looks at: small aggregates of a run's records by process, communicator and stage of progress.

No clock is compared with another host's. The job's own progress is the clock: the sequence numbers of a communicator,
from its first to its last, are cut into equally many *blocks*, and in a synchronous job the n-th block of one
communicator is the n-th block of every other.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from nixt_pipeline.diagnosis.evidence import point_to_point as p2p
from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.diagnosis.evidence.block_times import ClockStep, block_times
from nixt_pipeline.diagnosis.evidence.era import Era, restrict
from nixt_pipeline.diagnosis.evidence.machines import Machines, machines_of
from nixt_pipeline.diagnosis.evidence.overlap import measure_overlap
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, process_of
from nixt_pipeline.diagnosis.evidence.recording import has_one_slot
from nixt_pipeline.diagnosis.evidence.sampled import filled, like_others, numbered, typical_times
from nixt_pipeline.diagnosis.evidence.stages import find_stages
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]
Edge = p2p.Edge

# Incomplete collectives that are looked at in each block of a communicator: more tell hardly more, but take memory.
_MOST_PARTIAL = 24
# Parts of a step that are told apart when records are missing.
_MOST_PLACES = 8
# Functions and message sizes of which transfers are compared: a model has hundreds of them.
_COMPARED_OPERATIONS = 4_096
# Where fewer records than this share are looked at, ranks may have waited for one another unseen.
_WHOLE = 0.98
# Incomplete collectives of which one has probably the rank that came last, when every third record is lost.
_LEAST_PARTIAL = 2

# Fewer collectives than this tell no step from the next: a communicator of the start-up is not the job's pulse.
_PULSE = 20
MIN_BLOCKS, MAX_BLOCKS = 4, 40


@dataclass(frozen=True)
class Communicator:
    """One communicator of the launch, with its members by rank. `certain` unless a member is one of several ranks of
    its process, of which any could be in it."""

    number: int
    id: str
    name: str | None
    n_ranks: int
    nnodes: int
    coll_type: str
    role: str | None
    members: tuple[Process, ...]
    certain: bool = True

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
    and how long the first rank waited for it, in those that were not recorded as well."""

    comm: int
    block: int
    process: Process
    cells: int
    waited_us: float


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
    collectives are not among the transfers, and their share of the bytes.
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
        part = replace(
            self,
            blocks=len(blocks),
            communicating=self.communicating[:, blocks],
            carried=self.carried[:, blocks],
            block_us=self.block_us[blocks],
            block_end_us=tuple(self.block_end_us[block] for block in blocks),
            arrivals=tuple(
                replace(arrival, block=number[arrival.block]) for arrival in self.arrivals if arrival.block in number
            ),
        )
        part.__dict__["_stages"] = self._stages  # where the cached property keeps them
        return part

    @cached_property
    def _stages(self) -> tuple[frozenset[Process], ...]:
        return find_stages(self)


def observe(
    con: duckdb.DuckDBPyConnection, incarnation: int, limits: Thresholds, era: Era | None = None
) -> Observations:
    """Aggregate one launch of the run behind `con`, a connection of `store.catalog.open_run`, or one era of it; call it
    after `order_replays`."""
    launch: dict[str, Any] = {"incarnation": incarnation}
    restrict(con, era)
    blocks, looked_at = _prepare(con, launch)
    one_slot = has_one_slot(con)
    rows = con.sql("SELECT hostname, pid, name FROM diagnosed_processes ORDER BY process").fetchall()
    processes = tuple(process_of(*row) for row in rows)
    communicators = _communicators(con, processes)
    edges = p2p.point_to_point(con, incarnation, blocks, processes)
    in_collectives = _in_collectives(con, blocks)
    spent = [*in_collectives, *(edges.spent if edges.complete else [])]
    [(lossy,)] = con.sql("SELECT coalesce(bool_or(NOT whole), false) FROM blocks").fetchall()
    members = con.sql(queries.MEMBER_SERIES).fetchnumpy() if lossy else None
    together = _unsure(con, communicators, processes)
    occupied = _by_process(spent, "time_us", members, together, blocks)
    carried = _by_process(in_collectives, "carried_us", members, together, blocks)
    communicating = occupied - carried
    times = block_times(con, blocks, float(con.sql(queries.SPAN, params=launch).fetchall()[0][0] or 0), limits)
    last = {"blocks": blocks, "floor_us": limits.diagnosis.late_floor_us, "share": limits.diagnosis.late_spread_share}
    return Observations(
        incarnation=incarnation,
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
            Arrival(comm, block, processes[process], cells, waited)
            for comm, block, process, cells, waited in con.sql(queries.LAST_ARRIVALS, params=last).fetchall()
        ),
        transfers=(*_collective_transfers(con, communicators, one_slot), *_edge_transfers(edges.pairs)),
        edges=tuple(edges.edges),
        matched_p2p=sum(edge.operations for edge in edges.edges) if edges.complete else 0,
        large_message_bytes=limits.analysis.large_message_bytes,
        clock_steps=times.steps,
        lacking=frozenset(comm for comm, _, _, records, used in looked_at if one_slot or used < _WHOLE * records),
        not_compared=con.sql(queries.NOT_COMPARED, params={"operations": _COMPARED_OPERATIONS}).fetchall()[0],
        looked_at={comm: (cells, used) for comm, cells, used, _, _ in looked_at},
        left_out=frozenset(
            comm for comm, cells, used, _, _ in looked_at if cells - used > limits.diagnosis.max_unordered_share * cells
        ),
    )


def _prepare(
    con: duckdb.DuckDBPyConnection, launch: dict[str, Any]
) -> tuple[int, list[tuple[int, float, float, float, float]]]:
    """Create the temporary tables of usable collectives, cut into blocks; returns the number of blocks, and how much of
    each communicator is looked at (`queries.LOOKED_AT`)."""
    con.execute(queries.COMMUNICATORS, launch)
    con.execute(queries.PROCESSES, launch)
    con.execute(queries.MEMBERS, launch)
    con.execute(queries.USABLE_CELLS, {"sync": list(SYNC_COLLECTIVES)})
    con.execute(queries.SERIES, {"least": _PULSE, "most_places": _MOST_PLACES})
    [(pulse,)] = con.sql("SELECT max(pulse) FROM series").fetchall()
    [(recorded,)] = con.sql(queries.RECORDED_SHARE).fetchall()
    blocks = _number_of_blocks(int(pulse or 0), recorded)
    con.execute(queries.BLOCKS, {"blocks": blocks, "most": _MOST_PARTIAL})
    con.execute(queries.BLOCKED_CELLS, {"blocks": blocks})
    measure_overlap(con)
    looked_at = con.sql(queries.LOOKED_AT, params=launch | {"sync": list(SYNC_COLLECTIVES)}).fetchall()
    con.execute("DROP TABLE usable_cells")
    return blocks, looked_at


def _communicators(con: duckdb.DuckDBPyConnection, processes: Sequence[Process]) -> tuple[Communicator, ...]:
    members: dict[int, list[Process]] = defaultdict(list)
    for comm, process in con.sql("SELECT comm, process FROM diagnosed_members ORDER BY comm, rank, process").fetchall():
        members[comm].append(processes[process])
    unsure = {comm for (comm,) in con.sql(queries.UNSURE).fetchall()}
    rows = con.sql(
        "SELECT comm, coalesce(id, '(no id)'), comm_name, n_ranks, nnodes, coll_type, parallel_role"
        " FROM diagnosed_communicators ORDER BY comm"
    ).fetchall()
    return tuple(
        Communicator(number, name, label, ranks, nodes, kind, role, tuple(members[number]), number not in unsure)
        for number, name, label, ranks, nodes, kind, role in rows
    )


@dataclass(frozen=True)
class _Together:
    """The number of each process among the process ids, of which one can have several ranks; and the series of
    which it is not known which of these ranks are in them."""

    process_id: Ints
    series: Ints


def _unsure(
    con: duckdb.DuckDBPyConnection, communicators: Sequence[Communicator], processes: Sequence[Process]
) -> _Together:
    numbers = {key: number for number, key in enumerate(dict.fromkeys(process[:2] for process in processes))}
    unsure = [comm.number for comm in communicators if not comm.certain]
    series = (
        con.sql(queries.UNSURE_SERIES, params={"unsure": unsure}).fetchnumpy()["series"] if unsure else np.array([])
    )
    return _Together(np.array([numbers[process[:2]] for process in processes], np.int64), series.astype(np.int64))


def _by_process(spent: list[Columns], what: str, members: Columns | None, together: _Together, blocks: int) -> Floats:
    """Sums of the column `what` by process and block. What any rank of a process id could have spent is shared out
    among all of them. A block of a series in which a process has no record is filled
    from other blocks, and a series in which it has none at all (of `members`, which lists them) like those of others,
    lest what was not recorded looks like time spent elsewhere."""
    series, process, block, time = (
        np.concatenate([part[name] for part in spent]) for name in ("series", "process", "block", what)
    )
    rows, row = numbered(series, process)
    by_series = np.full((rows.shape[1], blocks), np.nan)
    by_series[row, block] = time
    by_series = filled(by_series)
    result = np.zeros((len(together.process_id), blocks))
    unsure = np.isin(rows[0], together.series)
    np.add.at(result, rows[1, ~unsure], by_series[~unsure])
    if members is not None:
        np.add.at(result, *_never_recorded(rows, by_series, members))
    return result + _shared_out(rows[1, unsure], by_series[unsure], together.process_id) if unsure.any() else result


def _shared_out(process: Ints, times: Floats, process_id: Ints) -> Floats:
    """The times by process, each the mean over all with its process id."""
    sums = np.zeros((process_id.max() + 1, times.shape[1]))
    np.add.at(sums, process_id[process], times)
    return (sums / np.bincount(process_id)[:, None])[process_id]


def _never_recorded(rows: Ints, by_series: Floats, members: Columns) -> tuple[Ints, Floats]:
    """The processes and the times, by block, of what is in `members` and not in the `rows` (series and process)."""
    expected = np.stack([members["series"].astype(np.int64), members["process"]])
    _, number = numbered(*np.concatenate([rows, expected], axis=1))
    row_of = np.full(number.max(initial=0) + 1, -1)
    row_of[number[: rows.shape[1]]] = np.arange(rows.shape[1])
    row = row_of[number[rows.shape[1] :]]
    absent = row < 0
    times = np.where(absent[:, None], np.nan, by_series[row])
    keys = (members[key].astype(np.int64) for key in ("beside", "alike", "series"))
    return expected[1, absent], like_others(times, *keys)[absent]


def _in_collectives(con: duckdb.DuckDBPyConnection, blocks: int) -> list[Columns]:
    """What each process spent in collectives: sums where they are complete, fitted where they are not."""
    con.execute(queries.LEFT_OUT, {"sync": list(SYNC_COLLECTIVES)})
    spent = con.sql(queries.OCCUPATION, params={"blocks": blocks}).fetchnumpy()
    [(partial,)] = con.sql("SELECT count(*) FROM blocks WHERE NOT whole").fetchall()
    if not partial:
        return [spent]
    records = con.sql(queries.PARTIAL_RECORDS).fetchnumpy()
    keys, group = numbered(records["series"], records["block"])
    at_place, fresh = np.zeros((2, keys.shape[1]))
    at_place[group], fresh[group] = records["at_place"], records["fresh"]
    number, member, time = typical_times(
        group, records["coll_sn"], records["process"], records["time_us"].astype(np.float64)
    )
    series, block = keys[:, number]
    shortest = np.full(keys.shape[1], np.inf)
    np.minimum.at(shortest, number, time)
    carried = (1 - fresh[number]) * (time - shortest[number])
    fitted = {
        "series": series.astype(np.uint64), "process": member, "block": block,
        "time_us": at_place[number] * time, "carried_us": at_place[number] * carried,
    }  # fmt: skip
    return [spent, fitted]


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


def _number_of_blocks(pulse: int, recorded: float) -> int:
    """Blocks for a job whose rarest regular collective came `pulse` times: whole steps, where that is possible.

    When only a share of the records is there (`recorded`), a block is as much longer.
    """
    wanted = max(MIN_BLOCKS, round(MAX_BLOCKS * min(1.0, recorded)))
    steps_per_block = max(1, -(-pulse // wanted), round(1 / max(recorded, 0.01)))
    return min(max(pulse // steps_per_block, MIN_BLOCKS), wanted)


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
