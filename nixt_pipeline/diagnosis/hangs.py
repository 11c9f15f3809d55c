"""Findings about a job that stopped: who may have hung, Sends without Recv, ranks that disagree.

A normal end leaves nothing behind its alike; a log that lost its tail shows ranks of one communicator with different
last numbers, and then nothing is concluded.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from nixt_pipeline.diagnosis.coverage import Recorded
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.mid_step import MidStep, stopped_in_step
from nixt_pipeline.diagnosis.observations import Communicator, Edge, Observations
from nixt_pipeline.diagnosis.recording import records_per_pass
from nixt_pipeline.diagnosis.stopped import (
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
from nixt_pipeline.diagnosis.unfinished import unfinished
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

# When so many records are written at once, some process has one waiting at any moment.
_PENDING_RECORDS = 3
# At any moment, some are a little ahead of others that do the same in the same stage.
_STEADY_LEAD = 3
# Of thousands of jobs with lost records, hardly one may wake somebody up.
_PAGED_CHANCE = 1e-4

_MISMATCHES = """
SELECT k.comm, c.coll, count(*) AS cells, min(c.coll_sn) AS first_sn, min(c.first_dump_us) AS first_dump_us
FROM cells AS c
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM c.id AND k.comm_name IS NOT DISTINCT FROM c.comm_name
    AND k.n_ranks = c.n_ranks AND k.nnodes IS NOT DISTINCT FROM c.nnodes
