"""The catalog's views: which run a row is of, what they derive, and how they are replaced."""

import shutil
from pathlib import Path

import duckdb
import pytest

from nixt_pipeline.settings import Settings, SettingsError, load_settings
from nixt_pipeline.store import catalog, ingest, layout
from nixt_pipeline_tests.records import collective, write_log
from nixt_pipeline_tests.store.examples import query, records, take_in


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
        shutil.rmtree(layout.store_dir("b", settings))
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
            shutil.rmtree(layout.store_dir("b", settings))
            raise duckdb.IOException("No files found that match the pattern")
        create_views(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "create_views", first_without_b)
    catalog.publish_catalog(settings)
    with duckdb.connect(str(settings.catalog_path), read_only=True) as con:
        assert rows_by_run(con) == [("a", 1)]


def test_bandwidths_come_back_as_written_whether_stored_or_derived(tmp_path: Path, settings: Settings) -> None:
    lines = (collective(sn=1), collective(sn=2, busbw=14.0), collective(sn=3, time_us=0), collective(sn=4, time_us=7))
    write_log(tmp_path / "in" / "a-pid1.log", *lines)
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT coll_algobw_gbs, coll_busbw_gbs FROM collectives ORDER BY coll_sn") == [
        (10.0, 15.0),
        (10.0, 14.0),
        (None, None),
        (10.0, 15.0),  # not what 7 us give: the written numbers win
    ]


def test_a_reader_with_the_catalog_open_is_not_disturbed(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(1))
    take_in(tmp_path / "in", settings)
    with duckdb.connect(str(settings.catalog_path), read_only=True) as reader:
        write_log(tmp_path / "in" / "a-pid1.log", *records(2))
        take_in(tmp_path / "in", settings)
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
    with duckdb.connect(str(settings.catalog_path), read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (2,)


def test_a_catalog_that_cannot_be_written_says_so_and_leaves_nothing(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    take_in(tmp_path / "in", settings)
    before = settings.catalog_path.read_bytes()

    def full(con: duckdb.DuckDBPyConnection, *_: object) -> None:
        con.execute("CREATE TABLE half_done AS SELECT 1")
        raise duckdb.IOException("Could not write file: No space left on device")

    monkeypatch.setattr("nixt_pipeline.store.catalog.create_views", full)
    with pytest.raises(OSError, match=r"cannot write .*catalog\.duckdb: .*No space left on device; make room"):
        catalog.publish_catalog(settings)
    assert settings.catalog_path.read_bytes() == before
    assert [path.name for path in settings.data_dir.iterdir() if path.name.startswith(".tmp")] == []
