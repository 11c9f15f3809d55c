"""Collective cells: one row per collective, across the ranks that took part.

The records of one collective share (incarnation, communicator, function, sequence number), never a time: dump times are
write times on unsynchronised clocks. CUDA graph replays do not advance the sequence number, so a rank can report one
number several times; the k-th report of each rank, in the order of its dump times, is taken as the k-th occurrence.

Of a large run, most cells are gathered in arrays (`dense_cells`). What is odd about its ranks or sequence numbers, and
small runs, for which loading compiled code does not pay, are grouped by SQL. Both give the same cells.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from nixt_pipeline.analysis import base
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.taxonomy import CELL_COLUMNS, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.dropped import require_events
from nixt_pipeline.store.files import ROW_GROUP_ROWS, write_batches
from nixt_pipeline.store.integrity import discard_damaged_results, require_files
from nixt_pipeline.store.kernel_times import build_kernel_times
from nixt_pipeline.store.manifest import Manifest, read_manifest
from nixt_pipeline.store.origins import is_current, origin, origin_of_events
from nixt_pipeline.store.seals import damage, data_name, derived_seals, noting

# Changes whenever the cells would: the Dagster code_version of the asset.
VERSION = "1"

# Loading the compiled code takes about as long as grouping this many records without it.
GATHER_FROM_RECORDS = 2_000_000
# A stream whose numbers are so far apart that its array would take more than this for each record is grouped.
_BYTES_PER_RECORD = 256
# What the cells of one pass over the records may occupy; a job of 37 million records has 3 million, in one pass.
BYTES_PER_PASS = 256 << 20
# A cell takes about as much memory in DuckDB as this many records in other analyses.
_RECORDS_OF_A_CELL = 32

# Grouping and joining by five strings and numbers costs several times as much as by their 64-bit hash. A stream is what
# has sequence numbers of its own: a function of a communicator.
_STREAMS = """
CREATE OR REPLACE TEMP VIEW collective_records AS
SELECT
    hash(comm_key, coll) AS stream, coll_sn, rank, hostname, pid,
    coll_msg_size_bytes, coll_exec_time_us, coll_timing_source, dump_timestamp_us, flags, file_id
FROM stored_events
WHERE kind = 'collective';

CREATE OR REPLACE TEMP TABLE members AS
SELECT
    comm_key, rank, any_value(hostname) AS hostname, any_value(pid) AS pid,
    count(*) = 1 AND coalesce(rank BETWEEN 0 AND any_value(n_ranks) - 1, false) AS plain
FROM membership
GROUP BY comm_key, rank;

CREATE OR REPLACE TEMP TABLE streams AS
SELECT
    hash(c.comm_key, f.coll) AS stream,
    c.comm_key,
    row_number() OVER (ORDER BY c.incarnation, c.id, c.comm_name, c.n_ranks, c.nnodes, f.coll) AS number,
    c.run, c.incarnation, c.id, c.comm_name, c.n_ranks, c.nnodes, c.coll_type, f.coll
FROM communicators AS c
JOIN (
    SELECT DISTINCT comm_key, coll
    FROM stored_events
    WHERE kind = 'collective'
) AS f ON f.comm_key = c.comm_key;

