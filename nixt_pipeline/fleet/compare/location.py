"""Where a change is, and what it costs: the communicators that became slower, and the job's rank-time.

A mean that is 8 times as long can be all communicators or half of them; who looks for the cause needs to know which.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nixt_pipeline.fleet.compare.matching import Pair, Side
from nixt_pipeline.fleet.compare.summaries import Kernel
from nixt_pipeline.grouping import grouped
from nixt_pipeline.quantities import listed, plural

MeasureName = Literal["transfer", "waiting"]
MEASURES: tuple[MeasureName, MeasureName] = ("transfer", "waiting")
_NAMED = 3

Times = tuple[float, float]  # transfer and waiting of one operation, in microseconds


@dataclass(frozen=True)
class Location:
    """Of `of` communicators of the slower side, `slower` take longer than on the other side; in the mean `times` as
    long, waiting included. `names` are those of all that are slower, the slowest first: their hosts where the log names
    none."""

    slower: int
    of: int
    times: float
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """`in 16 of 32 communicators (DP Group 0, DP Group 2, DP Group 4 and 13 more), 15 times as long there`."""
        if self.slower == self.of:
            return f"in all {plural(self.of, 'communicator')}"
        named = listed(self.names, _NAMED)
        return f"in {self.slower} of {plural(self.of, 'communicator')} ({named}), {self.times:.3g} times as long there"

    def to_json(self) -> dict[str, Any]:
        """Counts and names."""
        return {"slower": self.slower, "of": self.of, "times": round(self.times, 3), "names": list(self.names)}


def locate(pair: Pair, which: MeasureName, slower: Literal["a", "b"], margin: float) -> Location | None:
    """The communicators of the side `slower` that take more than `margin` longer than on the other side: than the same
    communicator on the same hosts, and where there is none, than the slowest one there. None with fewer than two
    communicators, or where no single one is slower."""
    ours, theirs = (pair.a, pair.b) if slower == "a" else (pair.b, pair.a)
    mine, others = _times(ours), _times(theirs)
    if len(mine) < 2 or not others:
        return None
    measure = 0 if which == "transfer" else 1
    slowest = max(others.values(), key=lambda times: times[measure])
    found = {}
    for communicator, times in mine.items():
        before = others.get(communicator, slowest)
        whole = before[0] + (before[1] if measure else 0.0)
        if times[measure] - before[measure] > margin * whole > 0:
            found[communicator] = (times[0] + (times[1] if measure else 0.0)) / whole
    if not found:
        return None
    by_times = sorted(found, key=lambda communicator: (-found[communicator], communicator))
    names = tuple(name or f"on {hosts}" for name, hosts in by_times)
    of = max(len(mine), *(kernel.row["communicators"] or 0 for kernel in ours))
    return Location(len(found), of, sum(found.values()) / len(found), names)


def _times(kernels: Sequence[Kernel]) -> dict[tuple[str, str], Times]:
    """What each communicator takes, by its name and hosts; of several with the same, and of several runs, the mean."""
    communicators = (communicator for kernel in kernels for communicator in kernel.communicators)
    return {
        key: (float(np.mean([c.transfer_us for c in members])), float(np.mean([c.wait_us for c in members])))
        for key, members in grouped(communicators, lambda communicator: (communicator.name, communicator.hosts)).items()
    }


def lost_us(pair: Pair, which: MeasureName) -> float:
    """The rank-time in microseconds that the operations of a run of side B take longer than those of A would, negative
    where they are faster; records that are missing are taken to be like those that are there.

    A transfer takes longer on all ranks; the waiting is that of another rank than the last one.
    """
    ranks = pair.key.n_ranks - (which == "waiting")
    column = "transfer_us" if which == "transfer" else "wait_us"
    usual = float(np.mean([np.nanmean(getattr(kernel, column)) for kernel in pair.a]))
    lost = [(float(np.nanmean(getattr(kernel, column))) - usual) * ranks * _operations(kernel) for kernel in pair.b]
    return sum(lost) / len(lost)


@dataclass(frozen=True)
class Unjudged:
    """What operations of which transfer and waiting cannot be judged take longer on side B: the `share` of the
    reference's recorded time, negative where they take less, and the kernel that contributes most."""

    share: float = 0.0
    kernel: str = ""


def unjudged(pairs: Iterable[Pair], a: Side) -> Unjudged:
    """What the operations in `pairs` take longer on side B than on the reference `a`, waiting included."""
    whole_us = sum(kernel.row["rank_time_us"] or 0.0 for run in a.runs for kernel in run.kernels.values())
    shares = {}
    for pair in pairs:
        before, after = ([kernel.row["exec_time_mean_us"] for kernel in side] for side in (pair.a, pair.b))
        if None not in (*before, *after):
            records = sum(kernel.row["records"] for kernel in pair.a)
            shares[pair.key.label] = float(np.mean(after) - np.mean(before)) * records / whole_us
    return Unjudged(sum(shares.values()), max(shares, key=lambda label: abs(shares[label]), default=""))


def _operations(kernel: Kernel) -> float:
    """The operations of a kernel in its run, those without a record included."""
    return float(kernel.row["records"] / kernel.key.n_ranks / max(kernel.row["capture_rate"] or 1.0, 0.01))
