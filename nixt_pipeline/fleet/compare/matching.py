"""Which kernel of one side is which of the other, and what the sides do differently.

First by the whole structure. What is left over is paired by role (function, placement, parallel role): such a pair does
the same for the job with another size or number of ranks, so that its times are no slowdown but a change of the work.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from nixt_pipeline.fleet.compare.summaries import Kernel, KernelKey, RunSummary
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.settings import Thresholds


@dataclass(frozen=True)
class Side:
    """One side of a comparison: one run, or several that are replicates of one another."""

    name: str
    runs: tuple[RunSummary, ...]

    def kernels(self) -> dict[KernelKey, list[Kernel]]:
        """The kernels that more than half of the runs have, from each run that has it."""
        found: dict[KernelKey, list[Kernel]] = defaultdict(list)
        for run in self.runs:
            for key, kernel in run.kernels.items():
                found[key].append(kernel)
        return {key: kernels for key, kernels in found.items() if 2 * len(kernels) > len(self.runs)}

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of all runs."""
        return frozenset().union(*(run.hosts for run in self.runs))

    def values(self, fact: str) -> tuple[str, ...]:
        """What the runs say about `fact`, each value once, sorted; unknown ones are left out."""
        return tuple(sorted({str(run.facts[fact]) for run in self.runs if run.facts.get(fact) is not None}))


@dataclass(frozen=True)
class Pair:
    """A kernel that both sides have."""

    key: KernelKey
    a: tuple[Kernel, ...]
    b: tuple[Kernel, ...]


@dataclass(frozen=True)
class Matching:
    """`pairs` have the same structure; `changed` the same role; what has no counterpart is `gone` or `new`."""

    pairs: tuple[Pair, ...]
    changed: tuple[tuple[KernelKey, KernelKey], ...]
    gone: tuple[KernelKey, ...]
    new: tuple[KernelKey, ...]
    share_a: dict[KernelKey, float]
    share_b: dict[KernelKey, float]

    @property
    def matched_share(self) -> float:
        """The smaller of the sides' shares of rank time that are in kernels of both."""
        return min(
            sum(self.share_a[kernel.key] for pair in self.pairs for kernel in pair.a[:1]),
            sum(self.share_b[kernel.key] for pair in self.pairs for kernel in pair.b[:1]),
        )


def match(a: Side, b: Side) -> Matching:
    """Pair the kernels of two sides."""
    left, right = a.kernels(), b.kernels()
    pairs = [Pair(key, tuple(left.pop(key)), tuple(right.pop(key))) for key in list(left) if key in right]
    # A plugin that does not write names leaves some roles untold: the structure without the role is as strict.
    for key_a, key_b in _unique(left, right, lambda key: replace(key, role="")):
        if not (key_a.role and key_b.role):
            pairs.append(Pair(key_a, tuple(left.pop(key_a)), tuple(right.pop(key_b))))
    changed = []
    # A role first where it was placed before, then wherever it is: tensor groups can outgrow a node.
    for role in (lambda key: (key.kind, key.coll, key.coll_type, key.role), lambda key: (key.kind, key.coll, key.role)):
        for key_a, key_b in _unique(left, right, role):
            changed.append((key_a, key_b))
            del left[key_a], right[key_b]
    return Matching(tuple(pairs), tuple(changed), tuple(left), tuple(right), _shares(a), _shares(b))


def _unique(
    left: Iterable[KernelKey], right: Iterable[KernelKey], of: Callable[[KernelKey], object]
) -> list[tuple[KernelKey, KernelKey]]:
    """Pairs that agree in `of`: where each side has as many, in the order of their sizes; otherwise none."""
    groups: dict[object, tuple[list[KernelKey], list[KernelKey]]] = defaultdict(lambda: ([], []))
    for side, keys in enumerate((left, right)):
        for key in keys:
            groups[of(key)][side].append(key)
    found = []
    for ours, theirs in groups.values():
        if len(ours) == len(theirs):
            found += list(zip(*(sorted(keys, key=lambda key: key.size_bytes) for keys in (ours, theirs)), strict=True))
    return found


def _shares(side: Side) -> dict[KernelKey, float]:
    """The share of each kernel in the rank time of its runs."""
    times: dict[KernelKey, float] = defaultdict(float)
    for run in side.runs:
        for key, kernel in run.kernels.items():
            times[key] += kernel.row["rank_time_us"] or 0.0
    others = sum(row["rank_time_us"] or 0.0 for run in side.runs for row in run.others)
    total = sum(times.values()) + others or 1.0
    return {key: time / total for key, time in times.items()}


def workload_changes(a: Side, b: Side, matching: Matching, limits: Thresholds) -> tuple[str, ...]:
    """What the two sides do differently, in sentences; empty when they do the same work."""
    changes = []
    for fact, name in (("gpus", "GPUs"), ("parallelism", "parallelism"), ("model", "model")):
        before, after = a.values(fact), b.values(fact)
        # What run.json says and what is inferred can differ for the same job.
        told_alike = a.values(f"{fact}_source") == b.values(f"{fact}_source")
        if before and after and before != after and told_alike:
            changes.append(f"{name}: {', '.join(before)} -> {', '.join(after)}")
    for key_a, key_b in matching.changed:
        if _counts(key_a, matching.share_a, limits) or _counts(key_b, matching.share_b, limits):
            changes.append(
                f"{key_a.coll} of the {key_a.role or key_a.coll_type} communicators: {_difference(key_a, key_b)}"
            )
    for keys, shares, word in ((matching.gone, matching.share_a, "gone"), (matching.new, matching.share_b, "new")):
        changes += [f"{word}: {key.label}" for key in keys if _counts(key, shares, limits)]
    return (*changes, *_mix_changes(matching, limits))


def _difference(a: KernelKey, b: KernelKey) -> str:
    parts = []
    if a.size_bytes != b.size_bytes:
        parts.append(f"size {format_bytes(a.size_bytes)} -> {format_bytes(b.size_bytes)}")
    if a.n_ranks != b.n_ranks:
        parts.append(f"ranks {a.n_ranks} -> {b.n_ranks}")
    if a.nnodes != b.nnodes:
        parts.append(f"nodes {a.nnodes} -> {b.nnodes}")
    return ", ".join(parts)


def _counts(key: KernelKey, shares: Mapping[KernelKey, float], limits: Thresholds) -> bool:
    return shares.get(key, 0.0) >= limits.comparison.min_kernel_share


def _mix_changes(matching: Matching, limits: Thresholds) -> list[str]:
    """Kernels that are used more or less often relative to the others. How long a run lasted does not matter."""
    ratios: dict[KernelKey, float] = {}
    for pair in matching.pairs:
        before, after = _operations(pair.a, limits), _operations(pair.b, limits)
        if before and after and _counts(pair.key, matching.share_a, limits):
            ratios[pair.key] = after / before
    usual = median(ratios.values()) if ratios else 1.0
    return [
        f"{key.label}: {ratio / usual:.3g} times as often relative to the other kernels"
        for key, ratio in ratios.items()
        if abs(ratio / usual - 1) > limits.comparison.margin
    ]


def _operations(kernels: Sequence[Kernel], limits: Thresholds) -> float | None:
    """Operations of one communicator in the middle run; None when the logs do not hold nearly all of them."""
    counts = [
        kernel.row["operations"] / kernel.row["communicators"]
        for kernel in kernels
        if kernel.row["operations"] and (kernel.row["capture_rate"] or 0.0) >= limits.comparison.countable_capture_rate
    ]
    return median(counts) if len(counts) == len(kernels) else None
