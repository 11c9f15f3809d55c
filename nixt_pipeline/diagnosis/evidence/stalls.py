"""Single transfers that stood still: a block's median does not show them, whatever they cost."""

from collections.abc import Mapping
from typing import NamedTuple

from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables
from nixt_pipeline.settings import Thresholds

# Fewer collectives of one function and size have no usual time.
_LEAST = 20
# More stalls are no exception; the longest tell what they cost.
_MOST = 10_000

# Of complete collectives, whose shortest time has no waiting in it. Connections are made in the first block.
_STALLS = """
WITH usual AS (
    SELECT comm, coll, coll_msg_size_bytes, median(min_exec_time_us) AS usual_us
    FROM blocked_cells
    WHERE complete
    GROUP BY comm, coll, coll_msg_size_bytes
    HAVING count(*) >= $least
),
beyond AS (
    SELECT b.comm, b.block, b.last_dump_us AS at_us, b.min_exec_time_us - u.usual_us AS excess_us
    FROM blocked_cells AS b
    JOIN usual AS u
        ON u.comm = b.comm AND u.coll = b.coll AND u.coll_msg_size_bytes IS NOT DISTINCT FROM b.coll_msg_size_bytes
    WHERE b.complete AND b.block > 0 AND b.last_dump_us IS NOT NULL
        AND b.min_exec_time_us >= $ratio * u.usual_us AND b.min_exec_time_us - u.usual_us >= $floor_us
    ORDER BY excess_us DESC, at_us, b.comm
    LIMIT $most
)
SELECT comm, block, at_us, excess_us FROM beyond ORDER BY at_us, comm, excess_us
"""


class Stall(NamedTuple):
    """A collective of a communicator (by number), or a Send with its Recv, in a block that took `excess_us` longer than
    usual on all of its `members`, and was written at `at_us` (Unix microseconds)."""

    comm: int
    members: tuple[Process, ...]
    block: int
    at_us: int
    excess_us: float


def read_stalls(tables: LaunchTables, members: Mapping[int, tuple[Process, ...]], limits: Thresholds) -> list[Stall]:
    """Those of the collectives of a launch, or of one era of it; `members`: of each communicator."""
    asked = {
        "least": _LEAST, "most": _MOST,
        "ratio": limits.diagnosis.stall_ratio, "floor_us": limits.diagnosis.stall_floor_us,
    }  # fmt: skip
    rows = tables.con.sql(_STALLS, params=asked).fetchall()
    return [Stall(comm, members[comm], block, at_us, excess_us) for comm, block, at_us, excess_us in rows]
