"""How hosts and processes differ: their bandwidth, and how often each was the last to arrive."""

from nixt_pipeline.analysis.base import Analysis, Shares
from nixt_pipeline.analysis.columns import (
    BUSBW_P10,
    BUSBW_P50,
    BUSBW_P90,
    EXEC_TIME_P50,
    MIN_MESSAGE_BYTES,
    RECORDS,
    count,
    derived,
    event,
)
from nixt_pipeline.analysis.distributions import KERNEL, OF_HOSTS, SAMPLES
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings

_MIN_MESSAGE_BYTES = """(
    SELECT CASE WHEN max(coll_msg_size_bytes) >= $large_message_bytes THEN $large_message_bytes ELSE 0 END
    FROM kernel_times
) AS min_message_bytes"""

_SHARES = Shares(
    parameters=OF_HOSTS.format(columns=_MIN_MESSAGE_BYTES),
    # Small messages have low bandwidths by nature: they are counted, but their bandwidths and times are left out.
    sql=f"""
    SELECT
        hostname, pid, coll_type(n_ranks, nnodes) AS coll_type, $min_message_bytes AS min_message_bytes,
        {SAMPLES}
    FROM stored_events
    WHERE hostname BETWEEN $first_host AND $last_host OR ($first_host IS NULL AND hostname IS NULL)
    GROUP BY hostname, pid, {KERNEL}
    """,
    levels=(
        ("hostname", "pid", "coll", "coll_type", "min_message_bytes"),
        ("hostname", "coll", "coll_type", "min_message_bytes"),
    ),
    busbw_quantiles=(0.1, 0.5, 0.9),
)

SQL = """
WITH complete_cells AS (
    SELECT
        incarnation, id, comm_name, n_ranks, nnodes, coll, coll_type,
        count(*) AS cells,
        count(*) FILTER (WHERE min_exec_time_us < second_min_exec_time_us) AS decided
    FROM cells
    WHERE complete AND n_ranks > 1 AND coll IN (SELECT unnest($sync_collectives))
    GROUP BY ALL
),
-- In a complete cell every member of the communicator took part, so membership says where the cells belong.
places AS (
    SELECT 'process' AS level, incarnation, id, comm_name, n_ranks, nnodes, hostname, pid, count(DISTINCT rank) AS ranks
    FROM membership GROUP BY ALL
    UNION ALL
    SELECT 'host', incarnation, id, comm_name, n_ranks, nnodes, hostname, NULL, count(DISTINCT rank)
    FROM membership GROUP BY ALL
),
participation AS (
    SELECT
        p.level, p.hostname, p.pid, c.coll, c.coll_type,
        sum(c.cells) AS cells,
        sum(c.decided * p.ranks / c.n_ranks) AS expected_last_arrivals
    FROM complete_cells AS c
    JOIN places AS p
        ON p.incarnation = c.incarnation AND p.id IS NOT DISTINCT FROM c.id
        AND p.comm_name IS NOT DISTINCT FROM c.comm_name
        AND p.n_ranks = c.n_ranks AND p.nnodes IS NOT DISTINCT FROM c.nnodes
    GROUP BY ALL
),
process_arrivals AS (
    SELECT min_hostname AS hostname, min_pid AS pid, coll, coll_type, count(*) AS last_arrivals
    FROM cells
    WHERE complete AND n_ranks > 1 AND coll IN (SELECT unnest($sync_collectives))
        -- Ranks with equal shortest times arrived together, within the clock's microsecond: nobody was last.
        AND min_exec_time_us < second_min_exec_time_us
    GROUP BY ALL
),
arrivals AS (
    SELECT 'process' AS level, hostname, pid, coll, coll_type, last_arrivals FROM process_arrivals
    UNION ALL
    SELECT 'host', hostname, NULL, coll, coll_type, sum(last_arrivals) FROM process_arrivals GROUP BY ALL
),
measured AS (SELECT * REPLACE (CASE level WHEN 0 THEN 'process' ELSE 'host' END AS level) FROM shares)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    m.level, m.hostname, m.pid, m.hostname || '-pid' || m.pid AS process, m.coll, m.coll_type,
    m.min_message_bytes, m.records, m.busbw[1] AS busbw_p10_gbs, m.busbw[2] AS busbw_p50_gbs,
    m.busbw[3] AS busbw_p90_gbs, m.exec_time[1] AS exec_time_p50_us,
    coalesce(p.cells, 0) AS cells,
    coalesce(a.last_arrivals, 0) AS last_arrivals,
    round(coalesce(p.expected_last_arrivals, 0), 6) AS expected_last_arrivals
FROM measured AS m
LEFT JOIN participation AS p
    ON p.level = m.level AND p.hostname IS NOT DISTINCT FROM m.hostname AND p.pid IS NOT DISTINCT FROM m.pid
    AND p.coll IS NOT DISTINCT FROM m.coll AND p.coll_type IS NOT DISTINCT FROM m.coll_type
LEFT JOIN arrivals AS a
    ON a.level = m.level AND a.hostname IS NOT DISTINCT FROM m.hostname AND a.pid IS NOT DISTINCT FROM m.pid
    AND a.coll IS NOT DISTINCT FROM m.coll AND a.coll_type IS NOT DISTINCT FROM m.coll_type
ORDER BY m.level, m.coll, m.coll_type, m.hostname, m.pid
"""


def _parameters(settings: Settings) -> dict[str, object]:
    return {
        "large_message_bytes": settings.thresholds.large_message_bytes,
        "sync_collectives": list(SYNC_COLLECTIVES),
    }


ANALYSIS = Analysis(
    name="spatial_correlation",
    version="1",
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
        Column("process", STRING, Role.DERIVED, "", "<hostname>-pid<pid>; null at host level"),
        *event("coll", "coll_type"),
        MIN_MESSAGE_BYTES,
        RECORDS,
        BUSBW_P10,
        BUSBW_P50,
        BUSBW_P90,
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
    sql=SQL,
    parameters=_parameters,
    shares=_SHARES,
)
