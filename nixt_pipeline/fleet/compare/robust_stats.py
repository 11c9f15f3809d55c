"""How large a change is, and how sure: the unit of replication is a run or a stretch of a run, never an operation.

Operations of one run resemble one another, and there are millions of them: tested as if they were independent, a
difference of 0.1 % is always "significant". Two runs are two observations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.arrays import Floats

Sampling = Callable[[Floats], "Sample"]
Change = Literal[
    "regressed", "improved", "equivalent", "inconclusive", "slower-other-hosts", "faster-other-hosts", "not-comparable"
]

# Medians of whole microseconds, taken as grouped data, are good to about a tenth of one. Added as a variance, it keeps
# runs that happen to agree to the last digit from looking infinitely precise.
RESOLUTION_US = 0.1
# Fewer stretches, or pairs, than this give no variance.
_MIN_BLOCKS = 5
_MIN_PAIRS = 3


@dataclass(frozen=True)
class Estimate:
    """A relative change, its confidence interval, and the probability of one as large by chance alone.

    0.07 is 7 % longer. `deviation` is the spread between the units of one side, on the same scale.
    """

    change: float
    low: float
    high: float
    p_value: float
    deviation: float


@dataclass(frozen=True)
class Limits:
    """What counts as a change. `floor` is relative: the smallest change that the resolution allows."""

    margin: float
    error: float
    floor: float = 0.0

    @property
    def upper(self) -> float:
        """The largest change that is none."""
        return max(self.margin, self.floor)

    @property
    def lower(self) -> float:
        """The same for times that became shorter, symmetric as a ratio."""
        return -max(self.margin / (1 + self.margin), self.floor)


@dataclass(frozen=True)
class Sample:
    """The mean of one side, the variance of a unit, and how many independent units that rests on."""

    mean: float
    variance: float | None
    units: float


def of_runs(values: Floats) -> Sample:
    """One value for each run; runs are independent of one another."""
    return Sample(float(values.mean()), float(values.var(ddof=1)) if len(values) > 1 else None, len(values))


def of_blocks(values: Floats) -> Sample:
    """Values of successive stretches of one run, whose level may change once.

    A host that becomes slow half-way is no noise, so the variance is the one around the best two levels. What is slow
    stays slow for a while, so that n stretches are worth n (1 - r) / (1 + r), with r the correlation of neighbours.
    """
    n = len(values)
    if n <= _MIN_BLOCKS:
        return Sample(float(values.mean()), None, n)
    splits = [
        np.concatenate([level - level.mean() for level in np.split(values, [split])]) for split in range(2, n - 1)
    ]
    rest = min(splits, key=lambda residuals: float(residuals @ residuals))
    power = float(rest @ rest)
    r = max(0.0, float(rest[1:] @ rest[:-1]) / power) if power else 0.0
    return Sample(float(values.mean()), power / (n - 2), max(2.0, n * (1 - r) / (1 + r)))


def ratio_of_times(a: Floats, b: Floats, of: Sampling, error: float) -> Estimate | None:
    """By how much the times `b` are longer than `a`, as a ratio of geometric means; None with too few of them."""
    noise = float((RESOLUTION_US / np.mean(np.concatenate((a, b)))) ** 2)
    found = _difference(of(np.log(a)), of(np.log(b)), noise, error)
    if found is None:
        return None
    change, low, high = (float(np.expm1(value)) for value in (found.change, found.low, found.high))
    return replace(found, change=change, low=low, high=high)


def difference_of_times(a: Floats, b: Floats, whole_us: float, of: Sampling, error: float) -> Estimate | None:
    """By how much the times `b` exceed `a`, as a share of `whole_us`; None with too few of them."""
    return _difference(of(a / whole_us), of(b / whole_us), (RESOLUTION_US / whole_us) ** 2, error)


def pairs(changes: Sequence[float], error: float) -> Estimate | None:
    """The mean of relative changes of the same things, such as hosts, before and after; None for fewer than three."""
    if len(changes) < _MIN_PAIRS:
        return None
    logs = np.log1p(changes)
    mean, deviation = float(logs.mean()), float(logs.std(ddof=1))
    half_width = float(scipy.stats.t.isf(error / 2, len(logs) - 1)) * deviation / len(logs) ** 0.5
    p_value = float(2 * scipy.stats.t.sf(abs(mean) / max(deviation / len(logs) ** 0.5, 1e-12), len(logs) - 1))
    low, high = np.expm1(mean - half_width), np.expm1(mean + half_width)
    return Estimate(float(np.expm1(mean)), float(low), float(high), p_value, deviation)


def widened(estimate: Estimate, deviation: float, sets: int, error: float, *, is_ratio: bool) -> Estimate:
    """The estimate with what other hosts change by themselves in its interval: the hosts as a random effect.

    `deviation` is the standard deviation between `sets` sets of hosts, each side being on one more of them; on the
    scale of logarithms for ratios.
    """
    scale, back = (np.log1p, np.expm1) if is_ratio else (np.asarray, np.asarray)
    change, low, high = (float(scale(value)) for value in (estimate.change, estimate.low, estimate.high))
    quantile = float(scipy.stats.t.isf(error / 2, sets - 1))
    by_hosts = quantile * deviation * 2**0.5
    below, above = float(np.hypot(change - low, by_hosts)), float(np.hypot(high - change, by_hosts))
    p_value = float(2 * scipy.stats.t.sf(abs(change) / max((below + above) / 2 / quantile, 1e-12), sets - 1))
    low, high = float(back(change - below)), float(back(change + above))
    return replace(estimate, low=low, high=high, p_value=max(p_value, estimate.p_value))


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """The part of a change that is left when the rest is explained: `factor` is between 0 and 1."""
    change, low, high = (factor * value for value in (estimate.change, estimate.low, estimate.high))
    return replace(estimate, change=change, low=low, high=high)


def _difference(a: Sample, b: Sample, noise: float, error: float) -> Estimate | None:
    """Welch's t-test. `noise` is a variance that every unit has at least.

    With one unit on one side, its variance is taken to be the other's: the question is then whether the new one comes
    from where the others come from.
    """
    variances = [sample.variance + noise for sample in (a, b) if sample.variance is not None]
    if not variances:
        return None
    if len(variances) == 1:
        variances *= 2
        freedom = max(a.units, b.units) - 1
        errors = [variances[0] / a.units, variances[1] / b.units]
    else:
        errors = [variances[0] / a.units, variances[1] / b.units]
        freedom = sum(errors) ** 2 / (errors[0] ** 2 / (a.units - 1) + errors[1] ** 2 / (b.units - 1))
    standard_error = sum(errors) ** 0.5
    shift = b.mean - a.mean
    half_width = float(scipy.stats.t.isf(error / 2, freedom)) * standard_error
    p_value = float(2 * scipy.stats.t.sf(abs(shift) / standard_error, freedom))
    return Estimate(shift, shift - half_width, shift + half_width, p_value, (sum(variances) / 2) ** 0.5)


def corrected(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's q-values: of all that is called a change at q, a share of q is none."""
    return [float(q) for q in scipy.stats.false_discovery_control(p_values)] if p_values else []


def judge(estimate: Estimate | None, q_value: float, limits: Limits) -> Change:
    """Regressed or improved when the whole interval lies beyond the margin, equivalent when it lies within.

    Everything else is inconclusive: "not significant" is not "the same".
    """
    if estimate is None:
        return "inconclusive"
    if estimate.low >= limits.lower and estimate.high <= limits.upper:
        return "equivalent"
    if q_value < limits.error and estimate.low > limits.margin and estimate.change > limits.upper:
        return "regressed"
    if q_value < limits.error and estimate.high < limits.lower:
        return "improved"
    return "inconclusive"


def runs_needed(estimate: Estimate, limits: Limits) -> int | None:
    """Runs per side needed to distinguish a change of the present size from the margin with 80 % power; None when it
    lies on the margin."""
    distance = abs(abs(np.log1p(estimate.change)) - np.log1p(limits.margin))
    if distance < 1e-6:
        return None
    z = scipy.stats.norm.isf(limits.error / 2) + scipy.stats.norm.isf(0.2)
    return max(2, int(np.ceil(2 * (z * estimate.deviation / distance) ** 2)))
