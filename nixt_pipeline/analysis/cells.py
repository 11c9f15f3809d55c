"""Collective cells: one row per collective, across the ranks that took part.

The records of one collective share (incarnation, communicator, function, sequence number), never a time: dump times are
write times on unsynchronised clocks. CUDA graph replays do not advance the sequence number, so a rank can report one
number several times; the k-th report of each rank, in the order of its dump times, is taken as the k-th occurrence.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from nixt_pipeline.analysis import base
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES, RecordFlag
from nixt_pipeline.inspector.taxonomy import CELL_COLUMNS, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog
from nixt_pipeline.store.files import ROW_GROUP_ROWS, write_batches
from nixt_pipeline.store.kernel_times import build_kernel_times
from nixt_pipeline.store.manifest import read_manifest

# Changes whenever the cells would: the Dagster code_version of the asset.
VERSION = "1"

# What is known of one collective. `ranks` has a bit for each rank: with fewer bits than records, a rank may have
# reported twice.
_AGGREGATES = """
    max(coll_msg_size_bytes) AS coll_msg_size_bytes,
    min(coll_msg_size_bytes) IS DISTINCT FROM max(coll_msg_size_bytes) AS size_mismatch,
    count(*) AS ranks_seen,
    count(coll_exec_time_us) AS ranks_timed,
    count(coll_exec_time_us) FILTER (WHERE coll_timing_source = 'kernel_gpu') AS ranks_gpu_timed,
    {shortest} AS shortest,
    max(coll_exec_time_us) AS max_exec_time_us,
    sum(coll_exec_time_us) AS sum_exec_time_us,
    min(dump_timestamp_us) FILTER (WHERE flags & $implausible = 0) AS first_dump_us,
    max(dump_timestamp_us) FILTER (WHERE flags & $implausible = 0) AS last_dump_us,
    bit_or(1::HUGEINT << abs(rank % 127)) AS ranks
"""

# Grouping and joining by five strings and numbers costs several times as much as by their 64-bit hash. A stream is what
# has sequence numbers of its own: a function of a communicator.
_STREAMS = """
CREATE OR REPLACE TEMP TABLE streams AS
SELECT
    hash(c.id, c.comm_name, c.n_ranks, c.nnodes, f.coll) AS stream,
    hash(c.id, c.comm_name, c.n_ranks, c.nnodes) AS communicator,
    row_number() OVER (ORDER BY c.incarnation, c.id, c.comm_name, c.n_ranks, c.nnodes, f.coll) AS number,
    c.run, c.incarnation, c.id, c.comm_name, c.n_ranks, c.nnodes, c.coll_type, f.coll
FROM communicators AS c
CROSS JOIN (SELECT DISTINCT coll FROM stored_events WHERE kind = 'collective') AS f
"""

_SQL = """
WITH records AS (
    -- The two shortest times of a cell are held in memory that cannot spill, hence passes over a part of its key.
    SELECT
        hash(id, comm_name, n_ranks, nnodes, coll) AS stream, coll_sn, rank, hostname, pid,
        coll_msg_size_bytes, coll_exec_time_us, coll_timing_source, dump_timestamp_us, flags, file_id
    FROM stored_events
    WHERE kind = 'collective' AND hash(coll_sn) % $passes::UBIGINT = $pass::UBIGINT
),
grouped AS MATERIALIZED (
    SELECT stream, coll_sn, {aggregates}
    FROM records
    GROUP BY stream, coll_sn
),
-- A rank's bit is another rank's as well in communicators of more than 127, so the suspects are looked at again.
-- Usually nothing is repeated.
suspects AS (SELECT stream, coll_sn FROM grouped WHERE bit_count(coalesce(ranks, 0)) < ranks_seen),
repeated AS MATERIALIZED (
    SELECT DISTINCT stream, coll_sn
    FROM (
        SELECT r.stream, r.coll_sn
        FROM records AS r
        SEMI JOIN suspects AS s ON s.stream = r.stream AND s.coll_sn IS NOT DISTINCT FROM r.coll_sn
        GROUP BY r.stream, r.coll_sn, r.rank
        HAVING count(*) > 1
    )
),
numbered AS (
    SELECT
        r.*,
        row_number() OVER (
            PARTITION BY r.stream, r.coll_sn, r.rank
            -- Stamps of one dump can be equal: the rest makes the order reproducible.
            ORDER BY r.dump_timestamp_us, r.file_id, r.coll_exec_time_us, r.coll_msg_size_bytes
        ) AS occurrence
    FROM records AS r
    SEMI JOIN repeated AS t ON t.stream = r.stream AND t.coll_sn IS NOT DISTINCT FROM r.coll_sn
),
found AS (
    SELECT g.*, 1 AS occurrence
    FROM grouped AS g
    ANTI JOIN repeated AS t ON t.stream = g.stream AND t.coll_sn IS NOT DISTINCT FROM g.coll_sn
    UNION ALL BY NAME
    SELECT stream, coll_sn, occurrence, {aggregates}
    FROM numbered
    GROUP BY stream, coll_sn, occurrence
),
placed AS ({placed})
SELECT
    run, incarnation, id, comm_name, n_ranks, nnodes, coll_type, coll, coll_sn, occurrence,
    coll_msg_size_bytes, size_mismatch, ranks_seen, ranks_timed, ranks_gpu_timed,
    coalesce(ranks_timed = n_ranks, false) AS complete,
    min_exec_time_us, min_rank, min_hostname, min_pid,
    second_min_exec_time_us, second_min_rank, second_min_hostname, second_min_pid,
    max_exec_time_us,
    -- Whole nanoseconds: the order of a parallel sum must not show.
    round(sum_exec_time_us, 3) AS sum_exec_time_us,
    round(sum_exec_time_us - ranks_timed * min_exec_time_us, 3) AS wait_us,
    -- Only where nobody can finish before the last rank arrives is the shortest time the transfer.
    CASE WHEN complete AND coll IN (SELECT unnest($sync_collectives))
        THEN busbw_gbs(coll, coll_msg_size_bytes, n_ranks, min_exec_time_us)
    END AS transfer_busbw_gbs,
    first_dump_us, last_dump_us
