"""How hosts and processes differ: their bandwidth, and how often each was the last to arrive."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row, Shares
from nixt_pipeline.analysis.columns import (
    EXEC_TIME_P50,
    LEAST_BYTES,
    MIN_MESSAGE_BYTES,
    RECORDS,
    busbw,
    event,
    large_messages,
)
from nixt_pipeline.analysis.distributions import KERNEL, OF_HOSTS, SAMPLES
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role, count, derived

_SHARES = Shares(
    parameters=OF_HOSTS.format(columns=f"{LEAST_BYTES} AS min_message_bytes"),
    # Small messages have low bandwidths by nature: they are counted, but their bandwidths and times are left out.
    sql=f"""
    SELECT
        hostname, pid, writer, coll_type(n_ranks, nnodes) AS coll_type, $min_message_bytes AS min_message_bytes,
        {SAMPLES}
    FROM stored_events
    WHERE hostname BETWEEN $first_host AND $last_host OR ($first_host IS NULL AND hostname IS NULL)
    GROUP BY hostname, pid, writer, {KERNEL}
    """,
    levels=(
        ("hostname", "pid", "writer", "coll", "coll_type", "min_message_bytes"),
        ("hostname", "coll", "coll_type", "min_message_bytes"),
    ),
    busbw_quantiles=(0.1, 0.5, 0.9),
)

SQL = """
WITH complete_cells AS (
    SELECT
        incarnation, comm_key, n_ranks, coll, coll_type,
        count(*) AS cells,
        count(*) FILTER (WHERE min_exec_time_us < second_min_exec_time_us) AS decided
    FROM cells
    WHERE complete AND n_ranks > 1 AND ends_together(coll)
    GROUP BY ALL
),
-- In a complete cell every member of the communicator took part, so membership says where the cells belong.
members AS (
    SELECT
        incarnation, comm_key, rank, hostname, pid,
        writer_of(process, hostname, pid) AS writer
    FROM membership
),
places AS (
    SELECT 'process' AS level, incarnation, comm_key, hostname, writer, count(DISTINCT rank) AS ranks
    FROM members GROUP BY ALL
    UNION ALL
    SELECT 'host', incarnation, comm_key, hostname, NULL, count(DISTINCT rank)
    FROM members GROUP BY ALL
),
participation AS (
    SELECT
        p.level, p.hostname, p.writer, c.coll, c.coll_type,
        sum(c.cells) AS cells,
        sum(c.decided * p.ranks / c.n_ranks) AS expected_last_arrivals
    FROM complete_cells AS c
    JOIN places AS p
        ON p.incarnation = c.incarnation AND p.comm_key = c.comm_key
    GROUP BY ALL
),
last_ranks AS (
    SELECT
        comm_key, min_rank AS rank, min_hostname AS hostname,
        min_pid AS pid, coll, coll_type, count(*) AS cells
    FROM cells
    WHERE complete AND n_ranks > 1 AND ends_together(coll)
        -- Ranks with equal shortest times arrived together, within the clock's microsecond: nobody was last.
        AND min_exec_time_us < second_min_exec_time_us
    GROUP BY ALL
),
process_arrivals AS (
    SELECT l.hostname, m.writer, l.coll, l.coll_type, sum(l.cells) AS last_arrivals
    FROM last_ranks AS l
    JOIN members AS m
        ON hash(m.comm_key, m.rank, m.hostname, m.pid) = hash(l.comm_key, l.rank, l.hostname, l.pid)
    GROUP BY ALL
),
arrivals AS (
    SELECT 'process' AS level, hostname, writer, coll, coll_type, last_arrivals FROM process_arrivals
    UNION ALL
    SELECT 'host', hostname, NULL, coll, coll_type, sum(last_arrivals) FROM process_arrivals GROUP BY ALL
),
named AS (SELECT DISTINCT writer_of(process, hostname, pid) AS writer, process FROM processes),
measured AS (SELECT * REPLACE (CASE level WHEN 0 THEN 'process' ELSE 'host' END AS level) FROM shares)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    m.level, m.hostname, m.pid, n.process, m.coll, m.coll_type,
    m.min_message_bytes, m.records, m.busbw[1] AS busbw_p10_gbs, m.busbw[2] AS busbw_p50_gbs,
    m.busbw[3] AS busbw_p90_gbs, m.exec_time[1] AS exec_time_p50_us,
    coalesce(p.cells, 0) AS cells,
    coalesce(a.last_arrivals, 0) AS last_arrivals,
    round(coalesce(p.expected_last_arrivals, 0), 6) AS expected_last_arrivals
FROM measured AS m
LEFT JOIN named AS n ON n.writer = m.writer
LEFT JOIN participation AS p
    ON p.level = m.level AND p.hostname IS NOT DISTINCT FROM m.hostname AND p.writer IS NOT DISTINCT FROM m.writer
    AND p.coll IS NOT DISTINCT FROM m.coll AND p.coll_type IS NOT DISTINCT FROM m.coll_type
LEFT JOIN arrivals AS a
    ON a.level = m.level AND a.hostname IS NOT DISTINCT FROM m.hostname AND a.writer IS NOT DISTINCT FROM m.writer
    AND a.coll IS NOT DISTINCT FROM m.coll AND a.coll_type IS NOT DISTINCT FROM m.coll_type
ORDER BY m.level, m.coll, m.coll_type, m.hostname, m.pid, n.process
"""


# A ratio to fewer expected arrivals than this is luck.
_MIN_EXPECTED = 20


def _highlights(rows: list[Row]) -> Highlights:
    hosts = [row for row in rows if row["level"] == "host"]
    compared = [row for row in hosts if (row["expected_last_arrivals"] or 0) >= _MIN_EXPECTED]
    excess = max((row["last_arrivals"] / row["expected_last_arrivals"] for row in compared), default=None)
    return {"hosts": len({row["hostname"] for row in hosts}), "most last arrivals of a host / expected": excess}


ANALYSIS = Analysis(
    name="spatial_correlation",
    version="2",
    title="Hosts and processes",
    question="Which hosts and processes communicate differently from the rest, and who keeps the others waiting?",
    reading=(
        "A low bandwidth does not make a host slow: an early rank waits inside the operation, so the LATE rank has "
        "the shortest time and the highest bandwidth. Look for a place that was the last to arrive clearly more "
        "often than expected; equal low bandwidths throughout a communicator point to the transfer, and to no single "
        "host."
    ),
    columns=(
        RUN,
        Column("level", STRING, Role.DERIVED, "", "host or process"),
        *event("hostname"),
        Column("pid", event("pid")[0].type, Role.IDENTIFIER, "", "Process id on that host; null at host level"),
        Column(
            "process", STRING, Role.DERIVED, "", "<hostname>-pid<pid>, with its rank if it has several; null for hosts"
        ),
        *event("coll", "coll_type"),
        MIN_MESSAGE_BYTES,
        RECORDS,
        *busbw(10, 50, 90),
        EXEC_TIME_P50,
        count(
            "cells", "collectives", "Complete collectives it took part in, of functions in which all ranks end together"
        ),
        count(
            "last_arrivals",
            "collectives",
            "Of those, collectives in which it alone had the shortest time: it came last",
        ),
        derived(
            "expected_last_arrivals",
            "collectives",
            "Last arrivals if all ranks were last equally often: sum of 1/n_ranks per rank over decided cells",
        ),
    ),
    key=("level", "hostname", "process", "coll", "coll_type"),
    sql=SQL,
    parameters=large_messages,
    shares=_SHARES,
    highlights=_highlights,
)
