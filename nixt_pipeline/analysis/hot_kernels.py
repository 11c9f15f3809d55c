"""Hot kernels: the few combinations of function, communicator shape and message size that carry most bytes and time."""

from nixt_pipeline.analysis.base import TOP, Analysis, Highlights, Row
from nixt_pipeline.analysis.columns import (
    EXEC_TIME_P50,
    PAYLOAD_BYTES,
    RECORDS,
    TRANSFER_BUSBW_P50,
    WIRE_BYTES,
    busbw,
    event,
)
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role, count, derived

LABEL = Column("label", STRING, Role.DERIVED, "", "The kernel for people, unique within the run")

# Every kernel with its rank and its label. Sizes that differ only beyond three digits would share a label, so those
# are written out.
KERNELS = """
kernel_records AS (
    SELECT
        any_value(run) AS run,
        kernel_key, kind, coll, coll_type, n_ranks, nnodes, coll_msg_size_bytes,
        sum(t.records) AS records,
        coalesce(sum(coll_msg_size_bytes::HUGEINT * t.records), 0)::DOUBLE AS payload_bytes,
        concat(coalesce(nullif(coll, ''), '(unnamed)'), ' ', coll_type, ' ', n_ranks, 'r/', nnodes, 'n ') AS operation
    FROM kernel_times AS t
    GROUP BY kernel_key, kind, coll, coll_type, n_ranks, nnodes, coll_msg_size_bytes
),
kernels AS (
    SELECT
        * EXCLUDE (operation),
        row_number() OVER by_bytes AS rank_by_bytes,
        sum(payload_bytes) OVER by_bytes AS cumulative_payload_bytes,
        CASE WHEN count(*) OVER (PARTITION BY operation, message_size(coll_msg_size_bytes)) = 1
            THEN concat(operation, message_size(coll_msg_size_bytes))
            ELSE concat(operation, coll_msg_size_bytes, ' B')
        END AS label
    FROM kernel_records
    WINDOW by_bytes AS (
        ORDER BY payload_bytes DESC, records DESC, kind, coll, coll_type, n_ranks, nnodes, coll_msg_size_bytes
        ROWS UNBOUNDED PRECEDING
    )
)
"""


SQL = f"""
WITH {KERNELS},
counts AS (
    SELECT
        kernel_key, wire_bytes(coll, coll_msg_size_bytes, n_ranks) AS wire_bytes,
        coll_exec_time_us, coll_busbw_gbs,
        sum(records)::BIGINT AS n
    FROM kernel_times
    GROUP BY ALL
),
ranked AS (
    SELECT
        *,
        sum(n) OVER (by_time) AS time_upto,
        sum(n) FILTER (WHERE coll_exec_time_us IS NOT NULL) OVER (kernel) AS time_total,
        sum(n) OVER (by_bandwidth) AS busbw_upto,
        sum(n) FILTER (WHERE coll_busbw_gbs IS NOT NULL) OVER (kernel) AS busbw_total,
        sum(n * coll_busbw_gbs) OVER (kernel) / busbw_total AS busbw_mean
    FROM counts
    WINDOW
        kernel AS (PARTITION BY kernel_key),
        by_time AS (PARTITION BY kernel_key ORDER BY coll_exec_time_us NULLS LAST),
        by_bandwidth AS (PARTITION BY kernel_key ORDER BY coll_busbw_gbs NULLS LAST)
),
measured AS (
    SELECT
        kernel_key,
        round(sum(wire_bytes * n)) AS wire_bytes,
        round(sum(coll_exec_time_us * n), 3) AS rank_time_us,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.1) AS busbw_p10_gbs,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.5) AS busbw_p50_gbs,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.9) AS busbw_p90_gbs,
        max(coll_busbw_gbs) AS busbw_max_gbs,
        -- Population deviation over mean, as in the paper; rounded, because the order of a parallel sum must not show.
        round(sqrt(sum(n * (coll_busbw_gbs - busbw_mean) ** 2) / max(busbw_total)) / max(busbw_mean), 6) AS busbw_cv,
        quantile_of_counts(coll_exec_time_us, time_upto, time_total, 0.5) AS exec_time_p50_us,
        quantile_of_counts(coll_exec_time_us, time_upto, time_total, 0.99) AS exec_time_p99_us
    FROM ranked
    GROUP BY kernel_key
),
members AS (
    SELECT DISTINCT kernel_key, comm_key, hostname FROM stored_events
),
spread AS (
    SELECT kernel_key, count(DISTINCT comm_key) AS communicators, count(DISTINCT hostname) AS hosts
    FROM members
    GROUP BY kernel_key
),
-- Sequence numbers count all sizes of a function together, so capture is known per communicator and function only.
capture AS (
    SELECT m.kernel_key, sum(s.records_captured) / sum(s.records_expected) AS capture_rate
    FROM (SELECT DISTINCT kernel_key, comm_key FROM members) AS m
    JOIN kernels AS k ON k.kind = 'collective' AND k.kernel_key = m.kernel_key
    JOIN series AS s ON s.comm_key = m.comm_key AND s.coll IS NOT DISTINCT FROM k.coll
    GROUP BY m.kernel_key
),
transfers AS (
    SELECT
        kernel_key,
        count(*) AS collectives,
        count(*) FILTER (WHERE splits) AS complete_cells,
        round(sum(min_exec_time_us) FILTER (WHERE splits), 3) AS transfer_time_us,
        round(sum(wait_us) FILTER (WHERE splits), 3) AS wait_us,
        quantile_cont(transfer_busbw_gbs, 0.5) AS transfer_busbw_p50_gbs
    FROM (
        -- Time splits into waiting and transfer only when all ranks are there, and only where all ranks end together.
        SELECT *, complete AND coalesce(ends_together(coll), false) AS splits FROM cells
    )
    GROUP BY kernel_key
),
-- Totals of their own instead of windows over the whole result, which can have a row for each of a million sizes.
totals AS (
    SELECT
        (SELECT sum(payload_bytes) FROM kernels) AS payload_bytes,
        (SELECT sum(rank_time_us) FROM measured) AS rank_time_us
)
SELECT
    k.run, k.rank_by_bytes, k.label, k.kind, k.coll, k.coll_type, k.n_ranks, k.nnodes, k.coll_msg_size_bytes, k.records,
    CASE WHEN k.kind = 'collective' THEN coalesce(t.collectives, 0) END AS collectives,
    CASE WHEN k.kind = 'collective' THEN coalesce(t.complete_cells, 0) END AS complete_cells,
    s.communicators, s.hosts, k.payload_bytes, m.wire_bytes, m.rank_time_us, t.transfer_time_us, t.wait_us,
    m.busbw_p10_gbs, m.busbw_p50_gbs, m.busbw_p90_gbs, m.busbw_max_gbs, m.busbw_cv,
    m.exec_time_p50_us, m.exec_time_p99_us, t.transfer_busbw_p50_gbs, c.capture_rate,
    k.payload_bytes / nullif(totals.payload_bytes, 0) AS share_of_payload,
    k.cumulative_payload_bytes / nullif(totals.payload_bytes, 0) AS cumulative_share_of_payload,
    m.rank_time_us / nullif(totals.rank_time_us, 0) AS share_of_rank_time
FROM kernels AS k
CROSS JOIN totals
JOIN measured AS m ON m.kernel_key = k.kernel_key
JOIN spread AS s ON s.kernel_key = k.kernel_key
LEFT JOIN capture AS c ON c.kernel_key = k.kernel_key
LEFT JOIN transfers AS t ON t.kernel_key = k.kernel_key
ORDER BY k.rank_by_bytes
"""


