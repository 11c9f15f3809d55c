"""How soon kernels started after their launch, in collectives that waited for one rank, from verbose records.

Both stamps of a record are taken on one host: when NCCL prepared the launch, and when the kernel was seen to start. No
clock of another host is needed.
"""

from dataclasses import dataclass

import numpy as np

from nixt_pipeline.arrays import Floats, Ints
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables
from nixt_pipeline.settings import Thresholds

# Collectives of each block that waited for the same rank: the median of some dozens is as good as that of all.
_SAMPLED = 100

_VERBOSE = "SELECT EXISTS (FROM channels WHERE kind = 'collective')"

# Those that noticeably waited for a rank, and who started them when.
_LAGS = """
WITH waited AS (
    SELECT
        row_number() OVER (ORDER BY b.comm, b.coll, b.coll_sn) AS collective, b.comm, b.coll, b.coll_sn, b.block,
        m.process AS last, b.max_exec_time_us - b.min_exec_time_us AS waited_us
    FROM blocked_cells AS b
    JOIN diagnosed_members AS m ON m.comm = b.comm AND m.member = b.last_member
    WHERE b.max_exec_time_us - b.min_exec_time_us > $floor_us
    QUALIFY row_number() OVER (
        PARTITION BY b.comm, b.block, m.process ORDER BY hash(b.coll, b.coll_sn), b.coll, b.coll_sn
    ) <= $sampled
)
SELECT
    w.collective, w.block, w.last, w.waited_us, p.process, list_min(l.kernel_start_ts) - l.start_ts AS lag_us
FROM waited AS w
JOIN diagnosed_communicators AS k USING (comm)
JOIN channels AS l ON l.comm_key = k.comm_key AND l.coll = w.coll AND l.coll_sn = w.coll_sn
JOIN diagnosed_processes AS p ON p.name = l.process
WHERE l.kind = 'collective' AND l.start_ts > 0 AND list_min(l.kernel_start_ts) >= l.start_ts
ORDER BY ALL
"""


@dataclass(frozen=True)
class LaunchLags:
    """By rows: a `collective` in a `block` that waited for the process `last` (by number) for `waited_us`; of one
    `process` in it, how long after its launch the kernel started (`lag_us`)."""

    collective: Ints
    block: Ints
    last: Ints
    process: Ints
    waited_us: Floats
    lag_us: Floats


def read_launch_lags(tables: LaunchTables, limits: Thresholds) -> LaunchLags | None:
    """Of some collectives of each block; None without verbose records."""
    [(verbose,)] = tables.con.sql(_VERBOSE).fetchall()
    if not verbose:
        return None
    floor = {"floor_us": limits.diagnosis.late_floor_us, "sampled": _SAMPLED}
    rows = tables.con.sql(_LAGS, params=floor).fetchnumpy()
    collective, block, last, process = (
        np.asarray(rows[name], np.int64) for name in ("collective", "block", "last", "process")
    )
    waited_us, lag_us = (np.asarray(rows[name], np.float64) for name in ("waited_us", "lag_us"))
    return LaunchLags(collective, block, last, process, waited_us, lag_us)
