"""Findings about a job that stopped: who may have hung, Sends without Recv, ranks that disagree.

A normal end leaves nothing behind its alike; a log that lost its tail shows ranks of one communicator with different
last numbers, and then nothing is concluded. What shares no process, or was not in use at the same time, is looked at
apart (`parts`); what came after a stop decides how it is told (`sequel`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from nixt_pipeline.diagnosis.attempts import parts_left_out
from nixt_pipeline.diagnosis.coverage import Recorded
from nixt_pipeline.diagnosis.detectors.cut_off import MAY_BE_KILLED, SELDOM_KILLED, Past, past_of
from nixt_pipeline.diagnosis.detectors.mid_step import stopped_in_step
from nixt_pipeline.diagnosis.detectors.replaced import interruptions
from nixt_pipeline.diagnosis.detectors.sequel import Launch, Sequel, last_times, read_launches, restarted, what_followed
from nixt_pipeline.diagnosis.detectors.stopped import (
    SEND_RECV,
    Series,
    Stop,
    Track,
    ended_together,
    series_of,
    stages,
    stopped_first,
    together,
    tracks_of,
    without_end,
)
from nixt_pipeline.diagnosis.detectors.unfinished import unfinished
from nixt_pipeline.diagnosis.ending import Ending
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Edge, Observations
from nixt_pipeline.diagnosis.evidence.parts import Part, Span, parts_of, read_spans
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, name_of, names_of
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording import hangs as told
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

# Of thousands of jobs with lost records, hardly one may wake somebody up.
_PAGED_CHANCE = 1e-4
# Fewer operations show no step that could have been interrupted.
_LEAST_OPERATIONS = 12

# Of replays that cannot be told apart, the first that each rank recorded need not be the same.
_MISMATCHES = """
SELECT k.comm, c.coll, count(*) AS cells, min(c.coll_sn) AS first_sn, min(c.first_dump_us) AS first_dump_us
FROM ordered_cells AS c
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM c.id AND k.comm_name IS NOT DISTINCT FROM c.comm_name
    AND k.n_ranks = c.n_ranks AND k.nnodes IS NOT DISTINCT FROM c.nnodes