FROM placed
ORDER BY number, coll_sn, occurrence
"""

# The two shortest times with whose they are. Structs compare field by field, so that equal times go to the lowest rank.
_BY_STRUCT = (
    """
    min({'us': coll_exec_time_us, 'rank': rank, 'hostname': hostname, 'pid': pid}, 2)
        FILTER (WHERE coll_exec_time_us IS NOT NULL)
    """,
    """
    SELECT
        f.*, s.* EXCLUDE (stream),
        shortest[1].us AS min_exec_time_us, shortest[1].rank AS min_rank,
        shortest[1].hostname AS min_hostname, shortest[1].pid AS min_pid,
        shortest[2].us AS second_min_exec_time_us, shortest[2].rank AS second_min_rank,
        shortest[2].hostname AS second_min_hostname, shortest[2].pid AS second_min_pid
    FROM found AS f
    JOIN streams AS s ON s.stream = f.stream
    """,
)
# The same three times as fast, where `_PACKABLE` holds: time and rank in one number, the process from the membership.
_BY_NUMBER = (
    "min((coll_exec_time_us::BIGINT << 22) | rank, 2)",
    """
    SELECT
        f.*, s.* EXCLUDE (stream),
        (shortest[1] >> 22)::DOUBLE AS min_exec_time_us, (shortest[1] & 4194303) AS min_rank,
        a.hostname AS min_hostname, a.pid AS min_pid,
        (shortest[2] >> 22)::DOUBLE AS second_min_exec_time_us, (shortest[2] & 4194303) AS second_min_rank,
        b.hostname AS second_min_hostname, b.pid AS second_min_pid
    FROM found AS f
    JOIN streams AS s ON s.stream = f.stream
    LEFT JOIN members AS a ON a.communicator = s.communicator AND a.rank = shortest[1] & 4194303
    LEFT JOIN members AS b ON b.communicator = s.communicator AND b.rank = shortest[2] & 4194303
    """,
)
_MEMBERS = """
CREATE OR REPLACE TEMP TABLE members AS
SELECT hash(id, comm_name, n_ranks, nnodes) AS communicator, rank, any_value(hostname) AS hostname,
    any_value(pid) AS pid, count(*) AS processes
FROM membership
GROUP BY communicator, rank
"""
_APPROXIMATE_CELLS = """
SELECT approx_count_distinct(hash(id, coll, coll_sn)) FROM stored_events WHERE kind = 'collective'
"""
# A cell takes about as much memory as so many records in other analyses.
_RECORDS_OF_A_CELL = 16
_PACKABLE = """
SELECT
    NOT EXISTS (FROM members WHERE rank IS NULL OR rank NOT BETWEEN 0 AND 4194303 OR processes > 1)
    AND NOT EXISTS (
        FROM stored_events
        WHERE coll_exec_time_us NOT BETWEEN 0 AND 1099511627775 OR coll_exec_time_us != floor(coll_exec_time_us)
    )
"""


def cell_batches(con: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    """The cells of a run, with the names of `CELL_COLUMNS`, sorted within each pass; `con` comes from `open_run`."""
    con.execute(_STREAMS)
    con.execute(_MEMBERS)
    [(packable,)] = con.sql(_PACKABLE).fetchall()
    shortest, placed = _BY_NUMBER if packable else _BY_STRUCT
    sql = _SQL.format(aggregates=_AGGREGATES.format(shortest=shortest), placed=placed)
    [(approximate_cells,)] = con.sql(_APPROXIMATE_CELLS).fetchall()
    passes = approximate_cells // max(base.RECORDS_PER_PASS // _RECORDS_OF_A_CELL, 1) + 1
    for number in range(passes):
        parameters = {
            "passes": passes,
            "pass": number,
            "implausible": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE),
            "sync_collectives": list(SYNC_COLLECTIVES),
        }
        yield from con.sql(sql, params=parameters).to_arrow_reader(ROW_GROUP_ROWS)


def build_cells(run: str, settings: Settings) -> int:
    """Write the cells of a stored run, and the rollup `kernel_times`, beside its events, atomically. Returns the number
    of cells.

    Raises `UnknownRunError`.
    """
    generation = read_manifest(settings, run).directory(settings)
    con = catalog.open_run(settings, run)
    try:
        build_kernel_times(con, generation)
        return write_batches(cell_batches(con), schema(CELL_COLUMNS), generation / "cells.parquet")
    finally:
        con.close()
