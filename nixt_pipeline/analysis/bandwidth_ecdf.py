"""The distribution of bandwidth within each of the hottest kernels."""

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import count, derived, event
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings

# As many curves as a chart can still show apart; the paper's figures have 7 and 10.
_KERNELS_SHOWN = 10

# The 101 percentiles of each (rank_by_bytes, measure) of `counts`, which says how often (n) each value occurs.
CURVES = """
ranked AS (
    SELECT
        rank_by_bytes, measure, value,
        sum(n) OVER (PARTITION BY rank_by_bytes, measure ORDER BY value)::DOUBLE AS upto
    FROM counts
),
-- Position of each quantile among the samples, from 0: quantile_cont interpolates between the samples on either side.
positions AS (
    SELECT
        rank_by_bytes, measure, samples,
        percent / 100.0::DOUBLE AS quantile,
        percent * (samples - 1) / 100.0::DOUBLE AS position
    FROM (SELECT rank_by_bytes, measure, sum(n) AS samples FROM counts GROUP BY rank_by_bytes, measure)
    CROSS JOIN range(101) AS percents (percent)
),
below AS (
    SELECT p.*, r.value AS low
    FROM positions AS p
    ASOF JOIN ranked AS r
        ON r.rank_by_bytes = p.rank_by_bytes AND r.measure = p.measure AND floor(p.position) < r.upto
),
between_samples AS (
    SELECT b.*, r.value AS high
    FROM below AS b
    ASOF JOIN ranked AS r
        ON r.rank_by_bytes = b.rank_by_bytes AND r.measure = b.measure AND ceil(b.position) < r.upto
)
"""

SQL = f"""
WITH {KERNELS},
large AS (
    SELECT
        *,
        max(coll_msg_size_bytes) OVER () < $large_message_bytes AS none_is_large
    FROM kernels
),
hottest AS (
    SELECT *
    FROM large
    WHERE coll_msg_size_bytes >= $large_message_bytes OR none_is_large
    QUALIFY row_number() OVER (ORDER BY rank_by_bytes) <= $kernels_shown
),
counts AS (
    SELECT h.rank_by_bytes, 'busbw_gbs' AS measure, e.coll_busbw_gbs AS value, sum(e.records)::BIGINT AS n
    FROM kernel_times AS e
    JOIN hottest AS h
        ON h.kind = e.kind AND h.coll IS NOT DISTINCT FROM e.coll
        AND h.n_ranks IS NOT DISTINCT FROM e.n_ranks AND h.nnodes IS NOT DISTINCT FROM e.nnodes
        AND h.coll_msg_size_bytes IS NOT DISTINCT FROM e.coll_msg_size_bytes
    WHERE e.coll_busbw_gbs IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT h.rank_by_bytes, 'transfer_busbw_gbs', c.transfer_busbw_gbs, count(*)
    FROM cells AS c
    JOIN hottest AS h
        ON h.kind = 'collective' AND h.coll IS NOT DISTINCT FROM c.coll
        AND h.n_ranks IS NOT DISTINCT FROM c.n_ranks AND h.nnodes IS NOT DISTINCT FROM c.nnodes
        AND h.coll_msg_size_bytes IS NOT DISTINCT FROM c.coll_msg_size_bytes
    WHERE c.transfer_busbw_gbs IS NOT NULL
    GROUP BY ALL
),
{CURVES}
SELECT
    h.run, h.rank_by_bytes, h.label, h.kind, h.coll, h.coll_type, h.n_ranks, h.nnodes, h.coll_msg_size_bytes,
    b.measure, b.quantile,
    b.low + (b.high - b.low) * (b.position - floor(b.position)) AS value,
    b.samples
FROM between_samples AS b
JOIN hottest AS h ON h.rank_by_bytes = b.rank_by_bytes
ORDER BY h.rank_by_bytes, b.measure, b.quantile
"""


def _parameters(settings: Settings) -> dict[str, object]:
    return {"large_message_bytes": settings.thresholds.analysis.large_message_bytes, "kernels_shown": _KERNELS_SHOWN}


ANALYSIS = Analysis(
    name="bandwidth_ecdf",
    version="1",
    title="Bandwidth distributions",
    question="How much does bandwidth vary within one hot kernel, and how much of that is waiting?",
    reading=(
        "A curve far to the left of the transfer curve of the same kernel is time spent waiting for late ranks, not "
        "a slow network. The transfer curve has one sample per complete collective, the other one per rank and "
        "record; whole microseconds make steps in short operations."
    ),
    columns=(
        RUN,
        count("rank_by_bytes", "", "Rank of the kernel by observed message bytes, as in hot_kernels"),
        LABEL,
        *event("kind", "coll", "coll_type", "n_ranks", "nnodes", "coll_msg_size_bytes"),
        Column(
            "measure",
            STRING,
            Role.DERIVED,
            "",
            "busbw_gbs (every record, waiting included) or transfer_busbw_gbs (last to arrive, complete collectives)",
        ),
        derived("quantile", "", "Share of the samples at or below the value, 0 to 1 in steps of 0.01"),
        derived("value", "GB/s", "Bus bandwidth at that quantile"),
        count("samples", "", "Samples behind the curve"),
    ),
    sql=SQL,
    parameters=_parameters,
)
