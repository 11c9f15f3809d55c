"""The verdict on the whole of a comparison, and a sentence why."""

from collections.abc import Sequence
from dataclasses import dataclass

from nixt_pipeline.fleet.compare import robust_stats
from nixt_pipeline.fleet.compare.comparison import KernelComparison, NotCompared, Part, Whole, parts_of
from nixt_pipeline.fleet.compare.explanation import Explanation, SideName
from nixt_pipeline.fleet.compare.location import MEASURES, Unjudged
from nixt_pipeline.fleet.compare.matching import Matching, Side
from nixt_pipeline.fleet.compare.placement import Placement
from nixt_pipeline.fleet.compare.robust_stats import Change, Limits
from nixt_pipeline.quantities import listed, percent
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
    whole: Whole,
    work: Work,
    limits: Thresholds,
) -> tuple[Change, str]:
    """The verdict, and one sentence why. `whole` has transfer and waiting of all kernels together."""
    margin = limits.comparison.margin
    job = [change for change in work.changes if change.startswith(_JOB)]
    if job or work.matching.matched_share < limits.comparison.min_matched_share:
        what = "; ".join(job or work.changes[:3]) or "no kernel takes a significant share of the time on both sides"
        return "not-comparable", f"the sides do different work ({what})"
    if not kernels:
        why = work.left_out[0].reason if work.left_out else "the sides have no kernel in common"
        return "not-comparable", why
    # Many small kernels can be what became slower, so that all together decide as well.
    least = limits.comparison.min_kernel_share
    parts = parts_of(kernels, whole)
    deciding = [part for part in parts if not part.kernel or max(part.measure.share, part.measure.share_b) >= least]
    for verdict in _ORDER:
        found = [part for part in deciding if part.measure.verdict == verdict]
        if found:
            return verdict, _named(found)
    if abs(work.unjudged.share) >= margin:
        word = "longer" if work.unjudged.share > 0 else "less time"
        rest = f"; {others}" if (others := _undecided(whole, limits)) else ""
        return "inconclusive", (
            f"operations whose times cannot be judged (mainly {work.unjudged.kernel}) take {word}, by"
            f" {percent(abs(work.unjudged.share))} of the total time{rest}"
        )
    if all(measure and measure.verdict == "equivalent" for measure in whole):
        return "equivalent", f"transfer and waiting differ by less than {margin:.0%}"
    return "inconclusive", _undecided(whole, limits)


def _named(found: Sequence[Part]) -> str:
    """The transfer and the waiting that matter most, single kernels rather than all together. Slow transfers are often
    why others wait, and named first."""
    single = [part for part in found if part.kernel] or list(found)
    named = [max(of_it, key=_weight) for name in MEASURES if (of_it := [part for part in single if part.name == name])]
    more = f"; and {len(single) - len(named)} more" if len(single) > len(named) else ""
    return "; ".join(map(_told, named)) + more


def _weight(part: Part) -> float:
    """How much of the time a change is."""
    return part.measure.share * abs(part.measure.change)


def _told(part: Part) -> str:
    """By how much a measure changed, in which communicators, what of the job that is, and what is known besides."""
    measure = part.measure
    words = [f"{part.name} of {part.kernel or 'all kernels together'} {measure.change:+.1%}"]
    if measure.location:
        words.append(measure.location.words)
    if abs(measure.cost_share) >= _TOLD_SHARE:
        verb = "costs" if measure.cost_share > 0 else "saves"
        words.append(f"which {verb} {percent(abs(measure.cost_share))} of B's rank-time")
    if measure.reason:
        words.append(measure.reason)
    return ", ".join(words)


def with_hosts(
    verdict: Change,
    reason: str,
    kernels: Sequence[KernelComparison],
    whole: Whole,
    where: Placement,
    explanation: Explanation | None,
) -> str:
    """The sentence with what the findings of the slower side explain, and what is left: the hosts, or the change."""
    if verdict in ("regressed", "improved"):
        told = _explained(explanation, [])
        return f"{reason}; {told}" if told else reason
    if verdict not in SLOWER:
        return reason
    changed = [part for part in parts_of(kernels, whole) if part.measure.verdict == verdict]
    of_all = sorted((part for part in changed if not part.kernel), key=lambda part: -abs(part.measure.change))
    # Where only single kernels changed, the one that matters most.
    changes = of_all or [max(changed, key=_weight)]
    word = "slower" if verdict == "slower-other-hosts" else "faster"
    parts = " and ".join(f"{abs(part.measure.change):.0%} in {part.label}" for part in changes)
    told = _explained(explanation, changes) or "unexplained: the hosts or the change"
    if explanation and explanation.causes and any(explanation.share(part.name) < _MOST for part in changes):
        told += "; the rest is unexplained: the hosts or the change"
    notes = [part.measure.reason for part in changed if part.measure.reason][:1]
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
            f"Rerun {side} without {named}, on the hosts of {other} if possible: any remaining difference is due to the"
            " change."
        )
    names = "" if where.names_are_machines else " Name the nodes in run.json (host_nodes)."
    return (
        "Rerun A on the hosts of B (srun --nodelist), or B on those of A: a difference on the same hosts is due to the"
        " change. Or compare several runs per side: three or more sets of hosts show how much hosts normally differ."
        f"{names}"
    )


def _explained(explanation: Explanation | None, changes: Sequence[Part]) -> str:
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
    if max(shares[part.name] for part in changes) < _TOLD_SHARE:
        return f"{subject} {verb} none of it"
    parts = [
        f"{100 * abs(part.measure.change) * shares[part.name]:.0f} of the {100 * abs(part.measure.change):.0f}"
        + (f" in {part.name}" if len(changes) > 1 else "")
        for part in changes
    ]
    return f"{subject} {verb} {' and '.join(parts)}"


def _hosts(where: Placement) -> str:
    if not where.names_are_machines:
        return "hosts whose names do not identify machines"
    if where.kind == "replicated":
        return "hosts that change from run to run"
    return f"other hosts ({where.common} of {where.hosts_b} in common)" if where.common else "other hosts"


def _undecided(whole: Whole, limits: Thresholds) -> str:
    """What could not be decided, and how many runs would tell."""
    parts = []
    for name, measure in zip(MEASURES, whole, strict=True):
        if measure and measure.verdict != "equivalent":
            if measure.estimate is None:
                parts.append(f"{name}: too few runs")
                continue
            e = measure.estimate
            needed = robust_stats.runs_needed(e, Limits(limits.comparison.margin, limits.comparison.error))
            more = f", about {needed} runs per side would settle it" if needed else ""
            why = f"; {measure.reason}" if measure.reason else ""
            parts.append(f"{name} {e.change:+.1%} (between {e.low:+.1%} and {e.high:+.1%}{more}{why})")
    return "; ".join(parts)


def caution(a: Side) -> str:
    """What makes the reference a poor one; empty for most."""
    urgent = sorted(run.run for run in a.runs if run.facts.get("worst_severity") in ("P0", "P1"))
    if not urgent:
        return ""
    return f"the reference {listed(urgent, 1)} has an urgent finding itself: being as fast, or faster, means little"
