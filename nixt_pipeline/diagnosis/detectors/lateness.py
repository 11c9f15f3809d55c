"""Who came late, from execution times alone.

A rank that waits reports a long time, and the one that all wait for a short one. So the process that is late by its own
doing is the one that spends *less* time in communication (waiting and transferring) than those who do the same work:
in a synchronous job all take equally long, and what a process does not spend in communication it spends computing,
loading data or stalling. A process that is late because it waited itself, for a pipeline stage or a late peer, spent
that time in communication: it has no deficit. One whose transfers are slow has none either. That tells roots from
victims without walking chains of waiting, and without any clock.

A name is given only when collectives confirm it: in those where ranks waited, the named one came last.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from nixt_pipeline.arrays import Floats, Marks
from nixt_pipeline.diagnosis.detectors.deficits import deficits, felt_us
from nixt_pipeline.diagnosis.detectors.windows import Noise, Window, chance, chance_among, densest_window, noise_of
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.parts import waiting_together
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of
from nixt_pipeline.settings import Thresholds

# What its processes have in common must be most of what the latest of them lacks, and a process is named next to its
# host when it lacks about as much again.
_HOST_EXPLAINS = 0.5
_BESIDE_ITS_HOST = 0.5
# With this many blocks, the first one is left out.
_SETTLED = 10
# Stretches in a window: each has several passes of the dump thread, and few have a checkpoint.
_STRETCHES = 4
# Two that are late for one reason, as ranks of one machine or one waiting for the other, are equally late within this.
AS_LATE = 1.25


@dataclass(frozen=True)
class Launched:
    """Whose lateness it is by its launches, and how long after these its kernels and those of the others start."""

    late: Literal["cpu", "gpu", "both"]
    own_lag_us: float
    others_lag_us: float


@dataclass(frozen=True)
class Late:
    """An entity that is late by its own doing, before it is put into words.

    `cost_share`: of the time in its window; `typical_share`: in the middle block, which a checkpoint does not move.
    `last_share`: of the waiting in its collectives, how much was for it; None where a later one hides it.
    `intermittent`: late in the marked blocks of its window only, every so many blocks (`every`). `launched`: whether
    its CPU or its GPU is late, where that was recorded. `any_of_process`: confirmed only where any rank of its process
    may be meant. `waits`: of how many equally long waits for it the collectives tell as much; None where unknown.
    """

    level: str
    hosts: tuple[str, ...]
    processes: tuple[Process, ...]
    stage: int
    window: Window
    cost_share: float
    typical_share: float
    slowdown: float | None
    lost_us: float
    late_us: float
    probability: float
    last_share: float | None
    waited_cells: int
    peers: int
    intermittent: bool = False
    every: float | None = None
    launched: Launched | None = None
    any_of_process: bool = False
    waits: float | None = None


class _Waited(NamedTuple):
    """What was waited in some communicators: the share of it that was for the one in question, in the middle block; how
    much that was, in microseconds; in how many collectives ranks waited; and `Late.waits`."""

    share: float
    us: float
    cells: int
    waits: float | None


@dataclass(frozen=True)
class _Candidate:
    """A host or a process that may be late: its rows in the observations, its deficit by block, that of its middle
    process, and what its peers spend outside of communication."""

    level: str
    stage: int
    rows: tuple[int, ...]
    values: Floats
    usual: Floats
    working: Floats

    def beyond(self, gate: Floats) -> float:
        """How much of the deficit is more than the gate."""
        return float(np.clip(self.values - gate, 0, None).sum())

    def marks(self, seen: Observations, limits: Thresholds) -> Marks:
        """The blocks in which it is clearly late: by half of its larger deficits, within the costs that are worth a
        note."""
        typical = float(np.quantile(self.values / seen.block_us, 0.9)) / 2
        marked: Marks = self.values > seen.block_us * min(
            max(typical, limits.diagnosis.min_cost_share), limits.diagnosis.p2_cost_share
        )
        # Warming up takes some longer than others.
        marked[0] = marked[0] and seen.blocks < _SETTLED
        return marked


@dataclass(frozen=True)
class _Odds:
    """How likely a candidate would be the latest so often, how many are tested, how much deficits vary by themselves,
    and those of the others by block, as shares of it."""

    by_rank: float
    tested: int
    noise: Noise
    others: Floats

    def by_chance(self, shares: Floats, window: Window, gate: float) -> float:
        """How likely chance makes a candidate so late in a window, by its deficits there as shares of the blocks."""
        by_size = max(
            self.noise.chance(shares - gate, window, self.tested),
            chance_among(shares, self.others, window, self.tested),
        )
        return min(1.0, 2 * min(self.by_rank, by_size))


def find_late(seen: Observations, limits: Thresholds) -> list[Late]:
    """Everybody who is late by their own doing, hosts before processes; what is explained by a host is not repeated."""
    late, working = deficits(seen, limits)
    own = late.copy()
    index = {process: row for row, process in enumerate(seen.processes)}
    found: list[Late] = []
    machine_of = seen.machines.of
    for number, stage in enumerate(seen.stages()):
        rows = sorted(index[process] for process in stage)
        by_host: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by_host[machine_of[seen.processes[row]]].append(row)
        hosts = []
        for members in by_host.values():
            if len(members) > 1 and len(by_host) > 1:
                # What nearly all of its processes have in common: one late process does not make a host late.
                common = np.quantile(late[members], 1 - limits.diagnosis.host_share, axis=0, method="lower")
                usual = np.median(late[members], axis=0)
                hosts.append(_Candidate("host", number, tuple(members), common, usual, working[members[0]]))
                # A process stands out from its host: what all have in common is the host's, named or not.
                own[members] = late[members] - np.clip(common, 0, None)
        as_hosts = [
            suspect
            for suspect in _suspects(seen, hosts, len(by_host), limits)
            if suspect.late_us
            >= _HOST_EXPLAINS * late[by_host[machine_of[suspect.processes[0]]], suspect.window.part()].mean(1).max()
        ]
        late_hosts, other_hosts = _confirmed(seen, _alike(seen, as_hosts), [], limits)
        singles = [_Candidate("rank", number, (row,), own[row], own[row], working[row]) for row in rows]
        costs = {machine_of[process]: entity.cost_share for entity in late_hosts for process in entity.processes}
        suspects = [
            suspect
            for suspect in _suspects(seen, singles, len(singles), limits)
            if suspect.cost_share >= costs.get(machine_of[suspect.processes[0]], 0.0) * _BESIDE_ITS_HOST
        ]
        late_ranks, other_ranks = _confirmed(seen, _alike(seen, suspects), late_hosts, limits)
        named = [*late_hosts, *late_ranks]
        found += named + [late for late in (*other_hosts, *other_ranks) if _hidden(late, named, limits)]
    return found


def _suspects(seen: Observations, candidates: list[_Candidate], entities: int, limits: Thresholds) -> list[Late]:
    """Whose deficit chance does not explain and costs enough: one after the other, the latest first, each time without
    those that are suspected already."""
    gate = limits.diagnosis.min_cost_share * seen.block_us
    found: list[Late] = []
    innocent: list[_Candidate] = []
    rest = sorted(candidates, key=lambda candidate: -candidate.beyond(gate))
    noise = noise_of(
        [(candidate.usual / seen.block_us, densest_window(candidate.marks(seen, limits))) for candidate in candidates]
    )
    while rest:
        latest, *rest = rest
        marks = latest.marks(seen, limits)
        window = densest_window(marks)
        if window is None:
            break
        top = np.max([*(candidate.values for candidate in rest), np.zeros_like(gate)], axis=0)
        first = replace(window, marked=int((marks & (latest.values >= top))[window.part()].sum()))
        # By chance, each is the latest of a block equally often.
        probability = chance(first, 1 / max(entities - len(found), 2), len(candidates))
        beside = [*rest, *innocent]
        others = np.array([candidate.values for candidate in beside]).reshape(len(beside), seen.blocks) / seen.block_us
        odds = _Odds(probability, len(candidates), noise, others)
        late = _judge(seen, latest, window, entities - len(found), odds, limits)
        found += [late] if late else []
        innocent += [] if late else [latest]
    return found


def _judge(
    seen: Observations,
    candidate: _Candidate,
    window: Window,
    entities: int,
    odds: _Odds,
    limits: Thresholds,
) -> Late | None:
    """The candidate as a suspect, if chance does not explain it and it costs enough."""
    part = window.part()
    elapsed = float(seen.block_us[part].sum())
    cost = float(np.clip(candidate.values[part], 0, None).sum())
    slowdown = _slowdown(candidate.values[part], candidate.working[part], seen.block_us[part], limits)
    probability = odds.by_chance(candidate.values[part] / seen.block_us[part], window, limits.diagnosis.min_cost_share)
    share = cost / elapsed if elapsed > 0 else 0.0
    slow = _is_slow(slowdown, share, limits)
    # One long block (a checkpoint) makes no condition of the others.
    typical = min(share, float(np.median(candidate.values[part] / seen.block_us[part])))
    if (
        window.marked < limits.diagnosis.min_blocks
        or window.density < limits.diagnosis.min_density
        or probability > limits.diagnosis.max_chance
        or not (slow or typical >= limits.diagnosis.p2_cost_share or _felt(seen, candidate, window, typical, limits))
    ):
        return None
    processes = tuple(seen.processes[row] for row in candidate.rows)
    return Late(
        level=candidate.level,
        hosts=hosts_of(processes),
        processes=processes,
        stage=candidate.stage,
        window=window,
        cost_share=min(1.0, share),
        typical_share=typical,
        slowdown=slowdown,
        # A synchronous job waits as a whole: in its peers' collectives, and through pipelines everywhere else.
        lost_us=cost * (len(waiting_together(seen)[processes[0]]) - len(processes)),
        late_us=cost / window.length,
        probability=probability,
        last_share=None,
        waited_cells=0,
        peers=entities - 1,
    )


def _is_slow(slowdown: float | None, share: float, limits: Thresholds) -> bool:
    """Whether it computes so much longer than its peers that it matters whatever it costs, if it costs anything."""
    enough = share >= limits.diagnosis.min_cost_share
    return slowdown is not None and slowdown >= limits.diagnosis.min_slowdown and enough


def _felt(seen: Observations, candidate: _Candidate, window: Window, typical: float, limits: Thresholds) -> bool:
    """Whether the job lost enough by one of whose lateness a part is taken for carried over."""
    if typical < limits.diagnosis.min_cost_share:
        return False
    cost_us = felt_us(seen, list(candidate.rows), window, limits) or 0.0
    return cost_us >= limits.diagnosis.p2_cost_share * float(seen.block_us[window.part()].sum())


def _alike(seen: Observations, suspects: list[Late]) -> list[Late]:
    """Suspects that are late at the same time, by as much, as one that is waited for once; only where host names do not
    tell which processes share a machine, for they may be all of one."""
    if seen.machines.by_name:
        return suspects
    left, joined = list(suspects), []
    while left:
        first = left[0]
        like = [
            other
            for other in left
            if other.window.overlap(first.window) * 2 >= max(first.window.length, other.window.length)
            and max(first.cost_share, other.cost_share) <= AS_LATE * min(first.cost_share, other.cost_share)
        ]
        left = [other for other in left if other not in like]
        processes = tuple(process for late in like for process in late.processes)
        waiting = len(waiting_together(seen)[processes[0]])
        lost_us = first.lost_us * (waiting - len(processes)) / max(waiting - len(first.processes), 1)
        joined.append(replace(first, processes=processes, hosts=hosts_of(processes), lost_us=lost_us))
    return joined


def _slowdown(late: Floats, working: Floats, block_us: Floats, limits: Thresholds) -> float | None:
    """How many times as long as its peers the entity computes, in the middle one of stretches of neighbouring blocks:
    an evaluation or a checkpoint takes long in a few, and a single block lasts whole passes of the dump thread. Where
    communication overlaps computation, what is left of a block says nothing about computing."""
    stretch = np.ones(-(-len(block_us) // _STRETCHES))
    late, working, block_us = (np.convolve(values, stretch, "valid") for values in (late, working, block_us))
    clear = working > limits.diagnosis.p2_cost_share * block_us
    return 1 + float(np.median(late[clear] / working[clear])) if clear.sum() * 2 > len(clear) else None


def _confirmed(
    seen: Observations, suspects: list[Late], named: list[Late], limits: Thresholds
) -> tuple[list[Late], list[Late]]:
    """The suspects that collectives confirm, and the others."""
    confirmed, left = [], []
    for late in suspects:
        others = [other for other in (*suspects, *named) if other is not late]
        least_us = limits.diagnosis.min_waited_share * late.late_us * late.window.length
        for entity in [late, replace(late, any_of_process=True)][: 2 if late.level == "rank" else 1]:
            convincing = [
                waited
                for waited in _waiting(seen, entity, others)
                if waited.share >= limits.diagnosis.min_last_share and waited.us >= least_us
            ]
            if convincing:
                share, _, cells, waits = convincing[0]
                confirmed.append(replace(entity, last_share=share, waited_cells=cells, waits=waits))
                break
        else:
            left.append(late)
    return confirmed, left


def _waiting(seen: Observations, late: Late, others: list[Late]) -> list[_Waited]:
    """What is waited in each of its communicators, those first in which most is waited for it. What is waited for the
    others says nothing about it.

    Of a host, all communicators of one shape count together, for its processes are in one each.
    """
    is_it, is_other = _waited_for(seen, late), [_waited_for(seen, other) for other in others]
    shared: dict[int, object] = {
        comm.number: comm.number if late.level == "rank" else comm.shape for comm in _shared(seen, late)
    }
    waiting: dict[object, Floats] = defaultdict(lambda: np.zeros((3, late.window.length)))
    cells: dict[object, int] = defaultdict(int)
    for arrival in seen.arrivals:
        if arrival.comm not in shared or not late.window.first <= arrival.block <= late.window.last:
            continue
        own, where = is_it(arrival.process), shared[arrival.comm]
        if own or not any(other(arrival.process) for other in is_other):
            waiting[where][:, arrival.block - late.window.first] += (
                own * arrival.waited_us, arrival.waited_us, own * arrival.squares_us2
            )  # fmt: skip
            cells[where] += arrival.cells
    found = []
    for where, (last, waited, squares) in waiting.items():
        # Where no rank is seen to wait, the one that all wait for may have lost its records.
        shares = last[waited > 0] / waited[waited > 0]
        rings = list(shared.values()).count(where)
        # The effective number of weights, by Kish: many equal ones count in full, and next to a few long ones hardly.
        waits = float(last.sum() ** 2 / squares.sum()) / rings if squares.sum() > 0 else None
        found.append(_Waited(float(np.median(shares)), float(last.sum()) / rings, cells[where], waits))
    return sorted(found, key=lambda entry: -entry.us)


def _hidden(late: Late, named: list[Late], limits: Thresholds) -> bool:
    """Whether collectives cannot confirm it because one of its stage that is named was later still. What the job lost
    meanwhile is that one's doing, and says nothing of this one."""
    by_itself = _is_slow(late.slowdown, late.cost_share, limits) or late.typical_share >= limits.diagnosis.p2_cost_share
    return (
        by_itself
        and late.probability <= limits.diagnosis.beyond_doubt_chance
        and any(
            late.window.overlap(other.window) * 2 >= late.window.length and other.cost_share >= late.cost_share / 2
            for other in named
        )
    )


def _waited_for(seen: Observations, late: Late) -> Callable[[Process], bool]:
    """Whether a process that came last is the entity, or on it when it is a host, or another rank of its process."""
    processes, machine_of = set(late.processes), seen.machines.of
    machines = {machine_of[process] for process in processes}
    if late.any_of_process:
        ids = {process[:2] for process in processes}
        return lambda process: process[:2] in ids
    return lambda process: process in processes or (late.level == "host" and machine_of[process] in machines)


def _shared(seen: Observations, late: Late) -> list[Communicator]:
    """The communicators in which the entity meets others of its stage, and of no other: among several stages, who
    waited for the one that is late comes last as well. Those of which it is not known which rank of its process is in
    them, only where it may be any."""
    processes = set(late.processes)
    stage = next(stage for stage in seen.stages() if processes <= stage)
    shared = []
    for comm in seen.communicators:
        inside = sum(member in processes for member in comm.members)
        machines = {seen.machines.of[member] for member in comm.members}
        told_apart = len(machines) > 1 if late.level == "host" else comm.certain != late.any_of_process
        if inside and inside < len(comm.members) and told_apart and stage.issuperset(comm.members):
            shared.append(comm)
    return shared
