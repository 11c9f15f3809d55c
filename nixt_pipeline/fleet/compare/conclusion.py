"""The verdict on the whole of a comparison, and a sentence why."""

from collections.abc import Sequence
from dataclasses import dataclass

from nixt_pipeline.fleet.compare import robust_stats
from nixt_pipeline.fleet.compare.comparison import KernelComparison, Measure, NotCompared
from nixt_pipeline.fleet.compare.explanation import Explanation, SideName
from nixt_pipeline.fleet.compare.location import MEASURES, MeasureName, Unjudged
from nixt_pipeline.fleet.compare.matching import Matching, Side
from nixt_pipeline.fleet.compare.placement import Placement
from nixt_pipeline.fleet.compare.robust_stats import Change, Estimate, Limits
from nixt_pipeline.quantities import percent
from nixt_pipeline.settings import Thresholds

# A difference in one of these makes another job of it, even where some kernels are the same.
_JOB = ("GPUs:", "parallelism:")
# What decides, the gravest first.
_ORDER: tuple[Change, ...] = (
    "regressed", "slower-other-hosts", "not-comparable", "improved", "faster-other-hosts"
)  # fmt: skip
# The slower side of a verdict.
SLOWER: dict[Change, SideName] = {
    "regressed": "b", "slower-other-hosts": "b", "improved": "a", "faster-other-hosts": "a",
}  # fmt: skip
# A part of the change that is worth a word.
_TOLD_SHARE = 0.01
# From here on the rest is within what such an estimate is good for.
_MOST = 0.8


@dataclass(frozen=True)
class Work:
    """What the sides do, and what of it is not compared."""

    matching: Matching
    changes: Sequence[str]
    left_out: Sequence[NotCompared]
    unjudged: Unjudged


def conclude(
    kernels: Sequence[KernelComparison],
    whole: tuple[Measure | None, Measure | None],
    work: Work,
    limits: Thresholds,
) -> tuple[Change, str]:
    """The verdict, and one sentence why. `whole` has transfer and waiting of all kernels together."""
    margin = limits.comparison.margin
    job = [change for change in work.changes if change.startswith(_JOB)]
    if job or work.matching.matched_share < limits.comparison.min_matched_share:
        what = "; ".join(job or work.changes[:3]) or "no kernel takes much time on both sides"
        return "not-comparable", f"the sides do different work ({what})"
    if not kernels:
        why = work.left_out[0].reason if work.left_out else "the sides have no kernel in common"
        return "not-comparable", why
    deciding = _deciding_measures(kernels, whole, limits.comparison.min_kernel_share)
    for verdict in _ORDER:
        found = [(label, measure) for label, measure in deciding if measure.verdict == verdict]
        if found:
            return verdict, _named(found)
    if abs(work.unjudged.share) >= margin:
        word = "longer" if work.unjudged.share > 0 else "less"
        rest = f"; {others}" if (others := _undecided(whole, limits)) else ""
        return "inconclusive", (
            f"operations whose times cannot be judged ({work.unjudged.kernel}, above all) take"
            f" {percent(abs(work.unjudged.share))} of the time of all {word}{rest}"
        )
    if all(measure and measure.verdict == "equivalent" for measure in whole):
        return "equivalent", f"transfer and waiting differ by less than {margin:.0%}"
    return "inconclusive", _undecided(whole, limits)


def _deciding_measures(
    kernels: Sequence[KernelComparison], whole: tuple[Measure | None, Measure | None], min_share: float
) -> list[tuple[str, Measure]]:
    """Words and measure of what takes enough time on either side to decide, and last of all kernels together: many
    small ones can be what became slower."""
    single = [(f"{name} of {kernel.key.label}", getattr(kernel, name)) for kernel in kernels for name in MEASURES]
    found = [(label, measure) for label, measure in single if max(measure.share, measure.share_b) >= min_share]
    all_of_them = zip(MEASURES, whole, strict=True)
    return found + [(f"{name} of all kernels together", measure) for name, measure in all_of_them if measure]


