"""Collectives of which ranks recorded different message sizes."""

from typing import NamedTuple

from nixt_pipeline.diagnosis.evidence.tables import LaunchTables

# Of replays that cannot be distinguished, the first that each rank recorded need not be the same.
_MISMATCHES = """
SELECT k.comm, c.coll, count(*) AS cells, min(c.coll_sn) AS first_sn, min(c.first_dump_us) AS first_us
FROM ordered_cells AS c
JOIN diagnosed_communicators AS k ON k.comm_key = c.comm_key
WHERE c.incarnation = $incarnation AND c.size_mismatch AND ends_together(c.coll) AND c.occurrence = 1
GROUP BY ALL
ORDER BY ALL
"""


class SizeMismatch(NamedTuple):
    """Of one function of a communicator (by number): how many collectives have sizes that differ, the number of the
    first of them, and when that was first written (Unix microseconds)."""

    comm: int
    coll: str
    cells: int
    first_sn: int | None
    first_us: int | None


def read_size_mismatches(tables: LaunchTables) -> tuple[SizeMismatch, ...]:
    """Those of a launch, by communicator and function."""
    launch = {"incarnation": tables.incarnation}
    return tuple(SizeMismatch(*row) for row in tables.con.sql(_MISMATCHES, params=launch).fetchall())
