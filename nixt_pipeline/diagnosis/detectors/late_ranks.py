"""Late ranks and hosts: those that stand out and that nothing else explains, together where the log cannot tell which
of several it is."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from nixt_pipeline.diagnosis.detectors.causes import with_cause
from nixt_pipeline.diagnosis.detectors.deficits import felt_us
from nixt_pipeline.diagnosis.detectors.intermittent import find_hesitations
from nixt_pipeline.diagnosis.detectors.lateness import AS_LATE, Late, find_late
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.transfer import Blame
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process, ranks_of
from nixt_pipeline.diagnosis.evidence.stages import pipeline_peers, tensor_groups
from nixt_pipeline.diagnosis.findings import Severity, severity_by_cost
from nixt_pipeline.settings import Thresholds

# Processes of a stage, or this share of it, that may be a little late by faults of their own.
_FEW, _FEW_SHARE = 3, 0.05
# Of processes that are a little late, one that is this many times as late as the middle one is no part of the crowd.
_MUCH_LATER = 2


@dataclass(frozen=True)
class LateGroup(Suspect):
    """The `members` of which the first is the latest, and makes the others late or may do so. `shadow`: it may be one
    of a later rank. `rank_zero`: it may be late occasionally because of its role, as rank 0, the first
    replica or the first machine. `unfelt`: it is over, and the job lost next to nothing by it."""

    members: tuple[Late, ...]
    severity: Severity
    shadow: bool = False
    rank_zero: bool = False
    unfelt: bool = False


def find_late_ranks(evidence: Evidence, before: Sequence[Suspect], limits: Thresholds) -> list[LateGroup]:
    """Who is late by their own doing; `before`: what was found slow."""
    seen, lags = evidence.seen, evidence.launch_lags
    late = find_late(seen, limits)
    late += find_hesitations(seen, late, limits)
    slow = [suspect for suspect in before if isinstance(suspect, Blame)]
    late = [entity for entity in late if not _explained(entity, slow, seen)]
    if (evidence.recorded.coverage.capture_rate or 0) < limits.diagnosis.whole_log_share:
        # What no collective confirms rests on times alone, and these on what happened to be recorded.
        late = [entity for entity in late if entity.last_share is not None]
    late = outstanding(seen, without_uneven_replicas(seen, late), limits)
    late = whole_processes(seen, late)
    if lags is not None:
        late = [with_cause(entity, lags, seen.processes, limits) for entity in late]
    return grouped(seen, [as_felt(seen, entity, limits) for entity in late], limits)


def as_felt(seen: Observations, late: Late, limits: Thresholds) -> Late:
    """The late entity with what it cost the job; unchanged where it is late intermittently, or all the time."""
    rows = [row for row, process in enumerate(seen.processes) if process in late.processes]
    cost_us = None if late.intermittent else felt_us(seen, rows, late.window, limits)
    if cost_us is None:
        return late
    share = min(1.0, cost_us / float(seen.block_us[late.window.part()].sum()))
    return replace(late, cost_share=share, typical_share=share, lost_us=late.lost_us * share / late.cost_share)


def grouped(seen: Observations, late: list[Late], limits: Thresholds) -> list[LateGroup]:
    """One for each late entity, or for several of which one makes the others late."""
    groups: list[LateGroup] = []
    named: list[Late] = []
    left = sorted(_without_waiting_stages(seen, late), key=lambda entity: -entity.lost_us)
    while left:
        first = left.pop(0)
        group = [first, *(other for other in left if _one_question(seen, first, other))]
        for member in tuple(group):
            group += [other for other in _waiting_inside(seen, member, left) if other not in group]
        left = [other for other in left if other not in group]
        severity = severity_by_cost(first.typical_share, first.slowdown or 1.0, limits.diagnosis.p1_slowdown, limits)
        shadow = not _stands_apart(seen, first, named, limits)
        pauses = first.intermittent or _is_seldom(seen, first, limits)
        rank_zero = pauses and _is_rank_zero(seen, first)
        may_be_role = rank_zero or (pauses and _is_first_machine(seen, first))
        role = rank_zero and not _too_often(seen, first, limits)
        by_turns = first.probability > limits.diagnosis.max_chance
        sure = _sure(seen, first, group) and not (shadow or may_be_role or by_turns)
        # Of one that is late to the end, something else may have changed with it, as longer sequences.
        over = first.window.last < seen.blocks - 1
        unfelt = over and first.cost_share < limits.diagnosis.min_cost_share
        told: Severity = "info" if role or unfelt else severity if sure else "P2"
        groups.append(LateGroup(tuple(group), told, shadow, may_be_role, unfelt))
        named.append(first)
    return groups


def _is_seldom(seen: Observations, first: Late, limits: Thresholds) -> bool:
    """Whether the waiting for it is that of a few long pauses. Where a time block has many steps, those of a rank that
    writes checkpoints are in all blocks."""
    steps = seen.pulse * first.window.length / seen.blocks
    return first.waits is not None and first.waits * limits.diagnosis.min_checkpoint_steps <= steps


def _too_often(seen: Observations, first: Late, limits: Thresholds) -> bool:
    """Whether it pauses after so few steps that no job writes checkpoints as often."""
    return 0 < (first.every or 0) * seen.pulse / seen.blocks < limits.diagnosis.min_checkpoint_steps


def _is_rank_zero(seen: Observations, first: Late) -> bool:
    """Whether it is the first process of each of its communicators, or the first replica: those write checkpoints and
    logs."""
    process, *more = first.processes
    if more:
        return _is_first_replica(frozenset(first.processes), seen.stages()[first.stage], seen.communicators)
    return all(comm.members[0] == process for comm in seen.communicators if process in comm.members)


def _is_first_machine(seen: Observations, first: Late) -> bool:
    """Whether it has the first ranks of all of its communicators, as a machine has that writes for the others."""
    own = frozenset(first.processes)
    shared = [comm.members for comm in seen.communicators if not own.isdisjoint(comm.members)]
    return len(own) > 1 and all(own.issuperset(members[: len(own.intersection(members))]) for members in shared)


def _is_first_replica(own: frozenset[Process], stage: frozenset[Process], comms: Iterable[Communicator]) -> bool:
    """Whether some processes of a stage share a copy of the model, and each is the first of those that have the same
    part of it: they write the checkpoint."""
    within: set[Process] = set()
    first: set[Process] = set()
    for comm in comms:
        members = frozenset(comm.members)
        if members <= own and len(members) > 1:
            within |= members
        elif members & own and members < stage:
            if len(members & own) > 1 or comm.members[0] not in own:
                return False
            first |= members & own
    return within == first == own


def _explained(late: Late, slow: Sequence[Blame], seen: Observations) -> bool:
    """Whether an entity may be late because an unrecorded Send or Recv over a slow network or rack kept it."""
    return (
        len(seen.stages()) > 1
        and seen.matched_p2p == 0
        and any(blame.medium != "nvlink" and blame.window.overlap(late.window) for blame in slow)
    )


def outstanding(seen: Observations, late: list[Late], limits: Thresholds) -> list[Late]:
    """Without the processes that are a little late (no more than a note) when they are many in their stage: GPUs differ
    by some percent, and the slower part of them is no fault. One that is much later than these is none of them."""
    mild = [
        entity
        for entity in late
        if entity.level == "rank"
        and severity_by_cost(entity.typical_share, entity.slowdown or 1.0, limits.diagnosis.p1_slowdown, limits) == "P2"
    ]
    stages = seen.stages()
    many = {
        stage
        for stage, number in Counter(entity.stage for entity in mild for _ in entity.processes).items()
        if number > max(_FEW, _FEW_SHARE * len(stages[stage]))
    }
    usual = {stage: median(entity.typical_share for entity in mild if entity.stage == stage) for stage in many}
    return [
        entity
        for entity in late
        if entity not in mild or entity.stage not in many or entity.typical_share >= _MUCH_LATER * usual[entity.stage]
    ]


def whole_processes(seen: Observations, late: list[Late]) -> list[Late]:
    """With one entity where all ranks of a process are late at the same time: then it does not matter that the log does
    not say which of them is in which communicator."""
    unsure: dict[tuple[str, int], list[Late]] = defaultdict(list)
    for entity in late:
        if entity.any_of_process:
            unsure[entity.processes[0][:2]].append(entity)
    whole, members = [], []
    for ranks in unsure.values():
        first = max(ranks, key=lambda entity: entity.lost_us)
        together = [entity for entity in ranks if _together(first, entity)]
        processes = tuple(sorted(process for entity in together for process in entity.processes))
        if len(processes) == len(ranks_of(processes, seen.processes)):
            whole.append(replace(first, processes=processes, any_of_process=False))
            members += together
    return [*(entity for entity in late if entity not in members), *whole]


def without_uneven_replicas(seen: Observations, late: list[Late]) -> list[Late]:
    """Without those whose whole pipeline is late: what is slow in one stage makes the others wait, but longer sequences
    take longer in all."""
    sends, groups = pipeline_peers(seen), tensor_groups(seen)
    return [entity for entity in late if not _whole_pipeline_late(entity, late, sends, groups)]


def _whole_pipeline_late(
    entity: Late, late: list[Late], sends: Mapping[Process, set[Process]], groups: Mapping[Process, frozenset[Process]]
) -> bool:
    members = {process for other in late if _together(entity, other) for process in other.processes}
    pipeline = _pipeline_of(entity, sends)
    if len(pipeline) == len(entity.processes):
        return False
    # Of a tensor group, all are late or none is, some of them by too little to show.
    alike = (groups.get(process, frozenset({process})) for process in pipeline)
    return all(len(members & group) * 2 >= len(group) for group in alike)


def _pipeline_of(entity: Late, sends: Mapping[Process, set[Process]]) -> set[Process]:
    """Those that an entity exchanges something with in pipelines, directly or through others, and itself."""
    pipeline = set(entity.processes)
    new = pipeline
    while new:
        new = {peer for process in new for peer in sends.get(process, ())} - pipeline
        pipeline |= new
    return pipeline


def _stands_apart(seen: Observations, first: Late, named: list[Late], limits: Thresholds) -> bool:
    """Whether it is not the shadow of a later one at the same time. Delays of that one reach unequal numbers of
    recorded collectives, so that it takes as many as any pattern does; and where Recvs wait next to other work, as in
    interleaved pipelines, another stage of its pipeline may be its victim."""
    later = [other for other in named if _together(first, other)]
    pipeline = _pipeline_of(first, pipeline_peers(seen)) if later else set()
    return not any(
        first.waited_cells < limits.diagnosis.min_diagnosed_cells
        or (
            other.stage != first.stage
            and other.late_us > AS_LATE * first.late_us
            and not pipeline.isdisjoint(other.processes)
        )
        for other in later
    )


def _together(one: Late, other: Late) -> bool:
    return other.window.overlap(one.window) * 2 >= min(one.window.length, other.window.length)


def _one_question(seen: Observations, first: Late, other: Late) -> bool:
    """Whether one may wait for the other in a Send or Recv that was not recorded: they are of different stages, or as
    late as one another, as those that exchange tokens are where the plugin records none of it."""
    least, most = sorted((first.late_us, other.late_us))
    may_wait = other.stage != first.stage or (seen.one_slot and most <= AS_LATE * least)
    return seen.matched_p2p == 0 and may_wait and _together(first, other)


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
            entity.stage != root.stage and _together(root, entity) and entity.cost_share <= root.cost_share * AS_LATE
            for root in alone
        )
    ]


def _late_alone(seen: Observations, entity: Late, late: list[Late]) -> bool:
    """Whether it is a process that is late alone in its tensor group."""
    group = tensor_groups(seen).get(entity.processes[0]) if entity.level == "rank" else None
    others = {process for other in late if other is not entity for process in other.processes}
    return group is not None and others.isdisjoint(group)


def _waiting_inside(seen: Observations, first: Late, others: list[Late]) -> list[Late]:
    """Those who may wait for `first`, or it for them, in a communicator that was not recorded in whole: most of its
    members seem late at the same time, but only to those outside of it."""
    together = [other for other in others if _together(first, other)]
    for comm in seen.communicators:
        inside = [other for other in together if not set(other.processes).isdisjoint(comm.members)]
        late = {process for entity in (first, *inside) for process in entity.processes}.intersection(comm.members)
        if not inside or late.isdisjoint(first.processes) or len(late) * 2 < len(comm.members):
            continue
        ranks = all(entity.level == "rank" for entity in (first, *inside))
        if comm.number in seen.left_out or (comm.number in seen.lacking and ranks and _on_one_machine(seen, comm)):
            return inside
    return []


def _on_one_machine(seen: Observations, comm: Communicator) -> bool:
    return comm.nnodes == 1 or len({seen.machines.of[member] for member in comm.members}) == 1


def without_log_beside(seen: Observations, first: Late) -> list[Communicator]:
    """The communicators in which it may have waited unseen for ranks that left no log: those in which only Sends,
    Recvs and all-to-alls are done, of which one end tells too little; those of which no other rank has a log; and all
    where Sends and Recvs are not recorded, for it may do some with these ranks."""
    return [
        comm
        for comm in seen.communicators
        if len(comm.members) < comm.n_ranks
        and (seen.one_slot or comm.number not in seen.synchronised_bytes or len(comm.members) == 1)
        and not set(first.processes).isdisjoint(comm.members)
    ]


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
    if without_log_beside(seen, first):
        return False
    # Half of them, as late as one another, may be a pipeline stage with more work, which shows in Sends and Recvs.
    half = len(first.processes) * 2 >= len(seen.stages()[first.stage])
    if seen.one_slot and half and len({seen.machines.of[process] for process in first.processes}) > 1:
        return False
    if len(group) > 1 and len({seen.machines.of[process] for late in group for process in late.processes}) > 1:
        return False
    if seen.matched_p2p > 0 or len(group) > 1:
        return True
    machine_of = seen.machines.of if first.level == "host" else {process: process for process in seen.processes}
    return all(len({machine_of[process] for process in stage}) > 1 for stage in seen.stages())