WHERE c.incarnation = $incarnation AND c.size_mismatch AND c.coll IN (SELECT unnest($sync)) AND c.occurrence = 1
GROUP BY ALL
ORDER BY ALL
"""


def find_hangs(
    con: duckdb.DuckDBPyConnection, seen: Observations, recorded: Recorded, limits: Thresholds
) -> list[Finding]:
    """Hangs and disagreements of the launch that `seen` shows; call it after `observe`."""
    parameters: dict[str, Any] = {"sync": list(SYNC_COLLECTIVES), "incarnation": seen.incarnation}
    findings = _mismatches(con.sql(_MISMATCHES, params=parameters).fetchall(), seen)
    findings += [
        _without_counterpart(seen, edge)
        for edge in seen.edges
        if edge.lossless
        and edge.sent - edge.received >= limits.unmatched_p2p
        and not {edge.source, edge.target} & recorded.early.keys()
    ]
    numbers = con.sql("SELECT communicator, comm FROM diagnosed_communicators").fetchall()
    numbered = {communicator: seen.communicators[comm] for communicator, comm in numbers}
    ignored = without_end(recorded.early, recorded.cut, seen.processes)
    # What was received had been sent: the log of the sender ends early.
    ignored |= {edge.source for edge in seen.edges if edge.lossless and edge.received > edge.sent}
    series = series_of(recorded.frontier, numbered, ignored, recorded.one_slot)
    if not series or not ended_together(series):
        return findings
    tracks = tracks_of(series, seen.edges, seen.communicators, stages(series, seen.processes), ignored)
    # A job that is killed loses what it had not written yet, at each process something else.
    not_killed = records_per_pass(con) >= _PENDING_RECORDS
    stops = stopped_first(tracks)
    pending = unfinished(series, recorded.frontier, len(seen.processes)) if not_killed and not stops else None
    if pending:
        return [*findings, _never_completed(seen, pending)]
    begun = [] if stops else [stop for stop in stopped_in_step(con, seen.incarnation) if stop.communicator in numbered]
    if begun:
        return [*findings, _within_step(seen, begun, numbered, not_killed)]
    sure = [stop for stop in stops if stop.chance <= _PAGED_CHANCE and (not_killed or stop.lead > _STEADY_LEAD)]
    hang = together(sure or stops) if stops else None
    # Where all that do the same are behind in something, nobody is ahead, and the log has no common end.
    return [*findings, _hang(seen, hang, tracks, bool(sure))] if hang and _ahead(hang, tracks) else findings


def _ahead(stop: Stop, tracks: Sequence[Track]) -> int:
    """How many that do the same as those that stopped first got further."""
    families = {track.family for track in stop.first}
    return len(
        {track.carrier for track in tracks if track.family in families} - {track.carrier for track in stop.first}
    )


def _hang(seen: Observations, stop: Stop, tracks: Sequence[Track], sure: bool) -> Finding:
    names = ", ".join(
        f"{track.comm.label} ({track.what} {track.reached}, its alike reached"
        f" {max(other.reached for other in tracks if other.family == track.family)})"
        for track in stop.first[:4]
    )
    suspects = sorted(stop.suspects)
    hosts = tuple(sorted({host for host, _ in suspects}))
    return Finding(
        kind="hang",
        severity="P0" if sure else "P2",
        level="communicator" if len(suspects) > 1 else "rank",
        hosts=hosts,
        processes=tuple(f"{host}-pid{pid}" for host, pid in suspects),
        communicators=tuple(sorted({track.comm.id for track in stop.first})),
        ambiguous=len(suspects) > 1,
        onset_us=_last_time(seen),
        evidence=(
            f"The job stopped in the middle of a step. First to stop: {names}. Nobody has a record of what comes next"
            f" there, which never completed. The one who hung is among {len(suspects)} processes."
        ),
        counter_evidence=(
            f"{_ahead(stop, tracks)} that do the same got further, and wait. The log has completed operations only:"
            " who never entered the operation and who waits in it look alike. A job that was killed in the middle of a"
            " step"
            + (" could look the same." if sure else ", at this moment, would look the same.")
            + (f" Lost records alone could, with p < {stop.chance:.1g}." if stop.chance > 0 else "")
        ),
        next_step=(
            f"Get stacks (py-spy, gdb) of the {len(suspects)} processes on {', '.join(hosts)}: the one that is not"
            " inside the operation is it. Then kernel log and GPU errors (Xid) of that host."
        ),
    )


def _never_completed(seen: Observations, item: Series) -> Finding:
    return Finding(
        kind="hang",
        severity="P1",
        level="communicator",
        hosts=tuple(sorted(item.comm.hosts)),
        processes=tuple(f"{host}-pid{pid}" for host, pid in sorted(item.comm.members)),
        communicators=(item.comm.id,),
        ambiguous=True,
        onset_us=_last_time(seen),
        evidence=(
            f"The log ends before {item.coll} {item.furthest + 1} of {item.comm.label}: what comes before it in a step"
            f" was completed once more, on all {len(item.comm.members)} processes, and nothing that comes after it."
        ),
        counter_evidence="A job whose last step is meant to end without it would look the same.",
        next_step=(
            "If the job did not end by itself, get stacks (py-spy, gdb) of all processes: the one that is not inside"
            " this collective is it."
        ),
    )


def _within_step(
    seen: Observations, begun: Sequence[MidStep], numbered: Mapping[int, Communicator], sure: bool
) -> Finding:
    comms = [numbered[stop.communicator] for stop in begun]
    whole = len(comms) == 1 and len(comms[0].members) == len(seen.processes)
    ends = "; ".join(_ending(comm, stop) for comm, stop in zip(comms, begun, strict=True))
    return Finding(
        kind="hang",
        severity="P1" if sure else "P2",
        level="communicator" if whole else "run",
        hosts=tuple(sorted({host for host, _ in seen.processes})),
        processes=tuple(f"{host}-pid{pid}" for host, pid in seen.processes),
        communicators=tuple(sorted(comm.id for comm in comms)),
        ambiguous=True,
        onset_us=_last_time(seen),
        evidence=f"The job was killed or hung in the middle of a step. {ends}. All processes ended so.",
        counter_evidence=(
            "A job whose last step is meant to end so"
            + (" would look the same." if sure else ", or that was killed at this moment, would look the same.")
        ),
        next_step=(
            "If the job did not end by itself, get stacks (py-spy, gdb) of all processes: the one that is not inside a"
            " collective is it."
        ),
    )


def _ending(comm: Communicator, stop: MidStep) -> str:
    coming = f"{stop.step[stop.done].coll} of {stop.step[stop.done].size_bytes:,} bytes"
    if stop.done == 0:
        return f"{comm.label} completed {stop.steps:,} times {coming}, and all others one step more"
    return (
        f"{comm.label} completed {stop.steps:,} steps of {len(stop.step)} operations, {stop.done} of one more, and no"
        f" {coming}, which comes next"
    )


def _without_counterpart(seen: Observations, edge: Edge) -> Finding:
    (source_host, source_pid), (host, pid) = edge.source, edge.target
    return Finding(
        kind="mismatch",
        severity="P1",
        level="link",
        hosts=tuple(sorted({source_host, host})),
        processes=tuple(sorted((f"{source_host}-pid{source_pid}", f"{host}-pid{pid}"))),
        communicators=(seen.communicators[edge.comm].id,),
        ambiguous=True,
        evidence=(
            f"{source_host}-pid{source_pid} completed {edge.sent:,} Sends to {host}-pid{pid}, which completed"
            f" {edge.received:,} Recvs from it; neither lost a record."
        ),
        counter_evidence="A Recv whose record has another peer (a plugin's numbering) would look the same.",
        next_step="Compare what both processes do on this communicator: microbatches, schedule, early exit.",
    )


def _last_time(seen: Observations) -> int | None:
    return next((end for end in reversed(seen.block_end_us) if end is not None), None)


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
                processes=tuple(f"{host}-pid{pid}" for host, pid in comm.members),
                communicators=(comm.id,),
                ambiguous=True,
                onset_us=min((row[4] for row in found if row[4] is not None), default=None),
                evidence=f"Ranks of {comm.label} give different message sizes for the same collective: {what}.",
                counter_evidence="Two communicators taken for one (a reused id) would look the same.",
                next_step="Compare what the ranks of this communicator execute: control flow, batch and bucket sizes.",
            )
        )
    return findings
