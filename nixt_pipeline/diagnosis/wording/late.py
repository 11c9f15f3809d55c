"""A late rank, host or group of them in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from nixt_pipeline.diagnosis.detectors.late_ranks import LateGroup, without_log_beside
from nixt_pipeline.diagnosis.detectors.lateness import Late
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.parts import waiting_together
from nixt_pipeline.diagnosis.evidence.processes import hosts_of, name_of, names_of, ranks_of
from nixt_pipeline.diagnosis.findings import Effect, Finding, Level
from nixt_pipeline.quantities import duration, listed

# Victims in a sentence, and communicators.
_SHOWN = 4


@dataclass(frozen=True)
class _Named:
    """Who is named by a finding: all `names` are late, or one of them where that is `ambiguous`. `inside`: the
    communicators in which they may have waited for one another unseen."""

    level: Level
    names: tuple[str, ...]
    processes: tuple[str, ...]
    hosts: tuple[str, ...]
    ambiguous: bool
    inside: tuple[Communicator, ...]

    @property
    def several(self) -> bool:
        """Whether more than one is late."""
        return len(self.names) > 1 and not self.ambiguous

    @property
    def their(self) -> str:
        """The possessive."""
        return "their" if self.several else "its"

    def listed(self) -> str:
        """All names."""
        names = ", ".join(self.names)
        return f"one of {names}" if self.ambiguous and len(self.names) > 1 else names

    def subject(self, first: str) -> str:
        """Who spends less than their peers; `first` is the latest of several."""
        if len(self.names) == 1:
            return "it spends"
        return "each of them spends" if self.several or self.inside else f"{first} spends"

    def what_they_do(self) -> str:
        """Whose doing has to be looked at; a list is not repeated."""
        if len(self.names) == 1:
            return f"what {self.names[0]} does"
        number = len(self.names)
        return (
            f"what each of these {number} does, to tell which it is," if self.ambiguous else f"what these {number} do"
        )


def late_finding(seen: Observations, late: LateGroup) -> Finding:
    """The finding of a group of which the first is the latest."""
    group = late.members
    first, named = group[0], _named(seen, group)
    share = first.cost_share
    if first.last_share is None:
        confirmation = ""
        doubt = f"Nothing confirms it: {named.their} collectives waited still longer for another one."
    else:
        them = "them" if named.several else "it"
        confirmation = (
            f" {first.last_share:.0%} of the waiting in {named.their} collectives is for {them}"
            f" ({first.waited_cells:,} in which ranks waited)."
        )
        doubt = f"{1 - first.last_share:.0%} of the waiting in {named.their} collectives is for other ranks."
    return Finding(
        kind="late-arrival",
        severity=late.severity,
        level=named.level,
        hosts=named.hosts,
        processes=named.processes,
        communicators=tuple(
            sorted({comm.id for comm in seen.communicators if set(comm.members) & set(first.processes)})
        ),
        ambiguous=named.ambiguous,
        onset_us=first.window.onset_us(seen.block_end_us),
        until_us=first.window.until_us(seen.block_end_us),
        effect=Effect(share, first.slowdown, first.lost_us / 1e6),
        evidence=(
            f"{_waiting(seen, first, named)} {share:.1%} of the time waiting for {named.listed()}:"
            f" {named.subject(_name(first))}"
            f" {duration(first.late_us)} less in communication than its peers in {_when(first)} (by chance"
            f" p < {max(first.probability, 1e-12):.1g}).{_machine(seen, named)}{confirmation}{_launched(first)}"
            f"{_victims(seen, group, named.their)}"
        ),
        counter_evidence=(
            f"{doubt} Waiting for others and slow transfers are already excluded."
            f"{_unseen(seen, group, named)}{_SHADOW if late.shadow else ''}{_UNFELT if late.unfelt else ''}"
        ),
        next_step=(
            f"Look at {named.what_they_do()} between collectives: GPU clocks and throttling, data loader, CPU and"
            f" memory pressure, Python garbage collection. The network is not the suspect."
            f"{_role(first) if late.rank_zero else ''}"
        ),
    )


def _role(first: Late) -> str:
    who = (
        "It is rank 0: if it writes"
        if len(first.processes) == 1
        else ("They are the first ranks of their communicators, as the first replica is: if they write")
    )
    return f" {who} checkpoints or logs while all others wait, this is what they cost."


_WHOSE = {
    "gpu": "its GPU is late, still busy when the collective is launched.",
    "cpu": "its CPU is late, and launches the collective late.",
    "both": "its CPU and its GPU both contribute.",
}


def _launched(first: Late) -> str:
    launched = first.launched
    if launched is None:
        return ""
    return (
        f" Its kernels start {launched.own_lag_us:,.0f} us after their launch, those of the ranks that wait"
        f" {launched.others_lag_us:,.0f} us: {_WHOSE[launched.late]}"
    )


_SHADOW = (
    " Another one is late by more at the same time, and is in the same pipeline, or few collectives waited for this"
    " one: it may be a victim."
)

_UNFELT = " The job was no slower while this lasted than at other times, so it cost next to nothing."


def _named(seen: Observations, group: Sequence[Late]) -> _Named:
    late = {process for entity in group for process in entity.processes}
    unsure = [process for entity in group if entity.any_of_process for process in entity.processes]
    hosts, processes = hosts_of(late), names_of({*ranks_of(unsure, seen.processes), *late})
    inside = tuple(
        comm for comm in seen.communicators if comm.number in seen.left_out and len(late.intersection(comm.members)) > 1
    )
    # A host name that others have as well identifies none of them.
    shared = set(hosts).intersection(process[0] for process in seen.processes if process not in late)
    level: Level = "host" if group[0].level == "host" and not shared and not inside else "rank"
    if inside:
        names = processes
    elif len(group) > 1 or unsure:
        names = tuple(dict.fromkeys(map(_name, group)))
    else:
        names = hosts if level == "host" else processes
    return _Named(level, names, processes, hosts, len(group) > 1 or bool(unsure or inside), inside)


def _name(late: Late) -> str:
    if late.level == "host" and len(late.hosts) == 1:
        return late.hosts[0]
    process = late.processes[0]
    return f"a rank of {name_of(process[:2])}" if late.any_of_process else name_of(process)


def _waiting(seen: Observations, first: Late, named: _Named) -> str:
    """Who waits: only those who meet it in a communicator, directly or through others."""
    waiting = waiting_together(seen)[first.processes[0]]
    if len(waiting) == len(seen.processes):
        return "The other hosts spend" if named.level == "host" else "The other processes spend"
    number = len(waiting) - len(first.processes)
    if number == 1:
        return "The one process that communicates with it spends"
    return f"The {number} processes that communicate with it, directly or through others, spend"


def _when(first: Late) -> str:
    length, marked = first.window.length, first.window.marked
    if first.intermittent:
        return f"{marked} of {length} time blocks, intermittently"
    return f"all {length} time blocks, {marked} of them clearly"


def _machine(seen: Observations, named: _Named) -> str:
    """How it is known that several names are one machine."""
    if not named.several:
        return ""
    if len({process[:2] for process in seen.processes if name_of(process) in named.processes}) == 1:
        return " They are the ranks of one process, so their cost is counted once."
    machines = {machine for process, machine in seen.machines.of.items() if name_of(process) in named.processes}
    if len(machines) > 1:
        return " They are late at the same times and by the same amount, so their cost is counted once."
    if len(seen.hosts) == 1 and len(set(seen.machines.of.values())) == 1:
        return " They are late at the same times and by the same amount, and all processes have one host name."
    return " By NCCL's node count and the order of ranks they share a machine, so their cost is counted once."


def _victims(seen: Observations, group: Sequence[Late], their: str) -> str:
    """Who waits: first those of its stage, and all others that wait for these."""
    first = group[0]
    stage = next(stage for stage in seen.stages() if set(first.processes) <= stage)
    late = {process for entity in group for process in entity.processes}
    peers, waiting = hosts_of(stage - late), waiting_together(seen)[first.processes[0]]
    others = "all others" if len(waiting) == len(seen.processes) else "those that wait for them"
    through = f" and through them {others}" if len(stage) < len(waiting) else ""
    return f" Victims: {their} peers on {listed(peers, _SHOWN)}{through}." if peers else ""


def _unseen(seen: Observations, group: Sequence[Late], named: _Named) -> str:
    if named.inside:
        inside = listed([comm.label for comm in named.inside], _SHOWN)
        return (
            f" Their collectives among themselves ({inside}) were left out, so the log does not show which of them the"
            " others wait for: one of them, or all."
        )
    beside = without_log_beside(seen, group[0])
    if beside:
        shown = listed([comm.label for comm in beside], _SHOWN)
        return f" It may have waited unseen for ranks without a log in {shown}."
    if seen.matched_p2p == 0 and len(seen.stages()) > 1:
        return " Send and Recv were not recorded, so the log does not show which pipeline stage waits for which."
    if len(group) > 1:
        return " Too few of the collectives among them were recorded to say which of them the others wait for."
    if group[0].level == "rank" and group[0].peers < 2:
        return " It has only one peer to compare with, which may compute less instead."
    return ""
