"""A job that stopped before a collective of all its processes, which has no alike that could have got further.

A job repeats its steps. When everything that comes before that collective in a step was done once more often than it,
and everything that comes after it as often, all of the job waits in it, or one of its processes never came. What comes
before and what after shows in the first step, by the first records of single processes, on their own clocks. What is
done in one go, whichever comes first, is in the log equally often after every pass of the dump thread.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.operations import Log
from nixt_pipeline.diagnosis.evidence.passes import SAME_PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process

# Fewer steps show no regularity.
_REGULAR = 10

Kind = tuple[Hashable, ...]
Logs = Sequence[Mapping[int, Log]]


def unfinished(
    series: Sequence[Series], frontier: Iterable[Reach], processes: int, logs: Callable[[], Logs] = tuple
) -> Series | None:
    """The collective of the whole job that everybody came to and nobody completed; None when there is none.

    Call it for a log that reaches to the end in which nothing got less far than its alike. `logs`: what some processes
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
        if all(count % (item.furthest + 2) == 0 for count in (times[kind] for kind in others)) and _in_step(
            item, regular, logs
        ):
            return item
    return None


def _in_step(item: Series, series: Iterable[Series], logs: Callable[[], Logs]) -> bool:
    """Whether something that was done once more than a collective had been done as often after each earlier pass of the
    dump thread, in all processes that tell."""
    once_more = [other for other in series if other.furthest == item.furthest + 1]
    ahead = [_ahead(own, other, item) for own in (logs() if once_more else ()) for other in once_more]
    told = [moments for moments in ahead if len(moments) >= _REGULAR]
    return bool(told) and not any(moments.any() for moments in told)


def _ahead(logs: Mapping[int, Log], one: Series, other: Series) -> Ints:
    """By how much a process was further in the one than in the other after its passes in the second half of the job,
    without the last one."""
    if one.communicator not in logs or other.communicator not in logs:
        return np.zeros(0, dtype=np.int64)
    first, second = _passes(logs[one.communicator], one.coll), _passes(logs[other.communicator], other.coll)
    moments = np.arange(second[len(second) // 2], second[-1])
    return np.searchsorted(first, moments, "right") - np.searchsorted(second, moments, "right")


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
