"""How bandwidth and execution time developed over the run."""

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import (
    BUSBW_P25,
    BUSBW_P50,
    BUSBW_P75,
    EXEC_TIME_P50,
    MIN_MESSAGE_BYTES,
    RECORDS,
    TRANSFER_BUSBW_P50,
    count,
    event,
)
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.taxonomy import RUN
from nixt_pipeline.settings import Settings

# Points that a chart as wide as a page can still show apart.
_BINS = 120

SQL = """
WITH cut AS (
    SELECT
        any_value(run) AS run,
        CASE
            WHEN max(coll_msg_size_bytes) >= $large_message_bytes THEN $large_message_bytes ELSE 0
        END AS min_message_bytes
    FROM events
),
spans AS (
    SELECT
        incarnation,
        min(dump_timestamp_us) AS start_us,
        (max(dump_timestamp_us) - min(dump_timestamp_us)) // $bins + 1 AS bin_width_us
    FROM events
    WHERE flags & $implausible = 0
    GROUP BY incarnation
),
counts AS (
    SELECT
        e.incarnation,
        s.start_us + (e.dump_timestamp_us - s.start_us) // s.bin_width_us * s.bin_width_us AS bin_start_us,
        e.coll, e.coll_type, e.coll_exec_time_us, e.coll_busbw_gbs,
        count(*) AS n
    FROM events AS e
    JOIN spans AS s ON s.incarnation = e.incarnation
    CROSS JOIN cut
    WHERE e.dump_timestamp_us IS NOT NULL AND e.flags & $implausible = 0
        AND e.coll_msg_size_bytes >= cut.min_message_bytes
    GROUP BY ALL
),
ranked AS (
    SELECT
        *,
        sum(n) OVER (by_time) AS time_upto,
        sum(n) FILTER (WHERE coll_exec_time_us IS NOT NULL) OVER (bin) AS time_total,
        sum(n) OVER (by_bandwidth) AS busbw_upto,
        sum(n) FILTER (WHERE coll_busbw_gbs IS NOT NULL) OVER (bin) AS busbw_total
    FROM counts
    WINDOW
        bin AS (PARTITION BY incarnation, bin_start_us, coll, coll_type),
        by_time AS (PARTITION BY incarnation, bin_start_us, coll, coll_type ORDER BY coll_exec_time_us NULLS LAST),
        by_bandwidth AS (PARTITION BY incarnation, bin_start_us, coll, coll_type ORDER BY coll_busbw_gbs NULLS LAST)
),
record_bins AS (
    SELECT
        incarnation, bin_start_us, coll, coll_type,
        sum(n) AS records,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.25) AS busbw_p25_gbs,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.5) AS busbw_p50_gbs,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.75) AS busbw_p75_gbs,
        quantile_of_counts(coll_exec_time_us, time_upto, time_total, 0.5) AS exec_time_p50_us
    FROM ranked
    GROUP BY incarnation, bin_start_us, coll, coll_type
),
cell_bins AS (
    SELECT
        c.incarnation,
        -- All ranks end together, so the first write time is the tightest bound on the end.
        s.start_us + (c.first_dump_us - s.start_us) // s.bin_width_us * s.bin_width_us AS bin_start_us,
        c.coll, c.coll_type,
        count(*) AS cells,
        quantile_cont(c.transfer_busbw_gbs, 0.5) AS transfer_busbw_p50_gbs
    FROM cells AS c
    JOIN spans AS s ON s.incarnation = c.incarnation
    CROSS JOIN cut
    WHERE c.transfer_busbw_gbs IS NOT NULL AND c.first_dump_us IS NOT NULL
        AND c.coll_msg_size_bytes >= cut.min_message_bytes
    GROUP BY ALL
)
SELECT
    cut.run, r.incarnation, r.bin_start_us, s.bin_width_us, cut.min_message_bytes, r.coll, r.coll_type, r.records,
    r.busbw_p25_gbs, r.busbw_p50_gbs, r.busbw_p75_gbs, r.exec_time_p50_us,
    coalesce(c.cells, 0) AS cells, c.transfer_busbw_p50_gbs
-- The first record of a cell lies in the cell's bin, so no bin has cells without having records.
FROM record_bins AS r
JOIN spans AS s ON s.incarnation = r.incarnation
CROSS JOIN cut
LEFT JOIN cell_bins AS c
    ON c.incarnation = r.incarnation AND c.bin_start_us = r.bin_start_us
    AND c.coll IS NOT DISTINCT FROM r.coll AND c.coll_type IS NOT DISTINCT FROM r.coll_type
ORDER BY r.incarnation, r.bin_start_us, r.coll, r.coll_type
"""


def _parameters(settings: Settings) -> dict[str, object]:
    return {
        "large_message_bytes": settings.thresholds.large_message_bytes,
        "bins": _BINS,
        "implausible": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE),
    }


ANALYSIS = Analysis(
    name="temporal_correlation",
    version="1",
    title="Bandwidth over time",
    question="When did communication become slower or faster?",
    reading=(
        "Times are write times on each host's clock, later than the operation by up to one dump interval. The "
        "quartiles include waiting for late ranks; the transfer bandwidth, taken from the last rank to arrive, does "
        "not. If only the quartiles drop, somebody came late; if the transfer bandwidth drops too, the transfer "
        "itself became slower."
    ),
    columns=(
        RUN,
        *event("incarnation"),
        count("bin_start_us", "us", "Unix time at which the bin starts"),
        count("bin_width_us", "us", "Width of the bin: about 1/120 of the incarnation's span"),
        MIN_MESSAGE_BYTES,
        *event("coll", "coll_type"),
        RECORDS,
        BUSBW_P25,
        BUSBW_P50,
        BUSBW_P75,
        EXEC_TIME_P50,
        count(
            "cells",
            "collectives",
            "Complete collectives written in the bin, of functions in which all ranks end together",
        ),
        TRANSFER_BUSBW_P50,
    ),
    sql=SQL,
    parameters=_parameters,
)
