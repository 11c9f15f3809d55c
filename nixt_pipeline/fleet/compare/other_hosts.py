"""What a difference between runs on different hosts means: the change, the hosts, or undecidable.

Three things decide, the surest first: the hosts in common, each against itself; by how much sets of hosts differ
anyway, where earlier runs of the same work show it; and the findings of the slower side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import numpy as np

from nixt_pipeline.fleet.compare import robust_stats
from nixt_pipeline.fleet.compare.comparison import Measure
from nixt_pipeline.fleet.compare.explanation import Explanation
from nixt_pipeline.fleet.compare.location import Times
from nixt_pipeline.fleet.compare.matching import Pair
from nixt_pipeline.fleet.compare.placement import Placement, changes_of_pairs
from nixt_pipeline.fleet.compare.robust_stats import Change, Limits
from nixt_pipeline.fleet.compare.summaries import Kernel, RunSummary
from nixt_pipeline.settings import Thresholds

_ELSEWHERE: dict[Change, Change] = {"regressed": "slower-other-hosts", "improved": "faster-other-hosts"}


@dataclass(frozen=True)
class Judge:
    """What is known about the hosts of a comparison. `sets` has, for each set of hosts, the runs on it; `explanations`
    are those of B being slower and of A being slower."""

    where: Placement
    sets: tuple[tuple[RunSummary, ...], ...]
    explanations: dict[Change, Explanation]
    limits: Thresholds

    def of_kernel(self, measure: Measure, q_value: float, pair: Pair, which: str) -> Measure:
        """A kernel's measure judged with regard to the hosts. `which` is transfer or waiting."""
        judged, raw = self._judged(measure, q_value, which, lambda run: _times(run.kernels.get(pair.key)))
        if self.where.kind != "changed" or raw not in _ELSEWHERE:
            return judged
        found = robust_stats.pairs(changes_of_pairs(pair, int(which == "waiting")), self.limits.comparison.error)
        if found is None or not self.where.names_are_machines:
            return judged
        sure = found.low > self.limits.comparison.margin if raw == "regressed" else found.high < 0
        if sure:
            return replace(judged, verdict=raw, reason=f"on the hosts in common {found.change:+.1%}")
        return replace(judged, verdict=_ELSEWHERE[raw], reason=f"on the hosts in common it is {found.change:+.1%}")

    def of_all(
        self,
        measure: Measure,
        which: str,
        kernels: Sequence[Measure],
        weights: Sequence[tuple[Pair, float]],
    ) -> Measure:
        """The sum of all kernels, which has no hosts of its own: it changed if one of the kernels surely did."""
        p_value = measure.estimate.p_value if measure.estimate else 1.0
        judged, raw = self._judged(measure, p_value, which, lambda run: _sum_of_times(run, weights))
        if raw in _ELSEWHERE and any(kernel.verdict == raw for kernel in kernels):
            return replace(judged, verdict=raw)
        return judged

    def _judged(
        self, measure: Measure, q_value: float, which: str, times: Callable[[RunSummary], Times | None]
    ) -> tuple[Measure, Change]:
        """The measure with its verdict, and the verdict as if the hosts were the same."""
        limit = Limits(self.limits.comparison.margin, self.limits.comparison.error, measure.floor)
        raw = robust_stats.judge(measure.estimate, q_value, limit)
        measure = replace(measure, verdict=raw, q_value=q_value)
        if measure.estimate is None or self.where.kind == "same":
            return measure, raw
        estimate = measure.estimate
        at_least = self.limits.comparison.min_host_sets
        spread = _spread(self.sets, which, times, at_least) if self.where.kind == "changed" else None
        if spread is not None:
            error = self.limits.comparison.error
            estimate = robust_stats.widened(estimate, spread, len(self.sets), error, is_ratio=which == "transfer")
            q_value = max(q_value, estimate.p_value)
        found = robust_stats.judge(estimate, q_value, limit)
        usual = "" if spread is None else f"sets of hosts normally differ by {spread:.1%}"
        measure = replace(measure, verdict=found, estimate=estimate, q_value=q_value, reason=usual)
        if raw not in _ELSEWHERE:
            return measure, raw
        explained = self.explanations[raw].share(which) if raw in self.explanations else 0.0
        rest = robust_stats.scaled(estimate, max(0.0, 1 - self.limits.comparison.finding_cost_error * explained))
        # Hosts drawn anew for each run are part of the interval already; of others nothing is known but their spread.
        known = self.where.kind == "replicated" or spread is not None
        if known and robust_stats.judge(rest, q_value, limit) == raw:
            return measure, raw
        return replace(measure, verdict=_ELSEWHERE[raw]), raw


def sets_of_hosts(runs: Sequence[RunSummary], at_least: int) -> tuple[tuple[RunSummary, ...], ...]:
    """Runs by the hosts they ran on, without sets that share more than half of their hosts with one before; empty for
    fewer than `at_least`, whose spread says nothing."""
    found: dict[frozenset[str], list[RunSummary]] = {}
    for run in runs:
        alike = [hosts for hosts in found if 2 * len(hosts & run.hosts) > max(len(hosts), len(run.hosts))]
        if run.hosts in found or not alike:
            found.setdefault(run.hosts, []).append(run)
    return tuple(map(tuple, found.values())) if len(found) >= at_least else ()


def _spread(
    sets: Sequence[Sequence[RunSummary]], which: str, times: Callable[[RunSummary], Times | None], at_least: int
) -> float | None:
    """The deviation between sets of hosts: of the transfer's logarithm, or of waiting relative to the whole; None for
    fewer than `at_least`."""
    known = [[found for run in runs if (found := times(run)) is not None] for runs in sets]
    known = [found for found in known if found]
    if len(known) < at_least:
        return None
    if which == "transfer":
        return stdev(mean(float(np.log(transfer)) for transfer, _ in found) for found in known)
    whole = mean(transfer + waiting for found in known for transfer, waiting in found)
    return stdev(mean(waiting for _, waiting in found) / whole for found in known)


def _times(kernel: Kernel | None) -> Times | None:
    if kernel is None or not kernel.row["cells"]:
        return None
    return float(np.exp(np.nanmean(np.log(kernel.transfer_us)))), float(np.nanmean(kernel.wait_us))


def _sum_of_times(run: RunSummary, weights: Sequence[tuple[Pair, float]]) -> Times | None:
    """What the reference's operations take in a run; None when it lacks one of the kernels."""
    found = [(_times(run.kernels.get(pair.key)), weight) for pair, weight in weights]
    if not found or any(times is None for times, _ in found):
        return None
    total = sum(weight for _, weight in found)
    return (
        sum(times[0] * weight for times, weight in found if times) / total,
        sum(times[1] * weight for times, weight in found if times) / total,
    )
