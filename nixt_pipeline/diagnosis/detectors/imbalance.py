"""Waiting without a fault: a pipeline stage with more work, ranks that take turns at being last.

The first and the last stage of a pipeline have an embedding or a loss more than others. That is a role and not a
fault as long as it is the same in all of their processes and does not change. Where a stage is one host only, a change
distinguishes a slow host from a stage with more work.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.windows import Window, densest_window, noise_of
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import hosts_of
from nixt_pipeline.settings import Thresholds

# A stage that became slow soon after the start was fast in a tenth of the job.
_FASTEST = 0.1


@dataclass(frozen=True)
class SlowStage(Suspect):
    """A host that is a stage of its own, and computed `slowdown` times as long from some point on; what that lost, in
    microseconds of each process, and its share of the time."""

    host: str
    window: Window
    slowdown: float
    lost_us: float
    cost_share: float


@dataclass(frozen=True)
class HeavyStage(Suspect):
    """A stage of some hosts that computes `ratio` times as long as the others of so many `stages`, throughout."""

    hosts: tuple[str, ...]
    ratio: float
    stages: int


@dataclass(frozen=True)
class Turns(Suspect):
    """Ranks wait for one another, now for this one and now for that one: the share of the time that this takes in the
    middle one of some communicators, and how much of it is for the one most waited for."""

    communicators: int
    waiting_share: float
    most_share: float


def find_imbalance(seen: Observations, limits: Thresholds) -> list[SlowStage | HeavyStage]:
    """Stages with more work than the others, hosts that are a stage of their own and became slow, and waiting in turns.

    Stages can be compared only when Send and Recv were recorded: otherwise their waiting is unknown.
    """
    found: list[SlowStage | HeavyStage] = []
    if len(seen.stages()) > 1 and seen.matched_p2p > 0:
        work = _work(seen)
        for number in range(len(work)):
            others = np.delete(work, number, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.nan_to_num(work[number] / np.median(others, axis=0), nan=1.0, posinf=1.0)
            changed = _changed(ratio, work[number], limits)
            hosts = hosts_of(seen.stages()[number])
            if changed is not None and len(hosts) == 1:
                found.append(_slow_stage(seen, hosts[0], *changed, work[number]))
            elif changed is None and float(np.median(ratio)) >= limits.diagnosis.min_slowdown:
                found.append(HeavyStage(hosts, float(np.median(ratio)), len(work)))
    return found


def find_turns(seen: Observations, limits: Thresholds) -> list[Turns]:
    """Waiting that costs as much as a late rank would, but is now for this one and now for that one."""
    by_comm: dict[int, dict[object, float]] = defaultdict(lambda: defaultdict(float))
    for arrival in seen.arrivals:
        by_comm[arrival.comm][arrival.process] += arrival.waited_us
    total = float(seen.block_us.sum())
    shares = [sum(waited.values()) / total for waited in by_comm.values()]
    turns = [max(waited.values()) / sum(waited.values()) for waited in by_comm.values()]
    if (
        not shares
        or np.median(shares) < limits.diagnosis.p2_cost_share
        or np.median(turns) >= limits.diagnosis.min_last_share
    ):
        return []
    return [Turns(len(shares), float(np.median(shares)), float(np.median(turns)))]


def _work(seen: Observations) -> Floats:
    """Microseconds outside of communication by stage and block, of the middle process."""
    index = {process: row for row, process in enumerate(seen.processes)}
    outside = np.clip(seen.block_us - seen.communicating, 0, None)
    return np.array([np.median(outside[[index[p] for p in stage]], axis=0) for stage in seen.stages()])


def _changed(ratio: Floats, work: Floats, limits: Thresholds) -> tuple[Window, float] | None:
    """The stretch in which a stage works longer than in the rest of the job, by itself and against the other stages,
    and how many times as long against those; if chance does not explain it."""
    marks = (_beyond(ratio, ratio, _FASTEST) >= limits.diagnosis.min_slowdown - 1) & (
        _beyond(work, work, _FASTEST) >= limits.diagnosis.min_slowdown - 1
    )
    # Warming up takes some longer than others.
    marks[0] = False
    window = densest_window(marks)
    if window is None or window.marked < limits.diagnosis.min_blocks or window.density < limits.diagnosis.min_density:
        return None
    usual = np.ones(len(ratio), dtype=bool)
    usual[window.part()] = False
    if usual[1:].sum() < limits.diagnosis.min_blocks:
        return None
    usual[0] = False
    beyond = np.minimum(_beyond(ratio, ratio[usual], 0.5), _beyond(work, work[usual], 0.5))
    within = beyond[window.part()]
    chance = noise_of([(beyond, window)]).chance(within - (limits.diagnosis.min_slowdown - 1) / 2, window, 1)
    if chance > limits.diagnosis.max_chance or np.median(within) < limits.diagnosis.min_slowdown - 1:
        return None
    return window, 1 + float(np.median(_beyond(ratio, ratio[usual], 0.5)[window.part()]))


def _beyond(values: Floats, usual: Floats, quantile: float) -> Floats:
    level = float(np.quantile(usual, quantile))
    return values / level - 1 if level > 0 else np.zeros_like(values)


def _slow_stage(seen: Observations, host: str, window: Window, slowdown: float, work: Floats) -> SlowStage:
    part = window.part()
    lost_us = float((work[part] * (1 - 1 / slowdown)).sum())
    return SlowStage(host, window, slowdown, lost_us, lost_us / float(seen.block_us[part].sum()))