def _named(found: Sequence[tuple[str, Measure]]) -> str:
    """The transfer and the waiting that matter most, single kernels rather than all together. Slow transfers are often
    why others wait, and named first."""
    single = [(label, measure) for label, measure in found if measure.location or measure.floor] or list(found)
    named = []
    for name in MEASURES:
        of_it = [(label, measure) for label, measure in single if label.startswith(name)]
        if of_it:
            named.append(max(of_it, key=lambda item: item[1].share * abs(_change(item[1].estimate))))
    words = "; ".join(_told(label, measure) for label, measure in named)
    more = f"; and {len(single) - len(named)} more" if len(single) > len(named) else ""
    return words + more


def _told(label: str, measure: Measure) -> str:
    """By how much a measure changed, in which communicators, what of the job that is, and what is known besides."""
    parts = [f"{label} {_change(measure.estimate):+.1%}"]
    if measure.location:
        parts.append(measure.location.words)
    if abs(measure.cost_share) >= _TOLD_SHARE:
        verb = "costs" if measure.cost_share > 0 else "saves"
        parts.append(f"which {verb} {percent(abs(measure.cost_share))} of B's rank-time")
    if measure.reason:
        parts.append(measure.reason)
    return ", ".join(parts)


def with_hosts(
    verdict: Change,
    reason: str,
    kernels: Sequence[KernelComparison],
    whole: tuple[Measure | None, Measure | None],
    where: Placement,
    explanation: Explanation | None,
) -> str:
    """The sentence with what the findings of the slower side explain, and what is left: the hosts, or the change."""
    if verdict in ("regressed", "improved"):
        told = _explained(explanation, [])
        return f"{reason}; {told}" if told else reason
    if verdict not in SLOWER:
        return reason
    changes = _changes(verdict, whole) or _changes_of_kernels(verdict, kernels)
    word = "slower" if verdict == "slower-other-hosts" else "faster"
    parts = " and ".join(f"{abs(change):.0%} in {label}" for _, label, change in changes)
    told = _explained(explanation, changes) or "unexplained: the hosts or the change"
    if explanation and explanation.causes and _rest_matters(explanation, changes):
        told += "; the rest is unexplained: the hosts or the change"
    notes = [measure.reason for _, _, measure in _deciding(verdict, kernels, whole) if measure.reason][:1]
    return "; ".join([f"{word} by {parts}, on {_hosts(where)}", *notes, told])


def next_step(verdict: Change, where: Placement, explanation: Explanation | None) -> str:
    """How to tell the hosts from the change; empty where there is nothing to be told apart."""
    if verdict not in ("slower-other-hosts", "faster-other-hosts"):
        return ""
    hosts = dict.fromkeys(cause.where for cause in explanation.causes if cause.hosts) if explanation else ()
    if explanation and hosts:
        named = ", ".join(hosts)
        side, other = ("B", "A") if explanation.side == "b" else ("A", "B")
        return (
            f"Run {side} again without {named}, on the hosts of {other} if possible: what is left then is the change."
        )
    names = "" if where.names_are_machines else " Say in run.json which nodes they were (host_nodes)."
    return (
        f"Run A again on the hosts of B (srun --nodelist), or B on those of A: on the same hosts it is the change. Or"
        f" compare several runs a side: what three sets of hosts or more differ by anyway is then known.{names}"
    )


def _deciding(
    verdict: Change, kernels: Sequence[KernelComparison], whole: tuple[Measure | None, Measure | None]
) -> list[tuple[MeasureName, str, Measure]]:
    found: list[tuple[MeasureName, str, Measure]] = [
        (name, name, measure) for name, measure in zip(MEASURES, whole, strict=True) if measure
    ]
    found += [(name, f"{name} of {k.key.label}", getattr(k, name)) for k in kernels for name in MEASURES]
    return [(name, label, measure) for name, label, measure in found if measure.verdict == verdict]


