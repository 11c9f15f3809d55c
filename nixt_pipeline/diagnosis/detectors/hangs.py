"""A job that stopped: what got least far, and who may have hung.

A normal end leaves nothing behind its peers; a log that lost its tail shows ranks of one communicator with different
last numbers, and then nothing is concluded. What shares no process, or was not in use at the same time, is looked at
apart (`parts`); what came after a stop decides how it is reported (`sequel`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nixt_pipeline.diagnosis.detectors.cut_off import Past, past_of, with_clocks_set
from nixt_pipeline.diagnosis.detectors.going_on import states_of, waits_for_nobody
from nixt_pipeline.diagnosis.detectors.halt import Behind, Halt, NeverCompleted, NotExamined, WithinStep
from nixt_pipeline.diagnosis.detectors.mismatch import cut_short
from nixt_pipeline.diagnosis.detectors.replaced import interruptions
from nixt_pipeline.diagnosis.detectors.sequel import Sequel, last_times, restarted, what_followed
from nixt_pipeline.diagnosis.detectors.stopped import Stop, ahead, stopped_first, together
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.tracks import (
    SEND_RECV,
    Series,
    Track,
    ended_together,
    series_of,
    tracks_of,
    without_end,
    without_log,
)
from nixt_pipeline.diagnosis.detectors.unfinished_step import never_completed, stopped_between_pauses, stopped_in_step
from nixt_pipeline.diagnosis.evidence.era import Era
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge, Observations
from nixt_pipeline.diagnosis.evidence.operations import MOST_OPERATIONS, Log
from nixt_pipeline.diagnosis.evidence.parts import Part, parts_of
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of
from nixt_pipeline.diagnosis.evidence.steps import Steps
from nixt_pipeline.settings import Thresholds

# A pass of the dump thread later or earlier, on either side, is no clock that was set.
_FAR = 2
# Of those that got further, this many are asked what comes next: they are peers.
_TRIED = 3
# So many are asked in which order they do what one of their passes wrote together.
_ASKED = 8
# Fewer operations show no step that could have been interrupted.
_LEAST_OPERATIONS = 12


@dataclass(frozen=True)
class _Launch:
    """What is known of one launch: its communicators by the hash of their identity, and the processes whose logs say
    nothing of the end. `reaches` is how far all got in the communicators of the part that is examined; those of
    them that `go_on` after it, by number, did not stop."""

    evidence: Evidence
    numbered: Mapping[int, Communicator]
    ignored: frozenset[Process]
    limits: Thresholds
    reaches: Sequence[Reach] = ()
    go_on: frozenset[int] = frozenset()

    @property
    def seen(self) -> Observations:
        """What the launch did."""
        return self.evidence.seen

    @property
    def frontier(self) -> list[Reach]:
        """How far each process got in it."""
        return [reach for reach in self.evidence.recorded.frontier if reach.communicator in self.numbered]


def find_hangs(evidence: Evidence, _before: Sequence[Suspect], limits: Thresholds) -> list[Halt | NotExamined]:
    """How the parts of a launch stopped."""
    seen, recorded = evidence.seen, evidence.recorded
    ignored = without_end(recorded.early, recorded.cut, seen.processes) | cut_short(seen.edges)
    launch = _Launch(evidence, {comm.key: comm for comm in seen.communicators}, ignored, limits)
    most = limits.diagnosis.max_diagnosed_parts
    whole = _parts(launch, launch.numbered, recorded.frontier, seen.edges)
    halts: list[Halt] = []
    in_eras = _in_eras(launch, evidence.eras, most) if evidence.eras else ((launch, part) for part in whole[:most])
    for of_era, part in in_eras:
        cut = _cut_log(of_era, part, limits)
        series = part.series if cut is None else without_log(part.series, cut)
        ended = [item for item in series if item.comm.number not in part.go_on]
        if ended and ended_together(ended, limits):
            ignored = of_era.ignored if cut is None else of_era.ignored | {cut}
            of_part = replace(of_era, ignored=ignored, reaches=part.reaches, go_on=part.go_on)
            halts += _stopped(of_part, part.part, series, part.edges)
    for part in whole[:most]:
        halts += _interrupted(launch, part.part, part.series, halts)
    left_out = tuple(part.part for part in whole[most:])
    return [*halts, *([NotExamined(left_out, most)] if left_out else [])]


@dataclass(frozen=True)
class _Examined:
    """A part of a launch, or of an era of it, with what it did; `go_on` are the communicators, by number, that were in
    use after it too."""

    part: Part
    series: list[Series]
    edges: list[Edge]
    reaches: list[Reach]
    go_on: frozenset[int] = frozenset()


def _cut_log(launch: _Launch, part: _Examined, limits: Thresholds) -> Process | None:
    """The one process whose log lost its tail where all others end together: one that dies loses what it had not
    written. None where more have, those among them that are left aside already, or none has."""
    if launch.ignored.intersection(part.part.processes):
        return None
    ended = [item for item in part.series if item.comm.number not in part.go_on]
    short = {process for item in ended for process, last in item.last.items() if last < item.furthest}
    return short.pop() if len(short) == 1 and not ended_together(ended, limits) else None


def _parts(
    launch: _Launch, numbered: Mapping[int, Communicator], frontier: Iterable[Reach], edges: Iterable[Edge]
) -> list[_Examined]:
    """The parts of what the communicators in `numbered` did, those of more processes first."""
    known = sorted(numbered.values(), key=lambda comm: comm.number)
    parts = [_Examined(part, [], [], []) for part in parts_of(known)]
    part_of = {number: part for part in parts for number in part.part.communicators}
    own = [reach for reach in frontier if reach.communicator in numbered]
    for item in series_of(own, numbered, launch.ignored, launch.evidence.recorded.one_slot):
        part_of[item.comm.number].series.append(item)
    for edge in edges:
        part_of[edge.comm].edges.append(edge)
    for reach in own:
        part_of[numbered[reach.communicator].number].reaches.append(reach)
    return parts


def _in_eras(launch: _Launch, eras: Sequence[Era], most: int) -> Iterator[tuple[_Launch, _Examined]]:
    """The parts of all eras. Of who left with an era, and lacks what its peers have, the log says nothing of its end: a
    process that dies loses what it had not written."""
    for number, era in enumerate(eras):
        stayed = frozenset(process for later in eras[number + 1 :] for process in later.processes)
        furthest: dict[tuple[int, str], int] = defaultdict(int)
        for reach in era.reaches:
            furthest[reach.communicator, reach.coll] = max(furthest[reach.communicator, reach.coll], reach.last)
        lacking = {
            reach.process
            for reach in era.reaches
            if reach.communicator not in era.go_on and reach.last < furthest[reach.communicator, reach.coll]
        }
        left = lacking - stayed if number < len(eras) - 1 else set()
        of_era = replace(launch, ignored=launch.ignored | left)
        for part in _parts_of_era(of_era, era)[:most]:
            yield of_era, part


def _parts_of_era(launch: _Launch, era: Era) -> list[_Examined]:
    """The parts of an era. Sends and Recvs are counted over the whole launch: only those of communicators that were in
    use in no other one."""
    numbered = {key: comm for key, comm in launch.numbered.items() if key in era.communicators}
    go_on = frozenset(numbered[key].number for key in era.go_on)
    only_here = {comm.number for key, comm in numbered.items() if key not in era.go_on | era.before}
    edges = [edge for edge in launch.seen.edges if edge.comm in only_here]
    return [
        replace(part, go_on=go_on, series=[replace(item, apart=era.apart(item.communicator)) for item in part.series])
        for part in _parts(launch, numbered, era.reaches, edges)
    ]


def _stopped(launch: _Launch, part: Part, series: list[Series], edges: Sequence[Edge]) -> list[Halt]:
    """The hang of one part of a launch, or that it ended within a step."""
    seen = launch.seen
    stage = {
        process: number for number, group in enumerate(seen.stages()) for process in group.intersection(part.processes)
    }
    comms = {number: seen.communicators[number] for number in sorted(part.communicators)}
    tracks = tracks_of(series, edges, comms, stage, launch.ignored)
    stops = [
        stop
        for stop in stopped_first(tracks, launch.limits)
        if any(track.comm.number not in launch.go_on for track in stop.first)
    ]
    if stops:
        return _behind(launch, part, series, tracks, stops, len(set(stage.values())))
    counted = [item for item in series if item.apart in (None, (False, False))]
    pending = never_completed(counted, launch.reaches, len(part.processes), partial(_logs_of_some, launch, part))
    how: NeverCompleted | WithinStep
    if pending:
        how, stopped = NeverCompleted(pending), [pending.comm]
    else:
        begun = _begun(launch, part, series)
        if not begun:
            return []
        how, stopped = WithinStep(part.processes, begun), list(begun)
    since, sequel = _followed(launch, part, stopped)
    ended = sequel is None or sequel.launch is not None
    past, untold = _past(launch, part, series, stopped) if ended else (None, False)
    share = past.rarer() if past else 0.0
    killed = untold or share > launch.limits.diagnosis.may_be_killed_share
    if ended and not killed and not pending and len(set(stage.values())) == 1:
        killed = _might_go_on(launch, part, share, [_busiest(launch)])
    return [Halt(how, part, since, sequel, killed, None if untold else share)]


def _interrupted(launch: _Launch, part: Part, series: Iterable[Series], known: Sequence[Halt]) -> list[Halt]:
    """The pauses of a part in which communicators were replaced in the middle of a step; not those that are `known`."""
    # What was replaced may have lost the record of its last operation.
    unsure = {
        item.comm.number for item in series if item.hidden > launch.limits.diagnosis.paged_chance or item.one_slot
    }
    comms = [launch.seen.communicators[number] for number in sorted(part.communicators - unsure)]
    everywhere = last_times(launch.frontier)
    found = []
    for pause in interruptions(launch.evidence.history, comms):
        went_on = tuple(process for process in part.processes if everywhere.get(process, 0) >= pause.until_us)
        left = tuple(process for process in part.processes if process not in went_on)
        n_ranks = max(comm.n_ranks for comm in pause.successors)
        if not any(halt.over_at(pause.since_us, launch.evidence.ending) for halt in known):
            found.append(Halt(pause, part, pause.since_us, Sequel(pause.until_us, went_on, left, n_ranks)))
    return found


def _behind(
    launch: _Launch, part: Part, series: list[Series], tracks: Sequence[Track], stops: Sequence[Stop], stage_count: int
) -> list[Halt]:
    """What got less far than its peers; nothing where all that do the same are behind in something: then nobody is
    ahead, and the log has no common end."""
    first = {track.comm for stop in stops for track in stop.first if track.comm.number not in launch.go_on}
    since, sequel = _followed(launch, part, first)
    ended = sequel is None or sequel.launch is not None
    past, untold = _past(launch, part, series, first) if ended else (None, False)
    limits = launch.limits
    shares = [_killed_share(past, stop, tracks) if past else 0.0 for stop in stops]
    hung = [stop for stop, share in zip(stops, shares, strict=True) if share <= limits.diagnosis.seldom_killed_share]
    if ended and hung and stage_count == 1 and _might_go_on(launch, part, min(shares), *_further(stops, tracks)):
        hung = []
    sure = [
        stop
        for stop, share in zip(stops, shares, strict=True)
        if not untold
        and stop in hung
        and share <= _hardly(stop, limits)
        and stop.chance <= limits.diagnosis.paged_chance
    ]
    stop = together(sure or hung or stops)
    if not ahead(stop, tracks):
        return []
    return [
        Halt(Behind(stop, tuple(tracks), bool(sure)), part, since, sequel, not hung, None if untold else min(shares))
    ]


def _hardly(stop: Stop, limits: Thresholds) -> float:
    """At which share of its moments a job that was killed may leave such a stop, and it is an alarm: where nothing is
    lost, each moment of the past shows exactly what a kill leaves."""
    return limits.diagnosis.may_be_killed_share if stop.chance > 0 else 0.0


def _killed_share(past: Past, stop: Stop, tracks: Sequence[Track]) -> float:
    """The share of the moments at which a killed job would have left such a stop."""
    collectives = any(track.what != SEND_RECV for track in stop.first)
    return past.share(tracks, stop.lead if collectives else 0)


def _further(stops: Iterable[Stop], tracks: Iterable[Track]) -> tuple[list[Process], frozenset[Process]]:
    """Some who got further than what stopped, and those of whom one hung."""
    suspects: frozenset[Process] = frozenset().union(*(stop.suspects for stop in stops))
    least = {track.family: track.reached for stop in stops for track in stop.first}
    further = {
        member
        for track in tracks
        if track.reached > least.get(track.family, track.reached)
        for member in track.members - suspects
    }
    return sorted(further)[:_TRIED], suspects


def _might_go_on(
    launch: _Launch, part: Part, share: float, tried: Iterable[Process], suspects: frozenset[Process] = frozenset()
) -> bool:
    """Whether one of the processes that are `tried` waits for no other, by the log of all that it did. A job that was
    killed would have left the log at a `share` of its moments."""
    keys = _ended(launch, part).keys()
    states = states_of(launch.reaches, launch.numbered)
    own: dict[Process, set[int]] = defaultdict(set)
    for reach in launch.reaches:
        own[reach.process].add(reach.communicator)
    for process in () if launch.evidence.eras else tried:
        logs = launch.evidence.history.logs(process, keys, MOST_OPERATIONS)
        complete = logs.keys() == own[process]
        if complete and waits_for_nobody(process, logs, states, launch.numbered, suspects, share == 0):
            return True
    return False


def _begun(launch: _Launch, part: Part, series: Sequence[Series]) -> dict[Communicator, Steps]:
    """The communicators of a part that stopped within a step, by what its busiest process did. What only pauses tell
    counts where others of their processes went on: what follows is evidence of a fault, and where nothing follows, a
    job that was killed looks the same."""
    numbered = _ended(launch, part)
    logs = launch.evidence.history.logs(_busiest(launch), numbered, MOST_OPERATIONS)
    enough = sum(item.furthest + 1 for item in series) >= _LEAST_OPERATIONS
    in_order = stopped_in_step(logs) if enough else {}
    begun = {numbered[key]: steps for key, steps in (in_order or stopped_between_pauses(logs)).items()}
    if in_order or not begun:
        return begun
    sequel = _followed(launch, part, begun)[1]
    return begun if sequel and sequel.went_on else {}


def _logs_of_some(launch: _Launch, part: Part) -> list[dict[int, Log]]:
    """What some processes of a part did, which write at different moments."""
    keys = _ended(launch, part).keys()
    some = part.processes[:: max(1, len(part.processes) // _ASKED)][:_ASKED]
    return [launch.evidence.history.logs(process, keys, MOST_OPERATIONS) for process in some]


def _ended(launch: _Launch, part: Part) -> dict[int, Communicator]:
    """The communicators of a part that were not in use after it, by the hash of their identity."""
    ended = part.communicators - launch.go_on
    return {key: comm for key, comm in launch.numbered.items() if comm.number in ended}


def _busiest(launch: _Launch) -> Process:
    """The process with most records in the part that is looked at."""
    records: dict[Process, int] = defaultdict(int)
    for reach in launch.reaches:
        records[reach.process] += reach.records
    return min(records, key=lambda process: (-records[process], process))


def _followed(launch: _Launch, part: Part, stopped: Iterable[Communicator]) -> tuple[int | None, Sequel | None]:
    """Since when the part stood still, and what came then: other communicators of its processes, or a launch."""
    numbers = frozenset(comm.number for comm in stopped)
    since, sequel = what_followed(part, numbers, launch.reaches, launch.frontier, launch.numbered.values())
    if since is not None and sequel is None:
        following = restarted(launch.evidence.launches, launch.seen.incarnation, since)
        sequel = Sequel(following.first_us, launch=following) if following else None
    return since, sequel


def _with_clocks_set(launch: _Launch, part: Part) -> frozenset[str]:
    """The hosts of a part whose clocks were set while it ran, so that their past does not show what a kill leaves."""
    in_steps = {host for step in launch.seen.clock_steps for host in step.hosts}
    far_us = _FAR * launch.limits.diagnosis.max_clock_offset_us
    return with_clocks_set(launch.reaches, far_us) | in_steps.intersection(hosts_of(part.processes))


def _past(launch: _Launch, part: Part, series: list[Series], stopped: Iterable[Communicator]) -> tuple[Past, bool]:
    """The past of the part that is looked at, without the hosts whose clocks were set; what stopped comes first. And
    whether it is doubtful: most clocks were set, or those of all members of something that stopped, and it is of all
    hosts."""
    numbers = {comm.number for comm in stopped}
    unsteady = _with_clocks_set(launch, part)
    steady = [
        replace(item, last=last)
        for item in series
        if (last := {process: number for process, number in item.last.items() if process[0] not in unsteady})
    ]
    left = sum(process[0] not in unsteady for process in part.processes)
    known = {item.comm.number for item in series}
    doubtful = left * 2 < len(part.processes) or not numbers & known <= {item.comm.number for item in steady}
    if doubtful:
        steady, unsteady = series, frozenset()
    ignored, latest_us = launch.ignored, launch.limits.ingest.max_timestamp_us
    own = (reach for reach in launch.reaches if reach.process not in ignored and reach.process[0] not in unsteady)
    ends = {process: end for process, end in last_times(own).items() if end <= latest_us}
    ordered = sorted(steady, key=lambda item: item.comm.number not in numbers)
    return past_of(launch.evidence.history, launch.frontier, ordered, ends, launch.limits), doubtful
