"""The distribution of bandwidth within each of the hottest kernels, and of time within those that are called most."""

from nixt_pipeline.analysis.base import TOP, Analysis, Highlights, Row
from nixt_pipeline.analysis.columns import event, large_messages
from nixt_pipeline.analysis.hot_kernels import KERNELS, LABEL
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role, count, derived

# As many curves as a chart can still show apart; the paper's figures have 7 and 10 (bandwidth), 9 and 22 (time).
_KERNELS_SHOWN = 10

# The 101 percentiles of each of the kernels `chosen`: of `value` over all records, of `transfer` over the cells that
# are `usable`.
_SQL = f"""
WITH {KERNELS},
{{chosen}},
counts AS (
    SELECT h.rank_by_bytes, '{{measure}}' AS measure, e.{{value}} AS value, sum(e.records)::BIGINT AS n
    FROM kernel_times AS e
    JOIN hottest AS h ON h.kernel_key = e.kernel_key
    WHERE e.{{value}} IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT h.rank_by_bytes, '{{transfer_measure}}', c.{{transfer}}, count(*)
    FROM cells AS c
    JOIN hottest AS h ON h.kernel_key = c.kernel_key
    WHERE {{usable}}
    GROUP BY ALL
),
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
        percents.percent / 100.0::DOUBLE AS quantile,
        percents.percent * (samples - 1) / 100.0::DOUBLE AS position
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
SELECT
    h.run, h.{{rank}}, h.label, h.kind, h.coll, h.coll_type, h.n_ranks, h.nnodes, h.coll_msg_size_bytes,
    b.measure, b.quantile,
    b.low + (b.high - b.low) * (b.position - floor(b.position)) AS value,
    b.samples
FROM between_samples AS b
JOIN hottest AS h ON h.rank_by_bytes = b.rank_by_bytes
ORDER BY h.{{rank}}, b.measure, b.quantile
"""

_MOST_BYTES = """large AS (
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
)"""

_MOST_RECORDS = """hottest AS (
    SELECT *, row_number() OVER (ORDER BY records DESC, rank_by_bytes) AS rank_by_records
    FROM kernels
    QUALIFY rank_by_records <= $kernels_shown
)"""

_BANDWIDTH_SQL = _SQL.format(
    chosen=_MOST_BYTES, rank="rank_by_bytes", measure="busbw_gbs", value="coll_busbw_gbs",
    transfer_measure="transfer_busbw_gbs", transfer="transfer_busbw_gbs", usable="c.transfer_busbw_gbs IS NOT NULL",
)  # fmt: skip
_TIME_SQL = _SQL.format(
    chosen=_MOST_RECORDS, rank="rank_by_records", measure="exec_time_us", value="coll_exec_time_us",
    transfer_measure="transfer_time_us", transfer="min_exec_time_us",
    usable="c.complete AND ends_together(c.coll)",
)  # fmt: skip


def _columns(rank: Column, measures: str, value: Column) -> tuple[Column, ...]:
    return (
        RUN,
        rank,
        LABEL,
        *event("kind", "coll", "coll_type", "n_ranks", "nnodes", "coll_msg_size_bytes"),
        Column("measure", STRING, Role.DERIVED, "", measures),
        derived("quantile", "", "Share of the samples at or below the value, 0 to 1 in steps of 0.01"),
        value,
        count("samples", "", "Samples behind the curve"),
    )


def _medians(rows: list[Row], measure: str, title: str) -> Highlights:
    medians = [row for row in rows if row["quantile"] == 0.5 and row["measure"] == measure]
    return {f"{title}, {row['label']}": row["value"] for row in medians[:TOP]}


BANDWIDTH_ECDF = Analysis(
    name="bandwidth_ecdf",
    version="1",
    title="Bandwidth distributions",
    question="How much does bandwidth vary within one hot kernel, and how much of that is waiting?",
    reading=(
        "A curve far to the left of the transfer curve of the same kernel is time spent waiting for late ranks, not "
        "a slow network. The transfer curve has one sample per complete collective, the other one per rank and "
        "record; whole microseconds make steps in short operations."
    ),
    columns=_columns(
        count("rank_by_bytes", "", "Rank of the kernel by observed message bytes, as in hot_kernels"),
        "busbw_gbs (every record, waiting included) or transfer_busbw_gbs (last to arrive, complete collectives)",
        derived("value", "GB/s", "Bus bandwidth at that quantile"),
    ),
    key=("label", "measure", "quantile"),
    fractions=("quantile",),
    sql=_BANDWIDTH_SQL,
    parameters=lambda settings: large_messages(settings) | {"kernels_shown": _KERNELS_SHOWN},
    highlights=lambda rows: _medians(rows, "busbw_gbs", "busbw p50 GB/s"),
)

TIME_ECDF = Analysis(
    name="time_ecdf",
    version="1",
    title="Time distributions",
    question="How long do the operations take that are called most, and how much do their times vary?",
    reading=(
        "Small messages dominate the calls and carry hardly any bytes; what counts for them is time, not bandwidth. "
        "The curve of all records includes waiting for late ranks; the transfer curve has one sample per complete "
        "collective, of the last rank to arrive. Times are whole microseconds, which makes steps in short operations."
    ),
    columns=_columns(
        count("rank_by_records", "", "1 for the kernel with most records"),
        "exec_time_us (every record, waiting included) or transfer_time_us (last to arrive, complete collectives)",
        derived("value", "us", "Execution time at that quantile"),
    ),
    key=("label", "measure", "quantile"),
    fractions=("quantile",),
    sql=_TIME_SQL,
    parameters=lambda _: {"kernels_shown": _KERNELS_SHOWN},
    highlights=lambda rows: _medians(rows, "exec_time_us", "time p50 us"),
)
