"""What did not become records is named with its reason, and nothing is counted twice."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nixt_pipeline.settings import Settings
from nixt_pipeline.store.first_record import not_taken_up, why_no_record
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline.store.unread import no_records, reasons, set_aside
from nixt_pipeline_tests.records import collective, write_log


def records(pid: int, count: int = 3) -> list[str]:
    return [collective(sn=number, pid=pid, rank=pid % 4) for number in range(count)]


def test_a_leftover_is_named_and_the_only_one_of_its_process_is_pointed_at(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(1))
    write_log(tmp_path / "in" / ".node-01-pid1.log.Ab12Cd", *records(1))
    write_log(tmp_path / "in" / ".node-01-pid2.log.Xa3f9Q", *records(2))
    write_log(tmp_path / "in" / ".nfs000000000a1b2c3d00000004", *records(3))
    summary = ingest(tmp_path / "in", "run", settings)
    assert (summary.records["stored"], summary.records["duplicate"]) == (6, 0)
    assert (summary.files["read"], summary.files["ignored"]) == (2, 2)
    copied, only = sorted(set_aside("run", settings))
    assert copied == ".node-01-pid1.log.Ab12Cd: a hidden file, as rsync writes while it copies"
    assert "begins with a record of node-01, pid 2, of which no other file has any" in only


def test_a_copy_that_was_completed_is_read(tmp_path: Path, settings: Settings) -> None:
    path = write_log(tmp_path / "in" / ".node-01-pid2.log.Xa3f9Q", *records(2))
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(1))
    assert ingest(tmp_path / "in", "run", settings).records["stored"] == 3
    path.rename(tmp_path / "in" / "node-01-pid2.log")
    summary = ingest(tmp_path / "in", "run", settings)
    assert (summary.records["stored"], summary.files["ignored"]) == (6, 0)


def test_a_file_that_cannot_be_read_is_named_beside_those_that_can(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(1))
    (tmp_path / "in" / "node-01-pid2.log").symlink_to("/etc/hostname")
    ingest(tmp_path / "in", "run", settings)
    (line,) = set_aside("run", settings)
    assert line.startswith("node-01-pid2.log: a link out of the directory")


def _link_out(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_link_out, "a link out of the directory; it is followed with NIXT_FOLLOW_LINKS=anywhere"),
        (lambda path: path.symlink_to("/proc/self/environ"), "a link out of the directory"),
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (lambda path: path.write_text("name: x"), "not usable: "),
        (lambda path: path.write_text('{"gpus": "many"}'), "not usable: gpus: Input should be a valid integer"),
        (lambda path: path.write_text(" " * (1 << 20) + "{}"), "not usable: larger than 1048576 bytes"),
    ],
)
def test_a_run_json_that_is_refused_is_named_with_its_reason(
    tmp_path: Path, settings: Settings, make: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "in" / "run.json"
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(1))
    make(path)
    assert ingest(tmp_path / "in", "run", settings).files["ignored"] == 1
    (line,) = set_aside("run", settings)
    assert line.startswith(f"run.json: {reason}")
    path.rmdir() if path.is_dir() else path.unlink()
    path.write_text('{"name": "x"}')
    assert ingest(tmp_path / "in", "run", settings).files["ignored"] == 0
    assert set_aside("run", settings) == []


def test_a_run_json_that_is_refused_is_no_log_of_an_empty_directory(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "in").mkdir()
    _link_out(tmp_path / "in" / "run.json")
    ingest(tmp_path / "in", "run", settings)
    assert "it holds no files (run.json is a link out of the directory; " in no_records("run", settings)


def test_a_run_json_below_the_top_folder_is_named(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01" / "node-01-pid1.log", *records(1))
    (tmp_path / "in" / "run.json").write_text('{"name": "x"}')
    (tmp_path / "in" / "node-01" / "run.json").write_text('{"name": "y"}')
    assert ingest(tmp_path / "in", "run", settings).files["ignored"] == 1
    assert set_aside("run", settings) == [
        "node-01/run.json: run.json counts only in the top folder of its run: move it there"
    ]


def test_an_empty_directory_says_what_to_set(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "in").mkdir()
    ingest(tmp_path / "in", "run", settings)
    words = no_records("run", settings)
    assert "it holds no files; " in words
    assert "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS" in words
    (tmp_path / "in" / "node-01-pid1.log").touch()
    ingest(tmp_path / "in", "run", settings)
    assert "it holds 1 empty file; " in no_records("run", settings)


def test_the_most_frequent_reasons_come_with_an_example(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a.log", *(['{"log":"{\\"header\\":{\\"id\\""}'] * 3), '{"coll_perf":{}}')
    write_log(tmp_path / "in" / "b.txt", "hello")
    ingest(tmp_path / "in", "run", settings)
    words = [str(reason) for reason in reasons("run", settings)]
    assert words[0] == "1 file: no record in it: not JSON (b.txt)"
    assert words[1].startswith("3 lines: a piece of a record, of which others are missing (a.log:1: ")
    assert "no header, and no dump_stats marker" in words[2]
    assert all(f"  {line}" in no_records("run", settings) for line in words)


def _one_line(path: Path, mebibytes: int) -> None:
    """A file in which no line ends; nothing of it is a hole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(b"x" * (1 << 20))


@pytest.mark.slow
def test_of_a_large_file_the_beginning_tells(settings: Settings) -> None:
    _one_line(settings.landing_dir / "job" / "state.dat", 33)
    assert "no record in its first 32 MiB" in str(why_no_record(settings.landing_dir / "job", settings))
    # The plugin's own names come first, however many others there are.
    for number in range(4):
        _one_line(settings.landing_dir / "job" / f"a{number}.dat", 33)
    assert "no Inspector record in its first 4 files" in str(why_no_record(settings.landing_dir / "job", settings))
    write_log(settings.landing_dir / "job" / "node-01-pid1.log", *records(1))
    assert why_no_record(settings.landing_dir / "job", settings) is None


def test_a_window_that_is_too_wide_is_no_damage(tmp_path: Path, settings: Settings) -> None:
    # RFC 8878: magic, no content size, window descriptor of 2^31 bytes, one last raw block of one byte.
    frame = bytes.fromhex("28b52ffd 00 a8 090000") + b"x" + bytes(8)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log.zst").write_bytes(frame)
    ingest(tmp_path / "in", "run", settings)
    assert "a window of 2,048 MiB" in no_records("run", settings)
    assert "unpack it with zstd -d --long=31" in no_records("run", settings)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.log", collective(), None),
        ("a.log", "x\n" * 9 + collective(), None),
        ("a.log", "", "holds 1 empty log: from NCCL 2.30 on"),
        ("a.log", "x\n", "no Inspector record in its 1 file (the first: not JSON)"),
        ("model.pt", "x", "no log by its name"),
        ("a.log~", collective(), "an editor's copy"),
        ("core.17", "\x7fELF\n" + collective(), "no log by its content (a core dump or a program)"),
    ],
)
def test_whether_there_is_a_record_is_told_before_anything_is_stored(
    settings: Settings, name: str, content: str, words: str | None
) -> None:
    (settings.landing_dir / "job").mkdir(parents=True)
    (settings.landing_dir / "job" / "_SUCCESS").touch()
    (settings.landing_dir / "job" / name).write_text(content)
    reason = why_no_record(settings.landing_dir / "job", settings)
    assert reason is None if words is None else words in str(reason)
    assert not_taken_up({"job"}, settings) == {}
    assert (not_taken_up((), settings) == {}) == (words is None)
