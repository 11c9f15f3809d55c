"""Waiting and transfer of the hot kernels, apart: over the run's time, and by the job's own progress."""

from statistics import median

from nixt_pipeline.analysis.base import Analysis, Highlights, Row, total
from nixt_pipeline.analysis.columns import event
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.analysis.temporal_correlation import SPANS
from nixt_pipeline.inspector.taxonomy import RUN, U64, Column, Role, count, derived

# Columns that a chart as wide as a phone can still show apart.
BINS = 60
# The diagnosis has at most as many time blocks.
_STRETCHES = 40
# Kernels with rows of their own.
_KERNELS_SHOWN = 8

_HOTTEST = """hottest AS (
    SELECT * FROM kernels WHERE kind = 'collective' QUALIFY row_number() OVER (ORDER BY rank_by_bytes) <= $kernels_shown
)"""
_USABLE = "c.complete AND c.n_ranks > 1 AND ends_together(c.coll)"
_QUARTILES = """quantile_cont(transfer_us, 0.25) AS transfer_time_p25_us,
    quantile_cont(transfer_us, 0.5) AS transfer_time_p50_us,
    quantile_cont(transfer_us, 0.75) AS transfer_time_p75_us,
    quantile_cont(rank_wait_us, 0.25) AS wait_p25_us,
    quantile_cont(rank_wait_us, 0.5) AS wait_p50_us,
    quantile_cont(rank_wait_us, 0.75) AS wait_p75_us"""

# Others than the hottest kernels are pooled.
_OVER_TIME = f"""
WITH {KERNELS},
{SPANS},
{_HOTTEST},
binned AS (
    SELECT
        c.incarnation,
        bin_start(c.first_dump_us, s.start_us, s.bin_width_us) AS bin_start_us,
        s.bin_width_us, h.rank_by_bytes, h.label, h.coll, h.coll_type,
        c.min_exec_time_us AS transfer_us, c.wait_us, c.wait_us / c.n_ranks AS rank_wait_us, c.n_ranks
    FROM cells AS c
    JOIN spans AS s ON s.incarnation = c.incarnation
    LEFT JOIN hottest AS h ON h.kernel_key = c.kernel_key
    WHERE {_USABLE} AND c.first_dump_us IS NOT NULL
)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    incarnation, bin_start_us, bin_width_us, rank_by_bytes, label, coll, coll_type,
    count(*) AS cells,
    round(sum(transfer_us * n_ranks), 3) AS transfer_rank_time_us,
    round(sum(wait_us), 3) AS wait_rank_time_us,
    {_QUARTILES}
FROM binned
GROUP BY incarnation, bin_start_us, bin_width_us, rank_by_bytes, label, coll, coll_type
ORDER BY incarnation, bin_start_us, rank_by_bytes
"""

# Sequence numbers count per communicator and function; communicators of one shape count the same operations. In
# floating point: a broken record can give a number near 2^64.
_BY_PROGRESS = f"""
WITH {KERNELS},
{_HOTTEST},
usable AS (
    SELECT
        c.incarnation, h.rank_by_bytes, h.label, h.coll, h.coll_type, c.coll_sn,
        c.min_exec_time_us AS transfer_us, c.wait_us / c.n_ranks AS rank_wait_us
    FROM cells AS c
    JOIN hottest AS h ON h.kernel_key = c.kernel_key
    WHERE {_USABLE} AND c.coll_sn IS NOT NULL
),
numbered AS (
    SELECT
        *,
        least(
            floor(
                (coll_sn::DOUBLE - min(coll_sn) OVER kernel::DOUBLE) * $stretches
                / (max(coll_sn) OVER kernel::DOUBLE - min(coll_sn) OVER kernel::DOUBLE + 1)
            )::BIGINT,
            $stretches - 1
        ) AS stretch
    FROM usable
    WINDOW kernel AS (PARTITION BY incarnation, rank_by_bytes)
)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    incarnation, rank_by_bytes, label, coll, coll_type, stretch,
    min(coll_sn) AS first_sn, max(coll_sn) AS last_sn, count(*) AS cells,
    {_QUARTILES}
FROM numbered
GROUP BY incarnation, rank_by_bytes, label, coll, coll_type, stretch
ORDER BY incarnation, rank_by_bytes, stretch
"""

