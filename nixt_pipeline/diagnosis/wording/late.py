"""Late ranks and hosts in words, and as one finding where the log cannot tell which of several it is."""

from collections import Counter
from collections.abc import Mapping

from nixt_pipeline.diagnosis.detectors.lateness import Late
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, name_of, names_of, ranks_of
from nixt_pipeline.diagnosis.evidence.stages import pipeline_peers, tensor_groups
from nixt_pipeline.diagnosis.findings import Effect, Finding, Severity, severity_by_cost
from nixt_pipeline.settings import Thresholds

# So many processes of a stage, or this share of it, may be a little late by faults of their own.
_FEW, _FEW_SHARE = 3, 0.05
# Who waits for somebody late is about as late as that, give or take what was not recorded.
_AS_LATE = 1.25
# Names in a sentence; all are in the lists of the finding.
_SHOWN = 4


def late_findings(seen: Observations, late: list[Late], limits: Thresholds) -> list[Finding]:
    """One finding for each late entity, or for several of which one makes the others late."""
    findings: list[Finding] = []
    named: list[Late] = []
    left = sorted(_without_waiting_stages(seen, late), key=lambda entity: -entity.lost_us)
    while left:
        first = left.pop(0)
        group = [first, *(other for other in left if _one_question(seen, first, other))]
        for member in tuple(group):
            group += [other for other in _waiting_inside(seen, member, left) if other not in group]
        left = [other for other in left if other not in group]
        severity = severity_by_cost(first.typical_share, first.slowdown or 1.0, limits.diagnosis.p1_slowdown, limits)
        sure = _sure(seen, first, group) and _stands_apart(first, named, limits)
        role = first.intermittent and _is_rank_zero(seen, first)
        findings.append(_finding(seen, first, group, "info" if role else severity if sure else "P2"))
        named.append(first)
    return findings


def outstanding(seen: Observations, late: list[Late], limits: Thresholds) -> list[Late]:
    """Without the processes that are a little late (no more than a note) when they are many in their stage: GPUs differ
    by some percent, and the slower part of them is no fault."""
    mild = [
        entity
        for entity in late
        if entity.level == "rank"
        and severity_by_cost(entity.typical_share, entity.slowdown or 1.0, limits.diagnosis.p1_slowdown, limits) == "P2"
    ]
    stages = seen.stages()
    many = {
        stage
        for stage, number in Counter(entity.stage for entity in mild).items()
        if number > max(_FEW, _FEW_SHARE * len(stages[stage]))
    }
    return [entity for entity in late if entity not in mild or entity.stage not in many]


def without_uneven_replicas(seen: Observations, late: list[Late]) -> list[Late]:
    """Without those whose whole pipeline is late: what is slow in one stage makes the others wait, but longer sequences
    take longer in all."""
    sends, groups = pipeline_peers(seen), tensor_groups(seen)
    return [entity for entity in late if not _whole_pipeline_late(entity, late, sends, groups)]


def _whole_pipeline_late(
    entity: Late, late: list[Late], sends: Mapping[Process, set[Process]], groups: Mapping[Process, frozenset[Process]]
) -> bool:
    members = {process for other in late if _together(entity, other) for process in other.processes}
    pipeline = set(entity.processes)
    new = pipeline
    while new:
        new = {peer for process in new for peer in sends.get(process, ())} - pipeline
        pipeline |= new
    if len(pipeline) == len(entity.processes):
        return False
    # Of a tensor group, all are late or none is, some of them by too little to show.
    alike = (groups.get(process, frozenset({process})) for process in pipeline)
    return all(len(members & group) * 2 >= len(group) for group in alike)


def _stands_apart(first: Late, named: list[Late], limits: Thresholds) -> bool:
    """Whether it is no shadow of somebody worse at the same time, whose delays reach unequal numbers of recorded
    collectives: that takes as many collectives as any pattern does."""
    return first.waited_cells >= limits.diagnosis.min_diagnosed_cells or not any(
        _together(first, other) for other in named
    )


def _is_rank_zero(seen: Observations, first: Late) -> bool:
    """Whether it is the first process of each of its communicators: the one that writes checkpoints and logs."""
    process, *more = first.processes
    return not more and all(comm.members[0] == process for comm in seen.communicators if process in comm.members)


def _together(one: Late, other: Late) -> bool:
    return other.window.overlap(one.window) * 2 >= min(one.window.length, other.window.length)


def _one_question(seen: Observations, first: Late, other: Late) -> bool:
    """Whether one may wait for the other in a Send or Recv that was not recorded."""
    return seen.matched_p2p == 0 and other.stage != first.stage and _together(first, other)


def _without_waiting_stages(seen: Observations, late: list[Late]) -> list[Late]:
    """Without the tensor groups that only waited, in a Send or Recv that was not recorded, for a late process of
    another stage.

    Who waits for another stage does so with its whole tensor group, for that whose Sends it waits for goes at one pace.
    A process that is late alone in its tensor group is so by its own doing.
    """
    if seen.matched_p2p > 0:
        return late
    alone = [entity for entity in late if _late_alone(seen, entity, late)]
    if len({entity.stage for entity in alone}) != 1:
        return late
    return [
        entity
        for entity in late
        if not any(
            entity.stage != root.stage and _together(root, entity) and entity.cost_share <= root.cost_share * _AS_LATE
            for root in alone
        )
    ]


