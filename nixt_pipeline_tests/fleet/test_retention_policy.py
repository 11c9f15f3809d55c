"""What the policy drops, and what is left of a run afterwards."""

import os
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from benchmarks.fleet_runs import Cluster, Job, write_run
from nixt_pipeline.analysis import analysis_named, materialise
from nixt_pipeline.api import analyse_run, compare, ingest_run, report_run
from nixt_pipeline.diagnosis.results import materialise_findings
from nixt_pipeline.fleet.against import MAX_MEMBERS
from nixt_pipeline.fleet.catalog import current_run_catalog
from nixt_pipeline.fleet.compare.summaries import load_summary
from nixt_pipeline.fleet.decisions import Decision, decide
from nixt_pipeline.fleet.retention_policy import Holding, Step, apply_retention, plan, plan_retention
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.dropped import EventsDroppedError, dropped, mark_dropped
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.ingest import take_inventory
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.retention import drop_events
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

DAY_US = 86_400_000_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Every run is too old, and there are no readers to wait for."""
    return settings.model_copy(update={"unlink_grace_s": 0, "retention_days": 0.001})


def holding(run: str, day: int, size: int = 100, held: str = "") -> Holding:
    return Holding(run, day * DAY_US, size, held)


def dropped_runs(steps: list[Step]) -> list[str]:
    return [step.run for step in steps if step.action == "drop"]


def test_without_limits_nothing_is_dropped() -> None:
    assert dropped_runs(plan([holding("a", 0)], load_settings(), 1000 * DAY_US)) == []


def test_age_and_size_drop_the_oldest_first_and_leave_what_is_held() -> None:
    runs = [holding("c", 3), holding("a", 1), holding("held", 0, held="a baseline"), holding("b", 2)]
    assert dropped_runs(plan(runs, load_settings(retention_days=7.5), 10 * DAY_US)) == ["a", "b"]
    # 400 bytes: without a and b 200 are left.
    steps = plan(runs, load_settings(retention_bytes=250), 10 * DAY_US)
    assert dropped_runs(steps) == ["a", "b"]
    assert [(step.run, step.reason) for step in steps if step.action == "keep"] == [
        ("held", "a baseline"),
        ("c", "within the limits"),
    ]


def test_a_run_without_events_is_no_step(settings: Settings) -> None:
    assert plan([holding("a", 0, size=0)], settings, 10 * DAY_US) == []


def drop_job(settings: Settings, run: str, lines: int = 40) -> Path:
    directory = settings.landing_dir / run
    for rank in (0, 1):
        records = [
            collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank, time_us=1000 + n % 3, at_us=EPOCH_US + n)
            for n in range(lines)
        ]
        write_log(directory / f"node-01-pid{100 + rank}.log", *records)
    return directory


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def analyse(run: str, settings: Settings) -> None:
    """As much of `analyse_run` as the catalog and comparisons need."""
    load_summary(run, settings)
    for name in ("summary_histogram", "coverage"):
        materialise(analysis_named(name), run, settings)
    materialise_findings(run, settings)


def test_a_run_without_its_events_stays_usable(settings: Settings) -> None:
    for run in ("old", "other"):
        ingest_run(drop_job(settings, run), settings)
        analyse(run, settings)
    write_text("the report", layout.report_dir("old", settings) / "index.html")
    landing = snapshot(settings.landing_dir)
    results, before = snapshot(settings.data_dir / "results"), compare("old", "other", settings)
    (row,) = (row for row in current_run_catalog(settings).table.to_pylist() if row["run"] == "old")

    decide("other", Decision(decision="pinned"), settings)
    decide("old", Decision(decision="rejected"), settings)
    steps = plan_retention(NOW, settings)
    assert {step.run: step.action for step in steps} == {"old": "drop", "other": "keep"}
    generation = read_manifest("old", settings).directory(settings)
    assert layout.table_files(generation, "events")  # a plan changes nothing
    done = apply_retention(steps, NOW, settings)
    assert [(step.run, step.action) for step in done] == [("old", "dropped"), ("other", "keep")]
    for table in ("events", "channels", "cells"):
        assert layout.table_files(generation, table) == []
    assert layout.table_files(read_manifest("other", settings).directory(settings), "events")

    assert snapshot(settings.landing_dir) == landing
    assert {name: text for name, text in snapshot(settings.data_dir / "results").items() if name in results} == results
    after = next(row for row in current_run_catalog(settings).table.to_pylist() if row["run"] == "old")
    assert after == row
    assert compare("old", "other", settings).to_json() == before.to_json()
    with catalog.connect(settings) as con:
        con.execute(f"ATTACH '{settings.catalog_path}' AS c (READ_ONLY)")
        assert con.sql("SELECT DISTINCT run FROM c.events").fetchall() == [("other",)]

    # Neither the same logs nor a new report make results of nothing.
    ingest_run(settings.landing_dir / "old", settings)
    analyse_run("old", settings)
    assert report_run("old", settings).read_text() == "the report"
    assert dropped(read_manifest("old", settings).directory(settings)) is not None
    with pytest.raises(EventsDroppedError, match="the events of run old were dropped on 2026-01-01"):
        materialise(analysis_named("coverage"), "old", settings)
    assert plan_retention(NOW, settings)[0].run == "other"

    # When the directory changes, all of it is read again.
    drop_job(settings, "old", lines=50)
    summary = ingest_run(settings.landing_dir / "old", settings)
    assert summary.records["stored"] == 100
    with catalog.open_run("old", settings) as con:
        assert con.sql("SELECT count(*) FROM events").fetchall() == [(100,)]


def test_a_run_that_was_not_analysed_keeps_its_events(settings: Settings) -> None:
    ingest_run(drop_job(settings, "new"), settings)
    (step,) = plan_retention(NOW, settings)
    assert (step.action, step.reason) == ("keep", "not analysed yet")


def test_a_kill_between_the_marker_and_the_end_is_made_good_by_the_next_time(settings: Settings) -> None:
    ingest_run(drop_job(settings, "old"), settings)
    generation = read_manifest("old", settings).directory(settings)
    part = layout.table_files(generation, "events")[0]
    drop_events("old", settings, "test", NOW)
    found = dropped(generation)
    assert found is not None
    mark_dropped(generation, found)
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(b"left behind")
    (step,) = plan_retention(NOW, settings)
    assert step.action == "drop"
    apply_retention([step], NOW, settings)
    assert plan_retention(NOW, settings) == []
    assert dropped(generation) == found  # the first time counts


def test_a_run_that_is_being_ingested_again_is_left_alone(settings: Settings) -> None:
    directory = drop_job(settings, "old")
    ingest_run(directory, settings)
    drop_job(settings, "old", lines=41)
    take_inventory(directory, "old", settings)
    (done,) = apply_retention([Step("old", "drop", 1, "old")], NOW, settings)
    assert (done.action, done.reason) == ("failed", "run old is being ingested again; its events are kept for now")
    assert layout.table_files(read_manifest("old", settings).directory(settings), "events")


def test_only_baselines_that_are_still_used_keep_their_events(settings: Settings) -> None:
    cluster = Cluster(("gpu-1", "gpu-2"), frozenset())
    for number in range(MAX_MEMBERS + 2):
        job = Job(f"job-{number:02}", float(number), ("gpu-1", "gpu-2"))
        write_run(job, cluster, settings)
        generation = read_manifest(job.run, settings).directory(settings)
        write_text("events", generation / "events" / "part.parquet")
    decide("job-00", Decision(decision="pinned"), settings)
    actions = {step.run: step.action for step in plan_retention(NOW, settings)}
    # A new run would be compared with the pinned one and the latest seven: of ten, 0 and 3 to 9.
    assert [run for run, action in actions.items() if action == "drop"] == ["job-01", "job-02"]
    everything = plan_retention(NOW, settings.model_copy(update={"retention_keep": ()}))
    assert {step.action for step in everything} == {"drop"}


def test_readers_keep_the_files_for_a_while_and_are_led_to_the_rest(settings: Settings) -> None:
    patient = settings.model_copy(update={"unlink_grace_s": 3600})
    for run in ("old", "other"):
        ingest_run(drop_job(patient, run), patient)
    generation = read_manifest("old", patient).directory(patient)
    with duckdb.connect(str(patient.catalog_path), read_only=True) as reader:
        (step,) = apply_retention([Step("old", "drop", 1, "old")], NOW, patient)
        assert step.action == "dropped"
        # Who has the catalog of before open goes on, who opens it now is not led to what will go.
        assert reader.sql("SELECT count(*) FROM events").fetchall() == [(160,)]
    with duckdb.connect(str(patient.catalog_path), read_only=True) as reader:
        assert reader.sql("SELECT run, count(*) FROM events GROUP BY run").fetchall() == [("other", 80)]
    assert layout.table_files(generation, "events")
    for path in generation.glob("events_dropped.json"):
        os.utime(path, (path.stat().st_mtime - 3601, path.stat().st_mtime - 3601))
    apply_retention([], NOW, patient)
    assert layout.table_files(generation, "events") == []
