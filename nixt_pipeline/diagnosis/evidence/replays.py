"""Collectives under numbers that say how far the job is, and records likewise, where CUDA graphs repeat numbers.

NCCL does not advance the sequence number when a captured graph is replayed: every replayed collective has the number of
the last eager one, or the one it was captured with. Where all ranks of a communicator have a number equally often,
nothing of it was lost, and the k-th occurrence on one rank is the k-th on every other: these are numbered anew, in the
order in which they were written. Where they have it unequally often, nothing shows which belong together: those are
left out.
"""

import duckdb

from nixt_pipeline.analysis.cells import OCCURRENCE_ORDER
from nixt_pipeline.diagnosis.evidence.tables import RunTables

_STREAM = "hash(comm_key, coll)"
_COLUMNS = (
    "comm_key, id, comm_name, n_ranks, nnodes, rank, hostname, pid, writer, coll, coll_sn, coll_msg_size_bytes,"
    " coll_exec_time_us, dump_timestamp_us"
)

_REPLAYED_STREAMS = f"""
CREATE OR REPLACE TEMP TABLE replayed_streams AS
SELECT DISTINCT {_STREAM} AS stream
FROM cells
WHERE occurrence > 1 AND n_ranks > 1 AND ends_together(coll)
"""

# Replays of two numbers take turns when a graph keeps the numbers it was captured with, and follow each other when they
# have that of the last eager collective. The first and the last number of a log may have been cut.
_PLACES = f"""
CREATE OR REPLACE TEMP TABLE replay_places AS
WITH shared AS (
    -- A rank that two processes hold reports a number twice without a replay.
    SELECT DISTINCT comm_key
    FROM membership
    GROUP BY comm_key, rank
    HAVING count(*) > 1
),
candidates AS (
    SELECT
        stream, coll_sn, occurrence, last_dump_us,
        ranks_seen = n_ranks AND shared.comm_key IS NULL AS on_all_ranks
    FROM cells
    JOIN replayed_streams ON stream = {_STREAM}
    LEFT JOIN shared ON shared.comm_key = cells.comm_key
    WHERE coll_sn IS NOT NULL
),
numbers AS (
    SELECT
        stream, coll_sn, max(occurrence) > 1 AS repeated, bool_and(on_all_ranks) AS equally_often,
        min(last_dump_us) AS since_us, max(last_dump_us) AS until_us
    FROM candidates
    GROUP BY stream, coll_sn
),
followed AS (
    SELECT
        *, lead(since_us) OVER of_stream AS next_us,
        lag(coll_sn) OVER of_stream IS NULL OR lead(coll_sn) OVER of_stream IS NULL AS at_an_end
    FROM numbers
    WINDOW of_stream AS (PARTITION BY stream ORDER BY coll_sn)
),
judged AS (
    SELECT
        stream, coalesce(bool_and(equally_often OR at_an_end) FILTER (repeated), false) AS whole,
        count(*) FILTER (until_us > next_us) * 2 > count(*) FILTER (next_us IS NOT NULL) AS take_turns
    FROM followed
    GROUP BY stream
)
SELECT
    stream, coll_sn, occurrence,
    CASE WHEN take_turns
        THEN row_number() OVER (PARTITION BY stream ORDER BY last_dump_us, coll_sn, occurrence)
        -- Gaps stay gaps.
        ELSE coll_sn + count(*) FILTER (occurrence > 1) OVER (PARTITION BY stream ORDER BY coll_sn, occurrence)
    END::UBIGINT AS place
FROM candidates JOIN followed USING (stream, coll_sn) JOIN judged USING (stream)
WHERE NOT repeated OR (whole AND equally_often)
"""
_REPLAYED_RECORDS = f"""
CREATE OR REPLACE TEMP TABLE replayed_records AS
WITH numbered AS (
    SELECT
        {_COLUMNS},
        row_number() OVER (PARTITION BY {_STREAM}, coll_sn, rank ORDER BY {OCCURRENCE_ORDER}) AS occurrence
    FROM plausible_events SEMI JOIN replayed_streams ON replayed_streams.stream = {_STREAM}
    WHERE kind = 'collective'
)
SELECT n.* EXCLUDE (occurrence) REPLACE (p.place::BIGINT AS coll_sn)
FROM numbered AS n
JOIN replay_places AS p
    ON p.stream = {_STREAM} AND p.coll_sn = n.coll_sn AND p.occurrence = n.occurrence
"""
_VIEWS = f"""
CREATE OR REPLACE TEMP VIEW ordered_cells AS
SELECT * FROM cells ANTI JOIN replayed_streams ON replayed_streams.stream = {_STREAM}
UNION ALL
SELECT c.* REPLACE (p.place AS coll_sn)
FROM cells AS c
JOIN replay_places AS p ON p.stream = {_STREAM} AND p.coll_sn = c.coll_sn AND p.occurrence = c.occurrence;

CREATE OR REPLACE TEMP VIEW eager_records AS
SELECT {_COLUMNS} FROM plausible_events ANTI JOIN replayed_streams ON replayed_streams.stream = {_STREAM}
WHERE kind = 'collective';

CREATE OR REPLACE TEMP VIEW ordered_records AS FROM eager_records UNION ALL FROM replayed_records;
"""
_PLAIN_VIEWS = f"""
CREATE OR REPLACE TEMP VIEW ordered_cells AS FROM cells;
CREATE OR REPLACE TEMP VIEW eager_records AS SELECT {_COLUMNS} FROM plausible_events WHERE kind = 'collective';
CREATE OR REPLACE TEMP VIEW ordered_records AS FROM eager_records;
"""


def order_replays(con: duckdb.DuckDBPyConnection) -> RunTables:
    """Create temporary views of all launches behind `con`, a connection of `store.catalog.open_run` with cells:
    `ordered_cells` and `ordered_records` are `cells` and the collectives of `plausible_events` with numbers that never
    repeat, without what cannot be told apart; `eager_records` are those of functions whose numbers never did."""
    con.execute(_REPLAYED_STREAMS)
    [(streams,)] = con.sql("SELECT count(*) FROM replayed_streams").fetchall()
    if streams:
        con.execute(_PLACES)
        con.execute(_REPLAYED_RECORDS)
    con.execute(_VIEWS if streams else _PLAIN_VIEWS)
    return RunTables(con)
