"""What an analysis is: a question, a documented SQL text over a run's views, and typed columns.

Every SQL text runs on a connection of `store.catalog.open_run`, so a person can paste it into `nixt sql` or a notebook. Two
conventions hold in all of them:

- Quantiles are exact with linear interpolation (DuckDB's `quantile_cont`, NumPy's default), but taken from counts of distinct
  values: execution times are whole microseconds, so that a job of tens of millions of records has few distinct values and the
  counts fit where the values would not (`quantile_of_counts` below).
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

# quantile_of_counts(value, upto, total, q): the q-quantile of a group given as one row per distinct value, where `upto` is the
# number of observations up to and including the value and `total` their number in the group. Equals quantile_cont of the values.
# message_size(bytes): a size for people, as operations.format_bytes writes it.
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

    `question` is what a person asks, in one sentence; `reading` says how to read the answer and where it misleads, and is printed
    in reports. `columns` describe the result, `run` first. `parameters` gives the values bound to the SQL's `$names`. `version`
    changes whenever the result would: it makes stored results stale.
    """

    name: str
    version: str
    title: str
    question: str
    reading: str
    columns: tuple[Column, ...]
    sql: str
    parameters: Callable[[Settings], dict[str, object]] = no_parameters


def prepare(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Add the macros that the analyses' SQL uses to a connection, and return it."""
    con.execute(_SQL_MACROS)
    return con


def compute(analysis: Analysis, con: duckdb.DuckDBPyConnection, settings: Settings, **overrides: object) -> pa.Table:
    """Run `analysis` on a connection of `open_run`; `overrides` replace its parameters by name.

    Returns a table with exactly the schema of `analysis.columns`. Raises `ValueError` for an unknown parameter, and when the SQL
    does not give the declared columns.
    """
    parameters = analysis.parameters(settings)
    unknown = sorted(overrides.keys() - parameters.keys())
    if unknown:
        raise ValueError(
            f"analysis {analysis.name} has no parameter {', '.join(unknown)}; it has: {', '.join(sorted(parameters)) or 'none'}"
        )
    return query(prepare(con), analysis.name, analysis.sql, parameters | overrides, analysis.columns)


def query(
    con: duckdb.DuckDBPyConnection, name: str, sql: str, parameters: dict[str, object], columns: tuple[Column, ...]
) -> pa.Table:
    """Run `sql` and give its result the schema of `columns`. Raises `ValueError` when names or order differ; `name` is for messages."""
    table = con.sql(sql, params=parameters).to_arrow_table()
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
