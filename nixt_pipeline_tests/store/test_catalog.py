"""The catalog's views: which run a row is of, and what they do without a run that was removed."""

import shutil
from pathlib import Path

import duckdb
import pytest

from nixt_pipeline.settings import Settings, SettingsError, load_settings
from nixt_pipeline.store import catalog, ingest, layout
from nixt_pipeline_tests.records import collective, write_log


def ingest_runs(settings: Settings, *runs: str) -> None:
    for number, run in enumerate(runs, start=1):
        write_log(settings.landing_dir / run / "a-pid1.log", *(collective(sn=n) for n in range(number)))
        ingest.ingest(settings.landing_dir / run, run, settings)


def rows_by_run(con: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    return con.sql("SELECT run, count(*) FROM events GROUP BY run ORDER BY run").fetchall()


def test_folders_above_the_store_may_be_called_anything(tmp_path: Path) -> None:
    above = tmp_path / "run=evil" / "k=v"
    settings = load_settings(landing_dir=tmp_path / "landing", data_dir=above / "data", workers=1)
    ingest_runs(settings, "a", "b")
    with catalog.open_store(settings) as con:
        assert rows_by_run(con) == [("a", 1), ("b", 2)]
        assert con.sql("SELECT DISTINCT run FROM processes ORDER BY run").fetchall() == [("a",), ("b",)]
        plan = con.sql("EXPLAIN ANALYZE SELECT sum(coll_sn) FROM events WHERE run = 'a'").fetchall()[0][1]
        assert "Scanning Files: 1/2" in plan  # a run's rows are found without opening the files of others
    with duckdb.connect(str(settings.catalog_path), read_only=True) as con:
        assert rows_by_run(con) == [("a", 1), ("b", 2)]


def test_a_question_mark_in_the_path_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'data_dir': .*must not contain \?"):
        load_settings(data_dir=tmp_path / "a?b" / "data")


def test_a_run_that_is_removed_leaves_the_views_of_the_others(settings: Settings) -> None:
    ingest_runs(settings, "a", "b")
    with duckdb.connect(str(settings.catalog_path), read_only=True) as con:
        shutil.rmtree(layout.store_dir(settings, "b"))
        assert rows_by_run(con) == [("a", 1)]
    with catalog.open_store(settings) as con:
        assert rows_by_run(con) == [("a", 1)]


def test_a_run_that_vanishes_while_the_catalog_is_written_is_left_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_runs(settings, "a", "b")
    create_views, calls = catalog.create_views, []

    def first_without_b(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            shutil.rmtree(layout.store_dir(settings, "b"))
            raise duckdb.IOException("No files found that match the pattern")
        create_views(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "create_views", first_without_b)
    catalog.publish_catalog(settings)
    with duckdb.connect(str(settings.catalog_path), read_only=True) as con:
        assert rows_by_run(con) == [("a", 1)]
