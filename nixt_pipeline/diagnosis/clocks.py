"""Hosts whose clocks disagree, from the write times of the same collectives.

All ranks leave a collective together and write it at their next dump, so that the difference of two hosts' write times
is the difference of their clocks, give or take a dump interval. Nothing in the diagnosis orders events by clocks of
several hosts; who reads time axes, or joins logs by time, should know.
"""

from collections import defaultdict
from statistics import median

import duckdb

from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.observations import Observations
from nixt_pipeline.settings import Thresholds

# Some hundred collectives give the median; more would cost a scan for nothing.
_SAMPLED = 500

_WRITE_TIMES = """
WITH crossing AS (
    SELECT b.comm, b.coll, b.coll_sn, k.nnodes, max(k.nnodes) OVER () AS most_nodes
    FROM blocked_cells AS b JOIN diagnosed_communicators AS k USING (comm)
    WHERE k.nnodes > 1
),
sample AS (
    -- The more hosts meet in a collective, the clearer it is whose clock is off.
    SELECT b.comm, b.coll, b.coll_sn
    FROM crossing AS b
    WHERE b.nnodes = b.most_nodes
    ORDER BY hash(b.comm, b.coll, b.coll_sn)
    LIMIT $sampled
)
SELECT s.comm, s.coll, s.coll_sn, e.hostname, min(e.dump_timestamp_us) AS written_us
FROM sample AS s
JOIN diagnosed_communicators AS k USING (comm)
JOIN stored_events AS e
    ON k.communicator = hash(e.id, e.comm_name, e.n_ranks, e.nnodes) AND e.coll = s.coll AND e.coll_sn = s.coll_sn
WHERE e.kind = 'collective'
GROUP BY ALL
ORDER BY ALL
"""

WriteTimes = list[dict[str, int]]


def find_clock_skew(con: duckdb.DuckDBPyConnection, seen: Observations, limits: Thresholds) -> list[Finding]:
    """Hosts whose clocks are off; call it after `observe`."""
    times: dict[tuple[int, str, int], dict[str, int]] = defaultdict(dict)
    for comm, coll, number, host, written in con.sql(_WRITE_TIMES, params={"sampled": _SAMPLED}).fetchall():
        times[comm, coll, number][host] = written
    offsets = clock_offsets(list(times.values()))
    off = {host: offset for host, offset in offsets.items() if abs(offset) > limits.max_clock_offset_us}
    return [_finding(off, seen)] if off else []


def clock_offsets(times: WriteTimes) -> dict[str, float]:
    """The median distance of each host's write times from those of the others, in microseconds.

    Each collective compares a host with the median of the other hosts in it, so that one host that is off does not move
    the others' reference, unless there are only two: then both are off from one another.
    """
    distances: dict[str, list[float]] = defaultdict(list)
    for by_host in times:
        for host, written in by_host.items():
            others = [time for other, time in by_host.items() if other != host]
            if others:
                distances[host].append(written - median(others))
    return {host: median(values) for host, values in sorted(distances.items())}


def _finding(off: dict[str, float], seen: Observations) -> Finding:
    hosts = tuple(off)
    shown = ", ".join(f"{host} by {offset / 1e6:+.3g} s" for host, offset in list(off.items())[:8])
    return Finding(
        kind="clock-skew",
        severity="info",
        level="host",
        hosts=hosts,
        # Of hosts that only ever meet in pairs, either clock may be the wrong one.
        ambiguous=len(hosts) > 1,
        evidence=f"Collectives that hosts left together were written at different times: {shown} from the others.",
        counter_evidence=(
            f"Known to a dump interval only. No finding rests on it: nothing among the {len(seen.hosts)} hosts is"
            " ordered by their clocks."
        ),
        next_step="Check time synchronisation (chrony or NTP) on these hosts before joining their logs by time.",
    )
