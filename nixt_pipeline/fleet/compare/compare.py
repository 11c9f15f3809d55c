"""Compare runs with runs: transfer and waiting of each kernel that both sides have, and what follows from all of them.

Transfer is the time of the last rank to arrive: it moves with the network, NCCL and the driver. Waiting is what the
others spend beyond it: it moves with computation, data loading and stragglers. They are never added up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from nixt_pipeline.arrays import Floats
from nixt_pipeline.errors import NixtError
from nixt_pipeline.fleet.baselines import read_baselines
from nixt_pipeline.fleet.compare import robust_stats
from nixt_pipeline.fleet.compare.comparison import Basis, Comparison, KernelComparison, Measure, NotCompared, Whole
from nixt_pipeline.fleet.compare.conclusion import SLOWER, Work, conclude, next_step, with_hosts
from nixt_pipeline.fleet.compare.explanation import Explanation, explain
from nixt_pipeline.fleet.compare.location import MEASURES, MeasureName, locate, lost_us, unjudged
from nixt_pipeline.fleet.compare.matching import Matching, Pair, Side, match, workload_changes
from nixt_pipeline.fleet.compare.other_hosts import Judge, sets_of_hosts
from nixt_pipeline.fleet.compare.placement import on_machines, placement
from nixt_pipeline.fleet.compare.robust_stats import Change
from nixt_pipeline.fleet.compare.summaries import Kernel, RunSummary, load_summary, sound_summaries
from nixt_pipeline.inspector.operations import ends_together
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store.manifest import published_runs

# What a run was made with: printed next to the verdict, because it is often what was changed on purpose.
COVARIATES = ("nccl_version", "git_revs", "format_versions", "timing_sources")
# More runs tell little more about how much hosts differ, and each is read anew.
MAX_HISTORY = 12
Shares = tuple[float, float]  # of the time of either side
_SAMPLING: dict[Basis, robust_stats.Sampling] = {"runs": robust_stats.of_runs, "blocks": robust_stats.of_blocks}


class ComparisonError(NixtError, ValueError):
    """Runs that cannot be put side by side as they were given; the message says why."""


def compare_runs(a: Sequence[str], b: Sequence[str], settings: Settings, names: tuple[str, str]) -> Comparison:
    """Compare the stored runs `b` with the stored runs `a`, the reference; of runs of several workloads those that do
    the same. Raises `UnknownRunError` and `ComparisonError`."""
    both = sorted({*a} & {*b})
    if both or not a or not b:
        raise ComparisonError(f"run {both[0]} is on both sides" if both else "one side of the comparison has no run")
    side_a, side_b = (
        Side(name, tuple(load_summary(run, settings) for run in runs)) for name, runs in zip(names, (a, b), strict=True)
    )
    kept_a, kept_b = of_one_workload(side_a, side_b, settings.thresholds)
    left_out = {run.run for run in (*side_a.runs, *side_b.runs)} - {run.run for run in (*kept_a.runs, *kept_b.runs)}
    found = compare_on_machines(kept_a, kept_b, settings, _history(kept_a, kept_b, settings))
    return replace(found, left_out=tuple(sorted(left_out)))


def compare_on_machines(a: Side, b: Side, settings: Settings, history: Sequence[RunSummary] = ()) -> Comparison:
    """Compare side `b` with side `a`, with the machines behind the names of hosts."""
    runs = on_machines([*a.runs, *b.runs, *history], settings)
    ours, theirs = len(a.runs), len(a.runs) + len(b.runs)
    sides = replace(a, runs=tuple(runs[:ours])), replace(b, runs=tuple(runs[ours:theirs]))
    return compare_sides(*sides, settings.thresholds, runs[theirs:])


def _history(a: Side, b: Side, settings: Settings) -> tuple[RunSummary, ...]:
    """The newest other runs that are fit to be a baseline of the work of `a`."""
    rows = read_baselines(settings).to_pylist()
    workloads = {run.workload(settings.thresholds) for run in a.runs}
    known = {run.run for run in (*a.runs, *b.runs)}
    fit = [row for row in rows if row["fit"] and row["workload"] in workloads and row["run"] not in known]
    newest = sorted(fit, key=lambda row: -(row["first_dump_us"] or 0))[:MAX_HISTORY]
    published = published_runs(settings)
    runs = [row["run"] for row in newest if row["run"] in published]
    return sound_summaries(runs, lambda run: load_summary(run, settings))


def of_one_workload(a: Side, b: Side, limits: Thresholds) -> tuple[Side, Side]:
    """The sides without runs of other workloads than the one that most runs of both do; the sides as they are when no
    workload is on both: then the work itself has changed."""
    counts = [Counter(run.workload(limits) for run in side.runs) for side in (a, b)]
    common = counts[0].keys() & counts[1].keys()
    if not common:
        return a, b
    kept = max(sorted(common), key=lambda workload: min(count[workload] for count in counts))
    of_it = [replace(side, runs=tuple(run for run in side.runs if run.workload(limits) == kept)) for side in (a, b)]
    return of_it[0], of_it[1]


def compare_sides(a: Side, b: Side, limits: Thresholds, history: Sequence[RunSummary] = ()) -> Comparison:
    """Compare side `b` with side `a`. `history` are other runs of the same work, which show by how much sets of hosts
    differ anyway; those of `a` count without being named."""
    basis: Basis = "runs" if len(a.runs) + len(b.runs) > 2 else "blocks"
    matching, where = match(a, b), placement(a, b, limits)
    changes = workload_changes(a, b, matching, limits)
    comparable, left_out = _comparable(matching, limits)
    explanations: dict[Change, Explanation] = {
        verdict: explain(a, b, matching, side) for verdict, side in SLOWER.items()
    }
    known = {run.run: run for run in (*a.runs, *history)}
    judge = Judge(where, sets_of_hosts([*known.values()], limits.comparison.min_host_sets), explanations, limits)
    job_us = sum(run.rank_time_us for run in b.runs) / len(b.runs)
    kernels = _compare_kernels(comparable, judge, basis, limits, job_us)
    whole = _compare_all(comparable, kernels, judge, basis, limits)
    rest = unjudged([pair for pair in matching.pairs if pair not in comparable], a)
    verdict, reason = conclude(kernels, whole, Work(matching, changes, left_out, rest), limits)
    explanation = explanations.get(verdict)
    told = with_hosts(verdict, reason, kernels, whole, where, explanation)
    return Comparison(
        a=a,
        b=b,
        verdict=verdict,
        reason=told,
        above_all="" if told.startswith(reason) else reason,
        basis=basis,
        workload_changes=changes,
        covariates=tuple((name, a.values(name), b.values(name)) for name in COVARIATES),
        placement=where,
        matched_share=matching.matched_share,
        margin=limits.comparison.margin,
        transfer=whole[0],
        waiting=whole[1],
        kernels=kernels,
        not_compared=left_out,
        explanation=explanation if explanation and explanation.causes else None,
        next_step=next_step(verdict, where, explanation),
        host_sets=len(judge.sets),
    )


def _comparable(matching: Matching, limits: Thresholds) -> tuple[tuple[Pair, ...], tuple[NotCompared, ...]]:
    """The pairs whose times may be compared, and why the others may not."""
    reasons = [(pair, _obstacle(pair, limits)) for pair in matching.pairs]
    left_out = [NotCompared(pair.key, reason) for pair, reason in reasons if reason]
    left_out += [NotCompared(a, f"sizes or ranks differ: {b.label}") for a, b in matching.changed]
    return tuple(pair for pair, reason in reasons if not reason), tuple(left_out)


def _obstacle(pair: Pair, limits: Thresholds) -> str:
    """Why the times of a kernel are not comparable; empty when they are."""
    both = (*pair.a, *pair.b)
    if not ends_together(pair.key.coll):
        return "waiting and transfer cannot be separated for this operation"
    sources = [{kernel.row["timing_sources"] for kernel in side} for side in (pair.a, pair.b)]
    if sources[0] != sources[1]:
        return f"versions: times are from {_names(sources[0])} and from {_names(sources[1])}"
    if min(kernel.row["cells"] or 0 for kernel in both) < limits.diagnosis.min_diagnosed_cells:
        return (
            f"fewer than {limits.diagnosis.min_diagnosed_cells} collectives were recorded by all ranks with GPU times"
        )
    captured = min(kernel.row["capture_rate"] or 0.0 for kernel in both)
    if captured < limits.analysis.min_capture_rate:
        return f"capture: only {captured:.0%} of the records were captured"
    complete = min(kernel.row["usable_share"] or 0.0 for kernel in both)
    if complete < limits.diagnosis.min_complete_share:
        return f"capture: only {complete:.0%} of the collectives were recorded by all ranks"
    return ""


def _names(values: Iterable[str | None]) -> str:
    return ", ".join(sorted(value or "unknown" for value in values))


def _compare_kernels(
    pairs: Sequence[Pair], judge: Judge, basis: Basis, limits: Thresholds, job_us: float
) -> tuple[KernelComparison, ...]:
    """`job_us` is the rank-time of a job of side B."""
    moved = _shares(pairs, lambda kernel: _transfers_us(kernel) * kernel.key.n_ranks)
    stood = _shares(
        pairs,
        lambda kernel: (_transfers_us(kernel) + kernel.row["cells"] * kernel.row["wait_us"]) * kernel.key.n_ranks,
    )
    measures = [
        (_transfer(pair, basis, share, limits), _waiting(pair, basis, waited, limits))
        for pair, share, waited in zip(pairs, moved, stood, strict=True)
    ]
    estimates = [measure.estimate for both in measures for measure in both]
    q_values = iter(robust_stats.corrected([estimate.p_value for estimate in estimates if estimate]))
    compared = []
    for pair, both in zip(pairs, measures, strict=True):
        transfer, waiting = (
            _weighed(
                judge.of_kernel(measure, next(q_values) if measure.estimate else 1.0, pair, name), pair, name, job_us
            )
            for name, measure in zip(MEASURES, both, strict=True)
        )
        compared.append(KernelComparison(pair.key, transfer, waiting))
    return tuple(sorted(compared, key=lambda kernel: -max(kernel.transfer.share, kernel.waiting.share)))


def _transfers_us(kernel: Kernel) -> float:
    return float(kernel.row["transfer_capped_us"] * kernel.row["cells"])


def _weighed(measure: Measure, pair: Pair, which: MeasureName, job_us: float) -> Measure:
    """The measure with what it costs and, for a change, the communicators that it is in."""
    lost, slower = lost_us(pair, which), SLOWER.get(measure.verdict)
    where = locate(pair, which, slower, measure.floor) if slower else None
    return replace(measure, lost_s=lost / 1e6, cost_share=lost / job_us if job_us else 0.0, location=where)


def _transfer(pair: Pair, basis: Basis, shares: Shares, limits: Thresholds) -> Measure:
    a, b = _units(pair.a, "transfer_us", basis), _units(pair.b, "transfer_us", basis)
    estimate = robust_stats.ratio_of_times(a, b, _SAMPLING[basis], limits.comparison.error)
    middle = float(np.exp(np.log(a).mean())), float(np.exp(np.log(b).mean()))
    return Measure(*middle, *shares, max(limits.comparison.margin, limits.comparison.floor_us / middle[0]), estimate)


def _waiting(pair: Pair, basis: Basis, shares: Shares, limits: Thresholds) -> Measure:
    a, b = _units(pair.a, "wait_us", basis), _units(pair.b, "wait_us", basis)
    whole = float(a.mean() + _units(pair.a, "transfer_us", basis).mean())
    estimate = robust_stats.difference_of_times(a, b, whole, _SAMPLING[basis], limits.comparison.error)
    floor = max(limits.comparison.margin, limits.diagnosis.late_floor_us / whole)
    return Measure(float(a.mean()), float(b.mean()), *shares, floor, estimate)


def _units(kernels: Sequence[Kernel], measure: str, basis: Basis) -> Floats:
    """One value for each run, or for each stretch of the only run."""
    rows = [getattr(kernel, measure) for kernel in kernels]
    if basis == "blocks":
        return np.asarray(rows[0][~np.isnan(rows[0])])
    if measure == "transfer_us":
        return np.array([np.exp(np.nanmean(np.log(row))) for row in rows])
    return np.array([np.nanmean(row) for row in rows])


def _compare_all(
    pairs: Sequence[Pair], kernels: Sequence[KernelComparison], judge: Judge, basis: Basis, limits: Thresholds
) -> Whole:
    """What the reference's operations take on each side, all comparable kernels together."""
    if not pairs:
        return None, None
    weights = [float(np.mean([kernel.row["cells"] * kernel.key.n_ranks for kernel in pair.a])) for pair in pairs]
    sums = {}
    for measure in ("transfer_us", "wait_us"):
        for side in ("a", "b"):
            rows = [_in_step(getattr(pair, side), measure, basis) for pair in pairs]
            length = min(map(len, rows))
            sums[measure, side] = np.average([row[:length] for row in rows], axis=0, weights=weights)
    transfers = sums["transfer_us", "a"], sums["transfer_us", "b"]
    waits = sums["wait_us", "a"], sums["wait_us", "b"]
    whole = float(transfers[0].mean() + waits[0].mean())
    moved = robust_stats.ratio_of_times(*transfers, _SAMPLING[basis], limits.comparison.error)
    stood = robust_stats.difference_of_times(*waits, whole, _SAMPLING[basis], limits.comparison.error)
    weighted = list(zip(pairs, weights, strict=True))

    def judged(name: MeasureName, times: tuple[Floats, Floats], estimate: robust_stats.Estimate | None) -> Measure:
        each: list[Measure] = [getattr(kernel, name) for kernel in kernels]
        lost_s, cost_share = sum(measure.lost_s for measure in each), sum(measure.cost_share for measure in each)
        before, after = (float(units.mean()) for units in times)
        measure = Measure(before, after, 1.0, 1.0, 0.0, estimate, lost_s=lost_s, cost_share=cost_share)
        return judge.of_all(measure, name, each, weighted)

    return judged("transfer", transfers, moved), judged("waiting", waits, stood)


def _in_step(kernels: Sequence[Kernel], measure: str, basis: Basis) -> Floats:
    """The units of a kernel in the order of all others, gaps filled with its mean."""
    if basis == "runs":
        return _units(kernels, measure, basis)
    row = getattr(kernels[0], measure)
    filled: Floats = np.where(np.isnan(row), np.nanmean(row), row)
    return filled


def _shares(pairs: Sequence[Pair], weight: Callable[[Kernel], float]) -> list[Shares]:
    """Each pair's share of a time on either side."""
    weights = np.array([[np.mean([weight(kernel) for kernel in side]) for side in (pair.a, pair.b)] for pair in pairs])
    return [(float(a), float(b)) for a, b in weights / np.maximum(weights.sum(axis=0), 1e-12)] if pairs else []
