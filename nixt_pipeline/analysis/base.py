"""What an analysis is: a question, a documented SQL text over a run's views, and typed columns.

Every SQL text runs on a connection of `store.catalog.open_run` once `prepare` has added its macros. Two conventions
hold in all of them:

- Quantiles are exact with linear interpolation (`quantile_cont`, NumPy's default). DuckDB holds the values of a
  quantile in memory, so large groups are reduced to counts of distinct values first (`quantile_of_counts` below):
  execution times are whole microseconds and have few. Many small groups are worked through in passes instead
  (`Analysis.sorted_by`).
- Groupings and joins treat null as a value (`IS NOT DISTINCT FROM`), because communicators often have no name.
"""

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from nixt_pipeline.inspector.taxonomy import Column, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.files import write_table

# Records that one pass over a run may hold in memory at once: what two million need fits DuckDB's default limit with
# room to spare. Each pass costs one scan of the events.
RECORDS_PER_PASS = 2_000_000

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
CREATE OR REPLACE TEMP MACRO message_size(size_bytes) AS CASE
    WHEN size_bytes < 1000 THEN size_bytes || ' B'
    WHEN size_bytes < 999500 THEN printf('%.3g kB', size_bytes / 1e3)
    WHEN size_bytes < 999500000 THEN printf('%.3g MB', size_bytes / 1e6)
    WHEN size_bytes < 999500000000 THEN printf('%.3g GB', size_bytes / 1e9)
    ELSE printf('%.3g TB', size_bytes / 1e12)
END;
"""


def no_parameters(_settings: Settings) -> dict[str, object]:
    """For an analysis whose SQL has no parameters."""
    return {}


@dataclass(frozen=True)
class Analysis:
    """One analysis of one run.

    `question` is what a person asks, in one sentence; `reading` says how to read the answer and where it misleads, and
    is printed in reports. `columns` describe the result, `run` first. `parameters` gives the values bound to the SQL's
    `$names`. `version` changes whenever the result would: it makes stored results stale.

    When `sorted_by` is not empty, the SQL gives the share number `$pass` of `$passes` of the result; a large run is
    worked through in several passes, whose results are put into the order of these columns.
    """

    name: str
    version: str
    title: str
    question: str
    reading: str
    columns: tuple[Column, ...]
    sql: str
    parameters: Callable[[Settings], dict[str, object]] = no_parameters
    sorted_by: tuple[str, ...] = ()


def prepare(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Add the macros that the analyses' SQL uses to a connection, and return it."""
    con.execute(_SQL_MACROS)
    return con


def compute(analysis: Analysis, con: duckdb.DuckDBPyConnection, settings: Settings, **overrides: object) -> pa.Table:
    """Run `analysis` on a connection of `open_run`; `overrides` replace its parameters by name.

    Returns a table with exactly the schema of `analysis.columns`. Raises `ValueError` for an unknown parameter, and
    when the SQL does not give the declared columns.
    """
    parameters = analysis.parameters(settings)
    unknown = sorted(overrides.keys() - parameters.keys())
    if unknown:
        known = ", ".join(sorted(parameters)) or "none"
        raise ValueError(f"analysis {analysis.name} has no parameter {', '.join(unknown)}; it has: {known}")
    prepare(con)
    if not analysis.sorted_by:
        return query(con, analysis.name, analysis.sql, parameters | overrides, analysis.columns)
    passes = number_of_passes(con)
    shares = []
    for number in range(passes):
        bound = parameters | overrides | {"passes": passes, "pass": number}
        shares.append(query(con, analysis.name, analysis.sql, bound, analysis.columns))
    return pa.concat_tables(shares).sort_by([(name, "ascending") for name in analysis.sorted_by]).combine_chunks()


def number_of_passes(con: duckdb.DuckDBPyConnection) -> int:
    """How many passes keep the records of one of them below `RECORDS_PER_PASS`; at least 1."""
    [(records,)] = con.execute("SELECT count(*) FROM events").fetchall()
    return max(1, -(-int(records) // RECORDS_PER_PASS))


def query(
    con: duckdb.DuckDBPyConnection, name: str, sql: str, parameters: dict[str, object], columns: tuple[Column, ...]
) -> pa.Table:
    """Run `sql` and give its result the schema of `columns`; `name` is for messages.

    Raises `ValueError` when the names of the columns or their order differ.
    """
    table: pa.Table = con.sql(sql, params=parameters).to_arrow_table()
    expected = [column.name for column in columns]
    if table.column_names != expected:
        raise ValueError(f"the SQL of {name} gives columns {table.column_names}, declared are {expected}")
    return table.cast(schema(columns)).combine_chunks()


def materialise(analysis: Analysis, run: str, settings: Settings) -> pa.Table:
    """Compute `analysis` for a stored run and replace its result file. Raises `UnknownRunError`."""
    con = catalog.open_run(settings, run)
    try:
        table = compute(analysis, con, settings)
    finally:
        con.close()
    write_table(table, layout.results_path(settings, analysis.name, run))
    return table
