"""Series are collectives of a communicator, given by the last sequence number of each of its ranks."""

from collections.abc import Sequence
from typing import Any

from nixt_pipeline.diagnosis.detectors.stopped import Stop, stopped_first
from nixt_pipeline.diagnosis.detectors.tracks import Series, tracks_of
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import communicator, stages


def series(number: int, last: Any, coll: str = "ReduceScatter", lost: float = 0.0) -> Series:
    return Series(communicator(number, *last), coll, last, lost)


def pair(number: int, last: int, coll: str = "ReduceScatter", lost: float = 0.0) -> Series:
    """A communicator of process `number` on hosts a and b, whose both ranks end at `last`."""
    return series(number, {("a", number): last, ("b", number): last}, coll, lost)


def edge(number: int, operations: int, source: str = "a", target: str = "b", recorded: float = 1.0) -> Edge:
    """Send and Recv between processes `number` of two hosts, which come 100 communicators after those of `pair`."""
    ends = ((source, number), (target, number))
    return Edge(100 + number, *ends, operations, operations, recorded, recorded)


def stops(series: Sequence[Series], edges: Sequence[Edge] = ()) -> list[Stop]:
    """Each hang."""
    comms: dict[int, Communicator] = {item.comm.number: item.comm for item in series}
    comms |= {edge.comm: communicator(edge.comm, edge.source, edge.target) for edge in edges}
    everyone = sorted({member for comm in comms.values() for member in comm.members})
    numbered = [comms.get(number, communicator(number)) for number in range(max(comms, default=-1) + 1)]
    tracks = tracks_of(series, edges, dict(enumerate(numbered)), stages(series, everyone))
    return stopped_first(tracks, Thresholds())


def stopped(series: Sequence[Series], edges: Sequence[Edge] = ()) -> list[tuple[set[int], set[Process]]]:
    """The communicators that stopped first, and who may have hung, of each hang."""
    return [({track.comm.number for track in stop.first}, set(stop.suspects)) for stop in stops(series, edges)]
