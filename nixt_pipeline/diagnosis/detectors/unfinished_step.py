"""A job that began a step and did not finish it, told without peers that got further.

A job repeats whole steps. Three signs that it stopped within one:

- `never_completed`, by how often everything was done: everything that comes before a collective of all processes in a
  step was done once more often than it, and everything that comes after it as often. All of the job waits in it, or one
  of its processes never came. What comes before and what after shows in the first step, by the first records of single
  processes, on their own clocks; what is done in one go is in the log equally often after each pass of the dump thread.
- `stopped_in_step`, by the order of one process's operations: the last ones of a communicator begin a step and do not
  end it, or it did its only operation of a step once less than all others ended one.
- `stopped_between_pauses`, where all operations of a communicator are equal.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.operations import Log, Operation
from nixt_pipeline.diagnosis.evidence.passes import SAME_PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.steps import FEWEST_STEPS, Steps, steps_between_pauses, steps_in_order

# Fewer collectives of a kind show no regularity.
_REGULAR = 10
# What is done now and then beside the steps (a loss, a flag) is smaller than what makes them.
_LARGE = 8
# Framework prefetching adds so many gathers of the backward pass to the run of them that begins a step.
_PREFETCHED = 2

Kind = tuple[Hashable, ...]
Logs = Sequence[Mapping[int, Log]]


def never_completed(
    series: Sequence[Series], frontier: Iterable[Reach], processes: int, logs: Callable[[], Logs] = tuple
) -> Series | None:
    """The collective of the whole job that all ranks came to and none completed; None when there is none.

    Call it for a log that reaches to the end in which nothing got less far than its peers. `logs`: what some processes
    completed, by communicator; read only where it matters.
    """
    regular = [item for item in series if item.furthest >= _REGULAR and not item.one_slot]
    begins = _begins(regular, frontier)
    times: dict[Kind, int] = defaultdict(int)
    for item in regular:
        times[_kind(item)] = max(times[_kind(item)], item.furthest + 1)
    for item in regular:
        if len(item.comm.members) < processes:
            continue
        others = [kind for kind in times if kind != _kind(item)]
        before = {kind: _comes_before(begins[kind], begins[_kind(item)]) for kind in others}
        # What may come before or after must have been done once more as well.
        whole = all(times[kind] % (item.furthest + 1 + (before[kind] is not False)) == 0 for kind in others)
        if whole and any(before.values()):
            return item
        if all(times[kind] % (item.furthest + 2) == 0 for kind in others) and _in_one_go(item, regular, logs):
            return item
    return None


def stopped_in_step(logs: Mapping[int, Log]) -> dict[int, Steps]:
    """Which communicators stopped in the middle of a step, by the log of the busiest process, of those of which it
    recorded all that any rank did. For a log that reaches to the end in which nothing got less far than its peers."""
    found = {key: steps for key, log in logs.items() if (steps := steps_in_order(log.operations)) is not None}
    begun = {key: steps for key, steps in found.items() if _stopped_within(logs[key].operations, steps)}
    return begun or _one_less(logs, found)


def stopped_between_pauses(logs: Mapping[int, Log]) -> dict[int, Steps]:
    """Which communicators that do one operation all the time stopped in the middle of a step, by the same log."""
    found = {key: steps_between_pauses(log) for key, log in logs.items()}
    return {key: steps for key, steps in found.items() if steps is not None and steps.begun}


def _in_one_go(item: Series, series: Iterable[Series], logs: Callable[[], Logs]) -> bool:
    """Whether something that was done once more than a collective had been done as often after each earlier pass of the
    dump thread, in all processes that tell."""
    once_more = [other for other in series if other.furthest == item.furthest + 1]
    leads = [_lead_of(item, other, own) for own in (logs() if once_more else ()) for other in once_more]
    told = [lead for lead in leads if len(lead) >= _REGULAR]
    return bool(told) and not any(lead.any() for lead in told)


def _lead_of(one: Series, other: Series, logs: Mapping[int, Log]) -> Ints:
    """The `_lead` of a process in the one collective before the other, as far as its last one."""
    if one.communicator not in logs or other.communicator not in logs:
        return np.zeros(0, dtype=np.int64)
    done = _passes(logs[one.communicator], one.coll)
    return _lead(done, _passes(logs[other.communicator], other.coll), done[-1])


def _lead(one: Ints, other: Ints, until: int) -> Ints:
    """By how much more often the one was done than the other after each pass of the dump thread, from the half of the
    one on and before the pass `until`; given are the passes in which each was written."""
    moments = np.arange(one[len(one) // 2], until)
    return np.searchsorted(one, moments, "right") - np.searchsorted(other, moments, "right")


def _passes(log: Log, coll: str) -> Ints:
    return log.passes[[operation.coll == coll for operation in log.operations]]


def _kind(item: Series) -> Kind:
    return (item.coll, item.comm.n_ranks, item.comm.nnodes, item.comm.role)


def _begins(series: Sequence[Series], frontier: Iterable[Reach]) -> dict[Kind, dict[Process, int]]:
    """When each process wrote its first collective of each kind, if that was the first one of its communicator."""
    kinds = {(item.communicator, item.coll): _kind(item) for item in series}
    begins: dict[Kind, dict[Process, int]] = defaultdict(dict)
    for reach in frontier:
        kind = kinds.get((reach.communicator, reach.coll))
        if kind is not None and reach.first == 0 and reach.first_us is not None:
            begins[kind][reach.process] = min(reach.first_us, begins[kind].get(reach.process, reach.first_us))
    return begins


def _comes_before(one: Mapping[Process, int], other: Mapping[Process, int]) -> bool | None:
    """Whether the one kind begins before the other; None when no process tells, or some contradict others."""
    lags = [other[process] - one[process] for process in one.keys() & other.keys()]
    earlier, later = any(lag > SAME_PASS_US for lag in lags), any(lag < -SAME_PASS_US for lag in lags)
    return None if earlier == later else earlier


def _stopped_within(operations: Sequence[Operation], steps: Steps) -> bool:
    """Whether what a communicator did last begins a step; not when it may be something else: an evaluation, or what it
    did before the first step as well."""
    step, begun = steps.operations, steps.begun
    if {operation.coll for operation in operations[: steps.first]} & {operation.coll for operation in step}:
        return False  # the first step may have begun before: what is at its end would be taken for a beginning
    seen_before = any(tuple(operations[other][:begun]) == step[:begun] for other in steps.between)
    return begun > 0 and not (seen_before or _may_be_evaluation(step, begun) or _may_be_whole(step, begun))


def _may_be_evaluation(step: tuple[Operation, ...], begun: int) -> bool:
    """Whether the first operations of a step are all of a forward pass, or as small as what is not part of a step."""
    large = max(operation.size_bytes for operation in step)
    if all(operation.size_bytes * _LARGE < large for operation in step[:begun]):
        return True
    gathers = next((n for n, operation in enumerate(step) if operation.coll != "AllGather"), len(step))
    return gathers - _PREFETCHED <= begun <= gathers


def _may_be_whole(step: tuple[Operation, ...], begun: int) -> bool:
    """Whether the operations begun are whole steps, of which the `step` that was found is many and an evaluation."""
    large = max(operation.size_bytes for operation in step)
    for length in range(1, begun // 2 + 1):
        again = next((n for n in range(length, len(step)) if step[n] != step[n - length]), len(step))
        rest = step[again // length * length :]
        small = all(operation.size_bytes * _LARGE < large for operation in rest)
        if begun % length == 0 and begun <= again and (len(set(step[:length])) > 1 or small):
            return True
    return False


def _one_less(logs: Mapping[int, Log], found: Mapping[int, Steps]) -> dict[int, Steps]:
    """The communicator that does one operation in a step, and did it once less than all others ended a step, though
    they were even between steps before; empty when there is none. `found`: the steps of those that do several."""
    if not found:
        return {}
    slowest = min(found, key=lambda key: len(found[key].ends))
    steps = len(found[slowest].ends)
    counts = {key: len(found[key].ends) if key in found else len(log.operations) for key, log in logs.items()}
    behind = [key for key, count in counts.items() if count == steps - 1]
    others = [count for key, count in counts.items() if key not in behind]
    if steps < 2 * FEWEST_STEPS or len(behind) != 1 or any(count % steps for count in others):
        return {}
    [last] = behind
    operations, ended = set(logs[last].operations), logs[slowest].passes[list(found[slowest].ends)]
    lead = _lead(logs[last].passes, ended, ended[-1])
    if len(operations) > 1 or len(lead) == 0 or lead.max() != 0:
        return {}
    return {last: Steps(tuple(operations), tuple(range(steps - 1)), 0)}