WHERE c.incarnation = $incarnation AND c.size_mismatch AND c.coll IN (SELECT unnest($sync)) AND c.occurrence = 1
GROUP BY ALL
ORDER BY ALL
"""


@dataclass(frozen=True)
class _Launch:
    """What is known of one launch: its communicators by the hash of their identity, when each was in use, the
    processes whose logs say nothing of the end, and the launches of the directory. `reaches` is how far everybody got
    in the communicators of the part that is looked at."""

    con: duckdb.DuckDBPyConnection
    seen: Observations
    recorded: Recorded
    numbered: Mapping[int, Communicator]
    spans: Mapping[int, Span]
    ignored: frozenset[Process]
    launches: Sequence[Launch]
    limits: Thresholds
    reaches: Sequence[Reach] = ()


def find_hangs(
    con: duckdb.DuckDBPyConnection,
    seen: Observations,
    recorded: Recorded,
    limits: Thresholds,
    ending: Ending | None = None,
) -> list[Finding]:
    """Hangs and disagreements of the launch that `seen` shows, of a job that ended as `ending` says; call it after
    `observe`."""
    parameters: dict[str, Any] = {"sync": list(SYNC_COLLECTIVES), "incarnation": seen.incarnation}
    findings = _mismatches(con.sql(_MISMATCHES, params=parameters).fetchall(), seen)
    findings += [
        _without_counterpart(seen, edge)
        for edge in seen.edges
        if edge.lossless
        and edge.sent - edge.received >= limits.diagnosis.unmatched_p2p
        and not {edge.source, edge.target} & recorded.early.keys()
    ]
    numbers = con.sql("SELECT communicator, comm FROM diagnosed_communicators").fetchall()
    numbered = {communicator: seen.communicators[comm] for communicator, comm in numbers}
    ignored = without_end(recorded.early, recorded.cut, seen.processes)
    # What was received had been sent: the log of the sender ends early.
    ignored |= {edge.source for edge in seen.edges if edge.lossless and edge.received > edge.sent}
    spans = read_spans(con)
    parts = parts_of(seen.communicators, spans)
    part_of = {number: index for index, part in enumerate(parts) for number in part.communicators}
    series: dict[int, list[Series]] = defaultdict(list)
    for item in series_of(recorded.frontier, numbered, ignored, recorded.one_slot):
        series[part_of[item.comm.number]].append(item)
    edges: dict[int, list[Edge]] = defaultdict(list)
    for edge in seen.edges:
        edges[part_of[edge.comm]].append(edge)
    reaches: dict[int, list[Reach]] = defaultdict(list)
    for reach in recorded.frontier:
        if reach.communicator in numbered:
            reaches[part_of[numbered[reach.communicator].number]].append(reach)
    launch = _Launch(con, seen, recorded, numbered, spans, ignored, read_launches(con), limits)
    for index, part in enumerate(parts[: limits.diagnosis.max_diagnosed_parts]):
        if series[index] and ended_together(series[index]):
            of_part = replace(launch, reaches=reaches[index])
            findings += _stopped(of_part, part, series[index], edges[index], ending or Ending())
        findings += _interrupted(launch, part, series[index], findings)
    left_out = parts[limits.diagnosis.max_diagnosed_parts :]
    return [*findings, parts_left_out(left_out, limits.diagnosis.max_diagnosed_parts)] if left_out else findings


def _stopped(launch: _Launch, part: Part, series: list[Series], edges: Sequence[Edge], ending: Ending) -> list[Finding]:
    """The hang of one part of a launch, or that it ended within a step."""
    seen = launch.seen
    stage = stages(series, part.processes)
    comms = {number: seen.communicators[number] for number in sorted(part.communicators)}
    tracks = tracks_of(series, edges, comms, stage, launch.ignored)
    stops = stopped_first(tracks)
    if stops:
        return _behind(launch, part, series, tracks, stops, ending)
    pending = unfinished(series, launch.reaches, len(part.processes))
    if pending:
        finding, stopped = told.never_completed(pending), [pending.comm]
    else:
        begun = _begun(launch, part, series)
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
    since, sequel = _followed(launch, part, [track.comm for stop in stops for track in stop.first])
    past = None
    if sequel is None or sequel.launch:
        past = _past(launch, series, [track.comm for stop in stops for track in stop.first])
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


def _begun(launch: _Launch, part: Part, series: Sequence[Series]) -> dict[Communicator, Any]:
    """The communicators of a part that stopped within a step, with how."""
    if sum(item.furthest + 1 for item in series) < _LEAST_OPERATIONS:
        return {}
    numbered = {key: comm for key, comm in launch.numbered.items() if comm.number in part.communicators}
    records: dict[Process, int] = defaultdict(int)
    for reach in launch.reaches:
        records[reach.process] += reach.records
    busiest = min(records, key=lambda process: (-records[process], process))
    stops = stopped_in_step(launch.con, launch.seen.incarnation, busiest, numbered.keys())
    return {numbered[stop.communicator]: stop for stop in stops}


def _followed(launch: _Launch, part: Part, stopped: Iterable[Communicator]) -> tuple[int | None, Sequel | None]:
    """Since when the part stood still, and what came then: other communicators of its processes, or a launch."""
    numbers = frozenset(comm.number for comm in stopped)
    reaches = [reach for reach in launch.recorded.frontier if reach.communicator in launch.numbered]
    since, sequel = what_followed(part, numbers, reaches, launch.numbered, launch.spans)
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


def _without_counterpart(seen: Observations, edge: Edge) -> Finding:
    source, target = name_of(edge.source), name_of(edge.target)
    return Finding(
        kind="mismatch",
        severity="P1",
        level="link",
        hosts=hosts_of((edge.source, edge.target)),
        processes=names_of((edge.source, edge.target)),
        communicators=(seen.communicators[edge.comm].id,),
        ambiguous=True,
        evidence=(
            f"{source} completed {edge.sent:,} Sends to {target}, which completed"
            f" {edge.received:,} Recvs from it; neither lost a record."
        ),
        counter_evidence="A Recv whose record has another peer (a plugin's numbering) would look the same.",
        next_step="Compare what both processes do on this communicator: microbatches, schedule, early exit.",
    )


def _mismatches(rows: list[tuple[Any, ...]], seen: Observations) -> list[Finding]:
    by_comm: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        by_comm[row[0]].append(row)
    findings = []
    for number, found in by_comm.items():
        comm = seen.communicators[number]
        what = ", ".join(f"{cells} {coll} from number {first} on" for _, coll, cells, first, _ in found)
        findings.append(
            Finding(
                kind="mismatch",
                severity="P0",
                level="communicator",
                hosts=tuple(sorted(comm.hosts)),
                processes=names_of(comm.members),
                communicators=(comm.id,),
                ambiguous=True,
                onset_us=min((row[4] for row in found if row[4] is not None), default=None),
                evidence=f"Ranks of {comm.label} give different message sizes for the same collective: {what}.",
                counter_evidence="Two communicators taken for one (a reused id) would look the same.",
                next_step="Compare what the ranks of this communicator execute: control flow, batch and bucket sizes.",
            )
        )
    return findings
