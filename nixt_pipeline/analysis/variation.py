"""How much times vary within a hot kernel, split in two ways: over time and between ranks, transfer and waiting."""

from nixt_pipeline.analysis.base import TOP, Analysis
from nixt_pipeline.analysis.columns import event
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.inspector.taxonomy import RUN, count, derived

_KERNELS_SHOWN = 10

# The collectives of several ranks that most bytes are of.
HOTTEST = f"""
{KERNELS},
hottest AS (
    SELECT *
    FROM kernels
    WHERE kind = 'collective' AND n_ranks > 1
    QUALIFY row_number() OVER (ORDER BY rank_by_bytes) <= $kernels_shown
)
"""

# The law of total variance: variance = variance of the ranks' means + mean of the ranks' variances. Ranks are those of
# a communicator. Sums over integers of microseconds are rounded, because the order of a parallel sum must not show.
SQL = f"""
WITH {HOTTEST},
by_rank AS (
    SELECT
        c.incarnation, r.* EXCLUDE (comm_key)
    FROM (
        SELECT
            h.rank_by_bytes, e.comm_key, e.rank,
            count(*)::DOUBLE AS n, avg(e.coll_exec_time_us) AS mean_us, var_pop(e.coll_exec_time_us) AS variance
        FROM stored_events AS e
        JOIN hottest AS h ON h.kernel_key = e.kernel_key
        WHERE e.coll_exec_time_us IS NOT NULL
        GROUP BY ALL
    ) AS r
    JOIN communicators AS c ON c.comm_key = r.comm_key
),
weighted AS (
    SELECT *, sum(n * mean_us) OVER kernel / sum(n) OVER kernel AS total_mean_us
    FROM by_rank
    WINDOW kernel AS (PARTITION BY incarnation, rank_by_bytes)
),
split AS (
    SELECT
        incarnation, rank_by_bytes,
        sum(n)::BIGINT AS samples, count(*) AS ranks, max(total_mean_us) AS mean_us,
        sum(n * (mean_us - total_mean_us) ** 2) / sum(n) AS between_ranks,
        sum(n * variance) / sum(n) AS within_ranks
    FROM weighted
    GROUP BY incarnation, rank_by_bytes
),
transfers AS (
    SELECT
        c.incarnation, h.rank_by_bytes, count(*) AS cells,
        avg(c.min_exec_time_us) AS mean_us, var_pop(c.min_exec_time_us) AS variance,
        sum(c.wait_us) / sum(c.n_ranks) AS wait_us
    FROM cells AS c
    JOIN hottest AS h ON h.kernel_key = c.kernel_key
    WHERE c.complete AND ends_together(c.coll)
    GROUP BY c.incarnation, h.rank_by_bytes
)
SELECT
    h.run, s.incarnation, h.rank_by_bytes, h.label, h.coll, h.coll_type, h.n_ranks, h.nnodes, h.coll_msg_size_bytes,
    s.samples, s.ranks, t.cells,
    round(s.mean_us, 6) AS exec_time_mean_us,
    round(sqrt(s.between_ranks + s.within_ranks) / s.mean_us, 6) AS exec_time_cv,
    round(sqrt(s.between_ranks) / s.mean_us, 6) AS between_ranks_cv,
    round(sqrt(s.within_ranks) / s.mean_us, 6) AS within_ranks_cv,
    round(t.mean_us, 6) AS transfer_mean_us,
    round(sqrt(t.variance) / t.mean_us, 6) AS transfer_cv,
    round(t.wait_us, 6) AS wait_mean_us,
    round(s.between_ranks / nullif(s.between_ranks + s.within_ranks, 0), 6) AS share_between_ranks,
    CASE WHEN t.cells > 0 AND s.between_ranks + s.within_ranks > 0
        THEN round(least(t.variance / (s.between_ranks + s.within_ranks), 1), 6)
    END AS share_of_transfer
FROM split AS s
JOIN hottest AS h ON h.rank_by_bytes = s.rank_by_bytes
LEFT JOIN transfers AS t ON t.incarnation = s.incarnation AND t.rank_by_bytes = s.rank_by_bytes
ORDER BY s.incarnation, h.rank_by_bytes
"""


ANALYSIS = Analysis(
    name="variation",
    version="1",
    title="Variation",
    question="Why do times vary within one hot kernel: because ranks wait, or because transfers differ?",
    reading=(
        "The coefficient of variation (standard deviation over mean) of the execution time contains waiting, warm-up "
        "and everything else. It is split in two ways. By place: ranks that differ all the time, and each rank "
        "varying over time. By cause: the part that the transfers' own variation explains, the rest being waiting. "
        "The split by cause compares all records with the complete collectives, so it needs a high capture rate. A "
        "comparison with nccl-tests needs equal sizes, ranks and versions."
    ),
    columns=(
        RUN,
        *event("incarnation"),
        count("rank_by_bytes", "", "Rank of the kernel by observed message bytes"),
        LABEL,
        *event("coll", "coll_type", "n_ranks", "nnodes", "coll_msg_size_bytes"),
        count("samples", "records", "Records with a usable time"),
        count("ranks", "ranks", "Ranks of communicators that they are from"),
        count("cells", "collectives", "Complete collectives, of functions in which all ranks end together; or null"),
        derived("exec_time_mean_us", "us", "Mean execution time, waiting included"),
        derived("exec_time_cv", "", "Coefficient of variation of execution time (population deviation / mean)"),
        derived("between_ranks_cv", "", "Deviation of the ranks' means / mean: places that differ all the time"),
        derived("within_ranks_cv", "", "Deviation of each rank about its own mean / mean: variation over time"),
        derived("transfer_mean_us", "us", "Mean of the shortest times of the complete collectives"),
        derived("transfer_cv", "", "Coefficient of variation of the shortest times"),
        derived("wait_mean_us", "us", "Mean waiting per rank and complete collective"),
        derived("share_between_ranks", "", "Share of the variance that lies between ranks, 0 to 1"),
        derived("share_of_transfer", "", "Variance of the shortest times over the variance of all times, at most 1"),
    ),
    key=("incarnation", "label"),
    fractions=("share_between_ranks", "share_of_transfer"),
    sql=SQL,
    parameters=lambda _: {"kernels_shown": _KERNELS_SHOWN},
    highlights=lambda rows: {f"CV, {row['label']}": row["exec_time_cv"] for row in rows[:TOP]},
)