CREATE OR REPLACE TEMP TABLE gathered_streams (stream UBIGINT);
CREATE OR REPLACE TEMP TABLE repeated_cells (stream UBIGINT, coll_sn UBIGINT);
"""

# Rank numbers of plain members stand for one process each. Times that are no finite numbers have no place in an array.
_RANGES = """
WITH ranges AS (
    SELECT
        stream, count(*) AS records, count(*) = count(coll_sn) AS all_numbered,
        min(coll_sn) AS first_sn, max(coll_sn) AS last_sn
    FROM collective_records
    GROUP BY stream
),
plain AS (SELECT comm_key FROM members GROUP BY comm_key HAVING bool_and(plain))
SELECT r.stream, r.first_sn, r.last_sn, s.n_ranks, r.records
FROM ranges AS r
JOIN streams AS s ON s.stream = r.stream
SEMI JOIN plain AS p ON p.comm_key = s.comm_key
WHERE r.all_numbered AND NOT EXISTS (
    FROM kernel_times WHERE NOT isfinite(coll_exec_time_us) OR coll_msg_size_bytes = $no_size::UBIGINT
)
ORDER BY s.number
"""

_TO_GATHER = """
SELECT
    stream, coll_sn, rank,
    coalesce(coll_msg_size_bytes, $no_size::UBIGINT) AS size_bytes,
    coalesce(coll_exec_time_us, 'nan'::DOUBLE) AS time_us,
    coalesce(coll_timing_source = 'kernel_gpu', false)::TINYINT AS by_gpu,
    CASE WHEN flags & $implausible = 0 THEN coalesce(dump_timestamp_us, $no_dump) ELSE $no_dump END AS dump_us
FROM collective_records
WHERE coll_sn IS NOT NULL AND rank IS NOT NULL
"""

# What is known of one collective. `ranks` has a bit for each rank: with fewer bits than records, a rank may have
# reported twice.
_AGGREGATES = """
    max(coll_msg_size_bytes) AS coll_msg_size_bytes,
    (min(coll_msg_size_bytes) IS DISTINCT FROM max(coll_msg_size_bytes)) AS size_mismatch,
    count(*) AS ranks_seen,
    count(coll_exec_time_us) AS ranks_timed,
    count(coll_exec_time_us) FILTER (WHERE coll_timing_source = 'kernel_gpu') AS ranks_gpu_timed,
    -- Structs compare field by field, so that equal times go to the lowest rank.
    min({'us': coll_exec_time_us, 'rank': rank, 'hostname': hostname, 'pid': pid}, 2)
        FILTER (WHERE coll_exec_time_us IS NOT NULL) AS shortest,
    max(coll_exec_time_us) AS max_exec_time_us,
    sum(coll_exec_time_us) AS sum_exec_time_us,
    min(dump_timestamp_us) FILTER (WHERE flags & $implausible = 0) AS first_dump_us,
    max(dump_timestamp_us) FILTER (WHERE flags & $implausible = 0) AS last_dump_us,
    bit_or(1::HUGEINT << abs(rank % 127)) AS ranks
"""

# In which order a rank reported the same number. Stamps of one dump can be equal: the rest makes it reproducible.
OCCURRENCE_ORDER = "dump_timestamp_us, file_id, coll_exec_time_us, coll_msg_size_bytes"

# Records of cells that were not gathered.
_LEFT = """
CREATE OR REPLACE TEMP VIEW left_records AS
SELECT * FROM collective_records ANTI JOIN gathered_streams USING (stream)
UNION ALL
SELECT * FROM collective_records SEMI JOIN repeated_cells USING (stream, coll_sn)
"""
_APPROXIMATE_CELLS = "SELECT approx_count_distinct(hash(stream, coll_sn)) FROM left_records"

# What both ways end in, once their cells are `placed`.
_CELLS = """
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
    CASE WHEN complete AND ends_together(coll)
        THEN busbw_gbs(coll, coll_msg_size_bytes, n_ranks, min_exec_time_us)
    END AS transfer_busbw_gbs,
    first_dump_us, last_dump_us
