"""Tracks: what is done in order and recorded with a number, and which of them do the same in lockstep.

A track is a collective function of a communicator, or Send and Recv in one direction between two processes. A number
that any rank recorded was completed by all: records that are missing make tracks look shorter, never longer.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.diagnosis.evidence.alike import UNKNOWN, Pace, alike, middle
from nixt_pipeline.diagnosis.evidence.frontier import EarlyEnd, Reach, newest_functions
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of
from nixt_pipeline.settings import Thresholds

# What a slot loses more often than this may be lost at the end as well, however long that is.
_HARDLY_EVER = 0.05
# When more processes than this have no end, the job was cut off, and nothing can be said of it.
_FEW = 0.25

SEND_RECV = "Send and Recv"


@dataclass(frozen=True)
class Series:
    """One collective function of one communicator: the last sequence number of each process whose log has an end, the
    share of their records that were lost before it, and whether the plugin, which has one slot, remembers it last."""

    comm: Communicator
    coll: str
    last: dict[Process, int]
    lost: float
    one_slot: bool = False
    final: bool = True
    communicator: int = 0  # the hash of its identity
    pace: Pace = UNKNOWN
    before: int = 0  # the number from which on it counts
    apart: Hashable = None  # only what has the same can be compared with it

    @property
    def furthest(self) -> int:
        """The last sequence number that any rank completed."""
        return max(self.last.values())

    @property
    def behind(self) -> int:
        """How many members have no record of the last collective."""
        return len(self.last) - sum(last == self.furthest for last in self.last.values())

    @property
    def hidden(self) -> float:
        """How likely a collective that was completed left no record. The last operation of all stays in its slot; what
        is overwritten there now and then is so on all ranks alike, and may be from some moment on."""
        if self.one_slot:
            return 0.0 if self.final else self.lost if self.lost < _HARDLY_EVER else 1.0
        return float(self.lost ** len(self.last))


@dataclass(frozen=True)
class Track:
    """Something that `members` do in order: the number that they `reached`, how likely one more was completed without a
    record (`hidden`), what else does the same (`family`), and the same in any pipeline stage (`kind`); how fast."""

    comm: Communicator
    what: str
    members: frozenset[Process]
    reached: int
    hidden: float
    family: tuple[Hashable, ...]
    kind: tuple[Hashable, ...]
    pace: Pace = UNKNOWN

    @property
    def carrier(self) -> tuple[int, frozenset[Process]]:
        """What carries it, in both directions and for all functions."""
        return self.comm.number, self.members


def without_end(
    early: Mapping[Process, EarlyEnd], cut: frozenset[Process], processes: Sequence[Process]
) -> frozenset[Process]:
    """Processes whose logs say nothing of the end of the job, because they end before; their files may be `cut`.

    Some operations are missing at many hosts when a job is killed, and then nothing else is known of its end either.
    """
    ended = {process for process in processes if process in early}
    certain = frozenset(process for process in ended if early[process].long or process in cut)
    few = _FEW * len(processes)
    if len(ended) <= few and len(hosts_of(ended - certain)) <= 1:
        return frozenset(ended)
    return certain if len(certain) <= few else frozenset()


def series_of(
    frontier: Iterable[Reach], numbered: Mapping[int, Communicator], ignored: frozenset[Process], one_slot: bool
) -> list[Series]:
    """The series of the communicators in `numbered` (by their hash) without the processes that are `ignored`."""
    reaches: dict[tuple[int, str], list[Reach]] = defaultdict(list)
    frontier = list(frontier)
    newest = newest_functions(frontier)
    for reach in frontier:
        if reach.communicator in numbered and reach.process not in ignored:
            reaches[numbered[reach.communicator].number, reach.coll].append(reach)
    comms = {comm.number: comm for comm in numbered.values()}
    of_coll: dict[str, list[Reach]] = defaultdict(list)
    for (_, coll), members in reaches.items():
        of_coll[coll] += members
    everywhere = {coll: _lost(members, one_slot) for coll, members in of_coll.items()}
    found = []
    for (number, coll), members in sorted(reaches.items()):
        lost = _lost(members, one_slot)
        if one_slot:  # it loses nearly all of a function in each communicator; of one, few may have been recorded
            lost = max(lost, everywhere[coll])
        last = {reach.process: reach.last for reach in members}
        communicator = members[0].communicator
        final = newest[communicator] == coll
        pace = middle(reach.pace for reach in members)
        found.append(Series(comms[number], coll, last, lost, one_slot, final, communicator, pace, members[0].before))
    return found


def without_log(series: Iterable[Series], process: Process) -> list[Series]:
    """The same as shown by the logs of the others, where there are such."""
    return [
        replace(item, last={other: last for other, last in item.last.items() if other != process})
        for item in series
        if item.last.keys() - {process}
    ]


def _lost(reaches: Sequence[Reach], one_slot: bool) -> float:
    """The share of records missing before the last ones. What a slot overwrote begins with the first of all."""
    first = 0 if one_slot else min(reach.first for reach in reaches)
    return max(0.0, 1 - sum(reach.records for reach in reaches) / sum(reach.last - first + 1 for reach in reaches))


def tracks_of(
    series: Sequence[Series],
    edges: Iterable[Edge],
    comms: Mapping[int, Communicator],
    stage: Mapping[Process, int],
    ignored: frozenset[Process] = frozenset(),
) -> list[Track]:
    """All tracks of the communicators `comms`, by number, of Send and Recv by the ends that are not `ignored`. A family
    is what does the same in one stage or between two; where it is a single communicator, what does the same in any."""
    tracks = []
    for item in series:
        comm = item.comm
        kind: tuple[Hashable, ...] = (item.coll, comm.n_ranks, comm.nnodes, comm.role, item.apart)
        where = frozenset(
            stage[member] for member in comm.members if member in stage
        )  # also those whose log ends early
        members = frozenset(comm.members)
        tracks.append(Track(comm, item.coll, members, item.furthest, item.hidden, (*kind, where), kind, item.pace))
    for edge in edges:
        comm = comms[edge.comm]
        kind = (SEND_RECV, comm.n_ranks, comm.role, stage[edge.source], stage[edge.target])
        ends, lanes = frozenset((edge.source, edge.target)), (*kind, "in step")
        if edge.source in ignored or edge.target in ignored:
            reached, recorded = (
                (edge.received, edge.target_recorded) if edge.source in ignored else (edge.sent, edge.source_recorded)
            )
            if not ends <= ignored:
                tracks.append(Track(comm, SEND_RECV, ends, reached, max(0.0, 1 - recorded), lanes, kind, edge.pace))
        else:
            tracks.append(Track(comm, SEND_RECV, ends, edge.operations, edge.lost, lanes, kind, edge.pace))
    tracks = _at_one_pace(tracks)
    tracks = _apart([track for track in tracks if track.what != SEND_RECV]) + [
        track for track in tracks if track.what == SEND_RECV
    ]
    known = {track.comm.number for track in tracks}
    for comm in comms.values():  # where Send and Recv cannot be counted, it is known at least who may wait for whom
        if comm.number not in known:
            alone = (SEND_RECV, comm.number)
            tracks.append(Track(comm, SEND_RECV, frozenset(comm.members), 0, 1.0, alone, alone))
    sizes = Counter(track.family for track in tracks)
    tracks = [track if sizes[track.family] > 1 else replace(track, family=track.kind) for track in tracks]
    return _with_slots(tracks, series)


def _at_one_pace(tracks: Sequence[Track]) -> list[Track]:
    """The same with families and kinds in which everything goes at one pace."""
    of_kind: dict[tuple[Hashable, ...], list[Track]] = defaultdict(list)
    for track in tracks:
        of_kind[track.kind].append(track)
    told = []
    for members in of_kind.values():
        numbers = alike([track.pace for track in members], [track.reached for track in members])
        for track, number in zip(members, numbers, strict=True):
            told.append(replace(track, family=(*track.family, number), kind=(*track.kind, number)))
    return told


def _apart(tracks: Iterable[Track]) -> list[Track]:
    """The same with families that share no process: of two communicators of one process that look the same without
    names, one does something else. Those that do the same got about equally far."""
    # By kind and process: the families that it is in already, and the first that it is not in.
    taken: dict[tuple[Hashable, Process], set[int]] = defaultdict(set)
    free: dict[tuple[Hashable, Process], int] = defaultdict(int)
    told = []
    for track in sorted(tracks, key=lambda track: (-track.reached, track.comm.number, track.what)):
        own = [(track.kind, member) for member in track.members]
        layer = max((free[key] for key in own), default=0)
        while any(layer in taken[key] for key in own):
            layer += 1
        for key in own:
            taken[key].add(layer)
            while free[key] in taken[key]:
                free[key] += 1
        told.append(replace(track, family=(*track.family, layer), kind=(*track.kind, layer)))
    return told


def _with_slots(tracks: Sequence[Track], series: Sequence[Series]) -> list[Track]:
    """The same with what the last operation in the slot of a communicator says of its other functions.

    When its peers ended with another function, and got as far as it in the one that it ended with, it lacks at least
    the operation that they ended with: it would otherwise be in its slot.
    """
    ends = {item.comm.number: (item.coll, item.furthest) for item in series if item.one_slot and item.final}
    reached = {(track.comm.number, track.what): track.reached for track in tracks}
    by_family: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for track in tracks:
        if track.comm.number in ends:
            by_family[track.family].append(track.comm.number)
    told = []
    for track in tracks:
        own, alike = ends.get(track.comm.number), by_family[track.family]
        ended = [number for number in alike if ends[number][0] == track.what]
        if own and own[0] != track.what and len(ended) * 2 >= len(alike):
            last = min(ends[number][1] for number in ended)
            if track.reached < last and all(reached.get((number, own[0]), -1) >= own[1] for number in ended):
                track = replace(track, reached=last - 1, hidden=0.0)
        told.append(track)
    return told


def ended_together(series: Iterable[Series], limits: Thresholds) -> bool:
    """Whether the log reaches to the end: no more processes lack the last collective of a communicator than lose any
    other record. A log whose tail was lost ends at another number for each process, and proves nothing."""
    counted = [item for item in series if item.final or not item.one_slot]
    behind = sum(item.behind for item in counted)
    expected = sum(0.0 if item.one_slot else item.lost * len(item.last) for item in counted)
    return behind == 0 or float(scipy.stats.poisson.sf(behind - 1, expected)) > limits.diagnosis.tail_chance
