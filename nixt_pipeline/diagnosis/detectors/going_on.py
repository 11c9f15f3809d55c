"""Whether a process that waited for no other did nothing more, as when a job is killed.

Who waits in a hang has done all that does not depend on it. What a process does next shows in its own past: some steps
ago it had done as much of everything. When that is a collective among processes that are equally far, none of which
hung, nothing kept them from it but the end of the job, or an operation too small to be recorded.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.operations import Log
from nixt_pipeline.diagnosis.evidence.passes import PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.steps import steps_in_order

# So many steps of the past are looked at. Fewer that tell what comes next may agree by chance.
_STEPS, _FEWEST = 20, 5
# Evaluations and checkpoints come between some of them.
_AGREE = 0.9

State = tuple[tuple[object, ...], ...]


def states_of(reaches: Iterable[Reach], numbered: Mapping[int, Communicator]) -> dict[Process, State]:
    """How far each process got in each of its collective functions: equal for those that do the same and are equally
    far."""
    states: dict[Process, list[tuple[object, ...]]] = defaultdict(list)
    for reach in reaches:
        comm = numbered[reach.communicator]
        states[reach.process].append((reach.coll, comm.n_ranks, comm.nnodes, reach.last))
    return {process: tuple(sorted(state, key=repr)) for process, state in states.items()}


def waits_for_nobody(
    process: Process,
    logs: Mapping[int, Log],
    states: Mapping[Process, State],
    numbered: Mapping[int, Communicator],
    suspects: Collection[Process],
    may_wait_unseen: bool,
) -> bool:
    """Whether what a process would have done next, by its `logs`, needs no others than some that are equally far and no
    `suspects`: it would have done it, had the job gone on. What it does together with all others tells nothing.

    `may_wait_unseen`: operations too small to be recorded may come before it. They hardly do so between two of one
    communicator, as those of neighbouring layers are.
    """
    following = comes_next(logs)
    if following is None or (may_wait_unseen and following != _latest(logs)):
        return False
    members = numbered[following].members
    return len(members) < len(states) and all(
        member not in suspects and states.get(member) == states[process] for member in members
    )


def comes_next(logs: Mapping[int, Log]) -> int | None:
    """The communicator in which a process has its next collective, as it had some steps ago; None where its past does
    not agree about it."""
    times = {key: log.written_us for key, log in logs.items() if len(log.written_us)}
    if len(times) < 2:
        return None
    rarest = min(times, key=lambda key: len(times[key]))
    repeated = steps_in_order(logs[rarest].operations)
    length = len(repeated.operations) if repeated else 1
    steps = min(_STEPS, (len(times[rarest]) - 1) // length)
    if steps < _FEWEST:
        return None
    # When it had done as much of the rarest as now, but for whole steps, and how much of all else until then.
    alike_us = times[rarest][len(times[rarest]) - 1 - length * np.arange(steps + 1)]
    done = [np.searchsorted(own, alike_us, "right") for own in times.values()]
    usual = [int(np.median(-np.diff(counts))) for counts in done]
    if any((-np.diff(counts) == own).mean() < _AGREE for counts, own in zip(done, usual, strict=True)):
        return None  # written too seldom to tell one step from the next
    in_step = dict(zip(times, usual, strict=True))
    votes = [
        _first({key: own[max(0, len(own) - ago * in_step[key]) :] for key, own in times.items()})
        for ago in range(1, steps + 1)
    ]
    told = [vote for vote in votes if vote is not None]
    if len(told) < _FEWEST:
        return None
    most = max(told, key=told.count)
    return most if told.count(most) >= _AGREE * len(told) else None


def _first(times_us: Mapping[int, Ints]) -> int | None:
    """Which of these began first; None where the first two were written by one pass of the dump thread."""
    order = sorted((int(own[0]), key) for key, own in times_us.items() if len(own))
    if not order or (len(order) > 1 and order[1][0] - order[0][0] <= PASS_US):
        return None
    return order[0][1]


def _latest(logs: Mapping[int, Log]) -> int | None:
    """Where a process did what it did last; None where one pass of the dump thread wrote that of several."""
    return _first({key: -log.written_us[::-1] for key, log in logs.items()})
