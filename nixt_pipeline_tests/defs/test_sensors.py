import json
import os
from pathlib import Path

import dagster as dg
import pytest

from nixt_pipeline.definitions import build_definitions
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.defs.sensors import (
    ATTEMPT_TAG,
    FINGERPRINT_TAG,
    RUN_TAG,
    Attempt,
    Cursor,
    Ingestion,
    RunDecision,
    decide,
    explain,
    finished_runs_sensor,
    latest_ingestions,
)
from nixt_pipeline.inspector.runs import Finished, RunDirectory
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.defs.conftest import drop_job
from nixt_pipeline_tests.records import collective, write_log

NOW = 1_000_000.0


def directory(run: str = "job", fingerprint: str = "f1") -> RunDirectory:
    return RunDirectory(run, Path("/landing") / run, fingerprint, 0.0, 1)


def requested(run: str = "job", fingerprint: str = "f1", number: int = 1) -> Cursor:
    return Cursor({run: Attempt(fingerprint, number)})


def failed(number: int, seconds_ago: float) -> Ingestion:
    return Ingestion(Attempt("f1", number), failed=True, ended_s=NOW - seconds_ago)


def decision(
    *directories: RunDirectory,
    cursor: Cursor | None = None,
    latest: Ingestion | None = None,
    finished: bool = True,
    limit: int = 10,
    looks: int = 100,
) -> RunDecision:
    """Decide about `directories`; `latest` is how `job`'s ingestion stands, `looks` how many fit into the budget."""
    left = iter(range(looks))
    return decide(
        directories,
        cursor or Cursor(),
        {"job": latest} if latest else {},
        lambda _: Finished(finished, "changed 3 s ago"),
        limit,
        NOW,
        lambda: next(left, None) is None,
    )


def names(found: RunDecision) -> list[tuple[str, int]]:
    return [(directory.run, attempt.number) for directory, attempt in found.requests]


def test_a_finished_directory_is_requested() -> None:
    assert names(decision(directory())) == [("job", 1)]


def test_an_unfinished_directory_waits_for_the_reason_given() -> None:
    found = decision(directory(), finished=False)
    assert (names(found), found.waiting) == ([], {"job": "changed 3 s ago"})


def test_what_was_requested_already_is_left_alone() -> None:
    found = decision(directory(), cursor=requested())
    assert (names(found), found.waiting) == ([], {})


def test_a_directory_that_grew_is_requested_again_from_the_first_attempt() -> None:
    assert names(decision(directory(fingerprint="f2"), cursor=requested(number=3))) == [("job", 1)]


def test_a_directory_that_grew_while_it_was_ingested_waits_for_the_end() -> None:
    in_progress = Ingestion(Attempt("f1", 1), in_progress=True)
    found = decision(directory(fingerprint="f2"), cursor=requested(), latest=in_progress)
    assert (names(found), list(found.waiting)) == ([], ["job"])


def test_a_failed_ingestion_is_tried_again_after_a_pause() -> None:
    waiting = decision(directory(), cursor=requested(), latest=failed(1, seconds_ago=20))
    assert waiting.waiting == {"job": "failed; attempt 2 of 3 in 40 s"}
    assert names(decision(directory(), cursor=requested(), latest=failed(1, seconds_ago=61))) == [("job", 2)]


def test_after_the_last_attempt_a_run_waits_for_its_files_to_change() -> None:
    found = decision(directory(), cursor=requested(number=3), latest=failed(3, seconds_ago=10_000))
    assert names(found) == []
    assert found.waiting["job"].startswith("failed 3 times")


def test_the_failure_of_an_earlier_attempt_does_not_count_against_the_present_one() -> None:
    found = decision(directory(), cursor=requested(number=2), latest=failed(1, seconds_ago=10_000))
    assert (names(found), found.waiting) == ([], {})


def test_at_most_the_limit_is_requested_and_the_rest_follows() -> None:
    found = decision(directory("a"), directory("b"), directory("c"), limit=2)
    assert names(found) == [("a", 1), ("b", 1)]
    assert found.waiting == {"c": "waits for the next tick"}
    again = decision(
        directory("a"),
        directory("b"),
        directory("c"),
        limit=2,
        cursor=Cursor({directory.run: attempt for directory, attempt in found.requests}),
    )
    assert names(again) == [("c", 1)]


