"""Compare runs with runs: transfer and waiting of each kernel that both sides have, and what follows from all of them.

Transfer is the time of the last rank to arrive: it moves with the network, NCCL and the driver. Waiting is what the
others spend beyond it: it moves with computation, data loading and stragglers. They are never added up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from nixt_pipeline.comparison import statistics
from nixt_pipeline.comparison.matching import Matching, Pair, Side, match, workload_changes
from nixt_pipeline.comparison.placement import Placement, changes_of_pairs, placement
from nixt_pipeline.comparison.results import Basis, Comparison, KernelComparison, Measure, NotCompared
from nixt_pipeline.comparison.statistics import Change, Estimate, Limits
from nixt_pipeline.comparison.summaries import Floats, Kernel, RunSummary, load_summary
from nixt_pipeline.comparison.workload import workload_of
from nixt_pipeline.errors import NixtError
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Settings, Thresholds

# What a run was made with: printed beside the verdict, because it is often what was changed on purpose.
COVARIATES = ("nccl_version", "git_revs", "format_versions", "timing_sources")
# A difference in one of these makes another job of it, even where some kernels are the same.
_JOB = ("GPUs:", "parallelism:")
_SAMPLING: dict[Basis, statistics.Sampling] = {"runs": statistics.of_runs, "blocks": statistics.of_blocks}


class ComparisonError(NixtError, ValueError):
    """Runs that cannot be put side by side as they were given; the message says why."""


def compare_runs(
    a: Sequence[str], b: Sequence[str], settings: Settings, names: tuple[str, str] = ("", "")
) -> Comparison:
    """Compare the stored runs `b` with the stored runs `a`, the reference; of runs of several workloads those that do
    the same. Raises `UnknownRunError` and `ComparisonError`."""
    both = sorted({*a} & {*b})
    if both or not a or not b:
        raise ComparisonError(f"run {both[0]} is on both sides" if both else "one side of the comparison has no run")
    side_a, side_b = (
        Side(name or ", ".join(runs), tuple(load_summary(run, settings) for run in runs))
        for name, runs in zip(names, (a, b), strict=True)
    )
    kept_a, kept_b = of_one_workload(side_a, side_b)
    left_out = {run.run for run in (*side_a.runs, *side_b.runs)} - {run.run for run in (*kept_a.runs, *kept_b.runs)}
    return replace(compare_sides(kept_a, kept_b, settings.thresholds), left_out=tuple(sorted(left_out)))


def of_one_workload(a: Side, b: Side) -> tuple[Side, Side]:
    """The sides without runs of other workloads than the one that most runs of both do; the sides as they are when no
    workload is on both: then the work itself has changed."""
    counts = [Counter(_workload(run) for run in side.runs) for side in (a, b)]
    common = counts[0].keys() & counts[1].keys()
    if not common:
        return a, b
    kept = max(sorted(common), key=lambda workload: min(count[workload] for count in counts))
    of_it = [replace(side, runs=tuple(run for run in side.runs if _workload(run) == kept)) for side in (a, b)]
    return of_it[0], of_it[1]


def _workload(run: RunSummary) -> str:
    return workload_of(run.facts["gpus"], [kernel.row for kernel in run.kernels.values()])


def compare_sides(a: Side, b: Side, limits: Thresholds) -> Comparison:
    """Compare side `b` with side `a`."""
    basis: Basis = "runs" if len(a.runs) + len(b.runs) > 2 else "blocks"
    matching, where = match(a, b), placement(a, b)
    changes = workload_changes(a, b, matching, limits)
    comparable, left_out = _comparable(matching, limits)
    kernels = _compare_kernels(comparable, where, basis, limits)
    transfer, waiting = (
        _if_confirmed(measure, where, [getattr(kernel, name) for kernel in kernels])
        for name, measure in zip(("transfer", "waiting"), _compare_all(comparable, basis, limits), strict=True)
    )
    verdict, reason = _conclude(kernels, transfer, waiting, matching, changes, left_out, limits)
    return Comparison(
        a=a,
        b=b,
        verdict=verdict,
        reason=reason,
        basis=basis,
        workload_changes=changes,
        covariates=tuple((name, a.values(name), b.values(name)) for name in COVARIATES),
        placement=where,
        matched_share=matching.matched_share,
        margin=limits.comparison_margin,
        transfer=transfer,
        waiting=waiting,
        kernels=kernels,
        not_compared=left_out,
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
    if pair.key.coll not in SYNC_COLLECTIVES:
        return "waiting cannot be told from transfer in this operation"
    sources = [{kernel.row["timing_sources"] for kernel in side} for side in (pair.a, pair.b)]
    if sources[0] != sources[1]:
        return f"versions: times are from {_names(sources[0])} and from {_names(sources[1])}"
    if min(kernel.row["cells"] or 0 for kernel in both) < limits.min_diagnosed_cells:
        return f"fewer than {limits.min_diagnosed_cells} collectives were recorded by all ranks with GPU times"
    captured = min(kernel.row["capture_rate"] or 0.0 for kernel in both)
    if captured < limits.min_capture_rate:
        return f"capture: only {captured:.0%} of the records are there"
    complete = min(kernel.row["usable_share"] or 0.0 for kernel in both)
    if complete < limits.min_complete_share:
        return f"capture: only {complete:.0%} of the collectives were recorded by all ranks"
    return ""


def _names(values: Iterable[str | None]) -> str:
    return ", ".join(sorted(value or "unknown" for value in values))


def _compare_kernels(
    pairs: Sequence[Pair], where: Placement, basis: Basis, limits: Thresholds
) -> tuple[KernelComparison, ...]:
    moved = _shares(pairs, lambda kernel: kernel.row["transfer_us"] * kernel.key.n_ranks)
    stood = _shares(
        pairs,
        lambda kernel: (
            kernel.row["cells"] * kernel.key.n_ranks * (kernel.row["wait_us"] + kernel.row["transfer_p50_us"])
        ),
    )
    measures = [
        (_transfer(pair, basis, share, limits), _waiting(pair, basis, waited, limits))
        for pair, share, waited in zip(pairs, moved, stood, strict=True)
    ]
    estimates = [measure.estimate for both in measures for measure in both]
    q_values = iter(statistics.corrected([estimate.p_value for estimate in estimates if estimate]))
    compared = []
    for pair, both in zip(pairs, measures, strict=True):
        judged = []
        for measure in both:
            q_value = next(q_values) if measure.estimate else 1.0
            limit = Limits(limits.comparison_margin, limits.comparison_error, measure.floor)
            verdict = statistics.judge(measure.estimate, q_value, limit)
            judged.append(replace(measure, verdict=verdict, q_value=q_value))
        transfer, waiting = (_on_common_hosts(m, pair, where, limits, i) for i, m in enumerate(judged))
        compared.append(KernelComparison(pair.key, transfer, waiting))
    return tuple(sorted(compared, key=lambda kernel: -max(kernel.transfer.share, kernel.waiting.share)))


def _on_common_hosts(measure: Measure, pair: Pair, where: Placement, limits: Thresholds, which: int) -> Measure:
    """A change between runs on different hosts counts only if the hosts of both show it, each against itself."""
    if where.kind != "changed" or measure.verdict not in ("regressed", "improved"):
        return measure
    found = statistics.pairs(changes_of_pairs(pair, which), limits.comparison_error)
    if found is None:
        return replace(measure, verdict="not-comparable", reason="hosts: none of its communicators is on the same ones")
    confirmed = found.low > limits.comparison_margin if measure.verdict == "regressed" else found.high < 0
    if confirmed:
        return replace(measure, reason=f"on the hosts in common {found.change:+.1%}")
    return replace(measure, verdict="not-comparable", reason=f"hosts: on those in common it is {found.change:+.1%}")


def _if_confirmed(whole: Measure | None, where: Placement, kernels: Sequence[Measure]) -> Measure | None:
    """The sum of all kernels has no hosts of its own: on changed hosts it changed if one of the kernels did."""
    if whole is None or where.kind != "changed" or whole.verdict not in ("regressed", "improved"):
        return whole
    if any(measure.verdict == whole.verdict for measure in kernels):
        return whole
    return replace(whole, verdict="not-comparable", reason="hosts")


def _transfer(pair: Pair, basis: Basis, share: float, limits: Thresholds) -> Measure:
    a, b = _units(pair.a, "transfer_us", basis), _units(pair.b, "transfer_us", basis)
    estimate = statistics.ratio_of_times(a, b, _SAMPLING[basis], limits.comparison_error)
    middle = float(np.exp(np.log(a).mean())), float(np.exp(np.log(b).mean()))
    return Measure(*middle, share, limits.comparison_floor_us / middle[0], estimate)


def _waiting(pair: Pair, basis: Basis, share: float, limits: Thresholds) -> Measure:
    a, b = _units(pair.a, "wait_us", basis), _units(pair.b, "wait_us", basis)
    whole = float(a.mean() + _units(pair.a, "transfer_us", basis).mean())
    estimate = statistics.difference_of_times(a, b, whole, _SAMPLING[basis], limits.comparison_error)
    return Measure(float(a.mean()), float(b.mean()), share, limits.late_floor_us / whole, estimate)


def _units(kernels: Sequence[Kernel], measure: str, basis: Basis) -> Floats:
    """One value for each run, or for each stretch of the only run."""
    rows = [getattr(kernel, measure) for kernel in kernels]
    if basis == "blocks":
        return np.asarray(rows[0][~np.isnan(rows[0])])
    if measure == "transfer_us":
        return np.array([np.exp(np.nanmean(np.log(row))) for row in rows])
    return np.array([np.nanmean(row) for row in rows])


def _compare_all(pairs: Sequence[Pair], basis: Basis, limits: Thresholds) -> tuple[Measure | None, Measure | None]:
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
    a, b = sums["transfer_us", "a"], sums["transfer_us", "b"]
    waits = sums["wait_us", "a"], sums["wait_us", "b"]
    whole = float(a.mean() + waits[0].mean())
    transfer = _judged(
        Measure(
            float(a.mean()),
            float(b.mean()),
            1.0,
            0.0,
            statistics.ratio_of_times(a, b, _SAMPLING[basis], limits.comparison_error),
        ),
        limits,
    )
    waiting = _judged(
        Measure(
            float(waits[0].mean()), float(waits[1].mean()), 1.0, 0.0,
            statistics.difference_of_times(*waits, whole, _SAMPLING[basis], limits.comparison_error),
        ),
        limits,
    )  # fmt: skip
    return transfer, waiting


def _in_step(kernels: Sequence[Kernel], measure: str, basis: Basis) -> Floats:
    """The units of a kernel in the order of all others, gaps filled with its mean."""
    if basis == "runs":
        return _units(kernels, measure, basis)
    row = getattr(kernels[0], measure)
    filled: Floats = np.where(np.isnan(row), np.nanmean(row), row)
    return filled


def _judged(measure: Measure, limits: Thresholds) -> Measure:
    estimate = measure.estimate
    limit = Limits(limits.comparison_margin, limits.comparison_error)
    p_value = estimate.p_value if estimate else 1.0
    return replace(measure, verdict=statistics.judge(estimate, p_value, limit), q_value=p_value)


def _shares(pairs: Sequence[Pair], weight: Callable[[Kernel], float]) -> list[float]:
    """Each pair's share of a time on the reference side."""
    weights = [float(np.mean([weight(kernel) for kernel in pair.a])) for pair in pairs]
    total = sum(weights) or 1.0
    return [value / total for value in weights]


