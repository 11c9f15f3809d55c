"""How bandwidth and execution time developed over the run."""

from statistics import median

from nixt_pipeline.analysis.base import Analysis, Highlights, Row, Shares
from nixt_pipeline.analysis.columns import (
    EXEC_TIME_P50,
    LEAST_BYTES,
    MIN_MESSAGE_BYTES,
    RECORDS,
    TRANSFER_BUSBW_P50,
    busbw,
    event,
    large_messages,
)
from nixt_pipeline.analysis.distributions import KERNEL, SAMPLES
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.taxonomy import RUN, count

# Points that a chart as wide as a page can still show apart.
_BINS = 120
_IMPLAUSIBLE = int(RecordFlag.TIMESTAMP_IMPLAUSIBLE)

# Bins of each launch; the start is that of its first record.
SPANS = """
spans AS (
    SELECT
        incarnation,
        min(first_dump_us) AS start_us,
        (max(last_dump_us) - min(first_dump_us)) // $bins + 1 AS bin_width_us
    FROM communicators
    WHERE first_dump_us IS NOT NULL
    GROUP BY incarnation
)
"""

# Ranges of whole bins: most logs are in the order of time, so that what lies outside of a range is hardly read. All
# launches are in each share, for a directory can hold thousands of them.
_SHARES = Shares(
    parameters=f"""
    WITH {SPANS},
    cut AS (SELECT {LEAST_BYTES} AS min_message_bytes),
    -- Each pass reads all of the events, and their times take little memory.
    number_of AS (
        SELECT least(sum(records)::BIGINT // (2 * $records_per_share) + 1, $bins) AS passes FROM communicators
    ),
    cuts AS (
        SELECT numbers.pass * $bins // passes AS first_bin, (numbers.pass + 1) * $bins // passes AS after_bin
        FROM number_of CROSS JOIN range(passes) AS numbers (pass)
    )
    SELECT
        c.min_message_bytes, p.first_bin, p.after_bin,
        min(s.start_us + p.first_bin * s.bin_width_us) AS from_us,
        max(s.start_us + p.after_bin * s.bin_width_us) AS to_us
    FROM cut AS c CROSS JOIN cuts AS p CROSS JOIN spans AS s
    GROUP BY c.min_message_bytes, p.first_bin, p.after_bin
    ORDER BY p.first_bin
    """,
    sql=f"""
    WITH {SPANS}
    SELECT
        e.incarnation,
        bin_start(e.dump_timestamp_us, s.start_us, s.bin_width_us) AS bin_start_us, s.start_us, s.bin_width_us,
        $min_message_bytes AS min_message_bytes, e.coll_type,
        {SAMPLES}
    FROM launched_events AS e
    JOIN spans AS s ON s.incarnation = e.incarnation
    WHERE e.dump_timestamp_us >= $from_us AND e.dump_timestamp_us < $to_us AND e.flags & $implausible = 0
        AND (e.dump_timestamp_us - s.start_us) // s.bin_width_us BETWEEN $first_bin AND $after_bin - 1
        AND e.coll_msg_size_bytes >= $min_message_bytes
    GROUP BY e.incarnation, bin_start_us, s.start_us, s.bin_width_us, e.coll_type, {KERNEL}
    """,
    levels=(("incarnation", "bin_start_us", "start_us", "bin_width_us", "min_message_bytes", "coll", "coll_type"),),
    busbw_quantiles=(0.25, 0.5, 0.75),
)

SQL = """
WITH spans AS (SELECT DISTINCT incarnation, start_us, bin_width_us, min_message_bytes FROM shares),
cell_bins AS (
    SELECT
        c.incarnation,
        -- All ranks end together, so the first write time is the tightest bound on the end.
        bin_start(c.first_dump_us, s.start_us, s.bin_width_us) AS bin_start_us,
        c.coll, c.coll_type,
        count(*) AS cells,
        quantile_cont(c.transfer_busbw_gbs, 0.5) AS transfer_busbw_p50_gbs
    FROM cells AS c
    JOIN spans AS s ON s.incarnation = c.incarnation
    WHERE c.transfer_busbw_gbs IS NOT NULL AND c.first_dump_us IS NOT NULL
        AND c.coll_msg_size_bytes >= s.min_message_bytes
    GROUP BY ALL
)
SELECT
    (SELECT any_value(run) FROM communicators) AS run, r.incarnation, r.bin_start_us, r.bin_width_us,
    r.min_message_bytes, r.coll, r.coll_type, r.records,
    r.busbw[1] AS busbw_p25_gbs, r.busbw[2] AS busbw_p50_gbs, r.busbw[3] AS busbw_p75_gbs,
    r.exec_time[1] AS exec_time_p50_us,
    coalesce(c.cells, 0) AS cells, c.transfer_busbw_p50_gbs
-- The first record of a cell lies in the cell's bin, so no bin has cells without having records.
FROM shares AS r
LEFT JOIN cell_bins AS c
    ON c.incarnation = r.incarnation AND c.bin_start_us = r.bin_start_us
    AND c.coll IS NOT DISTINCT FROM r.coll AND c.coll_type IS NOT DISTINCT FROM r.coll_type
ORDER BY r.incarnation, r.bin_start_us, r.coll, r.coll_type
"""


def _highlights(rows: list[Row]) -> Highlights:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["transfer_busbw_p50_gbs"]:
            groups.setdefault((row["coll"], row["coll_type"]), []).append(row["transfer_busbw_p50_gbs"])
    lowest = min((min(values) / median(values) for values in groups.values()), default=None)
    return {"time bins": len({row["bin_start_us"] for row in rows}), "slowest bin / median transfer bandwidth": lowest}


ANALYSIS = Analysis(
    name="temporal_correlation",
    version="2",
    title="Bandwidth over time",
    question="When did communication become slower or faster?",
    reading=(
        "Times are write times on each host's clock, later than the operation by up to one dump interval. The "
        "quartiles include waiting for late ranks; the transfer bandwidth, taken from the last rank to arrive, does "
        "not. If only the quartiles drop, a rank was late; if the transfer bandwidth drops too, the transfer "
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
        *busbw(25, 50, 75),
        EXEC_TIME_P50,
        count(
            "cells",
            "collectives",
            "Complete collectives written in the bin, of functions in which all ranks end together",
        ),
        TRANSFER_BUSBW_P50,
    ),
    key=("incarnation", "bin_start_us", "coll", "coll_type"),
    sql=SQL,
    parameters=lambda settings: large_messages(settings) | {"bins": _BINS, "implausible": _IMPLAUSIBLE},
    shares=_SHARES,
    highlights=_highlights,
)
