"""Ranks that disagree: sizes that differ within one collective, and Sends without a Recv."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.size_mismatches import SizeMismatch
from nixt_pipeline.settings import Thresholds


@dataclass(frozen=True)
class Disagreement(Suspect):
    """Ranks of a communicator give different sizes for the same collectives, by function."""

    comm: Communicator
    sizes: tuple[SizeMismatch, ...]


@dataclass(frozen=True)
class Unreceived(Suspect):
    """More was sent on an edge of a communicator than received, by two logs that lack nothing."""

    comm: Communicator
    edge: Edge


def find_mismatches(
    evidence: Evidence, _before: Sequence[Suspect], limits: Thresholds
) -> list[Disagreement | Unreceived]:
    """What the ranks of a launch disagree about."""
    comms = evidence.seen.communicators
    by_comm: dict[int, list[SizeMismatch]] = defaultdict(list)
    for mismatch in evidence.size_mismatches:
        by_comm[mismatch.comm].append(mismatch)
    edges = unreceived(evidence.seen.edges, evidence.recorded.early, limits)
    return [
        *(Disagreement(comms[number], tuple(sizes)) for number, sizes in by_comm.items()),
        *(Unreceived(comms[edge.comm], edge) for edge in edges),
    ]


def cut_short(edges: Iterable[Edge]) -> frozenset[Process]:
    """The processes whose logs end early by what others received from them, for that had been sent."""
    return frozenset(edge.source for edge in edges if edge.lossless and edge.received > edge.sent)


def unreceived(edges: Collection[Edge], early: Collection[Process], limits: Thresholds) -> list[Edge]:
    """The edges on which more was sent than received, by two logs that lack nothing and reach to the end: neither of an
    `early` process nor cut short. Not what is sent within a pass of the dump thread: who is killed has not written the
    last."""
    ended = cut_short(edges).union(early)
    return [
        edge
        for edge in edges
        if edge.lossless
        and edge.sent - edge.received >= _least(edge, limits)
        and ended.isdisjoint((edge.source, edge.target))
    ]


def _least(edge: Edge, limits: Thresholds) -> float:
    per_us = edge.pace.per_us or 0.0
    return max(limits.diagnosis.unmatched_p2p, per_us * limits.diagnosis.unwritten_us)