def _conclude(
    kernels: Sequence[KernelComparison],
    transfer: Measure | None,
    waiting: Measure | None,
    matching: Matching,
    changes: Sequence[str],
    left_out: Sequence[NotCompared],
    limits: Thresholds,
) -> tuple[Change, str]:
    """The verdict on the whole, and one sentence why."""
    job = [change for change in changes if change.startswith(_JOB)]
    if job or matching.matched_share < limits.min_matched_share:
        what = "; ".join(job or changes[:3]) or "no kernel takes much time on both sides"
        return "not-comparable", f"the sides do different work ({what})"
    if not kernels:
        why = left_out[0].reason if left_out else "the sides have no kernel in common"
        return "not-comparable", why
    deciding = [
        (kernel, name, measure)
        for kernel in kernels
        for name, measure in (("transfer", kernel.transfer), ("waiting", kernel.waiting))
        if measure.share >= limits.min_kernel_share
    ]
    for verdict in ("regressed", "not-comparable", "improved"):
        found = [(k, name, m) for k, name, m in deciding if m.verdict == verdict]
        if found:
            kernel, name, measure = max(found, key=lambda item: item[2].share * abs(_change(item[2].estimate)))
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            words = f"{name} of {kernel.key.label} {_change(measure.estimate):+.1%}{more}"
            return verdict, f"{words}; {measure.reason}" if measure.reason else words
    if transfer and waiting and transfer.verdict == waiting.verdict == "equivalent":
        return "equivalent", f"transfer and waiting differ by less than {limits.comparison_margin:.0%}"
    return "inconclusive", _undecided(transfer, waiting, limits)


def _undecided(transfer: Measure | None, waiting: Measure | None, limits: Thresholds) -> str:
    """What could not be decided, and how many runs would tell."""
    parts = []
    for name, measure in (("transfer", transfer), ("waiting", waiting)):
        if measure and measure.verdict != "equivalent":
            if measure.estimate is None:
                parts.append(f"{name}: too few runs")
                continue
            e = measure.estimate
            needed = statistics.runs_needed(e, Limits(limits.comparison_margin, limits.comparison_error))
            more = f", about {needed} runs a side would tell" if needed else ""
            parts.append(f"{name} {e.change:+.1%} (between {e.low:+.1%} and {e.high:+.1%}{more})")
    return "; ".join(parts)


def _change(estimate: Estimate | None) -> float:
    return estimate.change if estimate else 0.0