def test_what_the_budget_does_not_reach_is_remembered() -> None:
    found = decision(directory("a"), directory("b"), looks=1)
    assert names(found) == [("a", 1)]
    assert [item.run for item in found.not_reached] == ["b"]


def test_what_there_was_no_time_to_look_into_comes_first_at_the_next_tick() -> None:
    # Three looks at the clock: before each directory, and after looking into the second one.
    found = decision(directory("a"), directory("b"), looks=2)
    assert names(found) == [("a", 1)]
    assert [item.run for item in found.not_reached] == ["b"]
    assert names(decision(directory("b"), looks=1)) == [("b", 1)]


def test_the_cursor_survives_being_written_down() -> None:
    cursor = Cursor({"job": Attempt("f1", 2)}, resume_at="job")
    assert Cursor.from_text(cursor.to_text()) == cursor
    assert Cursor.from_text(None) == Cursor()


def test_a_long_list_of_waiting_runs_is_cut() -> None:
    text = explain({f"run-{n}": "changed 1 s ago" for n in range(25)})
    assert text.startswith("25 waiting: run-0: changed 1 s ago")
    assert text.endswith("and 5 more")


# The sensor itself, over a real landing directory.


def tick(nixt: NixtSettings, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    sensor = finished_runs_sensor("ingest_run", 30)
    context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"settings": nixt})
    result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def requests(result: dg.SensorResult) -> list[dg.RunRequest]:
    return list(result.run_requests or [])


def with_settings(nixt: NixtSettings, **overrides: object) -> NixtSettings:
    return NixtSettings(overrides=nixt.overrides | overrides)


def test_a_tick_adds_the_partition_and_requests_its_ingestion(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    path = drop_job(settings.landing_dir)
    result = tick(nixt, instance)
    (request,) = requests(result)
    assert request.partition_key == "nccl-inspector-7"
    assert (request.run_key or "").startswith("nccl-inspector-7@")
    assert request.run_config["ops"]["raw_log_inventory"]["config"]["directory"] == str(path)
    (addition,) = result.dynamic_partitions_requests or []
    assert list(addition.partition_keys) == ["nccl-inspector-7"]


def test_a_second_tick_has_nothing_to_do(settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance) -> None:
    drop_job(settings.landing_dir)
    second = tick(nixt, instance, tick(nixt, instance).cursor)
    assert requests(second) == []
    assert second.skip_reason and second.skip_reason.skip_message == "nothing new in the landing directory"


def test_a_run_that_grew_gets_a_new_key(settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance) -> None:
    path = drop_job(settings.landing_dir)
    first = tick(nixt, instance)
    write_log(path / "node-02-pid9.log", collective())
    second = tick(nixt, instance, first.cursor)
    assert len(requests(second)) == 1
    assert requests(first)[0].run_key != requests(second)[0].run_key


def test_a_run_that_still_changes_is_named_with_the_reason(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir)
    result = tick(with_settings(nixt, quiet_period_s=3600), instance)
    assert requests(result) == []
    assert result.skip_reason and "nccl-inspector-7: changed" in (result.skip_reason.skip_message or "")


def test_a_marker_file_ends_the_waiting(settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance) -> None:
    (drop_job(settings.landing_dir) / "_SUCCESS").touch()
    assert len(requests(tick(with_settings(nixt, quiet_period_s=3600), instance))) == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (None, "", "holds no log: from NCCL 2.30 on"),
        ("node-01-pid1.log", "", "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"),
        ("noise", "\x80\x01 no record\n" * 1000, "no Inspector record in its 1 file"),
    ],
)
def test_a_directory_without_a_record_becomes_no_partition_and_says_why(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance, name: str | None, content: str, words: str
) -> None:
    directory = settings.landing_dir / "job"
    directory.mkdir(parents=True)
    (directory / "_SUCCESS").touch()
    if name:
        (directory / name).write_text(content)
    first = tick(nixt, instance)
    assert (requests(first), first.dynamic_partitions_requests or []) == ([], [])
    assert first.skip_reason and words in (first.skip_reason.skip_message or "")
    second = tick(nixt, instance, first.cursor)
    assert second.skip_reason and "job: " in (second.skip_reason.skip_message or "")
    write_log(directory / "node-02-pid2.log", collective())
    assert len(requests(tick(nixt, instance, second.cursor))) == 1


