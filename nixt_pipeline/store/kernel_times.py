"""The rollup `kernel_times`: how many records of each kernel took how long.

Execution times are whole microseconds, so that a run of any length has few different ones for each kernel (function,
communicator shape, message size): some hundred thousand rows stand for tens of millions of records, and every quantile
over them is exact. The analyses of distributions read these rows instead of the events.
"""

from pathlib import Path

import duckdb

from nixt_pipeline.inspector.operations import BANDWIDTH_FLAGS
from nixt_pipeline.inspector.taxonomy import KERNEL_TIME_COLUMNS, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import ROW_GROUP_ROWS, write_batches
from nixt_pipeline.store.seals import noting

# Grouping by a dozen strings and numbers costs several times as much as by their 64-bit hash: a `variant` is one
# combination of them, of which there are some dozens.
_SQL = f"""
WITH roles AS (
    SELECT hash(run, id, comm_name, n_ranks, nnodes) AS communicator, incarnation, parallel_role FROM communicators
),
records AS (
    SELECT
        e.run, coalesce(r.incarnation, 1) AS incarnation, e.kind, e.coll, e.n_ranks, e.nnodes, e.coll_msg_size_bytes,
        e.inspector_output_format_version, e.git_rev, e.rec_mechanism, e.coll_timing_source, r.parallel_role,
        e.coll_busbw_gbs, e.flags & {int(BANDWIDTH_FLAGS)} = 0 AS by_formula, e.coll_exec_time_us,
        hash(
            e.run, r.incarnation, e.kind, e.coll, e.n_ranks, e.nnodes, e.coll_msg_size_bytes,
            e.inspector_output_format_version, e.git_rev, e.rec_mechanism, e.coll_timing_source, r.parallel_role,
            e.coll_busbw_gbs, by_formula
        ) AS variant
    FROM {{events}} AS e
    LEFT JOIN roles AS r ON r.communicator = hash(e.run, e.id, e.comm_name, e.n_ranks, e.nnodes)
),
variants AS (
    SELECT variant, first(COLUMNS(* EXCLUDE (variant, coll_exec_time_us))) FROM records GROUP BY variant
),
counts AS (SELECT variant, coll_exec_time_us, count(*) AS records FROM records GROUP BY variant, coll_exec_time_us)
SELECT
    v.run, v.incarnation, v.kind, v.coll, coll_type(v.n_ranks, v.nnodes) AS coll_type, v.n_ranks, v.nnodes,
    v.coll_msg_size_bytes, v.inspector_output_format_version, v.git_rev, v.rec_mechanism, v.coll_timing_source,
    v.parallel_role, c.coll_exec_time_us,
    coalesce(
        v.coll_busbw_gbs,
        CASE WHEN v.by_formula
            THEN to_six_decimals(busbw_gbs(v.coll, v.coll_msg_size_bytes, v.n_ranks, c.coll_exec_time_us))
        END
    ) AS coll_busbw_gbs,
    c.records
FROM counts AS c
JOIN variants AS v ON v.variant = c.variant
ORDER BY
    v.run, v.incarnation, v.kind, v.coll, v.n_ranks, v.nnodes, v.coll_msg_size_bytes,
    v.inspector_output_format_version, v.git_rev, v.rec_mechanism, v.coll_timing_source, v.parallel_role,
    c.coll_exec_time_us, v.coll_busbw_gbs
"""


def kernel_times_sql(events: str) -> str:
    """The SQL of the rollup over `events`, a table expression of stored events; it also reads `communicators`."""
    return _SQL.format(events=events)


def build_kernel_times(con: duckdb.DuckDBPyConnection, run: str, generation: Path, settings: Settings) -> None:
    """Write the rollup of the run of `con` (see `open_run`) beside its events, atomically, unless it is there."""
    path = generation / "kernel_times.parquet"
    if not path.exists():
        batches = con.sql(kernel_times_sql("stored_events")).to_arrow_reader(ROW_GROUP_ROWS)
        write_batches(batches, schema(KERNEL_TIME_COLUMNS), path, noting(run, path, settings))
