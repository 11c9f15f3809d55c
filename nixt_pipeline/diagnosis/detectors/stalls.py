"""Transfers that stand still now and then: links that flap, proxies that are held up, retransmissions that time out.

Each time, a few collectives take seconds on all of their ranks, so that nobody is late, and the rest of the job is as
fast as ever. What stood still together tells where: the machines that all of these paths have in common, without those
on paths that never did.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.transfer import Blame
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations, Span
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.stalls import Stall
from nixt_pipeline.settings import Thresholds

# Stalls that were written so soon after one another are one, for a pass of the dump thread writes what came before.
_ONE_MOMENT_US = 1_000_000
# Peers send messages of about the same size: shards of layers differ by a few times.
_AS_LARGE = 8


@dataclass(frozen=True)
class Stalls(Suspect):
    """In some `moments` (when each began and ended, in Unix microseconds), transfers of some communicators stood still,
    for `lost_us` in all: of the whole time the share `cost_share`.
    `machines` are on all of these paths, and on none that never stalled, where it is known: one of them, or what is
    between them. `across` machines, or inside of one."""

    moments: tuple[Span, ...]
    communicators: tuple[Communicator, ...]
    processes: tuple[Process, ...]
    machines: tuple[str, ...]
    across: bool
    lost_us: float
    cost_share: float


def find_stalls(evidence: Evidence, before: Sequence[Suspect], limits: Thresholds) -> list[Stalls]:
    """Those across machines and those inside of them, if they come again and cost enough; without what was found slow
    `before`."""
    seen = evidence.seen
    blames = [suspect for suspect in before if isinstance(suspect, Blame)]
    stalls = [stall for stall in evidence.stalls if not any(_told(stall, blame) for blame in blames)]
    found = []
    for across in (False, True):
        of_medium = [stall for stall in stalls if _across(seen, seen.communicators[stall.comm]) is across]
        suspect = _stalls(seen, of_medium, across)
        if suspect and len(suspect.moments) >= limits.diagnosis.min_stalls:
            found += [suspect] if suspect.cost_share >= limits.diagnosis.p2_cost_share else []
    return found


def _told(stall: Stall, blame: Blame) -> bool:
    window = blame.window
    return window.first <= stall.block <= window.last and any(item.path.comm == stall.comm for item in blame.slow)


def _across(seen: Observations, comm: Communicator) -> bool:
    return len(_machines(seen, comm)) > 1


def _machines(seen: Observations, comm: Communicator) -> frozenset[str]:
    return frozenset(seen.machines.of[member] for member in comm.members)


def _stalls(seen: Observations, stalls: Sequence[Stall], across: bool) -> Stalls | None:
    elapsed_us = float(seen.block_us.sum())
    if not stalls or elapsed_us <= 0:
        return None
    moments = _moments(stalls)
    lost_us = sum(max(stall.excess_us for stall in together) for together in moments)
    numbers = {stall.comm for stall in stalls}
    comms = tuple(comm for comm in seen.communicators if comm.number in numbers)
    # What does something else, or sends little, may not have been sending at these moments.
    shapes = {comm.shape for comm in comms}
    least = min(seen.synchronised_bytes.get(number, 0) for number in numbers) / _AS_LARGE
    others = [
        comm
        for comm in seen.communicators
        if comm.number not in numbers and comm.shape in shapes and seen.synchronised_bytes.get(comm.number, -1) >= least
    ]
    common = frozenset.intersection(*(_machines(seen, comm) for comm in comms))
    cleared = frozenset[str]().union(*(_machines(seen, comm) for comm in others))
    machines = tuple(sorted(common - cleared))
    return Stalls(
        moments=tuple(
            (round(min(stall.at_us - stall.excess_us for stall in together)), together[-1].at_us)
            for together in moments
        ),
        communicators=comms,
        processes=tuple(sorted({member for comm in comms for member in comm.members})),
        machines=machines,
        across=across,
        lost_us=lost_us,
        cost_share=min(1.0, lost_us / elapsed_us),
    )


def _moments(stalls: Iterable[Stall]) -> list[list[Stall]]:
    """Those that stood still together: the one was not over when the other began."""
    moments: list[list[Stall]] = []
    for stall in sorted(stalls, key=lambda stall: stall.at_us):
        if moments and stall.at_us - stall.excess_us <= moments[-1][-1].at_us + _ONE_MOMENT_US:
            moments[-1].append(stall)
        else:
            moments.append([stall])
    return moments