def _late_alone(seen: Observations, entity: Late, late: list[Late]) -> bool:
    """Whether it is a process that nobody is late with in its tensor group."""
    group = tensor_groups(seen).get(entity.processes[0]) if entity.level == "rank" else None
    others = {process for other in late if other is not entity for process in other.processes}
    return group is not None and others.isdisjoint(group)


def _waiting_inside(seen: Observations, first: Late, others: list[Late]) -> list[Late]:
    """Those who may wait for `first`, or it for them, in a communicator that was not recorded: most of its members seem
    late at the same time, but only to those outside of it."""
    if first.level != "rank":
        return []
    named = {other.processes[0]: other for other in others if other.level == "rank" and _together(first, other)}
    for comm in seen.communicators:
        members = [named[member] for member in comm.members if member in named]
        small = len(comm.hosts) == 1 and first.processes[0] in comm.members
        if members and small and (len(members) + 1) * 2 >= len(comm.members) > 1:
            return members
    return []


def _sure(seen: Observations, first: Late, group: list[Late]) -> bool:
    """Whether nothing that was not seen can make a victim of the one that is named.

    Of two processes without others to compare with, either explains the times, and so does either of two hosts where
    one of them may have waited in a Send or Recv that was not recorded; of several hosts, all but one are victims. When
    a stage waits for another one in Sends that were not recorded, there is a late entity in that one as well, if it has
    peers that notice.
    """
    unseen = seen.matched_p2p == 0 and len(seen.stages()) > 1
    if first.last_share is None or (first.peers < 2 and (first.level == "rank" or unseen)):
        return False
    if len({host for late in group for host in late.hosts}) > 1:
        return False
    if seen.matched_p2p > 0 or len(group) > 1:
        return True
    return all(len(hosts_of(stage) if first.level == "host" else stage) > 1 for stage in seen.stages())


def _finding(seen: Observations, first: Late, group: list[Late], severity: Severity) -> Finding:
    hosts = tuple(sorted({host for late in group for host in late.hosts}))
    unsure = [process for late in group if late.any_of_process for process in late.processes]
    processes = names_of({*ranks_of(unsure, seen.processes), *(item for late in group for item in late.processes)})
    names = list(dict.fromkeys(map(_name, group)))
    name = names[0] if len(names) == 1 else f"one of {', '.join(names[:_SHOWN])}"
    everybody = "The other hosts" if first.level == "host" else "The other processes"
    share = first.cost_share
    if first.last_share is None:
        confirmation, doubt = "", "Its collectives waited still longer for another one, so that they cannot confirm it."
    else:
        confirmation = (
            f" {first.last_share:.0%} of the waiting in its collectives is for it ({first.waited_cells:,} in which"
            " ranks waited)."
        )
        doubt = f"{1 - first.last_share:.0%} of the waiting in its collectives is for somebody else."
    return Finding(
        kind="late-arrival",
        severity=severity,
        level="host" if first.level == "host" else "rank",
        hosts=hosts,
        processes=processes,
        communicators=tuple(
            sorted({comm.id for comm in seen.communicators if set(comm.members) & set(first.processes)})
        ),
        ambiguous=len(group) > 1 or bool(unsure),
        onset_us=first.window.onset_us(seen.block_end_us),
        until_us=first.window.until_us(seen.block_end_us),
        effect=Effect(share, first.slowdown, first.lost_us / 1e6),
        evidence=(
            f"{everybody} stand still {share:.1%} of the time for {name}: {names[0] if len(names) > 1 else 'it'} spends"
            f" {first.late_us / 1e3:.3g} ms less in communication than its peers in {_when(first)} (by chance"
            f" p < {max(first.probability, 1e-12):.1g}).{confirmation}{first.cause}{_victims(seen, first)}"
        ),
        counter_evidence=f"{doubt} Waiting for others and slow transfers are already taken out.{_unseen(seen, group)}",
        next_step=(
            f"Look at what {name} does between collectives: GPU clocks and throttling, data loader, CPU and memory"
            f" pressure, Python garbage collection. The network is not the suspect.{_role(seen, first)}"
        ),
    )


def _name(late: Late) -> str:
    if late.level == "host":
        return late.hosts[0]
    process = late.processes[0]
    return f"a rank of {name_of(process[:2])}" if late.any_of_process else name_of(process)


def _role(seen: Observations, first: Late) -> str:
    if first.intermittent and _is_rank_zero(seen, first):
        return " It is rank 0: if it writes checkpoints or logs while all others wait, this is what they cost."
    return ""


def _when(first: Late) -> str:
    length, marked = first.window.length, first.window.marked
    if first.intermittent:
        return f"{marked} of {length} stretches of the job, now and then"
    return f"each of {length} stretches of the job, {marked} clearly"


def _victims(seen: Observations, first: Late) -> str:
    """Who waits: first those of its stage, and everybody else through them."""
    stage = next(stage for stage in seen.stages() if set(first.processes) <= stage)
    peers = hosts_of(stage - set(first.processes))
    shown = ", ".join(peers[:_SHOWN]) + (f" and {len(peers) - _SHOWN} more" if len(peers) > _SHOWN else "")
    through = " and through them all others" if len(stage) < len(seen.processes) else ""
    return f" Victims: its peers on {shown}{through}."


def _unseen(seen: Observations, group: list[Late]) -> str:
    if seen.matched_p2p == 0 and len(seen.stages()) > 1:
        return " Send and Recv were not recorded, so that it cannot be seen which pipeline stage waits for which."
    if len(group) > 1:
        return " Too few of the collectives among them were recorded to say which of them the others wait for."
    return ""
