import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nixt_pipeline.inspector.opening import link_root
from nixt_pipeline.inspector.runs import (
    LandingError,
    RunDirectory,
    find_runs,
    is_finished,
    read_run_info,
    run_id,
    slurm_job_id,
)
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline_tests.records import collective, write_log


def runs_below(landing: Path, **settings: Any) -> tuple[list[RunDirectory], dict[str, str]]:
    """What is found in a landing directory."""
    return find_runs(load_settings(landing_dir=landing, **settings))


def log_in(directory: Path) -> None:
    write_log(directory / "node-01-pid1.log", collective())


def only_run(landing: Path) -> RunDirectory:
    [found], _ = runs_below(landing)
    return found


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("nccl-inspector-41012", "nccl-inspector-41012"),
        ("team/exp_1/nccl-inspector-7", "team__exp_1__nccl-inspector-7"),
        ("./a//b/", "a__b"),
    ],
)
def test_ordinary_paths_stay_readable(path: str, expected: str) -> None:
    assert run_id(path) == expected


def test_paths_that_would_collide_get_different_ids() -> None:
    paths = ["a/b", "a__b", "a b", "a;b", "a\u2028b", "x" * 300, "x" * 301, "..", "../..", "'; DROP TABLE events; --"]
    assert len({run_id(path) for path in paths}) == len(paths)


@given(st.text(min_size=1))
def test_an_id_is_always_safe(path: str) -> None:
    identity = run_id(path)
    assert 0 < len(identity) <= 120
    assert set(identity) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    assert ".." not in identity
    assert identity[0] not in ".-"


def test_a_directory_with_per_node_folders_is_one_run(tmp_path: Path) -> None:
    log_in(tmp_path / "job" / "node-a")
    log_in(tmp_path / "job" / "node-b")
    runs, skipped = runs_below(tmp_path)
    assert [(run.run, run.file_count) for run in runs] == [("job", 2)]
    assert skipped == {}


def test_a_directory_that_groups_runs_is_none_itself(tmp_path: Path) -> None:
    log_in(tmp_path / "team" / "nccl-inspector-1")
    log_in(tmp_path / "team" / "deep" / "mine")
    (tmp_path / "team" / "deep" / "mine" / "run.json").write_text("{}")
    assert [run.run for run in runs_below(tmp_path)[0]] == ["team__deep__mine", "team__nccl-inspector-1"]


def test_empty_and_hidden_directories_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    log_in(tmp_path / ".staging")
    assert runs_below(tmp_path) == ([], {})


def test_a_landing_directory_that_cannot_be_listed_says_so(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="NIXT_LANDING_DIR"):
        runs_below(tmp_path / "missing")


def test_looking_stops_at_the_deadline(tmp_path: Path) -> None:
    log_in(tmp_path / "job")
    runs, skipped = find_runs(load_settings(landing_dir=tmp_path), deadline=time.monotonic() - 1)
    assert (runs, list(skipped)) == ([], ["job"])


def test_the_fingerprint_changes_with_any_file(tmp_path: Path) -> None:
    log_in(tmp_path / "job")
    before = runs_below(tmp_path)[0][0].fingerprint
    assert runs_below(tmp_path)[0][0].fingerprint == before
    write_log(tmp_path / "job" / "node-02-pid1.log", collective())
    assert runs_below(tmp_path)[0][0].fingerprint != before


def a_run(path: Path, changed_s: float, markers: frozenset[str] = frozenset()) -> RunDirectory:
    return RunDirectory("r", path, "f", changed_s, 1, markers)


def test_a_marker_finishes_a_run_at_once(settings: Settings, tmp_path: Path) -> None:
    now = time.time()
    assert is_finished(a_run(tmp_path, now, frozenset(["_SUCCESS"])), settings, now).reason == "marked by _SUCCESS"


def test_without_a_marker_a_quiet_period_decides(settings: Settings, tmp_path: Path) -> None:
    assert not is_finished(a_run(tmp_path, 1000.0), settings, 1059.0).finished
    assert is_finished(a_run(tmp_path, 1000.0), settings, 1060.0).finished