FROM placed
ORDER BY number, coll_sn, occurrence
"""

_GROUPED = f"""
WITH records AS (
    -- The two shortest times of a cell are held in memory that cannot spill, hence passes over a part of its key.
    SELECT * FROM left_records WHERE hash(coll_sn) % $passes::UBIGINT = $pass::UBIGINT
),
grouped AS MATERIALIZED (
    SELECT stream, coll_sn, {_AGGREGATES}
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
            PARTITION BY r.stream, r.coll_sn, r.rank ORDER BY {OCCURRENCE_ORDER}
        ) AS occurrence
    FROM records AS r
    SEMI JOIN repeated AS t ON t.stream = r.stream AND t.coll_sn IS NOT DISTINCT FROM r.coll_sn
),
found AS (
    SELECT g.*, 1 AS occurrence
    FROM grouped AS g
    ANTI JOIN repeated AS t ON t.stream = g.stream AND t.coll_sn IS NOT DISTINCT FROM g.coll_sn
    UNION ALL BY NAME
    SELECT stream, coll_sn, occurrence, {_AGGREGATES}
    FROM numbered
    GROUP BY stream, coll_sn, occurrence
),
placed AS (
    SELECT
        f.*, s.* EXCLUDE (stream),
        shortest[1].us AS min_exec_time_us, shortest[1].rank AS min_rank,
        shortest[1].hostname AS min_hostname, shortest[1].pid AS min_pid,
        shortest[2].us AS second_min_exec_time_us, shortest[2].rank AS second_min_rank,
        shortest[2].hostname AS second_min_hostname, shortest[2].pid AS second_min_pid
    FROM found AS f
    JOIN streams AS s ON s.stream = f.stream
)
{_CELLS}
"""

_GATHERED = f"""
WITH placed AS (
    SELECT
        g.* EXCLUDE (first_dump_us, last_dump_us), s.* EXCLUDE (stream), 1 AS occurrence,
        nullif(g.size_bytes, $no_size::UBIGINT) AS coll_msg_size_bytes,
        nullif(g.shortest_us, 'inf'::DOUBLE) AS min_exec_time_us, nullif(g.shortest_rank, -1) AS min_rank,
        a.hostname AS min_hostname, a.pid AS min_pid,
        nullif(g.second_us, 'inf'::DOUBLE) AS second_min_exec_time_us, nullif(g.second_rank, -1) AS second_min_rank,
        b.hostname AS second_min_hostname, b.pid AS second_min_pid,
        nullif(g.longest_us, '-inf'::DOUBLE) AS max_exec_time_us,
        CASE WHEN g.ranks_timed > 0 THEN g.sum_us END AS sum_exec_time_us,
        CASE WHEN g.last_dump_us != $no_dump THEN g.first_dump_us END AS first_dump_us,
        nullif(g.last_dump_us, $no_dump) AS last_dump_us
    FROM gathered AS g
    JOIN streams AS s ON s.stream = g.stream
    LEFT JOIN members AS a ON a.comm_key = s.comm_key AND a.rank = g.shortest_rank
    LEFT JOIN members AS b ON b.comm_key = s.comm_key AND b.rank = g.second_rank
)
{_CELLS}
"""

_IMPLAUSIBLE = {"implausible": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE)}


def cell_batches(
    con: duckdb.DuckDBPyConnection,
    gather_from_records: int = GATHER_FROM_RECORDS,
    bytes_per_pass: int = BYTES_PER_PASS,
    records_per_pass: int = base.RECORDS_PER_PASS,
) -> Iterator[pa.RecordBatch]:
    """The cells of a run, with the names of `CELL_COLUMNS`, sorted within each pass; `con` comes from `open_run`.

    From `gather_from_records` on they are gathered in arrays, of `bytes_per_pass` at a time; what is left is grouped by
    SQL, in passes of about `records_per_pass`. Leaves temporary tables on the connection.
    """
    con.execute(_STREAMS)
    [(records, collectives)] = con.sql(
        "SELECT coalesce(sum(records), 0), coalesce(sum(records - records_p2p), 0) FROM membership"
    ).fetchall()
    gathered = 0
    if records >= gather_from_records:
        for batch in _gather(con, bytes_per_pass):
            gathered += pa.compute.sum(batch.column("ranks_seen")).as_py()
            yield batch
    if gathered < collectives:
        yield from _group(con, records_per_pass)


def _gather(con: duckdb.DuckDBPyConnection, bytes_per_pass: int) -> Iterator[pa.RecordBatch]:
    """The cells of the streams that fit into arrays. Fills `gathered_streams` and `repeated_cells`."""
    from nixt_pipeline.analysis import dense_cells as dense

    missing = {"no_size": dense.NO_SIZE, "no_dump": dense.NO_DUMP}
    streams = [
        dense.Stretch(stream, first, last - first + 1, ranks)
        for stream, first, last, ranks, records in con.sql(_RANGES, params={"no_size": dense.NO_SIZE}).fetchall()
        if (last - first + 1) * dense.cell_bytes(ranks) <= records * _BYTES_PER_RECORD
    ]
    chosen = pa.table({"stream": pa.array([stream.stream for stream in streams], pa.uint64())})  # noqa: F841 (in the SQL)
    con.execute("INSERT INTO gathered_streams FROM chosen")
    for stretches in dense.passes(streams, bytes_per_pass):
        cells = dense.DenseCells(stretches)
        for records in con.sql(_TO_GATHER, params=missing | _IMPLAUSIBLE).to_arrow_reader(ROW_GROUP_ROWS):
            cells.add(records)
        repeated = cells.repeated()  # noqa: F841 (in the SQL)
        con.execute("INSERT INTO repeated_cells FROM repeated")
        for gathered in cells.batches(ROW_GROUP_ROWS):
            con.register("gathered", gathered)
            yield from con.sql(_GATHERED, params=missing).to_arrow_reader(ROW_GROUP_ROWS)


def _group(con: duckdb.DuckDBPyConnection, records_per_pass: int) -> Iterator[pa.RecordBatch]:
    """The cells that were not gathered, by SQL."""
    con.execute(_LEFT)
    [(approximate_cells,)] = con.sql(_APPROXIMATE_CELLS).fetchall()
    passes = approximate_cells // max(records_per_pass // _RECORDS_OF_A_CELL, 1) + 1
    for number in range(passes):
        parameters = _IMPLAUSIBLE | {"passes": passes, "pass": number}
        yield from con.sql(_GROUPED, params=parameters).to_arrow_reader(ROW_GROUP_ROWS)


def provide_cells(con: duckdb.DuckDBPyConnection, run: str, settings: Settings) -> None:
    """Give a connection of `open_run` the run's cells where they are not stored: for readers who may not store them."""
    if layout.table_files(read_manifest(run, settings).directory(settings), "cells"):
        return
    with catalog.open_run(run, settings) as other:
        batches = [batch.cast(schema(CELL_COLUMNS)) for batch in cell_batches(other)]
        computed = pa.Table.from_batches(batches, schema(CELL_COLUMNS))  # noqa: F841 (in the SQL)
    con.execute(f"DROP VIEW cells; CREATE TABLE cells AS {catalog.with_keys('cells', 'computed')}")