def _highlights(rows: list[Row]) -> Highlights:
    needed = sum((row["cumulative_share_of_payload"] or 0) - (row["share_of_payload"] or 0) < 0.9 for row in rows)
    medians = {f"busbw p50 GB/s, {row['label']}": row["busbw_p50_gbs"] for row in rows[:TOP]}
    return {"kernels": len(rows), "kernels with 90 % of the bytes": needed, **medians}


ANALYSIS = Analysis(
    name="hot_kernels",
    version="2",
    title="Hot kernels",
    question="Which few operations carry most of the bytes, and which cost the GPUs most time?",
    reading=(
        "Bytes are those of the observed records; read them together with the capture rate, because dropped records "
        "are missing and sampling favours slow and sparse operations. Rank time counts waiting once per waiting rank, "
        "so a high rank time with a low transfer time means late ranks, not a slow network."
    ),
    columns=(
        RUN,
        count("rank_by_bytes", "", "1 for the kernel with the most observed message bytes"),
        LABEL,
        *event("kind", "coll", "coll_type", "n_ranks", "nnodes", "coll_msg_size_bytes"),
        RECORDS,
        count("collectives", "collectives", "Distinct collectives across ranks; null for P2P"),
        count(
            "complete_cells",
            "collectives",
            "Of those, complete ones of functions in which all ranks end together; null for P2P",
        ),
        count("communicators", "", "Distinct communicators"),
        count("hosts", "hosts", "Distinct hosts"),
        PAYLOAD_BYTES,
        WIRE_BYTES,
        derived("rank_time_us", "us", "Sum of the execution times of all ranks, waiting included"),
        derived("transfer_time_us", "us", "Sum of the shortest times over the complete cells; null without any"),
        derived(
            "wait_us", "us", "Rank time spent waiting for the last rank, over the complete cells; null without any"
        ),
        *busbw(10, 50, 90),
        derived("busbw_max_gbs", "GB/s", "Highest bus bandwidth: usually the last rank to arrive"),
        derived(
            "busbw_cv", "", "Coefficient of variation of bus bandwidth over all records (population deviation / mean)"
        ),
        EXEC_TIME_P50,
        derived("exec_time_p99_us", "us", "99th percentile of execution time, waiting included"),
        TRANSFER_BUSBW_P50,
        derived(
            "capture_rate",
            "",
            "Recorded share of the expected records of its communicators and function, all sizes; null for P2P",
        ),
        derived("share_of_payload", "", "Share of the run's observed message bytes, 0 to 1"),
        derived("cumulative_share_of_payload", "", "The same for this kernel and all before it"),
        derived("share_of_rank_time", "", "Share of the run's rank time, 0 to 1"),
    ),
    key=("label",),
    fractions=("share_of_payload", "cumulative_share_of_payload", "share_of_rank_time"),
    adds_up_to="events",
    sql=SQL,
    highlights=_highlights,
)
