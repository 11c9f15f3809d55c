"""Whether two sides ran on the same hosts, and what the hosts in common say.

A job that was moved to other hosts can be slower for the sake of one of them. Then only hosts that were in both count,
each against itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from nixt_pipeline.comparison.matching import Pair, Side
from nixt_pipeline.comparison.summaries import Kernel

# With so many runs on each side, on hosts that change from run to run, the hosts are part of what varies by chance.
_MIN_REPLICATES = 3


@dataclass(frozen=True)
class Placement:
    """Hosts of the sides. `same`: equal; `changed`: not equal, and not `replicated`: drawn anew for each run of the
    reference, and those of the other side are among them, or drawn anew as well from mostly the same. Names that are
    no machines' (of pods, say) make it `changed` with none in common: which machines they were is not known."""

    kind: Literal["same", "replicated", "changed"]
    hosts_a: int
    hosts_b: int
    common: int
    names_are_machines: bool = True


def placement(a: Side, b: Side) -> Placement:
    """How the hosts of two sides compare."""
    common = a.hosts & b.hosts
    kind: Literal["same", "replicated", "changed"] = "changed"
    if a.hosts == b.hosts:
        kind = "same"
    elif _is_varied(a) and (b.hosts <= a.hosts or (_is_varied(b) and 2 * len(common) >= len(a.hosts | b.hosts))):
        kind = "replicated"
    return Placement(kind, len(a.hosts), len(b.hosts), len(common))


def _is_varied(side: Side) -> bool:
    return len(side.runs) >= _MIN_REPLICATES and len({run.hosts for run in side.runs}) == len(side.runs)


def changes_of_pairs(pair: Pair, measure: int) -> list[float]:
    """The relative change of each group of hosts that shares a communicator on both sides.

    `measure` is 0 for the transfer and 1 for waiting, which is taken relative to the whole time.
    """
    a, b = _by_group(pair.a), _by_group(pair.b)
    changes = []
    for hosts in sorted(a.keys() & b.keys()):
        before, after = a[hosts], b[hosts]
        whole = before[0] + (before[1] if measure else 0.0)
        if whole > 0:
            changes.append(max((after[measure] - before[measure]) / whole, -0.99))
    return changes


def _by_group(kernels: Sequence[Kernel]) -> dict[str, tuple[float, float]]:
    """Transfer and wait of each group of hosts, in the middle of the runs that have it."""
    found: dict[str, list[tuple[float, float]]] = {}
    for kernel in kernels:
        for hosts, values in kernel.groups.items():
            found.setdefault(hosts, []).append(values)
    return {hosts: (median(v[0] for v in values), median(v[1] for v in values)) for hosts, values in found.items()}
