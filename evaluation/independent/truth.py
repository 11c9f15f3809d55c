"""What is true of a job, and the most precise answer that its log allows.

The answer for slow links is worked out by asking of each link in turn which recorded paths it is on: links that are on
the same ones cannot be told apart, whatever the method.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from evaluation.independent.faults import Fault, Path
from evaluation.independent.launch import Timeline
from evaluation.independent.machines import Cluster, Communicator
from evaluation.independent.plugin import Plugin

# Transfers that say something about a link move at least this much; below it latency decides.
_LARGE_BYTES = 1 << 20

ANSWERS = {
    "late": ("late-arrival",),
    "ramp": ("late-arrival",),
    "pause": ("late-arrival",),
    "link": ("slow-transfer", "fabric-slow"),
    "flap": ("slow-transfer", "fabric-slow"),
    "hang": ("hang",),
    "dead": ("hang",),
    "mismatch": ("mismatch",),
}


@dataclass(frozen=True)
class Ideal:
    """The most precise answer: one of `ranks` is at fault.

    `level`: exact (all of them are), set, run (it may be anybody), none (the log does not show it). `communicators`:
    naming these says as much.
    """

    level: str
    ranks: frozenset[int]
    communicators: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class TrueFault:
    """A planted fault, when it was there (us since the job's begin) and what it cost.

    `cost_share`: the share of the job's duration that it would not have needed without the fault, by the twin;
    `cost_share_since_onset`: the same of the time in which the fault was there. None for a hang.
    """

    fault: Fault
    onset_us: float
    until_us: float
    cost_share: float | None
    cost_share_since_onset: float | None
    ideal: Ideal

    def to_json(self, cluster: Cluster, epoch_us: int) -> dict[str, Any]:
        """As `truth.json` has it. `before`: family, number within the step and step of what a rank never came to."""
        fault, ranks = self.fault, sorted(self.fault.ranks)
        return {
            "what": self.fault.what,
            "link": self.fault.link or None,
            "strength": round(self.fault.strength, 3),
            "ranks": ranks,
            **_named(cluster, ranks),
            **({"before": [fault.family, fault.ordinal, fault.first_step]} if fault.what in ("hang", "dead") else {}),
            "answers": list(ANSWERS[self.fault.what]),
            "onset_us": epoch_us + int(self.onset_us),
            "until_us": epoch_us + int(self.until_us),
            "cost_share": _rounded(self.cost_share),
            "cost_share_since_onset": _rounded(self.cost_share_since_onset),
            "ideal": {
                "level": self.ideal.level,
                "ranks": sorted(self.ideal.ranks),
                **_named(cluster, sorted(self.ideal.ranks)),
                "communicators": list(self.ideal.communicators),
                "why": self.ideal.why,
            },
        }


def assess(fault: Fault, timeline: Timeline, twin: Timeline, plugin: Plugin) -> TrueFault:
    """What a fault cost against the twin, and what the log allows to be said."""
    ideal = _ideal(fault, timeline, plugin)
    if fault.what in ("hang", "dead"):
        return TrueFault(fault, timeline.halts_us(min(fault.ranks)), timeline.wall_us, None, None, ideal)
    if fault.down:
        onset_us, until_us = fault.down[0][0], fault.down[-1][1]
    else:
        onset_us = timeline.begins_us(fault.ranks, fault.first_step)
        until_us = timeline.begins_us(fault.ranks, fault.last_step)
    lost_us = timeline.wall_us - twin.wall_us
    return TrueFault(fault, onset_us, until_us, lost_us / timeline.wall_us, lost_us / (until_us - onset_us), ideal)


def _ideal(fault: Fault, timeline: Timeline, plugin: Plugin) -> Ideal:
    if fault.link:
        return _ideal_of_link(fault, timeline, plugin)
    if fault.what in ("hang", "dead"):
        return _ideal_of_hang(fault, timeline, plugin)
    if fault.what == "mismatch":
        group = _stopped(fault, timeline)
        return Ideal("set", frozenset(group.ranks), (group.id,), "sizes differ, and no record says which one is meant")
    cluster = timeline.launch.cluster
    if all(gpu.process in plugin.missing for gpu in cluster.gpus if gpu.rank in fault.ranks):
        return Ideal("none", fault.ranks, (), "who is late left no log")
    pipelines = [group for group in timeline.communicators if group.family == "pipeline"]
    if plugin.has_slots and pipelines and len(fault.ranks) > 1:
        lane = {rank for group in pipelines if fault.ranks & set(group.ranks) for rank in group.ranks}
        return Ideal(
            "set", frozenset(lane), (), "Send and Recv are not recorded: any stage of the pipeline may be late"
        )
    return Ideal("exact", fault.ranks, (), "late in its own communicators")


def _ideal_of_hang(fault: Fault, timeline: Timeline, plugin: Plugin) -> Ideal:
    cluster = timeline.launch.cluster
    group = _stopped(fault, timeline)
    members = frozenset(group.ranks)
    if not _shows_its_last_step(fault, timeline, plugin):
        return Ideal("none", members, (), "the log ends with a whole step, as that of a job that has ended")
    if len(members) == len(cluster.gpus):
        return Ideal("run", members, (group.id,), "a collective of the whole job")
    if plugin.has_slots and fault.family == "pipeline":
        members = frozenset(gpu.rank for gpu in cluster.gpus)
        return Ideal("run", members, (), "Send and Recv are not recorded")
    return Ideal("set", members, (group.id,), f"the members of its {fault.family} communicator, which stopped first")


def _shows_its_last_step(fault: Fault, timeline: Timeline, plugin: Plugin) -> bool:
    """Whether anything of the step in which a job stopped can be in the log."""
    return any(
        task.step >= fault.first_step and task.end_us is not None and part.size_bytes >= plugin.minimum_bytes
        for program in timeline.programs.values()
        for task in program.tasks
        for part in task.parts
        if part.peer is None or not plugin.has_slots
    )


def _stopped(fault: Fault, timeline: Timeline) -> Communicator:
    """The communicator in which a rank stops, or gives sizes of its own."""
    groups = (group for group in timeline.communicators if group.family == fault.family)
    return next(group for group in groups if fault.ranks & set(group.ranks))


def _ideal_of_link(fault: Fault, timeline: Timeline, plugin: Plugin) -> Ideal:
    cluster = timeline.launch.cluster
    paths = dict(_recorded_paths(timeline, plugin))
    slowed = {name for name, path in paths.items() if fault.is_on(path)}
    if not slowed:
        return Ideal("none", fault.ranks, (), "no recorded path uses it")
    alike = [
        other for other in _links(cluster) if {name for name, path in paths.items() if other.is_on(path)} == slowed
    ]
    ranks = frozenset(rank for other in alike for rank in other.ranks) | fault.ranks
    communicators = tuple(sorted(name for name in slowed if "/" not in name))
    if len(ranks) == len(cluster.gpus):
        return Ideal("run", ranks, communicators, f"{len(slowed)} of {len(paths)} paths are slow; it may be any host")
    exact = ranks == fault.ranks
    why = f"{len(slowed)} of {len(paths)} paths are slow, and {len(alike)} links are on exactly these"
    return Ideal("exact" if exact else "set", ranks, communicators, why)


def _recorded_paths(timeline: Timeline, plugin: Plugin) -> Iterable[tuple[str, Path]]:
    """Communicators with large collectives, and pairs that send large messages outside of groups of several peers."""
    for program in timeline.programs.values():
        for task in program.tasks:
            peers = {part.peer for part in task.parts}
            for part in task.parts:
                if part.size_bytes < _LARGE_BYTES or part.function == "All2All":
                    continue
                if part.peer is None:
                    yield part.communicator.id, timeline.fabric.path(part.communicator)
                elif len(peers) == 1 and not plugin.has_slots:
                    low, high = sorted((task.rank, part.peer))
                    yield f"{part.communicator.id}/{low}-{high}", timeline.fabric.path(part.communicator, (low, high))


def _links(cluster: Cluster) -> list[Fault]:
    """Every link that may be slow."""
    nobody = Fault("link", frozenset(), 0, 1)
    everybody = frozenset(gpu.rank for gpu in cluster.gpus)
    domains = sorted({gpu.domain for gpu in cluster.gpus})
    parts = [frozenset({gpu.rank}) for gpu in cluster.gpus] + [cluster.on_host(host) for host in cluster.hosts]
    links = [replace(nobody, link=link, ranks=ranks) for link in ("nic", "nvlink") for ranks in parts]
    for slot in sorted({gpu.slot for gpu in cluster.gpus}):
        ranks = frozenset(gpu.rank for gpu in cluster.gpus if gpu.slot == slot)
        links.append(replace(nobody, link="rail", place=(slot,), ranks=ranks))
    for pair in combinations(domains, 2):
        ranks = frozenset(gpu.rank for gpu in cluster.gpus if gpu.domain in pair)
        links.append(replace(nobody, link="path", place=pair, ranks=ranks))
    return [*links, replace(nobody, link="fabric", ranks=everybody)]


def _named(cluster: Cluster, ranks: list[int]) -> dict[str, list[str]]:
    gpus = [gpu for gpu in cluster.gpus if gpu.rank in ranks]
    return {
        "hosts": list(dict.fromkeys(gpu.host for gpu in gpus)),
        "processes": list(dict.fromkeys(gpu.process for gpu in gpus)),
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