def cells_are_current(run: str, settings: Settings) -> bool:
    """Whether the cells of a stored run are there, sound, and those that would be built now."""
    manifest = read_manifest(run, settings)
    kernel_times, cells = (manifest.directory(settings) / f"{table}.parquet" for table in ("kernel_times", "cells"))
    problem = damage(
        kernel_times, derived_seals(run, settings).get(data_name(kernel_times, settings), ()), content=True
    )
    return problem is None and is_current(run, cells, _made_from(manifest, settings), settings)


def _made_from(manifest: Manifest, settings: Settings) -> str:
    return origin(VERSION, origin_of_events(manifest, settings))


def build_cells(run: str, settings: Settings) -> int:
    """Write the cells of a stored run, and the rollup `kernel_times`, beside its events, atomically. Returns the number
    of cells.

    Raises `UnknownRunError`, and `EventsDroppedError` for a run that has only its results left.
    """
    require_events(run, settings)
    manifest = read_manifest(run, settings)
    require_files(manifest, settings, content=True)
    discard_damaged_results(manifest, settings)
    generation = manifest.directory(settings)
    with catalog.open_run(run, settings) as con:
        build_kernel_times(con, run, generation, settings)
    cells = generation / "cells.parquet"
    note = noting(run, cells, settings, _made_from(manifest, settings))
    with catalog.open_run(run, settings) as con:
        return write_batches(cell_batches(con), schema(CELL_COLUMNS), cells, note)
