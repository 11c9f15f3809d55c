"""How often each operation was recorded, and how many bytes it stands for."""

from nixt_pipeline.analysis.base import TOP, Analysis, Highlights, Row, total
from nixt_pipeline.analysis.columns import EXEC_TIME_P50, PAYLOAD_BYTES, RECORDS, WIRE_BYTES, busbw, event
from nixt_pipeline.inspector.taxonomy import RUN, count, derived

# For `quantile_of_counts`: how many of the records `n` of a pool, by its `number`, have at most each of the times and
# bandwidths in `counts`, and how many have any.
RANKED = """
ranked AS (
    SELECT
        *,
        sum(n) OVER (by_time) AS time_upto,
        sum(n) FILTER (WHERE coll_exec_time_us IS NOT NULL) OVER (pool) AS time_total,
        sum(n) OVER (by_bandwidth) AS busbw_upto,
        sum(n) FILTER (WHERE coll_busbw_gbs IS NOT NULL) OVER (pool) AS busbw_total
    FROM counts
    WINDOW
        pool AS (PARTITION BY number),
        by_time AS (PARTITION BY number ORDER BY coll_exec_time_us NULLS LAST),
        by_bandwidth AS (PARTITION BY number ORDER BY coll_busbw_gbs NULLS LAST)
)
"""

SQL = f"""
WITH counts AS (
    SELECT
        any_value(run) AS run,
        kind, coll, coll_type, coll_msg_size_bytes,
        wire_bytes(coll, coll_msg_size_bytes, n_ranks) AS wire_bytes,
        coll_exec_time_us, coll_busbw_gbs,
        sum(records)::BIGINT AS n,
        hash(kind, coll, coll_type) AS number  -- Sorting by one number is faster than by three strings.
    FROM kernel_times
    GROUP BY kind, coll, coll_type, coll_msg_size_bytes, wire_bytes, coll_exec_time_us, coll_busbw_gbs
),
{RANKED},
operations AS (
    SELECT
        any_value(run) AS run,
        kind, coll, coll_type,
        sum(n) AS records,
        -- HUGEINT sums are exact, and so do not depend on the order of a parallel sum.
        coalesce(sum(coll_msg_size_bytes::HUGEINT * n), 0)::DOUBLE AS payload_bytes,
        round(sum(wire_bytes * n)) AS wire_bytes,
        round(sum(coll_exec_time_us * n), 3) AS exec_time_us,
        coalesce(sum(n) FILTER (WHERE coll_exec_time_us IS NULL), 0) AS unusable_times,
        quantile_of_counts(coll_exec_time_us, time_upto, time_total, 0.5) AS exec_time_p50_us,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.5) AS busbw_p50_gbs
    FROM ranked
    GROUP BY kind, coll, coll_type
),
distinct_collectives AS (
    SELECT 'collective' AS kind, coll, coll_type, count(*) AS collectives FROM cells GROUP BY coll, coll_type
)
SELECT
    o.run, o.kind, o.coll, o.coll_type, o.records, d.collectives, o.payload_bytes, o.wire_bytes, o.exec_time_us,
    o.records / sum(o.records) OVER () AS share_of_records,
    o.payload_bytes / nullif(sum(o.payload_bytes) OVER (), 0) AS share_of_payload,
    o.unusable_times, o.exec_time_p50_us, o.busbw_p50_gbs
FROM operations AS o
LEFT JOIN distinct_collectives AS d
    ON d.kind = o.kind AND d.coll IS NOT DISTINCT FROM o.coll AND d.coll_type IS NOT DISTINCT FROM o.coll_type
ORDER BY o.kind, o.payload_bytes DESC, o.coll, o.coll_type
"""


def _highlights(rows: list[Row]) -> Highlights:
    largest = sorted(rows, key=lambda row: -(row["payload_bytes"] or 0))[:TOP]
    medians = {f"busbw p50 GB/s, {row['coll']} {row['coll_type']}": row["busbw_p50_gbs"] for row in largest}
    return {"records": sum(row["records"] for row in rows), "payload GB": total(rows, "payload_bytes") / 1e9, **medians}


ANALYSIS = Analysis(
    name="summary_histogram",
    version="1",
    title="Operations",
    question="Which operations did this job record, how often, and how many bytes do they stand for?",
    reading=(
        "Counts and bytes are what was observed: the plugin drops records without a word (see the capture rates "
        "under coverage), so they are a lower bound, not the job's traffic. A collective appears once per rank that "
        "recorded it; `collectives` counts it once."
    ),
    columns=(
        RUN,
        *event("kind", "coll", "coll_type"),
        RECORDS,
        count("collectives", "collectives", "Distinct collectives across ranks; null for P2P"),
        PAYLOAD_BYTES,
        WIRE_BYTES,
        derived("exec_time_us", "us", "Sum of the execution times of all ranks, waiting for peers included"),
        derived("share_of_records", "", "Share of the run's records, 0 to 1"),
        derived("share_of_payload", "", "Share of the run's observed message bytes, 0 to 1"),
        count("unusable_times", "records", "Records without a usable execution time"),
        EXEC_TIME_P50,
        *busbw(50),
    ),
    key=("kind", "coll", "coll_type"),
    fractions=("share_of_records", "share_of_payload"),
    adds_up_to="events",
    sql=SQL,
    highlights=_highlights,
)
