"""Pauses of a launch, and what its communicators had done before and after each."""

from collections.abc import Collection
from typing import NamedTuple

from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.tables import RunTables

# The longest pauses in what some communicators wrote.
_PAUSES = """
WITH times AS (
    SELECT DISTINCT dump_timestamp_us AS at_us
    FROM eager_records
    WHERE comm_key IN (SELECT unnest($comms)) AND dump_timestamp_us BETWEEN $begin AND $end
)
SELECT lag(at_us) OVER (ORDER BY at_us) AS since_us, at_us AS until_us
FROM times
QUALIFY until_us - since_us > $least
ORDER BY until_us - since_us DESC, until_us
LIMIT $most
"""

# How many operations of each function were done before a pause and after it. A number that anybody recorded was
# completed by all.
_DONE = """
SELECT comm_key, coll, coalesce(before + 1 - first, 0) AS before, CASE WHEN after IS NULL THEN 0
    ELSE after - coalesce(before, first - 1) END AS after
FROM (
    SELECT
        comm_key, coll, min(coll_sn)::BIGINT AS first,
        max(coll_sn::BIGINT) FILTER (dump_timestamp_us <= $since) AS before,
        max(coll_sn::BIGINT) FILTER (dump_timestamp_us > $since) AS after
    FROM eager_records
    WHERE comm_key IN (SELECT unnest($comms)) AND ends_together(coll) AND coll_sn IS NOT NULL
        AND dump_timestamp_us IS NOT NULL
    GROUP BY ALL
)
ORDER BY ALL
"""


class Done(NamedTuple):
    """How many operations of a function a communicator (the hash of its identity) did before a pause and after it."""

    communicator: int
    coll: str
    before: int
    after: int


def read_pauses(run: RunTables, communicators: Collection[int], within: Span, least_us: int, most: int) -> list[Span]:
    """The longest pauses of some communicators (hashes) in a stretch of time, in the order of time."""
    bounds = {"begin": within[0], "end": within[1], "least": least_us, "most": most}
    return sorted(run.con.sql(_PAUSES, params={"comms": list(communicators)} | bounds).fetchall())


def read_done(run: RunTables, communicators: Collection[int], since_us: int) -> list[Done]:
    """What some communicators (hashes) did before and after a moment."""
    asked = {"comms": list(communicators), "since": since_us}
    return [Done(*row) for row in run.con.sql(_DONE, params=asked).fetchall()]
