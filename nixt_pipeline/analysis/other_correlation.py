"""How bandwidth goes with any other column: software versions, timing source, the role of the communicator."""

from collections.abc import Iterable
from dataclasses import replace

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import BUSBW_P25, BUSBW_P50, BUSBW_P75, EXEC_TIME_P50, RECORDS, event
from nixt_pipeline.inspector.taxonomy import (
    COMMUNICATOR_COLUMNS,
    EVENT_COLUMNS,
    EVENT_DERIVED_COLUMNS,
    RUN,
    STRING,
    Column,
    Role,
)

DEFAULT_ATTRIBUTES = (
    "git_rev",
    "inspector_output_format_version",
    "rec_mechanism",
    "coll_timing_source",
    "parallel_role",
)

_OF_EVENTS = tuple(column.name for column in (*EVENT_DERIVED_COLUMNS, *EVENT_COLUMNS))
_OF_COMMUNICATORS = tuple(
    column.name for column in COMMUNICATOR_COLUMNS if column.name.startswith(("parallel_", "ranks_seen", "hosts_seen"))
)
ATTRIBUTES = (*_OF_EVENTS, *_OF_COMMUNICATORS)

# An identifier cannot be a bound parameter: {attribute} and {source} are filled in from the taxonomy's names only.
_COUNTS_BY_ATTRIBUTE = """
    SELECT
        any_value(e.run) AS run,
        '{attribute}' AS attribute,
        {source}."{attribute}"::VARCHAR AS value,
        e.coll, e.coll_type, e.coll_exec_time_us, e.coll_busbw_gbs,
        count(*) AS n
    FROM events AS e {join}
    GROUP BY value, e.coll, e.coll_type, e.coll_exec_time_us, e.coll_busbw_gbs
"""

_COMMUNICATOR_JOIN = """
    LEFT JOIN communicators AS c
        ON c.incarnation = e.incarnation AND c.id IS NOT DISTINCT FROM e.id
        AND c.comm_name IS NOT DISTINCT FROM e.comm_name
        AND c.n_ranks IS NOT DISTINCT FROM e.n_ranks AND c.nnodes IS NOT DISTINCT FROM e.nnodes
"""

_SQL = """
WITH counts AS (
{counts}
),
ranked AS (
    SELECT
        *,
        sum(n) OVER (by_time) AS time_upto,
        sum(n) FILTER (WHERE coll_exec_time_us IS NOT NULL) OVER (grouping) AS time_total,
        sum(n) OVER (by_bandwidth) AS busbw_upto,
        sum(n) FILTER (WHERE coll_busbw_gbs IS NOT NULL) OVER (grouping) AS busbw_total
    FROM counts
    WINDOW
        grouping AS (PARTITION BY attribute, value, coll, coll_type),
        by_time AS (PARTITION BY attribute, value, coll, coll_type ORDER BY coll_exec_time_us NULLS LAST),
        by_bandwidth AS (PARTITION BY attribute, value, coll, coll_type ORDER BY coll_busbw_gbs NULLS LAST)
)
SELECT
    any_value(run) AS run,
    attribute, value, coll, coll_type,
    sum(n) AS records,
    quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.25) AS busbw_p25_gbs,
    quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.5) AS busbw_p50_gbs,
    quantile_of_counts(coll_busbw_gbs, busbw_upto, busbw_total, 0.75) AS busbw_p75_gbs,
    quantile_of_counts(coll_exec_time_us, time_upto, time_total, 0.5) AS exec_time_p50_us
FROM ranked
GROUP BY attribute, value, coll, coll_type
ORDER BY attribute, value, coll, coll_type
"""


def _sql(attributes: Iterable[str]) -> str:
    """The SQL that groups by each of `attributes` in turn."""
    parts = []
    for attribute in attributes:
        of_events = attribute in _OF_EVENTS
        parts.append(
            _COUNTS_BY_ATTRIBUTE.format(
                attribute=attribute, source="e" if of_events else "c", join="" if of_events else _COMMUNICATOR_JOIN
            )
        )
    return _SQL.format(counts="    UNION ALL".join(parts))


def by_attributes(*attributes: str) -> Analysis:
    """The analysis with other attributes than the default ones.

    Raises `ValueError` for anything but a column of events or communicators; the message lists what is allowed.
    """
    unknown = [attribute for attribute in attributes if attribute not in ATTRIBUTES]
    if unknown or not attributes:
        what = f"no column named {', '.join(map(repr, unknown))}" if unknown else "no attribute given"
        raise ValueError(f"{what}; records can be grouped by: {', '.join(ATTRIBUTES)}")
    return replace(ANALYSIS, sql=_sql(dict.fromkeys(attributes)))


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
    sql=_sql(DEFAULT_ATTRIBUTES),
)
