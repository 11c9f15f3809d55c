"""Waiting and transfer of the hot kernels by the job's own progress, which needs no clock."""

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import count, derived, event
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.inspector.taxonomy import RUN, U64, Column, Role
from nixt_pipeline.settings import Settings

# As in the diagnosis, whose stretches of the job are at most so many.
_STRETCHES = 40
_KERNELS_SHOWN = 8

# Sequence numbers count per communicator and function; communicators of one shape count alike. In floating point: a
# broken record can give a number near 2^64.
SQL = f"""
WITH {KERNELS},
hottest AS (
    SELECT * FROM kernels WHERE kind = 'collective' QUALIFY row_number() OVER (ORDER BY rank_by_bytes) <= $kernels_shown
),
usable AS (
    SELECT
        c.incarnation, h.rank_by_bytes, h.label, h.coll, h.coll_type, c.coll_sn,
        c.min_exec_time_us AS transfer_us, c.wait_us / c.n_ranks AS wait_us
    FROM cells AS c
    JOIN hottest AS h
        ON h.coll IS NOT DISTINCT FROM c.coll
        AND h.n_ranks IS NOT DISTINCT FROM c.n_ranks AND h.nnodes IS NOT DISTINCT FROM c.nnodes
        AND h.coll_msg_size_bytes IS NOT DISTINCT FROM c.coll_msg_size_bytes
    WHERE c.complete AND c.n_ranks > 1 AND c.coll IN (SELECT unnest($sync_collectives)) AND c.coll_sn IS NOT NULL
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
    quantile_cont(transfer_us, 0.25) AS transfer_time_p25_us,
    quantile_cont(transfer_us, 0.5) AS transfer_time_p50_us,
    quantile_cont(transfer_us, 0.75) AS transfer_time_p75_us,
    quantile_cont(wait_us, 0.25) AS wait_p25_us,
    quantile_cont(wait_us, 0.5) AS wait_p50_us,
    quantile_cont(wait_us, 0.75) AS wait_p75_us
FROM numbered
GROUP BY incarnation, rank_by_bytes, label, coll, coll_type, stretch
ORDER BY incarnation, rank_by_bytes, stretch
"""


def _parameters(_settings: Settings) -> dict[str, object]:
    return {"stretches": _STRETCHES, "kernels_shown": _KERNELS_SHOWN, "sync_collectives": list(SYNC_COLLECTIVES)}


ANALYSIS = Analysis(
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
        count("cells", "collectives", "Complete collectives, of functions in which all ranks end together"),
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
