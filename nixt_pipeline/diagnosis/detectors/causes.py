"""Whether a late rank's CPU or its GPU was late, from verbose records.

Both stamps of a record are taken on one host: when NCCL prepared the launch, and when the kernel was seen to start. No
clock of another host is needed. A kernel that starts as soon after its launch as everywhere else was launched late; one
that starts as much later as the rank is late waited for the GPU.
"""

from dataclasses import replace
from typing import Any

import duckdb

from nixt_pipeline.diagnosis.detectors.lateness import Late
from nixt_pipeline.diagnosis.evidence.processes import names_of
from nixt_pipeline.settings import Thresholds

# Of the lateness, how much must be between launch and start to be the GPU's, and how little to be the CPU's.
_GPU_SHARE, _CPU_SHARE = 0.8, 0.2
# Fewer collectives have no typical launch.
_LEAST_LAUNCHES = 20

# Collectives that waited for the late one are those in which the question arises.
_WAITED_FOR = """
    SELECT b.comm, b.coll, b.coll_sn, b.max_exec_time_us - b.min_exec_time_us AS waited_us
    FROM blocked_cells AS b
    JOIN diagnosed_members AS m ON m.comm = b.comm AND m.member = b.last_member
    JOIN diagnosed_processes AS p USING (process)
    WHERE b.block BETWEEN $first AND $last AND p.name IN (SELECT unnest($late))
        AND b.max_exec_time_us - b.min_exec_time_us > $floor_us
"""
_WAITED = f"SELECT median(waited_us) FROM ({_WAITED_FOR})"
_LAUNCHES = f"""
SELECT
    l.process IN (SELECT unnest($late)) AS late,
    median(list_min(l.kernel_start_ts) - l.start_ts) AS lag_us, count(*) AS launches
FROM channels AS l
JOIN diagnosed_communicators AS k ON k.comm_key = l.comm_key
JOIN ({_WAITED_FOR}) AS w ON w.comm = k.comm AND w.coll = l.coll AND w.coll_sn = l.coll_sn
WHERE l.kind = 'collective' AND l.start_ts > 0 AND list_min(l.kernel_start_ts) >= l.start_ts
GROUP BY ALL
"""


def with_causes(con: duckdb.DuckDBPyConnection, late: list[Late], limits: Thresholds) -> list[Late]:
    """The same entities with what their launches tell; unchanged without verbose records. Call it after `observe`."""
    [(verbose,)] = con.sql("SELECT EXISTS (FROM channels WHERE kind = 'collective')").fetchall()
    return [replace(entity, cause=_cause(con, entity, limits)) for entity in late] if verbose else late


def _cause(con: duckdb.DuckDBPyConnection, late: Late, limits: Thresholds) -> str:
    parameters: dict[str, Any] = {
        "late": list(names_of(late.processes)),
        "first": late.window.first,
        "last": late.window.last,
        "floor_us": limits.diagnosis.late_floor_us,
    }
    lags = {is_late: (lag, count) for is_late, lag, count in con.sql(_LAUNCHES, params=parameters).fetchall()}
    [(waited,)] = con.sql(_WAITED, params=parameters).fetchall()
    if waited is None or any(lags.get(is_late, (0, 0))[1] < _LEAST_LAUNCHES for is_late in (True, False)):
        return ""
    own, others = lags[True][0], lags[False][0]
    seen = f"Its kernels start {own:,.0f} us after their launch, those of the ranks that wait {others:,.0f} us"
    if own - others >= _GPU_SHARE * waited:
        return f" {seen}: its GPU is late, still busy when the collective is launched."
    if own - others <= _CPU_SHARE * waited:
        return f" {seen}: its CPU is late, and launches the collective late."
    return f" {seen}: its CPU and its GPU both have a part in it."
