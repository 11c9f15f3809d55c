"""Findings about a job that stopped: who may have hung, Sends without Recv, ranks that disagree.

A normal end leaves nothing behind its alike; a log that lost its tail shows ranks of one communicator with different
last numbers, and then nothing is concluded. What shares no process, or was not in use at the same time, is looked at
apart (`parts`); what came after a stop decides how it is told (`sequel`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from nixt_pipeline.diagnosis.coverage import Recorded
from nixt_pipeline.diagnosis.detectors.cut_off import MAY_BE_KILLED, SELDOM_KILLED, Past, past_of
from nixt_pipeline.diagnosis.detectors.equal_steps import stopped_between_pauses
from nixt_pipeline.diagnosis.detectors.mid_step import MidStep, logs_of, stopped_in_step
from nixt_pipeline.diagnosis.detectors.mismatch import cut_short, find_mismatches
from nixt_pipeline.diagnosis.detectors.replaced import interruptions
from nixt_pipeline.diagnosis.detectors.sequel import Sequel, last_times, restarted, what_followed
from nixt_pipeline.diagnosis.detectors.stopped import Stop, stopped_first, together
from nixt_pipeline.diagnosis.detectors.tracks import (
    SEND_RECV,
    Series,
    Track,
    ended_together,
    series_of,
    stages,
    tracks_of,
    without_end,
)
from nixt_pipeline.diagnosis.detectors.unfinished import unfinished
from nixt_pipeline.diagnosis.ending import Ending
from nixt_pipeline.diagnosis.evidence.era import Era
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.launches import Launch, read_launches
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge, Observations
from nixt_pipeline.diagnosis.evidence.parts import Part, Span, numbered_in, parts_of, read_spans
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording import hangs as told
from nixt_pipeline.diagnosis.wording.unassessed import parts_left_out
from nixt_pipeline.settings import Thresholds

# Of thousands of jobs with lost records, hardly one may wake somebody up.
_PAGED_CHANCE = 1e-4
# Fewer operations show no step that could have been interrupted.
_LEAST_OPERATIONS = 12


@dataclass(frozen=True)
class _Launch:
    """What is known of one launch: its communicators by the hash of their identity, when each was in use, the
    processes whose logs say nothing of the end, and the launches of the directory. `reaches` is how far everybody got
    in the communicators of the part that is looked at; those of them that `go_on` after it, by number, did not stop."""

    con: duckdb.DuckDBPyConnection
    seen: Observations
    recorded: Recorded
    numbered: Mapping[int, Communicator]
    spans: Mapping[int, Span]
    ignored: frozenset[Process]
    launches: Sequence[Launch]
    limits: Thresholds
    reaches: Sequence[Reach] = ()
    go_on: frozenset[int] = frozenset()


def find_hangs(
    con: duckdb.DuckDBPyConnection,
    seen: Observations,
    recorded: Recorded,
    limits: Thresholds,
    ending: Ending | None = None,
    eras: Sequence[Era] = (),
) -> list[Finding]:
    """Hangs and disagreements of the launch that `seen` shows, of a job that ended as `ending` says; call it after
    `observe`. A launch whose communicators were replaced has `eras`."""
    findings = find_mismatches(con, seen, recorded.early, limits)
    numbered = numbered_in(con, seen.communicators)
    ignored = without_end(recorded.early, recorded.cut, seen.processes) | cut_short(seen.edges)
    launch = _Launch(con, seen, recorded, numbered, read_spans(con), ignored, read_launches(con), limits)
    most = limits.diagnosis.max_diagnosed_parts
    whole = _parts(launch, numbered, recorded.frontier, seen.edges)
    for of_era, part in _in_eras(launch, eras, most) if eras else ((launch, part) for part in whole[:most]):
        ended = [item for item in part.series if item.comm.number not in part.go_on]
        if ended and ended_together(ended):
            of_part = replace(of_era, reaches=part.reaches, go_on=part.go_on)
            findings += _stopped(of_part, part.part, part.series, part.edges, ending or Ending())
    for part in whole[:most]:
        findings += _interrupted(launch, part.part, part.series, findings)
    left_out = [part.part for part in whole[most:]]
    return [*findings, parts_left_out(left_out, most)] if left_out else findings


@dataclass(frozen=True)
class _Examined:
    """A part of a launch, or of an era of it, with what it did; `go_on` are the communicators, by number, that were in
    use after it too."""

    part: Part
    series: list[Series]
    edges: list[Edge]
    reaches: list[Reach]
    go_on: frozenset[int] = frozenset()


def _parts(
    launch: _Launch, numbered: Mapping[int, Communicator], frontier: Iterable[Reach], edges: Iterable[Edge]
) -> list[_Examined]:
    """The parts of what the communicators in `numbered` did, those of more processes first."""
    known = sorted(numbered.values(), key=lambda comm: comm.number)
    parts = [_Examined(part, [], [], []) for part in parts_of(known, launch.spans)]
    part_of = {number: part for part in parts for number in part.part.communicators}
    own = [reach for reach in frontier if reach.communicator in numbered]
    for item in series_of(own, numbered, launch.ignored, launch.recorded.one_slot):
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


def _stopped(launch: _Launch, part: Part, series: list[Series], edges: Sequence[Edge], ending: Ending) -> list[Finding]:
    """The hang of one part of a launch, or that it ended within a step."""
    seen = launch.seen
    stage = stages(series, part.processes)
    comms = {number: seen.communicators[number] for number in sorted(part.communicators)}
    tracks = tracks_of(series, edges, comms, stage, launch.ignored)
    stops = [
        stop for stop in stopped_first(tracks) if any(track.comm.number not in launch.go_on for track in stop.first)
    ]
    if stops:
        return _behind(launch, part, series, tracks, stops, ending)
    counted = [item for item in series if item.apart in (None, (False, False))]
    pending = unfinished(counted, launch.reaches, len(part.processes))
    if pending:
        finding, stopped = told.never_completed(pending), [pending.comm]
    else:
        begun = _begun(launch, part, series) or _begun_by_pauses(launch, part)
        if not begun:
            return []
        stopped = list(begun)
        finding = told.within_step(part.processes, begun)
    since, sequel = _followed(launch, part, stopped)
    past = _past(launch, series, stopped) if sequel is None or sequel.launch else None
    share = past.rarer() if past else 0.0
    return [told.with_sequel(finding, part, since, sequel, share > MAY_BE_KILLED, share, ending)]


def _interrupted(launch: _Launch, part: Part, series: Iterable[Series], known: Sequence[Finding]) -> list[Finding]:
    """The pauses of a part in which communicators were replaced in the middle of a step; not those that are `known`."""
    # What was replaced may have lost the record of its last operation.
    unsure = {item.comm.number for item in series if item.hidden > _PAGED_CHANCE or item.one_slot}
    comms = [launch.seen.communicators[number] for number in sorted(part.communicators - unsure)]
    everywhere = last_times(reach for reach in launch.recorded.frontier if reach.communicator in launch.numbered)
    found = []
    for pause in interruptions(launch.con, comms, launch.spans):
        went_on = tuple(process for process in part.processes if everywhere.get(process, 0) >= pause.until_us)
        left = tuple(process for process in part.processes if process not in went_on)
        n_ranks = max(comm.n_ranks for comm in pause.successors)
        sequel = Sequel(pause.until_us, went_on, left, n_ranks)
        if not any(_over_at(finding, pause.since_us) for finding in known):
            finding = told.interrupted(pause)
            found.append(told.with_sequel(finding, part, pause.since_us, sequel, False, 0.0, Ending()))
    return found


def _over_at(finding: Finding, at_us: int) -> bool:
    """Whether it is a hang of that moment that was overcome."""
    if finding.kind != "hang" or finding.onset_us is None or finding.until_us is None:
        return False
    return finding.onset_us <= at_us < finding.until_us


def _behind(
    launch: _Launch, part: Part, series: list[Series], tracks: list[Track], stops: Sequence[Stop], ending: Ending
) -> list[Finding]:
    """What got less far than its alike; nothing where all that do the same are behind in something: then nobody is
    ahead, and the log has no common end."""
    first = {track.comm for stop in stops for track in stop.first if track.comm.number not in launch.go_on}
    since, sequel = _followed(launch, part, first)
    past = None
    if sequel is None or sequel.launch:
        past = _past(launch, series, first)
    shares = [_killed_share(past, stop, tracks) if past else 0.0 for stop in stops]
    hung = [stop for stop, share in zip(stops, shares, strict=True) if share <= SELDOM_KILLED]
    sure = [
        stop
        for stop, share in zip(stops, shares, strict=True)
        if share <= MAY_BE_KILLED and stop.chance <= _PAGED_CHANCE
    ]
    stop = together(sure or hung or stops)
    if not told.ahead(stop, tracks):
        return []
    finding = told.behind(stop, tracks, bool(sure), min(shares))
    return [told.with_sequel(finding, part, since, sequel, not hung, min(shares), ending)]


def _killed_share(past: Past, stop: Stop, tracks: Sequence[Track]) -> float:
    """The share of the moments at which a killed job would have left such a stop."""
    collectives = any(track.what != SEND_RECV for track in stop.first)
    return past.share(tracks, stop.lead if collectives else 0)


def _begun(launch: _Launch, part: Part, series: Sequence[Series]) -> dict[Communicator, MidStep]:
    """The communicators of a part that stopped within a step, with how."""
    if sum(item.furthest + 1 for item in series) < _LEAST_OPERATIONS:
        return {}
    numbered = _ended(launch, part)
    stops = stopped_in_step(launch.con, launch.seen.incarnation, _busiest(launch), numbered.keys())
    return {numbered[stop.communicator]: stop for stop in stops}


def _begun_by_pauses(launch: _Launch, part: Part) -> dict[Communicator, MidStep]:
    """The same for communicators that do one operation all the time, where others of their processes went on: what
    follows is evidence of a fault, and where nothing follows, a job that was killed looks the same."""
    numbered = _ended(launch, part)
    logs = logs_of(launch.con, launch.seen.incarnation, _busiest(launch), numbered.keys())
    stops = [stopped_between_pauses(key, log.operations, log.written_us) for key, log in logs.items()]
    begun = {numbered[stop.communicator]: stop for stop in stops if stop is not None}
    sequel = _followed(launch, part, begun)[1] if begun else None
    return begun if sequel and sequel.went_on else {}


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
    reaches = [reach for reach in launch.recorded.frontier if reach.communicator in launch.numbered]
    since, sequel = what_followed(part, numbers, launch.reaches, reaches, launch.numbered, launch.spans)
    if since is not None and sequel is None:
        following = restarted(launch.launches, launch.seen.incarnation, since)
        sequel = Sequel(following.first_us, launch=following) if following else None
    return since, sequel


def _past(launch: _Launch, series: list[Series], stopped: Iterable[Communicator]) -> Past:
    """The past of the part that is looked at; what stopped is told first."""
    numbers = {comm.number for comm in stopped}
    ends = last_times(reach for reach in launch.reaches if reach.process not in launch.ignored)
    ends = {process: end for process, end in ends.items() if end <= launch.limits.ingest.max_timestamp_us}
    ordered = sorted(series, key=lambda item: item.comm.number not in numbers)
    return past_of(launch.con, ordered, ends, launch.limits.ingest.min_timestamp_us)
