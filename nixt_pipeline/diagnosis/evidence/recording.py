"""How the plugin remembered and wrote: what its losses look like."""

from nixt_pipeline.diagnosis.evidence.passes import ADJACENT_US
from nixt_pipeline.diagnosis.evidence.tables import RunTables

# The plugins of 2.28 and 2.29 write neither names nor Send and Recv, but so may others. What tells them is that one
# pass of the dump thread, which writes its records within some microseconds, has one record of a communicator at most.
_SAME_PASS_SHARE = 0.01

_BUSIEST = """
SELECT writer_of(process, hostname, pid) AS writer
FROM processes
WHERE hostname IS NOT NULL
ORDER BY records DESC, hostname, pid, process
LIMIT 1
"""

_ONE_SLOT = rf"""
WITH written AS (
    SELECT
        git_rev,
        dump_timestamp_us - lag(dump_timestamp_us) OVER (PARTITION BY id ORDER BY dump_timestamp_us) AS after_us
    FROM plausible_events SEMI JOIN ({_BUSIEST}) USING (writer)
    WHERE kind = 'collective'
)
SELECT
    count(*) FILTER (after_us <= $same_pass) <= $share * count(*)
    AND NOT coalesce(bool_or(regexp_matches(git_rev, '(^|[^0-9.])2\.[3-9]\d')), false)
    AND NOT EXISTS (FROM kernel_times WHERE kind = 'p2p')
    AND NOT EXISTS (FROM communicators WHERE comm_name IS NOT NULL)
FROM written
"""


def has_one_slot(run: RunTables) -> bool:
    """Whether the run was recorded by a plugin that remembers the newest operation of each communicator only."""
    [(one_slot,)] = run.con.sql(_ONE_SLOT, params={"same_pass": ADJACENT_US, "share": _SAME_PASS_SHARE}).fetchall()
    return bool(one_slot)
