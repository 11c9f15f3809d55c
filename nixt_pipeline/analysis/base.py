"""What an analysis is: a question, a documented SQL text over a run's views, and typed columns.

Every SQL text runs on a connection of `store.catalog.open_run` once `prepare` has added its macros. Two conventions
hold in all of them:

- Quantiles are exact with linear interpolation (`quantile_cont`, NumPy's default). DuckDB holds the values of a
  quantile in memory. Where nothing but the time differs between records, they are counted already (`kernel_times`) and
  `quantile_of_counts` below is used; groups by place or time are worked through in shares (`Shares`) instead.
- Groupings and joins treat null as a value (`IS NOT DISTINCT FROM`), because communicators often have no name.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pyarrow as pa

from nixt_pipeline.analysis.distributions import summarise
from nixt_pipeline.inspector.operations import BANDWIDTH_FLAGS
from nixt_pipeline.inspector.taxonomy import Column, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.dropped import require_events
from nixt_pipeline.store.files import write_batches
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.origins import origin, origin_of_tables
from nixt_pipeline.store.seals import noting

Row = dict[str, Any]
# The few numbers of a result that are worth following from run to run, by name; None where there is nothing to tell.
Highlights = dict[str, float | None]
# The stored records that the rows of a result may add up to.
Counted = Literal["events", "collectives"]

# Highlights of one kind, the largest: more lines in one plot cannot be distinguished.
TOP = 6

# Records that one pass over a run may hold in memory at once: what eight million need fits DuckDB's default limit with
# room to spare. Each pass costs one scan of the events, or of a part of them.
RECORDS_PER_PASS = 8_000_000
_ROWS_PER_BATCH = 100_000

# quantile_of_counts(value, upto, total, q): the q-quantile of a group given as one row per distinct value, where
# `upto` is the number of observations up to and including the value and `total` their number in the group. Equals
# quantile_cont of the values. message_size(bytes): a size for people, as operations.format_bytes writes it.
_SQL_MACROS = """
CREATE OR REPLACE TEMP MACRO quantile_of_counts(value, upto, total, q) AS
    min(value) FILTER (WHERE upto > floor(q::DOUBLE * (total::DOUBLE - 1)))
    + (
        min(value) FILTER (WHERE upto > ceil(q::DOUBLE * (total::DOUBLE - 1)))
        - min(value) FILTER (WHERE upto > floor(q::DOUBLE * (total::DOUBLE - 1)))
    ) * (q::DOUBLE * max(total::DOUBLE - 1) - floor(q::DOUBLE * max(total::DOUBLE - 1)));
CREATE OR REPLACE TEMP MACRO capped_sum(times, common, longest) AS
    list_sum(list_transform(times, lambda time: least(time, greatest(longest * list_median(times), common))));
CREATE OR REPLACE TEMP MACRO message_size(size_bytes) AS CASE
    WHEN size_bytes < 1000 THEN size_bytes || ' B'
    WHEN size_bytes < 999500 THEN printf('%.3g kB', size_bytes / 1e3)
    WHEN size_bytes < 999500000 THEN printf('%.3g MB', size_bytes / 1e6)
    WHEN size_bytes < 999500000000 THEN printf('%.3g GB', size_bytes / 1e9)
    ELSE printf('%.3g TB', size_bytes / 1e12)
END;
"""


# Lists of whole numbers take half the memory of lists of doubles.
_TYPE_OF_TIMES = """
SELECT CASE WHEN count(*) FILTER (WHERE t != floor(t) OR abs(t) > 2147483647 OR NOT isfinite(t)) = 0
    THEN 'INTEGER' ELSE 'DOUBLE' END
FROM (SELECT coll_exec_time_us AS t FROM kernel_times)
"""
_SAMPLE_TIME = "CREATE OR REPLACE TEMP MACRO sample_time(time_us) AS time_us::{type}"


def total(rows: list[Row], name: str) -> float:
    """The sum of a column, nulls left out."""
    return float(sum(row[name] or 0 for row in rows))


@dataclass(frozen=True)
class Shares:
    """A large intermediate result, computed in shares, each of which fits into memory.

    `parameters` is SQL that gives one row for each share, of about `$records_per_share` records; `sql` computes a share
    with the columns of that row as its parameters. The rows of all shares are the table `shares` of the analysis's SQL.

    With `levels`, `sql` gathers samples instead, which `distributions.summarise` for each level by the quantiles of
    bandwidth and time; a level names the columns it groups by, the first all of them. The column `level` counts them
    from 0, and columns that a level does not have are null.
    """

    parameters: str
    sql: str
    levels: tuple[tuple[str, ...], ...] = ()
    busbw_quantiles: tuple[float, ...] = ()
    time_quantiles: tuple[float, ...] = (0.5,)


@dataclass(frozen=True)
class Analysis:
    """One analysis of one run.

    `question` is what a person asks, in one sentence; `reading` says how to read the answer and where it misleads, and
    is printed in reports. `columns` describe the result, `run` first. `parameters` gives the values bound to the SQL's
    `$names`. `version` changes whenever the result would: it makes stored results stale.

    What the checks hold it to: no two rows have the same `key`, `fractions` are columns between 0 and 1, and the
    `records` of all rows are those of the store that `adds_up_to` names. `highlights` are what the Dagster UI plots
    over the runs. A result that is only read by what compares runs is not `in_report`.
    """

    name: str
    version: str
    title: str
    question: str
    reading: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    sql: str
    parameters: Callable[[Settings], dict[str, object]] = lambda _settings: {}
    shares: Shares | None = None
    fractions: tuple[str, ...] = ()
    adds_up_to: Counted | None = None
    highlights: Callable[[list[Row]], Highlights] = lambda _rows: {}
    in_report: bool = True


def prepare(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Add the macros that the analyses' SQL uses to a connection, and return it."""
    con.execute(_SQL_MACROS)
    return con