def _changes(verdict: Change, whole: tuple[Measure | None, Measure | None]) -> list[tuple[MeasureName, str, float]]:
    """Measure, words and change of all kernels together, the larger first."""
    found = [(name, label, _change(measure.estimate)) for name, label, measure in _deciding(verdict, (), whole)]
    return sorted(found, key=lambda item: -abs(item[2]))


def _changes_of_kernels(verdict: Change, kernels: Sequence[KernelComparison]) -> list[tuple[MeasureName, str, float]]:
    """The same of the kernel that matters most, where only single ones changed."""
    name, label, measure = max(
        _deciding(verdict, kernels, (None, None)), key=lambda item: item[2].share * abs(_change(item[2].estimate))
    )
    return [(name, label, _change(measure.estimate))]


def _explained(explanation: Explanation | None, changes: Sequence[tuple[MeasureName, str, float]]) -> str:
    """`B has a P1 finding (gpu-120) that explains 56 of the 59 % in waiting`."""
    if explanation is None or not explanation.causes:
        return ""
    causes, side = explanation.causes, explanation.side.upper()
    named = ", ".join(dict.fromkeys(cause.where for cause in causes))
    worst = min(cause.severity for cause in causes)
    subject = f"{side} has a {worst} finding ({named})" if len(causes) == 1 else f"{side} has findings ({named})"
    verb = "that explains" if len(causes) == 1 else "that explain"
    shares = {name: explanation.share(name) for name in MEASURES}
    if not changes:
        name = max(shares, key=lambda name: shares[name])
        return f"{subject} {verb} {shares[name]:.0%} of the longer {name}" if shares[name] >= _TOLD_SHARE else ""
    if max(shares[name] for name, _, _ in changes) < _TOLD_SHARE:
        return f"{subject} {verb} none of it"
    parts = [
        f"{100 * abs(change) * shares[name]:.0f} of the {100 * abs(change):.0f}"
        + (f" in {name}" if len(changes) > 1 else "")
        for name, _, change in changes
    ]
    return f"{subject} {verb} {' and '.join(parts)}"


def _rest_matters(explanation: Explanation, changes: Sequence[tuple[MeasureName, str, float]]) -> bool:
    return any(explanation.share(name) < _MOST for name, _, _ in changes)


def _hosts(where: Placement) -> str:
    if not where.names_are_machines:
        return "hosts whose names say nothing about the machines"
    if where.kind == "replicated":
        return "hosts that change from run to run"
    return f"other hosts ({where.common} of {where.hosts_b} in common)" if where.common else "other hosts"


def _undecided(whole: tuple[Measure | None, Measure | None], limits: Thresholds) -> str:
    """What could not be decided, and how many runs would tell."""
    parts = []
    for name, measure in zip(MEASURES, whole, strict=True):
        if measure and measure.verdict != "equivalent":
            if measure.estimate is None:
                parts.append(f"{name}: too few runs")
                continue
            e = measure.estimate
            needed = robust_stats.runs_needed(e, Limits(limits.comparison.margin, limits.comparison.error))
            more = f", about {needed} runs a side would tell" if needed else ""
            why = f"; {measure.reason}" if measure.reason else ""
            parts.append(f"{name} {e.change:+.1%} (between {e.low:+.1%} and {e.high:+.1%}{more}{why})")
    return "; ".join(parts)


def _change(estimate: Estimate | None) -> float:
    return estimate.change if estimate else 0.0


def caution(a: Side) -> str:
    """What makes the reference a poor one; empty for most."""
    urgent = sorted(run.run for run in a.runs if run.facts.get("worst_severity") in ("P0", "P1"))
    if not urgent:
        return ""
    more = f" and {len(urgent) - 1} more" if len(urgent) > 1 else ""
    return f"the reference {urgent[0]}{more} has an urgent finding itself: being as fast or faster says little"
