"""A job that stopped before a collective of all its processes, which has no alike that could have got further.

A job repeats its steps. When everything that comes before that collective in a step was done once more often than it,
and everything that comes after it as often, all of the job waits in it, or one of its processes never came. What comes
before and what after shows in the first step, by the first records of single processes, on their own clocks.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.passes import SAME_PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process

# Fewer steps show no regularity.
_REGULAR = 10

Kind = tuple[Hashable, ...]


def unfinished(series: Sequence[Series], frontier: Iterable[Reach], processes: int) -> Series | None:
    """The collective of the whole job that everybody came to and nobody completed; None when there is none.

    Call it for a log that reaches to the end in which nothing got less far than its alike.
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
    return None


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
