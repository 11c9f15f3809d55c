"""Who hung: the communicator that stopped first, processes whose log falls silent, ranks that disagree.

The plugin writes completed operations only. The collective that hangs is therefore missing on *all* ranks of its
communicator, and everything that depends on it stops soon after: the communicators that stopped first against their
alike hold the one who hung, and which of their members it was the log cannot say. A normal end leaves no communicator
behind its alike; a log that lost its tail shows ranks of one communicator with different last numbers, and then
nothing is concluded.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.observations import Communicator, Edge, Observations, Process
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

_FRONTIER = """
WITH ends AS (
    SELECT
        hash(id, comm_name, n_ranks, nnodes) AS communicator, coll, hash(hostname, pid) AS writer,
        max(coll_sn)::BIGINT AS last_sn, min(coll_sn)::BIGINT AS first_sn, count(*) AS records
    FROM stored_events
    WHERE kind = 'collective' AND coll IN (SELECT unnest($sync)) AND coll_sn < 4611686018427387904
    GROUP BY ALL
)
SELECT k.comm, e.coll, p.hostname, p.pid, e.last_sn, e.first_sn, e.records
FROM ends AS e
JOIN diagnosed_communicators AS k ON k.communicator = e.communicator
JOIN diagnosed_processes AS p ON p.writer = e.writer
ORDER BY ALL
"""

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

# Records lost at random leave few processes without their last operation; a log that lost its tail leaves many so.
# How unlikely their number must be by chance, and how unlikely the lead of the others over those that stopped.
_TAIL_CHANCE = 0.01
_LEAD_CHANCE = 0.003
_HARDLY_ANY = 0.01
# More silent processes than this are a job that was cut off, not processes that died.
_FEW = 0.25


@dataclass(frozen=True)
class Series:
    """One collective function of one communicator: the last sequence number of each process, and the share of its
    records that were lost somewhere before."""

    comm: Communicator
    coll: str
    last: dict[Process, int]
    lost: float

    @property
    def furthest(self) -> int:
        """The last sequence number that anybody completed."""
        return max(self.last.values())

    @property
    def behind(self) -> int:
        """How many members have no record of the last collective."""
        return self.comm.n_ranks - sum(last == self.furthest for last in self.last.values())

    @property
    def sampled(self) -> bool:
        """Whether a plugin with a single slot (of 2.28 and 2.29, which write no names) recorded some of it only: all
        ranks lose the same collectives then, and perhaps the last one."""
        return self.comm.name is None and self.lost > _HARDLY_ANY

    @property
    def family(self) -> tuple[object, ...]:
        """What it may be compared with."""
        return (self.coll, self.comm.n_ranks, self.comm.nnodes, self.comm.role)


def find_hangs(con: duckdb.DuckDBPyConnection, seen: Observations, limits: Thresholds) -> list[Finding]:
    """Hangs, silent processes and disagreements of the launch that `seen` shows; call it after `observe`."""
    parameters: dict[str, Any] = {"sync": list(SYNC_COLLECTIVES)}
    series = _series(con.sql(_FRONTIER, params=parameters).fetchall(), seen)
    silent = silent_processes(series, len(seen.processes), limits)
    findings = [_silent(process, series, seen) for process in silent]
    mismatches = con.sql(_MISMATCHES, params=parameters | {"incarnation": seen.incarnation}).fetchall()
    findings += _mismatches(mismatches, seen)
    if silent:
        return findings
    findings += [
        _without_counterpart(seen, edge)
        for edge in seen.edges
        if edge.lossless and abs(edge.sent - edge.received) >= limits.unmatched_p2p
    ]
    groups = joined_by_edges(stopped_first(series), seen.edges)
    odd = odd_edges(seen.edges)
    if not groups and ended_together(series):
        stage_of = {process: number for number, stage in enumerate(seen.stages()) for process in stage}
        odd = odd_edges(seen.edges, lambda edge: (stage_of[edge.source], stage_of[edge.target]))
    elif not groups:
        odd = []
    return findings + ([_edge_hang(seen, odd, groups)] if odd else [_hang(seen, stopped, series) for stopped in groups])


def joined_by_edges(groups: list[list[Series]], edges: Sequence[Edge]) -> list[list[Series]]:
    """Groups between which something is sent are one hang: a pipeline stage that stops leaves the next without input,
    and which of them stopped first the numbers cannot say."""
    joined: list[list[Series]] = []
    for group in groups:
        touching = [other for other in joined if _linked(group, other, edges)]
        merged = [*group, *(item for other in touching for item in other)]
        joined = [*(other for other in joined if other not in touching), merged]
    return joined


def _linked(one: list[Series], other: list[Series], edges: Sequence[Edge]) -> bool:
    left = {member for item in one for member in item.comm.members}
    right = {member for item in other for member in item.comm.members}
    return any(
        (edge.source in left and edge.target in right) or (edge.source in right and edge.target in left)
        for edge in edges
    )


def _between_hosts(edge: Edge) -> tuple[object, ...]:
    return edge.source[0], edge.target[0]


def odd_edges(edges: Sequence[Edge], siblings_by: Callable[[Edge], tuple[object, ...]] = _between_hosts) -> list[Edge]:
    """Edges that got less far than most of their siblings: those lead from the same place to the same place and do the
    same in lockstep, so that the odd one stopped by its own doing. Processes of one host wait for one another in
    collectives as well; where these tell nothing, all edges from one pipeline stage to the next are siblings."""
    siblings: dict[tuple[object, ...], list[Edge]] = defaultdict(list)
    for edge in edges:
        siblings[siblings_by(edge)].append(edge)
    odd: list[Edge] = []
    for family in siblings.values():
        furthest = max(edge.operations for edge in family)
        behind = [edge for edge in family if edge.lost ** (furthest - edge.operations) * len(edges) <= _LEAD_CHANCE]
        odd += behind if len(behind) * 2 < len(family) else []
    return odd


def _series(rows: list[tuple[Any, ...]], seen: Observations) -> list[Series]:
    last: dict[tuple[int, str], dict[Process, int]] = defaultdict(dict)
    first: dict[tuple[int, str], int] = {}
    records: dict[tuple[int, str], int] = defaultdict(int)
    for comm, coll, host, pid, sn, least, count in rows:
        key = (comm, coll)
        last[key][host, pid] = sn
        first[key] = min(least, first.get(key, least))
        records[key] += count
    found = []
    for (comm, coll), of_process in sorted(last.items()):
        numbers = max(of_process.values()) - first[comm, coll] + 1
        lost = max(0.0, 1 - records[comm, coll] / (numbers * seen.communicators[comm].n_ranks))
        found.append(Series(seen.communicators[comm], coll, of_process, lost))
    return found


def ended_together(series: list[Series]) -> bool:
    """Whether the log reaches to the end: no more processes lack the last collective of a communicator than lose any
    other record. A log whose tail was lost ends at another number for each process, and proves nothing."""
    behind = sum(item.behind for item in series)
    expected = sum(item.lost * item.comm.n_ranks for item in series)
    return behind == 0 or float(scipy.stats.poisson.sf(behind - 1, expected)) > _TAIL_CHANCE


def stopped_first(series: list[Series]) -> list[list[Series]]:
    """Groups of series that stopped before their alike, one group for each hang; empty after a normal end."""
    series = [item for item in series if not item.sampled]
    if not series or not ended_together(series):
        return []
    families: dict[tuple[object, ...], list[Series]] = defaultdict(list)
    for item in series:
        families[item.family].append(item)
    behind = []
    for family in families.values():
        furthest = max(item.furthest for item in family)
        ahead = [item for item in family if item.furthest == furthest]
        # When hardly anybody got further, those are ahead and the others are no suspects.
        if 0 < len(family) - len(ahead) < len(family) and len(ahead) * 2 >= len(family):
            least = min(item.furthest for item in family)
            behind += [item for item in family if item.furthest == least]
    # Whoever lost many records may have lost the last ones in all of its ranks.
    lead: dict[int, float] = defaultdict(lambda: 1.0)
    for item in behind:
        furthest = max(other.furthest for other in families[item.family])
        lead[item.comm.number] *= item.lost ** (item.comm.n_ranks * (furthest - item.furthest))
    comms = len({item.comm.number for item in series})
    behind = [item for item in behind if lead[item.comm.number] * comms <= _LEAD_CHANCE]
    groups: list[list[Series]] = []
    for item in behind:
        touching = [group for group in groups if any(_touch(item, other) for other in group)]
        merged = [item, *(other for group in touching for other in group)]
        groups = [*(group for group in groups if group not in touching), merged]
    return groups


def _touch(one: Series, other: Series) -> bool:
    return bool(set(one.comm.members) & set(other.comm.members))


def silent_processes(series: list[Series], processes: int, limits: Thresholds) -> list[Process]:
    """Processes whose records end while the others of *all* their communicators go on."""
    lag: dict[Process, list[int]] = defaultdict(list)
    for item in series:
        for process, last in item.last.items():
            # In step with the series' own length: a rare collective cannot be far behind.
            least = min(limits.silent_after_operations, max(2, (item.furthest + 1) // 10))
            lag[process].append((item.furthest - last) // least)
    silent = [process for process, lags in sorted(lag.items()) if lags and min(lags) >= 1]
    return silent if len(silent) <= _FEW * processes else []


def _hang(seen: Observations, stopped: list[Series], series: list[Series]) -> Finding:
    comms = {item.comm.number: item.comm for item in stopped}
    common = frozenset.intersection(*(frozenset(comm.members) for comm in comms.values()))
    suspects = sorted(common or frozenset().union(*(comm.members for comm in comms.values())))
    families = {item.family for item in stopped}
    alike = [item for item in series if item.family in families and item not in stopped]
    names = ", ".join(
        f"{item.comm.label} ({item.coll} {item.furthest}, its alike reached"
        f" {max(other.furthest for other in series if other.family == item.family)})"
        for item in stopped[:4]
    )
    hosts = tuple(sorted({host for host, _ in suspects}))
    return Finding(
        kind="hang",
        severity="P0",
        level="communicator" if len(suspects) > 1 else "rank",
        hosts=hosts,
        processes=tuple(f"{host}-pid{pid}" for host, pid in suspects),
        communicators=tuple(sorted(comm.id for comm in comms.values())),
        ambiguous=len(suspects) > 1,
        onset_us=_last_time(seen),
        evidence=(
            f"The job stopped in the middle of a step. First to stop: {names}. All of their ranks end"
            f" at the same number, so that the next collective never completed. The one who hung is among"
            f" {len(suspects)} processes."
        ),
        counter_evidence=(
            f"{len(alike)} comparable series went on and stopped later, waiting. The log has completed operations only:"
            " who never entered the collective and who waits in it look alike. A job that was killed in the middle of a"
            " step would look the same."
        ),
        next_step=(
            f"Get stacks (py-spy, gdb) of the {len(suspects)} processes on {', '.join(hosts)}: the one that is not"
            " inside the collective is it. Then kernel log and GPU errors (Xid) of that host."
        ),
    )


def _edge_hang(seen: Observations, odd: list[Edge], groups: list[list[Series]]) -> Finding:
    ends = sorted({end for edge in odd for end in (edge.source, edge.target)})
    # The one who hung before Send or Recv may just as well have been about to enter a collective.
    stopped = {item.comm.id for group in groups for item in group if set(ends) & set(item.comm.members)}
    names = ", ".join(f"{seen.communicators[edge.comm].label} ({edge.operations} completed)" for edge in odd[:4])
    return Finding(
        kind="hang",
        severity="P0",
        level="communicator",
        hosts=tuple(sorted({host for host, _ in ends})),
        processes=tuple(f"{host}-pid{pid}" for host, pid in ends),
        communicators=tuple(sorted({seen.communicators[edge.comm].id for edge in odd} | stopped)),
        ambiguous=True,
        onset_us=_last_time(seen),
        evidence=(
            f"The job stopped in the middle of a step, and Send and Recv on {names} got less far than on the edges"
            f" between the same hosts, which do the same in lockstep. The one who hung is among the {len(ends)} ends."
        ),
        counter_evidence=(
            "Either end looks alike: one did not send, or the other did not receive. A job that was killed in the"
            " middle of a step could look the same."
        ),
        next_step=f"Get stacks (py-spy, gdb) of {', '.join(f'{host}-pid{pid}' for host, pid in ends[:4])}, and the"
        " kernel log and GPU errors (Xid) of their hosts.",
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


def _silent(process: Process, series: list[Series], seen: Observations) -> Finding:
    mine = [item for item in series if process in item.last]
    worst = max(mine, key=lambda item: item.furthest - item.last[process])
    return Finding(
        kind="process-silent",
        severity="P0",
        level="rank",
        hosts=(process[0],),
        processes=(f"{process[0]}-pid{process[1]}",),
        communicators=tuple(sorted({item.comm.id for item in mine})),
        onset_us=_time_of(worst, worst.last[process], seen),
        evidence=(
            f"The records of {process[0]}-pid{process[1]} end in all of its {len(mine)} series while its peers go on:"
            f" its last {worst.coll} on {worst.comm.label} is number {worst.last[process]}, theirs {worst.furthest}."
        ),
        counter_evidence=(
            "Its peers completed later collectives, which needs it: the process was alive at that time, and it is its"
            " log that ended, unless the job went on without it."
        ),
        next_step="Look whether the process died, its disk is full, or the plugin's dump thread stopped.",
    )


def _time_of(item: Series, sn: int, seen: Observations) -> int | None:
    block = min(seen.blocks - 1, sn * seen.blocks // (item.furthest + 1))
    return seen.block_end_us[block]


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