def compute(analysis: Analysis, con: duckdb.DuckDBPyConnection, settings: Settings, **overrides: object) -> pa.Table:
    """Run `analysis` on a connection of `open_run`; `overrides` replace its parameters by name.

    Returns a table with exactly the schema of `analysis.columns`. Raises `ValueError` for an unknown parameter, and
    when the SQL does not give the declared columns.
    """
    batches = _batches(analysis, con, settings, overrides)
    return pa.Table.from_batches(batches, schema(analysis.columns)).combine_chunks()


def _batches(
    analysis: Analysis, con: duckdb.DuckDBPyConnection, settings: Settings, overrides: dict[str, object]
) -> Iterator[pa.RecordBatch]:
    """The rows of the result as they come, with the schema of `analysis.columns`."""
    parameters = analysis.parameters(settings)
    unknown = sorted(overrides.keys() - parameters.keys())
    if unknown:
        known = ", ".join(sorted(parameters)) or "none"
        raise ValueError(f"analysis {analysis.name} has no parameter {', '.join(unknown)}; it has: {known}")
    prepare(con)
    bound = parameters | overrides
    if analysis.shares is None:
        yield from query(con, analysis.name, analysis.sql, bound, analysis.columns)
        return
    shares = _compute_shares(analysis.shares, con, bound)
    if shares is None:
        return
    con.register("shares", shares)
    try:
        yield from query(con, analysis.name, analysis.sql, bound, analysis.columns)
    finally:
        con.unregister("shares")


def _compute_shares(shares: Shares, con: duckdb.DuckDBPyConnection, bound: dict[str, object]) -> pa.Table | None:
    """All shares in one table; None when there are none."""
    con.execute(_SAMPLE_TIME.format(type=con.sql(_TYPE_OF_TIMES).fetchall()[0][0]))
    known = bound | {"records_per_share": RECORDS_PER_PASS, "bandwidth_flags": int(BANDWIDTH_FLAGS)}
    rows = con.sql(shares.parameters, params=_mentioned(shares.parameters, known)).to_arrow_table().to_pylist()
    tables = []
    for row in rows:
        share = con.sql(shares.sql, params=_mentioned(shares.sql, known | row)).to_arrow_table()
        if not shares.levels:
            tables.append(share)
        for level, keys in enumerate(shares.levels):
            table = summarise(share, keys, shares.busbw_quantiles, shares.time_quantiles)
            tables.append(table.append_column("level", pa.array([level] * table.num_rows, pa.int32())))
    return pa.concat_tables(tables, promote_options="default") if tables else None


def _mentioned(sql: str, values: dict[str, object]) -> dict[str, object]:
    """The values of the parameters that `sql` has: DuckDB does not take others."""
    return {name: values[name] for name in set(re.findall(r"\$(\w+)", sql))}


def number_of_passes(con: duckdb.DuckDBPyConnection, records_per_pass: int = RECORDS_PER_PASS) -> int:
    """How many passes keep the records of each at `records_per_pass` or less; at least 1."""
    [(records,)] = con.execute("SELECT count(*) FROM events").fetchall()
    return max(1, -(-int(records) // records_per_pass))


def query(
    con: duckdb.DuckDBPyConnection, name: str, sql: str, parameters: dict[str, object], columns: tuple[Column, ...]
) -> Iterator[pa.RecordBatch]:
    """Run `sql` and give its result the schema of `columns`; `name` is for messages.

    Raises `ValueError` when the names of the columns or their order differ.
    """
    reader = con.sql(sql, params=_mentioned(sql, parameters)).to_arrow_reader(_ROWS_PER_BATCH)
    expected = schema(columns)
    if reader.schema.names != expected.names:
        raise ValueError(f"the SQL of {name} gives columns {reader.schema.names}, declared are {expected.names}")
    for batch in reader:
        yield batch.cast(expected)


def origin_of(analysis: Analysis, run: str, settings: Settings) -> str:
    """The fingerprint of what the result of `analysis` is made from: it is current as long as this is the same."""
    code = (analysis.name, analysis.version, analysis.sql, repr(analysis.shares))
    tables = origin_of_tables(read_manifest(run, settings), settings)
    return origin(tables, code, analysis.parameters(settings))


def materialise(
    analysis: Analysis,
    run: str,
    settings: Settings,
    con: duckdb.DuckDBPyConnection | None = None,
    made_from: str | None = None,
) -> None:
    """Compute `analysis` for a stored run and replace its result file, without holding the result: one with a row for
    each of a million message sizes is larger than everything that is needed to compute it.

    Whoever computes several passes a connection of `open_run` as `con`, for opening one takes longer than the query of
    a small run, and what `origin_of` said before it was opened: afterwards, another ingest may have published what this
    connection does not show. Raises `UnknownRunError`, `StorageError`, and `EventsDroppedError` for a run that has only
    its results left.
    """
    require_events(run, settings)
    path = layout.results_path(analysis.name, run, settings)
    made_from = made_from or ("" if con else origin_of(analysis, run, settings))
    with nullcontext(con) if con else catalog.open_run(run, settings) as connection:
        batches = _batches(analysis, connection, settings, {})
        write_batches(batches, schema(analysis.columns), path, noting(run, path, settings, made_from))
