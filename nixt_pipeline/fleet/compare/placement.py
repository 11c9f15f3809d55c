"""Whether two sides ran on the same hosts, and what the hosts in common say.

A job that was moved to other hosts can be slower for the sake of one of them. Then only hosts that were in both count,
each against itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from nixt_pipeline.fleet.compare.matching import Pair, Side
from nixt_pipeline.fleet.compare.summaries import Kernel, RunSummary
from nixt_pipeline.fleet.machines import Machines, find_machines
from nixt_pipeline.grouping import grouped
from nixt_pipeline.settings import Settings, Thresholds


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


def placement(a: Side, b: Side, limits: Thresholds) -> Placement:
    """How the hosts of two sides compare."""

    def is_varied(side: Side) -> bool:
        enough = len(side.runs) >= limits.comparison.min_replicates
        return enough and len({run.hosts for run in side.runs}) == len(side.runs)

    common = a.hosts & b.hosts
    kind: Literal["same", "replicated", "changed"] = "changed"
    if a.hosts == b.hosts:
        kind = "same"
    elif is_varied(a) and (b.hosts <= a.hosts or (is_varied(b) and 2 * len(common) >= len(a.hosts | b.hosts))):
        kind = "replicated"
    named = all(run.facts.get("names_are_machines", True) for run in (*a.runs, *b.runs))
    return Placement(kind, len(a.hosts), len(b.hosts), len(common), named)


def on_machines(runs: Sequence[RunSummary], settings: Settings) -> list[RunSummary]:
    """The runs with the names of machines instead of those of hosts, as far as these runs reveal them. A name that
    is no machine's is another one in each run."""
    machines = find_machines([{**run.facts, "run": run.run} for run in runs], settings)
    return [_on_machines(run, machines) for run in runs]


def _on_machines(run: RunSummary, machines: Machines) -> RunSummary:
    names = run.facts["host_names"]
    unknown = {name for name in names if machines.caution(run.run, name)}
    machine = {name: f"{name}@{run.run}" if name in unknown else machines.of(run.run, name) for name in names}
    if all(name == machine[name] for name in names):
        return run
    facts = {**run.facts, "host_names": sorted(set(machine.values())), "names_are_machines": not unknown}
    kernels = {
        key: Kernel(key, {**kernel.row, "comm_hosts": [_renamed(c.hosts, machine) for c in kernel.communicators]})
        for key, kernel in run.kernels.items()
    }
    said = {name: name if name in unknown else machine[name] for name in names}
    findings = tuple(
        {**finding, "hosts": [said.get(name, name) for name in finding["hosts"] or ()]} for finding in run.findings
    )
    return replace(run, facts=facts, kernels=kernels, findings=findings)


def _renamed(hosts: str, machine: dict[str, str]) -> str:
    return " ".join(sorted(machine.get(name, name) for name in hosts.split(" ")))


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
    found = grouped((group for kernel in kernels for group in kernel.groups.items()), lambda group: group[0])
    return {
        hosts: (median(times[0] for _, times in groups), median(times[1] for _, times in groups))
        for hosts, groups in found.items()
    }
