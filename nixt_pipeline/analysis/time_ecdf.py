"""The distribution of execution time within each of the kernels that are called most, small messages included."""

from nixt_pipeline.analysis.bandwidth_ecdf import CURVES
from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import count, derived, event
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings

# As many curves as a chart can still show apart; the paper's figures have 9 and 22.
_KERNELS_SHOWN = 10

SQL = f"""
WITH {KERNELS},
hottest AS (
    SELECT *, row_number() OVER (ORDER BY records DESC, rank_by_bytes) AS rank_by_records
    FROM kernels
    QUALIFY rank_by_records <= $kernels_shown
),
counts AS (
    SELECT h.rank_by_bytes, 'exec_time_us' AS measure, e.coll_exec_time_us AS value, sum(e.records)::BIGINT AS n
    FROM kernel_times AS e
    JOIN hottest AS h
        ON h.kind = e.kind AND h.coll IS NOT DISTINCT FROM e.coll
        AND h.n_ranks IS NOT DISTINCT FROM e.n_ranks AND h.nnodes IS NOT DISTINCT FROM e.nnodes
        AND h.coll_msg_size_bytes IS NOT DISTINCT FROM e.coll_msg_size_bytes
    WHERE e.coll_exec_time_us IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT h.rank_by_bytes, 'transfer_time_us', c.min_exec_time_us, count(*)
    FROM cells AS c
    JOIN hottest AS h
        ON h.kind = 'collective' AND h.coll IS NOT DISTINCT FROM c.coll
        AND h.n_ranks IS NOT DISTINCT FROM c.n_ranks AND h.nnodes IS NOT DISTINCT FROM c.nnodes
        AND h.coll_msg_size_bytes IS NOT DISTINCT FROM c.coll_msg_size_bytes
    WHERE c.complete AND c.coll IN (SELECT unnest($sync_collectives))
    GROUP BY ALL
),
{CURVES}
SELECT
    h.run, h.rank_by_records, h.label, h.kind, h.coll, h.coll_type, h.n_ranks, h.nnodes, h.coll_msg_size_bytes,
    b.measure, b.quantile,
    b.low + (b.high - b.low) * (b.position - floor(b.position)) AS value,
    b.samples
FROM between_samples AS b
JOIN hottest AS h ON h.rank_by_bytes = b.rank_by_bytes
ORDER BY h.rank_by_records, b.measure, b.quantile
"""


def _parameters(_settings: Settings) -> dict[str, object]:
    return {"kernels_shown": _KERNELS_SHOWN, "sync_collectives": list(SYNC_COLLECTIVES)}


ANALYSIS = Analysis(
    name="time_ecdf",
    version="1",
    title="Time distributions",
    question="How long do the operations take that are called most, and how much do their times vary?",
    reading=(
        "Small messages dominate the calls and carry hardly any bytes; what counts for them is time, not bandwidth. "
        "The curve of all records includes waiting for late ranks; the transfer curve has one sample per complete "
        "collective, of the last rank to arrive. Times are whole microseconds, which makes steps in short operations."
    ),
    columns=(
        RUN,
        count("rank_by_records", "", "1 for the kernel with most records"),
        LABEL,
        *event("kind", "coll", "coll_type", "n_ranks", "nnodes", "coll_msg_size_bytes"),
        Column(
            "measure",
            STRING,
            Role.DERIVED,
            "",
            "exec_time_us (every record, waiting included) or transfer_time_us (last to arrive, complete collectives)",
        ),
        derived("quantile", "", "Share of the samples at or below the value, 0 to 1 in steps of 0.01"),
        derived("value", "us", "Execution time at that quantile"),
        count("samples", "", "Samples behind the curve"),
    ),
    sql=SQL,
    parameters=_parameters,
)
