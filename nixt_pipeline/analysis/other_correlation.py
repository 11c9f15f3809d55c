"""How bandwidth goes with any other column: software versions, timing source, the role of the communicator."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row
from nixt_pipeline.analysis.columns import EXEC_TIME_P50, RECORDS, busbw, event
from nixt_pipeline.analysis.summary_histogram import RANKED
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role

_ATTRIBUTES = "git_rev, inspector_output_format_version, rec_mechanism, coll_timing_source, parallel_role"

# Most attributes have one value in a run, and so pool the same records. Records that agree in all attributes are a
# piece; equal pools of pieces are sorted only once.
SQL = f"""
WITH of_pieces AS MATERIALIZED (
    SELECT
        hash(coll, coll_type, {_ATTRIBUTES}) AS piece, coll_exec_time_us, coll_busbw_gbs,
        sum(records)::BIGINT AS n
    FROM kernel_times
    GROUP BY piece, coll_exec_time_us, coll_busbw_gbs
),
pieces AS MATERIALIZED (
    SELECT DISTINCT hash(coll, coll_type, {_ATTRIBUTES}) AS piece, coll, coll_type, {_ATTRIBUTES} FROM kernel_times
),
pooled AS MATERIALIZED (
    SELECT attribute, value, coll, coll_type, list(piece ORDER BY piece) AS pool
    FROM pieces UNPIVOT INCLUDE NULLS (value FOR attribute IN ({_ATTRIBUTES}))
    GROUP BY attribute, value, coll, coll_type
),
pools AS (SELECT hash(pool) AS number, unnest(pool) AS piece FROM (SELECT DISTINCT pool FROM pooled)),
counts AS (SELECT p.number, c.* FROM of_pieces AS c JOIN pools AS p ON p.piece = c.piece),
{RANKED},
measured AS (
    SELECT
        number,
        sum(n) AS records,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.25) AS busbw_p25_gbs,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.5) AS busbw_p50_gbs,
        quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.75) AS busbw_p75_gbs,
        quantile_of_counts(coll_exec_time_us, time_upto, time_total, 0.5) AS exec_time_p50_us
    FROM ranked
    GROUP BY number
)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    p.attribute, p.value, p.coll, p.coll_type,
    m.records, m.busbw_p25_gbs, m.busbw_p50_gbs, m.busbw_p75_gbs, m.exec_time_p50_us
FROM pooled AS p
JOIN measured AS m ON m.number = hash(p.pool)
ORDER BY p.attribute, p.value, p.coll, p.coll_type
"""


def _highlights(rows: list[Row]) -> Highlights:
    attributes = sorted({row["attribute"] for row in rows})
    return {f"values of {name}": len({row["value"] for row in rows if row["attribute"] == name}) for name in attributes}


ANALYSIS = Analysis(
    name="other_correlation",
    version="1",
    title="Other attributes",
    question="Does bandwidth go with something else, such as a version, the timing source or the communicator's role?",
    reading=(
        "A difference between values is a correlation: values often come with other hosts, message sizes or times. "
        "All message sizes are pooled here and waiting is included, so confirm a difference within one hot kernel "
        "before believing it."
    ),
    columns=(
        RUN,
        Column("attribute", STRING, Role.DERIVED, "", "Column that the records are grouped by"),
        Column("value", STRING, Role.DERIVED, "", "Its value as text; null where it was not written"),
        *event("coll", "coll_type"),
        RECORDS,
        *busbw(25, 50, 75),
        EXEC_TIME_P50,
    ),
    key=("attribute", "value", "coll", "coll_type"),
    sql=SQL,
    highlights=_highlights,
)
