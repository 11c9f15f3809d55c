"""Transfers that stall occasionally: links that flap, proxies that are held up, retransmissions that time out.

Each time, a few collectives take seconds on all of their ranks, so that no rank is late, and the rest of the job is as
fast as ever. What stalled together shows where: the machines that all of these paths have in common, without those
on paths that never did.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.transfer import Blame
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.stalls import Stall
from nixt_pipeline.settings import Thresholds

# Peers send messages of about the same size: shards of layers differ by a few times.
_AS_LARGE = 8


@dataclass(frozen=True)
class Stalls(Suspect):
    """In some `moments` (when each began and ended, in Unix microseconds), transfers of some communicators stood still,
    for `lost_us` in all: of the whole time the share `cost_share`. `members` took part in all of them; of these,
    `suspects` are on no path of a peer that never stalled: one of them is it, or what is between them. `across`
    machines, or inside of one."""

    moments: tuple[Span, ...]
    communicators: tuple[Communicator, ...]
    members: tuple[Process, ...]
    suspects: tuple[Process, ...]
    across: bool
    lost_us: float
    cost_share: float


def find_stalls(seen: Observations, before: Sequence[Suspect], limits: Thresholds) -> list[Stalls]:
    """Those across machines and those inside of them, if they cost enough; without what was found slow `before`."""
    blames = [suspect for suspect in before if isinstance(suspect, Blame)]
    stalls = [stall for stall in seen.stalls if stall.members and not any(_told(stall, blame) for blame in blames)]
    found = []
    for across in (False, True):
        suspect = _stalls(seen, [stall for stall in stalls if _across(seen, stall.members) is across], across)
        found += [suspect] if suspect and suspect.cost_share >= limits.diagnosis.p2_cost_share else []
    return found


def _told(stall: Stall, blame: Blame) -> bool:
    window = blame.window
    return window.first <= stall.block <= window.last and any(item.path.comm == stall.comm for item in blame.slow)


def _across(seen: Observations, members: Iterable[Process]) -> bool:
    return len({seen.machines.of[member] for member in members}) > 1


def _stalls(seen: Observations, stalls: Sequence[Stall], across: bool) -> Stalls | None:
    elapsed_us = float(seen.block_us.sum())
    if not stalls or elapsed_us <= 0:
        return None
    moments = _moments(stalls)
    lost_us = sum(max(stall.excess_us for stall in together) for together in moments)
    numbers = {stall.comm for stall in stalls}
    common = frozenset.intersection(*(frozenset(stall.members) for stall in stalls))
    hosts = frozenset.intersection(*(frozenset(seen.machines.of[p] for p in stall.members) for stall in stalls))
    # Where no process is on all paths, a machine may be, with several.
    members = {member for stall in stalls for member in stall.members}
    suspects = common or frozenset(member for member in members if seen.machines.of[member] in hosts)
    return Stalls(
        moments=tuple(
            (round(min(stall.at_us - stall.excess_us for stall in together)), together[-1].at_us)
            for together in moments
        ),
        communicators=tuple(comm for comm in seen.communicators if comm.number in numbers),
        members=tuple(sorted(members)),
        suspects=tuple(sorted(suspects - _cleared(seen, stalls))),
        across=across,
        lost_us=lost_us,
        cost_share=min(1.0, lost_us / elapsed_us),
    )


def _cleared(seen: Observations, stalls: Sequence[Stall]) -> frozenset[Process]:
    """The members of communicators that never stalled and do the same as some that did. What does something else,
    sends little, or sends in turns, as the edges of a pipeline do, may not have been sending at these moments."""
    stalled = {stall.comm for stall in stalls}
    largest = {comm: seen.synchronised_bytes.get(comm.number, 0) for comm in seen.communicators}
    sizes = {comm.shape: size for comm, size in largest.items() if comm.number in stalled and size > 0}
    return frozenset(
        member
        for comm, size in largest.items()
        if comm.number not in stalled and comm.shape in sizes and size * _AS_LARGE >= sizes[comm.shape]
        for member in comm.members
    )


def _moments(stalls: Iterable[Stall]) -> list[list[Stall]]:
    """Those that stalled together: the one was not over when the other began."""
    moments: list[list[Stall]] = []
    for stall in sorted(stalls, key=lambda stall: stall.at_us):
        if moments and stall.at_us - stall.excess_us < moments[-1][-1].at_us:
            moments[-1].append(stall)
        else:
            moments.append([stall])
    return moments