_CELLS = count("cells", "collectives", "Complete collectives, of functions in which all ranks end together")
_QUARTILE_COLUMNS = (
    derived("transfer_time_p25_us", "us", "25th percentile of the shortest time of a collective"),
    derived("transfer_time_p50_us", "us", "Median of the shortest time of a collective"),
    derived("transfer_time_p75_us", "us", "75th percentile of the shortest time of a collective"),
    derived("wait_p25_us", "us", "25th percentile of the waiting per rank of a collective"),
    derived("wait_p50_us", "us", "Median of the waiting per rank of a collective"),
    derived("wait_p75_us", "us", "75th percentile of the waiting per rank of a collective"),
)


def _share_of_waiting(rows: list[Row]) -> Highlights:
    waited, moved = total(rows, "wait_rank_time_us"), total(rows, "transfer_rank_time_us")
    return {"share of waiting": waited / (waited + moved) if waited + moved else None}


def _slowest_stretch(rows: list[Row]) -> Highlights:
    longest: dict[str, list[float]] = {}
    for row in rows:
        if row["transfer_time_p50_us"]:
            longest.setdefault(row["label"], []).append(row["transfer_time_p50_us"])
    worst = max((max(times) / median(times) for times in longest.values()), default=None)
    return {"slowest stretch / median transfer time": worst}


WAITING_OVER_TIME = Analysis(
    name="waiting_over_time",
    version="1",
    title="Waiting and transfer over time",
    question="When did ranks wait for one another, and when did the transfers themselves become slower?",
    reading=(
        "Of a complete collective, the shortest time is the transfer and what the other ranks spent beyond it is "
        "waiting. More waiting at equal transfers means that a rank was late; longer transfers mean that the "
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
        _CELLS,
        derived("transfer_rank_time_us", "us", "Shortest times, each counted for every rank: rank-time of transfers"),
        derived("wait_rank_time_us", "us", "Rank-time beyond the shortest times: waiting for the last rank"),
        *_QUARTILE_COLUMNS,
    ),
    key=("incarnation", "bin_start_us", "label"),
    sql=_OVER_TIME,
    parameters=lambda _: {"bins": BINS, "kernels_shown": _KERNELS_SHOWN},
    highlights=_share_of_waiting,
)

WAITING_BY_PROGRESS = Analysis(
    name="waiting_by_progress",
    version="1",
    title="Waiting and transfer by progress",
    question="At which point of the job did waiting or transfers change, whatever the hosts' clocks say?",
    reading=(
        "The axis counts the collectives of a communicator, which is the same count on every rank: no clock is needed, "
        "so that hosts whose clocks differ cannot blur an onset. Time that passes without a collective does not show."
    ),
    columns=(
        RUN,
        *event("incarnation"),
        count("rank_by_bytes", "", "Rank of the kernel by observed message bytes"),
        LABEL,
        *event("coll", "coll_type"),
        count(
            "stretch", "", "0 to 39: fortieth of the sequence numbers from the first to the last complete collective"
        ),
        Column("first_sn", U64, Role.COUNTER, "", "Lowest sequence number in the stretch"),
        Column("last_sn", U64, Role.COUNTER, "", "Highest sequence number in the stretch"),
        _CELLS,
        *_QUARTILE_COLUMNS,
    ),
    key=("incarnation", "label", "stretch"),
    sql=_BY_PROGRESS,
    parameters=lambda _: {"stretches": _STRETCHES, "kernels_shown": _KERNELS_SHOWN},
    highlights=_slowest_stretch,
)
