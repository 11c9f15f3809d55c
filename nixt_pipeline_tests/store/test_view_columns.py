"""What `docs/columns.md` says of the views is what they have."""

from pathlib import Path

import duckdb
import pytest

from nixt_pipeline.inspector.taxonomy import TABLES
from nixt_pipeline.inspector.views import VIEWS, added_columns
from nixt_pipeline.settings import load_settings
from nixt_pipeline.store import catalog

_SQL = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT", "uint64": "UBIGINT", "double": "DOUBLE"}


@pytest.fixture
def con(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    settings = load_settings(data_dir=tmp_path)
    con = catalog.connect(settings)
    catalog.create_views(con, [], settings)
    return con


def _described(con: duckdb.DuckDBPyConnection, view: str) -> dict[str, str]:
    return {row[0]: row[1] for row in con.sql(f"DESCRIBE {view}").fetchall()}


@pytest.mark.parametrize("table", TABLES)
def test_the_view_of_a_table_has_its_columns_and_those_that_it_is_said_to_add(
    con: duckdb.DuckDBPyConnection, table: str
) -> None:
    described = _described(con, table)
    assert set(described) == {column.name for column in (*TABLES[table], *added_columns(table))}
    assert [described[column.name] for column in added_columns(table)] == [
        _SQL[str(column.type)] for column in added_columns(table)
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_is_no_tables_has_the_columns_that_are_described(con: duckdb.DuckDBPyConnection, view: str) -> None:
    _, of_events, columns = VIEWS[view]
    inherited = _described(con, "events") if of_events else {}
    described = {**inherited, **{column.name: _SQL[str(column.type)] for column in columns}}
    assert _described(con, view) == described


def test_no_other_view_is_for_people(con: duckdb.DuckDBPyConnection) -> None:
    found = {name for (name,) in con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    assert all(name.endswith("_events") for name in found - set(TABLES) - set(VIEWS))
