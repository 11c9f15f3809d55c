"""What assets get from outside: DuckDB over the store, and settings, also when one of them is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
from dagster_duckdb import DuckDBResource

from nixt_pipeline.definitions import build_definitions
from nixt_pipeline.defs.resources import NixtSettings, StoreDuckDB
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline.store.manifest import UnknownRunError
from nixt_pipeline_tests.defs.conftest import RUN, drop_job, execute

RECORDS = "SELECT count(*) FROM events"


@pytest.fixture
def store(settings: Settings) -> StoreDuckDB:
    """Two runs: of three and of two collectives, each with a record of two ranks."""
    ingest(drop_job(settings.landing_dir), RUN, settings)
    ingest(drop_job(settings.landing_dir, "other", collectives=2), "other", settings)
    return StoreDuckDB(settings=settings)


def test_a_connection_shows_one_run_or_all(store: StoreDuckDB) -> None:
    with store.get_connection(RUN) as one, store.get_connection() as every:
        assert (one.sql(RECORDS).fetchall(), every.sql(RECORDS).fetchall()) == ([(6,)], [(10,)])


def test_a_connection_is_bounded_and_can_not_change_the_store(store: StoreDuckDB, settings: Settings) -> None:
    before = {path: path.stat().st_mtime_ns for path in settings.data_dir.rglob("*.parquet")}
    with store.get_connection(RUN) as con:
        assert con.sql("SELECT current_setting('memory_limit')").fetchall() == [("512.0 MiB",)]  # half of 1 GiB
        assert con.sql("SELECT path FROM duckdb_databases() WHERE NOT internal").fetchall() == [(None,)]
        with pytest.raises(duckdb.Error):
            con.execute("DELETE FROM events")
    assert {path: path.stat().st_mtime_ns for path in settings.data_dir.rglob("*.parquet")} == before


def test_a_connection_is_closed_also_when_its_user_fails(store: StoreDuckDB) -> None:
    with pytest.raises(ZeroDivisionError), store.get_connection(RUN) as con:
        1 / 0  # noqa: B018
    with pytest.raises(duckdb.ConnectionException):
        con.sql("SELECT 1")


def test_an_asset_that_asks_for_the_resource_of_dagster_gets_ours(store: StoreDuckDB) -> None:
    @dg.asset
    def records(duckdb: DuckDBResource) -> dg.MaterializeResult[None]:
        with duckdb.get_connection() as con:
            return dg.MaterializeResult(metadata={"records": con.sql(RECORDS).fetchall()[0][0]})

    (made,) = dg.materialize([records], resources={"duckdb": store}).asset_materializations_for_node("records")
    assert made.metadata["records"].value == 10


@pytest.mark.parametrize("given", [{"database": "mine.duckdb"}, {"connection_config": {"threads": 1}}])
def test_a_database_of_its_own_is_refused(settings: Settings, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="always in memory"), StoreDuckDB(settings=settings, **given).get_connection():
        pass


def test_an_unknown_run_is_an_error(store: StoreDuckDB) -> None:
    with pytest.raises(UnknownRunError, match="known runs"), store.get_connection("another"):
        pass


def load(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Load the code location in a process of its own, as Dagster does; prints the names of its jobs."""
    code = "from nixt_pipeline.definitions import defs; print(*sorted(job.name for job in defs.jobs))"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, env=os.environ | environment, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("toml", "environment", "words"),
    [
        ("", {"NIXT_WORKERS": "none"}, "setting 'workers': "),
        ("", {"NIXT_SENSOR_INTERVAL_S": "0"}, "setting 'sensor_interval_s': "),
        ("quiet_period_s = -1", {}, "correct {directory}/nixt.toml"),
        ("quiet_period_s = ", {}, "cannot read {directory}/nixt.toml: "),
        ("", {"NIXT_QUIET": "1"}, "NIXT_QUIET is not a setting and is ignored"),
    ],
)
def test_the_code_location_loads_with_a_wrong_setting_and_its_log_names_it(
    tmp_path: Path, toml: str, environment: dict[str, str], words: str
) -> None:
    (tmp_path / "nixt.toml").write_text(toml)
    loaded = load(tmp_path, **environment)
    assert (loaded.returncode, loaded.stdout) == (0, "analyse_run drop_old_events ingest_run\n"), loaded.stderr
    assert loaded.stderr.count(words.format(directory=tmp_path)) == 1
    assert "Traceback" not in loaded.stderr


def test_a_run_with_a_wrong_setting_fails_with_its_name(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIXT_WORKERS", "none")
    result = execute(build_definitions(), instance, only=["raw_log_inventory"])
    assert not result.success
    (failure,) = (event for event in result.all_events if event.event_type == dg.DagsterEventType.RUN_FAILURE)
    assert "setting 'workers': " in json.dumps(str(failure.event_specific_data))
    (said,) = (
        log.user_message for log in instance.all_logs(result.run_id) if log.level == 40 and not log.dagster_event
    )
    assert said.startswith("setting 'workers': ") and said.endswith("correct NIXT_WORKERS")


def test_a_tick_with_a_wrong_setting_fails_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_WORKERS", "none")
    definitions = build_definitions()
    with (
        dg.DagsterInstance.local_temp() as instance,
        dg.build_sensor_context(
            instance_ref=instance.get_ref(), definitions=definitions, resources={"settings": NixtSettings()}
        ) as context,
        pytest.raises(dg.DagsterError) as failed,
    ):
        definitions.get_repository_def().get_sensor_def("finished_runs").evaluate_tick(context)
    assert "setting 'workers': " in str(failed.value.__cause__)
