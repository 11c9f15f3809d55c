"""How bandwidth goes with any other column: software versions, timing source, the role of the communicator."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row
from nixt_pipeline.analysis.columns import BUSBW_P25, BUSBW_P50, BUSBW_P75, EXEC_TIME_P50, RECORDS, event
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role

_ATTRIBUTES = ("git_rev", "inspector_output_format_version", "rec_mechanism", "coll_timing_source", "parallel_role")

_SOURCE = """
    SELECT run, coll, coll_type, coll_exec_time_us, coll_busbw_gbs, records, {attributes}
    FROM kernel_times
"""
_VALUES = """
    SELECT DISTINCT piece, '{attribute}' AS attribute, value_of_{number} AS value, coll, coll_type FROM pieces
"""

# Most attributes have one value in a run, and so pool the same records. Records that agree in all attributes are a
# piece; equal pools of pieces are sorted only once.
_SQL = """
WITH source AS ({source}),
counts AS MATERIALIZED (
    SELECT
        hash(coll, coll_type, {values}) AS piece, coll_exec_time_us, coll_busbw_gbs,
        sum(records)::BIGINT AS n
    FROM source
    GROUP BY piece, coll_exec_time_us, coll_busbw_gbs
),
pieces AS MATERIALIZED (
    SELECT DISTINCT hash(coll, coll_type, {values}) AS piece, coll, coll_type, {values} FROM source
),
pooled AS MATERIALIZED (
    SELECT attribute, value, coll, coll_type, list(piece ORDER BY piece) AS pool
    FROM ({values_of_pieces})
    GROUP BY attribute, value, coll, coll_type
),
pools AS (SELECT hash(pool) AS number, unnest(pool) AS piece FROM (SELECT DISTINCT pool FROM pooled)),
ranked AS (
    SELECT
        p.number, c.*,
        sum(n) OVER (by_time) AS time_upto,
        sum(n) FILTER (WHERE coll_exec_time_us IS NOT NULL) OVER (pool) AS time_total,
        sum(n) OVER (by_bandwidth) AS busbw_upto,
        sum(n) FILTER (WHERE coll_busbw_gbs IS NOT NULL) OVER (pool) AS busbw_total
    FROM counts AS c
    JOIN pools AS p ON p.piece = c.piece
    WINDOW
        pool AS (PARTITION BY p.number),
        by_time AS (PARTITION BY p.number ORDER BY coll_exec_time_us NULLS LAST),
        by_bandwidth AS (PARTITION BY p.number ORDER BY coll_busbw_gbs NULLS LAST)
),
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


def _sql() -> str:
    """The SQL that groups by each of the attributes in turn."""
    selected = ", ".join(f"{name}::VARCHAR AS value_of_{number}" for number, name in enumerate(_ATTRIBUTES))
    return _SQL.format(
        source=_SOURCE.format(attributes=selected),
        values=", ".join(f"value_of_{number}" for number in range(len(_ATTRIBUTES))),
        values_of_pieces="    UNION ALL".join(
            _VALUES.format(attribute=name, number=number) for number, name in enumerate(_ATTRIBUTES)
        ),
    )


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
        BUSBW_P25,
        BUSBW_P50,
        BUSBW_P75,
        EXEC_TIME_P50,
    ),
    key=("attribute", "value", "coll", "coll_type"),
    sql=_sql(),
    highlights=_highlights,
)
