"""Waiting and transfer of the hot kernels, apart, over the run."""

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import count, derived, event
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.inspector.taxonomy import RUN
from nixt_pipeline.settings import Settings

# Columns that a chart as wide as a phone can still show apart.
BINS = 60
# Kernels with rows of their own; the others are pooled.
_KERNELS_SHOWN = 8

# Bins of each launch, for analyses of cells; the start is that of the run's first record.
BIN_SPANS = """
spans AS (
    SELECT
        incarnation,
        min(first_dump_us) AS start_us,
        (max(last_dump_us) - min(first_dump_us)) // $bins + 1 AS bin_width_us
    FROM processes
    WHERE first_dump_us IS NOT NULL
    GROUP BY incarnation
)
"""

SQL = f"""
WITH {KERNELS},
{BIN_SPANS},
hottest AS (
    SELECT * FROM kernels WHERE kind = 'collective' QUALIFY row_number() OVER (ORDER BY rank_by_bytes) <= $kernels_shown
),
binned AS (
    SELECT
        c.incarnation,
        s.start_us + (c.first_dump_us - s.start_us) // s.bin_width_us * s.bin_width_us AS bin_start_us,
        s.bin_width_us, h.rank_by_bytes, h.label, h.coll, h.coll_type,
        c.min_exec_time_us AS transfer_us, c.wait_us, c.n_ranks
    FROM cells AS c
    JOIN spans AS s ON s.incarnation = c.incarnation
    LEFT JOIN hottest AS h
        ON h.coll IS NOT DISTINCT FROM c.coll
        AND h.n_ranks IS NOT DISTINCT FROM c.n_ranks AND h.nnodes IS NOT DISTINCT FROM c.nnodes
        AND h.coll_msg_size_bytes IS NOT DISTINCT FROM c.coll_msg_size_bytes
    WHERE c.complete AND c.n_ranks > 1 AND c.coll IN (SELECT unnest($sync_collectives)) AND c.first_dump_us IS NOT NULL
)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    incarnation, bin_start_us, bin_width_us, rank_by_bytes, label, coll, coll_type,
    count(*) AS cells,
    round(sum(transfer_us * n_ranks), 3) AS transfer_rank_time_us,
    round(sum(wait_us), 3) AS wait_rank_time_us,
    quantile_cont(transfer_us, 0.25) AS transfer_time_p25_us,
    quantile_cont(transfer_us, 0.5) AS transfer_time_p50_us,
    quantile_cont(transfer_us, 0.75) AS transfer_time_p75_us,
    quantile_cont(wait_us / n_ranks, 0.25) AS wait_p25_us,
    quantile_cont(wait_us / n_ranks, 0.5) AS wait_p50_us,
    quantile_cont(wait_us / n_ranks, 0.75) AS wait_p75_us
FROM binned
GROUP BY incarnation, bin_start_us, bin_width_us, rank_by_bytes, label, coll, coll_type
ORDER BY incarnation, bin_start_us, rank_by_bytes
"""


def _parameters(_settings: Settings) -> dict[str, object]:
    return {"bins": BINS, "kernels_shown": _KERNELS_SHOWN, "sync_collectives": list(SYNC_COLLECTIVES)}


ANALYSIS = Analysis(
    name="waiting_over_time",
    version="1",
    title="Waiting and transfer over time",
    question="When did ranks wait for one another, and when did the transfers themselves become slower?",
    reading=(
        "Of a complete collective, the shortest time is the transfer and what the other ranks spent beyond it is "
        "waiting. More waiting at equal transfers means that somebody came late; longer transfers mean that the "
        "network or the NVLink became slower. Times are write times, late by up to one dump interval."
    ),
    columns=(
        RUN,
        *event("incarnation"),
        count("bin_start_us", "us", "Unix time at which the bin starts"),
        count("bin_width_us", "us", "Width of the bin: about 1/60 of the incarnation's span"),
        count("rank_by_bytes", "", "Rank of the kernel by observed message bytes; null for all others together"),
        LABEL,
        *event("coll", "coll_type"),
        count("cells", "collectives", "Complete collectives, of functions in which all ranks end together"),
        derived("transfer_rank_time_us", "us", "Shortest times, each counted for every rank: rank-time of transfers"),
        derived("wait_rank_time_us", "us", "Rank-time beyond the shortest times: waiting for the last rank"),
        derived("transfer_time_p25_us", "us", "25th percentile of the shortest time of a collective"),
        derived("transfer_time_p50_us", "us", "Median of the shortest time of a collective"),
        derived("transfer_time_p75_us", "us", "75th percentile of the shortest time of a collective"),
        derived("wait_p25_us", "us", "25th percentile of the waiting per rank of a collective"),
        derived("wait_p50_us", "us", "Median of the waiting per rank of a collective"),
        derived("wait_p75_us", "us", "75th percentile of the waiting per rank of a collective"),
    ),
    sql=SQL,
    parameters=_parameters,
)
