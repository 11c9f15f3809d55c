"""Collective cells: one row per collective, across the ranks that took part.

The records of one collective share (incarnation, communicator, function, sequence number), never a time: dump times are
write times on unsynchronised clocks. CUDA graph replays do not advance the sequence number, so a rank can report one
number several times; the k-th report of each rank, in the order of its dump times, is taken as the k-th occurrence.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from nixt_pipeline.analysis.base import number_of_passes
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES, RecordFlag
from nixt_pipeline.inspector.taxonomy import CELL_COLUMNS, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog
from nixt_pipeline.store.files import replacing
from nixt_pipeline.store.manifest import read_manifest

# Changes whenever the cells would: the Dagster code_version of the asset.
VERSION = "1"

# Rows of a Parquet row group: small enough to be built in memory beside the query that feeds it.
_BATCH_ROWS = 262_144

SQL = """
WITH records AS MATERIALIZED (
    -- The two shortest times of a cell are held in memory that cannot spill, hence passes over the hash of the cell's
    -- key.
    SELECT
        run, incarnation, id, comm_name, n_ranks, nnodes, coll_type, coll, coll_sn, rank, hostname, pid,
        coll_msg_size_bytes, coll_exec_time_us, coll_timing_source, dump_timestamp_us, flags, file_id
    FROM collectives
    WHERE hash(id, coll, coll_sn) % $passes::UBIGINT = $pass::UBIGINT
),
-- Usually there are none; sorting all records for them would cost most of the time.
repeated AS (
    SELECT incarnation, id, comm_name, n_ranks, nnodes, coll, coll_sn, rank
    FROM records
    GROUP BY ALL
    HAVING count(*) > 1
),
numbered AS (
    SELECT r.*, 1 AS occurrence
    FROM records AS r
    ANTI JOIN repeated AS t
        ON t.incarnation = r.incarnation AND t.id IS NOT DISTINCT FROM r.id
        AND t.comm_name IS NOT DISTINCT FROM r.comm_name
        AND t.n_ranks IS NOT DISTINCT FROM r.n_ranks AND t.nnodes IS NOT DISTINCT FROM r.nnodes
        AND t.coll IS NOT DISTINCT FROM r.coll AND t.coll_sn IS NOT DISTINCT FROM r.coll_sn
        AND t.rank IS NOT DISTINCT FROM r.rank
    UNION ALL
    SELECT
        r.*,
        row_number() OVER (
            PARTITION BY r.incarnation, r.id, r.comm_name, r.n_ranks, r.nnodes, r.coll, r.coll_sn, r.rank
            -- Stamps of one dump can be equal: the rest makes the order reproducible.
            ORDER BY r.dump_timestamp_us, r.file_id, r.coll_exec_time_us, r.coll_msg_size_bytes
        )
    FROM records AS r
    SEMI JOIN repeated AS t
        ON t.incarnation = r.incarnation AND t.id IS NOT DISTINCT FROM r.id
        AND t.comm_name IS NOT DISTINCT FROM r.comm_name
        AND t.n_ranks IS NOT DISTINCT FROM r.n_ranks AND t.nnodes IS NOT DISTINCT FROM r.nnodes
        AND t.coll IS NOT DISTINCT FROM r.coll AND t.coll_sn IS NOT DISTINCT FROM r.coll_sn
        AND t.rank IS NOT DISTINCT FROM r.rank
),
grouped AS (
    SELECT
        any_value(run) AS run,
        incarnation, id, comm_name, n_ranks, nnodes, any_value(coll_type) AS coll_type, coll, coll_sn, occurrence,
        max(coll_msg_size_bytes) AS coll_msg_size_bytes,
        min(coll_msg_size_bytes) IS DISTINCT FROM max(coll_msg_size_bytes) AS size_mismatch,
        count(*) AS ranks_seen,
        count(coll_exec_time_us) AS ranks_timed,
        count(coll_exec_time_us) FILTER (WHERE coll_timing_source = 'kernel_gpu') AS ranks_gpu_timed,
        -- The two shortest times; structs compare field by field, so that equal times go to the lowest rank.
        min({'us': coll_exec_time_us, 'rank': rank, 'hostname': hostname, 'pid': pid}, 2)
            FILTER (WHERE coll_exec_time_us IS NOT NULL) AS shortest,
        max(coll_exec_time_us) AS max_exec_time_us,
        sum(coll_exec_time_us) AS sum_exec_time_us,
        min(dump_timestamp_us) FILTER (WHERE flags & $implausible = 0) AS first_dump_us,
        max(dump_timestamp_us) FILTER (WHERE flags & $implausible = 0) AS last_dump_us
    FROM numbered
    GROUP BY incarnation, id, comm_name, n_ranks, nnodes, coll, coll_sn, occurrence
)
SELECT
    run, incarnation, id, comm_name, n_ranks, nnodes, coll_type, coll, coll_sn, occurrence,
    coll_msg_size_bytes, size_mismatch, ranks_seen, ranks_timed, ranks_gpu_timed,
    coalesce(ranks_timed = n_ranks, false) AS complete,
    shortest[1].us AS min_exec_time_us,
    shortest[1].rank AS min_rank,
    shortest[1].hostname AS min_hostname,
    shortest[1].pid AS min_pid,
    shortest[2].us AS second_min_exec_time_us,
    shortest[2].rank AS second_min_rank,
    shortest[2].hostname AS second_min_hostname,
    shortest[2].pid AS second_min_pid,
    max_exec_time_us,
    -- Whole nanoseconds: the order of a parallel sum must not show.
    round(sum_exec_time_us, 3) AS sum_exec_time_us,
    round(sum_exec_time_us - ranks_timed * shortest[1].us, 3) AS wait_us,
    -- Only where nobody can finish before the last rank arrives is the shortest time the transfer.
    CASE WHEN complete AND coll IN (SELECT unnest($sync_collectives))
        THEN busbw_gbs(coll, coll_msg_size_bytes, n_ranks, min_exec_time_us)
    END AS transfer_busbw_gbs,
    first_dump_us, last_dump_us
FROM grouped
ORDER BY incarnation, id, comm_name, n_ranks, nnodes, coll, coll_sn, occurrence
"""


def cell_batches(con: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    """The cells of a run as record batches of `CELL_COLUMNS`, sorted within each pass; `con` comes from `open_run`."""
    passes = number_of_passes(con)
    cell_schema = schema(CELL_COLUMNS)
    for number in range(passes):
        parameters = {
            "passes": passes,
            "pass": number,
            "implausible": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE),
            "sync_collectives": list(SYNC_COLLECTIVES),
        }
        for batch in con.sql(SQL, params=parameters).to_arrow_reader(_BATCH_ROWS):
            yield from pa.Table.from_batches([batch]).cast(cell_schema).to_batches()


def build_cells(run: str, settings: Settings) -> int:
    """Write the cells of a stored run beside its events, atomically. Returns their number.

    Raises `UnknownRunError`.
    """
    cells = 0
    path = read_manifest(settings, run).directory(settings) / "cells.parquet"
    con = catalog.open_run(settings, run)
    try:
        with (
            replacing(path) as temporary,
            pq.ParquetWriter(temporary, schema(CELL_COLUMNS), compression="zstd") as writer,
        ):
            for batch in cell_batches(con):
                writer.write_batch(batch)
                cells += batch.num_rows
    finally:
        con.close()
    return cells