@pytest.mark.parametrize(("state", "finished"), [("COMPLETED", True), ("CANCELLED by 5", True), ("RUNNING", False)])
def test_the_scheduler_is_asked_before_the_quiet_period(tmp_path: Path, state: str, finished: bool) -> None:
    command = tmp_path / "sacct"
    command.write_text(f'#!/bin/sh\n[ "$1" = 41012 ] && echo " {state}"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    settings = load_settings(sacct_command=str(command))
    directory = tmp_path / "nccl-inspector-41012"
    verdict = is_finished(a_run(directory, 0.0), settings, 10_000.0)
    assert (verdict.finished, verdict.reason) == (finished, f"Slurm job 41012 is {state.split()[0]}")


def test_a_scheduler_that_does_not_answer_leaves_it_to_the_quiet_period(tmp_path: Path) -> None:
    settings = load_settings(sacct_command=str(tmp_path / "no-such-command"))
    verdict = is_finished(a_run(tmp_path / "nccl-inspector-41012", 0.0), settings, 10_000.0)
    assert verdict.finished
    assert verdict.reason.startswith("unchanged for 10000 s (Slurm job 41012: ")
    assert "no-such-command cannot be started" in verdict.reason


def test_a_file_from_the_future_keeps_its_run_waiting_no_longer_than_others(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(tmp_path / "job")
    in_2100_s = 4_102_444_800.0
    os.utime(tmp_path / "job" / "node-01-pid1.log", (in_2100_s, in_2100_s))
    later_s = time.time() + settings.quiet_period_s + 1
    monkeypatch.setattr("nixt_pipeline.inspector.runs.time.time", lambda: later_s)
    assert is_finished(only_run(tmp_path), settings, later_s).finished


def test_what_is_being_copied_keeps_its_run_waiting(tmp_path: Path, settings: Settings) -> None:
    log_in(tmp_path / "job")
    before = only_run(tmp_path)
    (tmp_path / "job" / ".node-02-pid1.log.Xa3f9Q").write_text("{")
    in_2001_s = 1_000_000_000.0
    os.utime(tmp_path / "job", (in_2001_s, in_2001_s))
    during = only_run(tmp_path)
    assert during.newest_change_s > before.newest_change_s
    assert (during.fingerprint, during.file_count) == (before.fingerprint, 1)


def test_links_out_of_the_landing_directory_are_followed_only_where_a_setting_says_so(
    tmp_path: Path, settings: Settings
) -> None:
    log_in(tmp_path / "elsewhere")
    landing = settings.landing_dir
    log_in(landing / "job")
    (landing / "out").symlink_to(tmp_path / "elsewhere")
    (landing / "same").symlink_to(landing / "job")
    (landing / "job" / "run.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "secret.json").write_text('{"name": "x", "token": "s3cret"}')
    runs, skipped = runs_below(landing)
    assert {run.run for run in runs} == {"job", "same"}
    assert "NIXT_FOLLOW_LINKS=anywhere" in skipped["out"]
    root = link_root(landing / "job", settings)
    assert "a link out of the directory" in str(read_run_info(landing / "job", root)["problem"])
    assert {run.run for run in runs_below(landing, follow_links="anywhere")[0]} == {"job", "out", "same"}
    info = read_run_info(
        landing / "job", link_root(landing / "job", settings.model_copy(update={"follow_links": "anywhere"}))
    )
    assert info == {"name": "x", "unknown_keys": ["token"]}


@pytest.mark.parametrize("name", ["nccl-inspector-7", "job"])
def test_a_dump_directory_without_a_log_says_what_to_set(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "_SUCCESS").touch()
    runs, skipped = runs_below(tmp_path)
    assert runs == []
    assert "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS" in skipped[name]


def test_a_copy_that_keeps_old_times_still_counts_as_changed(tmp_path: Path, settings: Settings) -> None:
    log_in(tmp_path / "job")
    os.utime(tmp_path / "job" / "node-01-pid1.log", (1.0, 1.0))
    os.utime(tmp_path / "job", (1.0, 1.0))
    assert time.time() - only_run(tmp_path).newest_change_s < 60


def test_slurm_job_ids_come_from_the_plugins_directory_name() -> None:
    assert slurm_job_id(Path("/x/nccl-inspector-41012")) == "41012"
    assert slurm_job_id(Path("/x/nccl-inspector-36_4")) == "36_4"
    assert slurm_job_id(Path("/x/nccl-inspector-36+1")) == "36+1"
    assert slurm_job_id(Path("/x/nccl-inspector-unknown-jobid")) is None
    assert slurm_job_id(Path("/x/job")) is None


def test_run_json_is_read_and_a_broken_one_is_reported(tmp_path: Path) -> None:
    assert read_run_info(tmp_path) == {}
    (tmp_path / "run.json").write_text(json.dumps({"name": "x", "gpus": 8, "owner": "me"}))
    assert read_run_info(tmp_path) == {"name": "x", "gpus": 8, "unknown_keys": ["owner"]}
    for broken in ("{", '{"gpus": "many"}', "[]"):
        (tmp_path / "run.json").write_text(broken)
        assert "not usable" in str(read_run_info(tmp_path)["problem"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "run.json is not usable: "),
        ('{"z":' + "[" * 30 + "]" * 30 + "}", "run.json is not usable: nested deeper than 20 levels"),
        ('{"z":"' + "z" * (1 << 20) + '"}', "run.json is not usable: larger than 1048576 bytes"),
        ('{"name":"\\ud800"}', "run.json is not usable: "),
    ],
)
def test_a_hostile_run_json_is_reported(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert str(read_run_info(tmp_path)["problem"]).startswith(problem)


def test_a_run_json_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    assert read_run_info(tmp_path) == {"problem": "run.json is not a regular file"}


def test_a_run_json_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b'\xef\xbb\xbf{"name":"x"}')
    assert read_run_info(tmp_path) == {"name": "x"}


def test_a_link_to_itself_in_the_landing_directory_hides_no_run(tmp_path: Path) -> None:
    write_log(tmp_path / "job" / "a-pid1.log", "x")
    (tmp_path / "self").symlink_to("self")
    found, _ = runs_below(tmp_path)
    assert [run.run for run in found] == ["job"]
