"""Hosts whose clocks disagree, from the write times of the same collectives.

All ranks leave a collective together and write it at their next dump, so that the difference of two hosts' write times
is the difference of their clocks, within a dump interval. Nothing in the diagnosis orders events by clocks of
several hosts; who reads time axes, or joins logs by time, should know.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_high, median_low

import numpy as np

from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.evidence.block_times import ClockStep
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.write_times import WriteTimes
from nixt_pipeline.settings import Thresholds

# Fewer times than this tell a drift from a few late dumps only by luck.
_FEWEST_FOR_DRIFT = 20

# Clocks further apart than this do not agree, and have no common middle.
_IN_STEP_US = 1_000_000


@dataclass(frozen=True)
class HostClock:
    """How a host's clock stands to those of the others: ahead when positive.

    `uncertainty_us` is the scatter of one measurement, not of their mean: dump threads that keep their distance err
    the same in every collective. `drift_ppm` is None where the log is too short, or the scatter too large, to tell it.
    """

    offset_us: float
    uncertainty_us: float
    drift_ppm: float | None


@dataclass(frozen=True)
class ClockSkew(Suspect):
    """The clocks of these hosts are off."""

    clocks: dict[str, HostClock]


@dataclass(frozen=True)
class ClockSet(Suspect):
    """Clocks were set while the job ran."""

    step: ClockStep


def find_clock_skew(evidence: Evidence, _before: Sequence[Suspect], limits: Thresholds) -> list[ClockSkew | ClockSet]:
    """Hosts whose clocks are off by more than what the log can tell, or were set."""
    times, seen = evidence.write_times, evidence.seen
    steps = [step for step in seen.clock_steps if _is_seen(step, times, seen.clock_steps)]
    clocks = host_clocks([without_steps(block, by_host, steps) for block, by_host in times])
    off = {
        host: clock
        for host, clock in clocks.items()
        if abs(clock.offset_us) - clock.uncertainty_us > limits.diagnosis.max_clock_offset_us
    }
    return [*([ClockSkew(off)] if off else []), *(ClockSet(step) for step in steps)]


def without_steps(block: int, by_host: Mapping[str, int], steps: Iterable[ClockStep]) -> dict[str, int]:
    """The times at which hosts wrote a collective of that block, as if no clock had been set; without those of hosts
    whose clocks were set in it, for it may have been before or after."""
    straight = dict(by_host)
    for step in steps:
        for host in straight.keys() & set(step.hosts):
            if step.block == block:
                del straight[host]
            elif step.block < block:
                straight[host] -= round(step.step_us)
    return straight


def _is_seen(step: ClockStep, times: Sequence[WriteTimes], steps: Iterable[ClockStep]) -> bool:
    """Whether a host that was set wrote collectives at other times than those with whom it left them; true where it met
    none of them. Who does its work in another order from some point on leaves them with the others all the same, and
    one whose log ends before theirs has none with them from then on."""
    others_set = [other for other in steps if other is not step]
    sides: tuple[list[float], list[float]] = ([], [])
    for block, set_by_host in times:
        by_host = without_steps(block, set_by_host, others_set)
        others = [time for host, time in by_host.items() if host not in step.hosts]
        own = [time for host, time in by_host.items() if host in step.hosts]
        if own and others and block != step.block:
            sides[block > step.block].append(median(own) - median(others))
    before, after = sides
    if not before or not after:
        return not before and not after
    return abs(median(after) - median(before) - step.step_us) < abs(step.step_us) / 2


def host_clocks(times: Iterable[Mapping[str, int]]) -> dict[str, HostClock]:
    """The clock of each host, from the times at which hosts wrote the same collectives, in microseconds.

    Each collective compares a host with the median of the other hosts in it (where the two in the middle are far apart,
    with the nearer, because no clock is between them), so that one host that is off does not move the others'
    reference, unless there are only two: then both are off from one another.
    """
    measured: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for by_host in times:
        for host, written in by_host.items():
            others = [time for other, time in by_host.items() if other != host]
            if others:
                low, high = median_low(others), median_high(others)
                nearer = low if abs(written - low) <= abs(written - high) else high
                middle = (low + high) / 2 if high - low <= _IN_STEP_US else nearer
                measured[host].append((middle, written - middle))
    return {host: _clock(np.array(values, float)) for host, values in sorted(measured.items())}


def _clock(measured: np.ndarray) -> HostClock:
    """The clock behind rows of (time, distance from the others).

    The drift is Theil and Sen's slope; it differs from none when its interval excludes zero and it moves the clock,
    over the log, by three times the scatter.
    """
    at_us, distance_us = measured.T
    slope = _slope(at_us, distance_us)
    residual_us = distance_us - (slope or 0.0) * (at_us - np.median(at_us))
    # 1.4826 makes the median absolute deviation the standard deviation of normal scatter.
    scatter_us = 1.4826 * float(np.median(np.abs(residual_us - np.median(residual_us))))
    moved_us = abs(slope or 0.0) * float(np.ptp(at_us))
    drift_ppm = slope * 1e6 if slope is not None and moved_us > 3 * scatter_us else None
    return HostClock(float(np.median(distance_us)), scatter_us, drift_ppm)


def _slope(at_us: np.ndarray, distance_us: np.ndarray) -> float | None:
    """The slope of distances over times; None when it may be zero (95 %)."""
    # What one pass of a dump thread wrote is one measurement, however many collectives it was.
    passes = np.unique(at_us)
    if passes.size < _FEWEST_FOR_DRIFT:
        return None
    from scipy.stats import theilslopes

    measured_us = [float(np.median(distance_us[at_us == at])) for at in passes]
    slope, _, low, high = theilslopes(measured_us, passes)
    return float(slope) if low > 0 or high < 0 else None
