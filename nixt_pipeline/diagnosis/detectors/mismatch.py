"""Ranks that disagree: sizes that differ within one collective, and Sends without a Recv."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import duckdb

from nixt_pipeline.diagnosis.evidence.observations import Edge, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, name_of, names_of
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Thresholds

# Of replays that cannot be told apart, the first that each rank recorded need not be the same.
_MISMATCHES = """
SELECT k.comm, c.coll, count(*) AS cells, min(c.coll_sn) AS first_sn, min(c.first_dump_us) AS first_dump_us
FROM ordered_cells AS c
JOIN diagnosed_communicators AS k ON k.comm_key = c.comm_key
WHERE c.incarnation = $incarnation AND c.size_mismatch AND c.coll IN (SELECT unnest($sync)) AND c.occurrence = 1
GROUP BY ALL
ORDER BY ALL
"""


def find_mismatches(
    con: duckdb.DuckDBPyConnection, seen: Observations, early: Collection[Process], limits: Thresholds
) -> list[Finding]:
    """What the ranks of a launch disagree about; the logs of the processes in `early` end before those of their
    peers. Call it after `observe`."""
    parameters: dict[str, Any] = {"sync": list(SYNC_COLLECTIVES), "incarnation": seen.incarnation}
    edges = unreceived(seen.edges, early, limits.diagnosis.unmatched_p2p)
    sizes = _mismatches(con.sql(_MISMATCHES, params=parameters).fetchall(), seen)
    return [*sizes, *(_without_counterpart(seen, edge) for edge in edges)]


def cut_short(edges: Iterable[Edge]) -> frozenset[Process]:
    """The processes whose logs end early by what others received from them, for that had been sent."""
    return frozenset(edge.source for edge in edges if edge.lossless and edge.received > edge.sent)


def unreceived(edges: Collection[Edge], early: Collection[Process], least: int) -> list[Edge]:
    """The edges on which at least `least` operations more were sent than received, by two logs that lack nothing and
    reach to the end: neither of an `early` process nor cut short."""
    ended = cut_short(edges).union(early)
    return [
        edge
        for edge in edges
        if edge.lossless and edge.sent - edge.received >= least and ended.isdisjoint((edge.source, edge.target))
    ]


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
