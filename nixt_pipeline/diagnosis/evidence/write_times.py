"""When hosts wrote the collectives that they left together, each by its own clock."""

from typing import NamedTuple

from nixt_pipeline.diagnosis.evidence.tables import LaunchTables

# Some hundred collectives give the median; more would cost a scan for nothing.
_SAMPLED = 500

_WRITE_TIMES = """
WITH crossing AS (
    SELECT b.comm, b.coll, b.coll_sn, b.block, k.hosts_seen, max(k.hosts_seen) OVER () AS most_hosts
    FROM blocked_cells AS b JOIN diagnosed_communicators AS k USING (comm)
    WHERE k.hosts_seen > 1
),
sample AS (
    -- The more hosts meet in a collective, the clearer it is whose clock is off.
    SELECT b.comm, b.coll, b.coll_sn, b.block
    FROM crossing AS b
    WHERE b.hosts_seen = b.most_hosts
    ORDER BY hash(b.comm, b.coll, b.coll_sn)
    LIMIT $sampled
)
SELECT s.comm, s.coll, s.coll_sn, s.block, e.hostname, min(e.dump_timestamp_us) AS written_us
FROM sample AS s
JOIN diagnosed_communicators AS k USING (comm)
JOIN ordered_records AS e
    ON k.comm_key = e.comm_key AND e.coll = s.coll AND e.coll_sn = s.coll_sn
WHERE e.hostname IS NOT NULL AND e.dump_timestamp_us IS NOT NULL
GROUP BY ALL
ORDER BY ALL
"""


class WriteTimes(NamedTuple):
    """One collective: its block, and when each host wrote it, in Unix microseconds."""

    block: int
    by_host: dict[str, int]


def read_write_times(tables: LaunchTables) -> tuple[WriteTimes, ...]:
    """Those of a sample of the collectives of a launch, of those with most hosts."""
    written: dict[tuple[int, str, int], WriteTimes] = {}
    for comm, coll, number, block, host, at_us in tables.con.sql(_WRITE_TIMES, params={"sampled": _SAMPLED}).fetchall():
        written.setdefault((comm, coll, number), WriteTimes(block, {})).by_host[host] = at_us
    return tuple(written.values())