def test_a_run_whose_logs_were_deleted_is_no_empty_directory(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    path = drop_job(settings.landing_dir)
    first = tick(nixt, instance)
    for log in path.iterdir():
        log.unlink()
    second = tick(nixt, instance, first.cursor)
    assert second.skip_reason and second.skip_reason.skip_message == "nothing new in the landing directory"


def test_a_missing_landing_directory_is_a_reason_and_no_error(nixt: NixtSettings, instance: dg.DagsterInstance) -> None:
    result = tick(nixt, instance, Cursor({"job": Attempt("f", 1)}).to_text())
    assert result.skip_reason and "NIXT_LANDING_DIR" in (result.skip_reason.skip_message or "")
    assert json.loads(result.cursor or "{}")["attempts"] == {"job": ["f", 1]}


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_directory_without_permission_is_skipped_with_the_reason(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir, "open")
    closed = drop_job(settings.landing_dir, "closed")
    closed.chmod(0)
    try:
        result = tick(nixt, instance)
    finally:
        closed.chmod(0o755)
    assert [request.partition_key for request in requests(result)] == ["open"]


def test_a_directory_that_fails_to_list_does_not_stop_the_others(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_job(settings.landing_dir, "stale")
    real = os.scandir

    def scandir(path: str | Path) -> object:
        if str(path).endswith("stale"):
            raise OSError(116, "Stale file handle")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = tick(nixt, instance)
    assert result.skip_reason
    assert result.skip_reason.skip_message == "1 waiting: stale: cannot be read: Stale file handle"


def test_a_tick_requests_no_more_than_its_limit_and_the_next_goes_on(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    for run in ("a", "b", "c"):
        drop_job(settings.landing_dir, run)
    limited = with_settings(nixt, sensor_max_runs_per_tick=2)
    first = tick(limited, instance)
    second = tick(limited, instance, first.cursor)
    assert [request.partition_key for request in requests(first)] == ["a", "b"]
    assert [request.partition_key for request in requests(second)] == ["c"]


def test_a_tick_without_time_resumes_where_it_stopped(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    for run in ("a", "b"):
        drop_job(settings.landing_dir, run)
    # So short that the budget is over before the first directory is reached.
    result = tick(with_settings(nixt, sensor_budget_s=1e-9), instance)
    assert requests(result) == []
    assert Cursor.from_text(result.cursor).resume_at == "a"
    assert result.skip_reason and "not reached" in (result.skip_reason.skip_message or "")


def test_looking_resumes_at_the_name_in_the_cursor(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    for run in ("a", "b"):
        drop_job(settings.landing_dir, run)
    one = with_settings(nixt, sensor_max_runs_per_tick=1)
    result = tick(one, instance, Cursor(resume_at="b").to_text())
    assert [request.partition_key for request in requests(result)] == ["b"]


def test_how_an_attempt_ended_is_read_from_the_latest_dagster_run(instance: dg.DagsterInstance) -> None:
    @dg.op
    def fails() -> None:
        raise RuntimeError("no space left on device")

    @dg.job(name="ingest_run")
    def ingest_run() -> None:
        fails()

    for number in ("1", "2"):
        tags = {RUN_TAG: "job", FINGERPRINT_TAG: "f1", ATTEMPT_TAG: number}
        ingest_run.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    ingestion = latest_ingestions(instance, "ingest_run")["job"]
    assert ingestion.attempt == Attempt("f1", 2)
    assert (ingestion.failed, ingestion.in_progress) == (True, False)
    assert ingestion.ended_s > 0


def test_dagster_accepts_what_the_sensor_asks_for(settings: Settings, nixt: NixtSettings) -> None:
    drop_job(settings.landing_dir)
    definitions = build_definitions(nixt)
    repository = definitions.get_repository_def()
    with (
        dg.DagsterInstance.local_temp() as instance,
        dg.build_sensor_context(
            instance_ref=instance.get_ref(), definitions=definitions, resources={"settings": nixt}
        ) as context,
    ):
        data = repository.get_sensor_def("finished_runs").evaluate_tick(context)
    (request,) = data.run_requests or []
    assert request.tags["dagster/partition"] == "nccl-inspector-7"
    job = definitions.resolve_job_def("ingest_run")
    assert dg.validate_run_config(job, request.run_config)
