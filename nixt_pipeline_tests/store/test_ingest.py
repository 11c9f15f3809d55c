"""The stages of an ingest: what is published, when, and what happens when one cannot go on."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from filelock import Timeout

from nixt_pipeline.errors import DamagedError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, ingest, layout
from nixt_pipeline.store.fan_out import IngestError
from nixt_pipeline.store.files import file_lock
from nixt_pipeline.store.manifest import UnknownRunError, read_manifest
from nixt_pipeline_tests.records import EPOCH_US, collective, send, write_log
from nixt_pipeline_tests.store.examples import query, records, take_in


def test_a_directory_becomes_a_published_run(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(3), send(pid=1))
    summary = take_in(tmp_path / "in", settings)
    assert summary.to_json() == {
        "schema": 1,
        "run": "run",
        "incarnations": 1,
        "files": {
            **{"read": 1, "unchanged": 0, "empty": 0, "foreign": 0, "duplicate": 0, "unreadable": 0, "ignored": 0},
            **{"vanished": 0, "superseded": 0},
        },
        "records": {"stored": 4, "collective": 3, "p2p": 1, "duplicate": 0},
        "rejected_lines": 0,
        "foreign_lines": 0,
        "dropped_by_plugin": 0,
        "bytes": summary.bytes,
        "seconds": summary.seconds,
    }
    assert query(settings, "SELECT count(*), min(run), max(process) FROM events") == [(4, "run", "node-01-pid1")]
    assert read_manifest("run", settings).source_dir == str(tmp_path / "in")


def test_nothing_is_visible_before_it_is_published(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(1))
    ingest.take_inventory(tmp_path / "in", "run", settings)
    ingest.validate_records("run", settings)
    with pytest.raises(UnknownRunError, match="none yet"):
        read_manifest("run", settings)
    with pytest.raises(IngestError, match="materialise typed_events first"):
        ingest.publish_run("run", settings)
    ingest.type_events("run", settings)
    assert ingest.publish_run("run", settings).records["stored"] == 1


def test_stages_out_of_order_say_which_is_missing(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(IngestError, match="raw_log_inventory"):
        ingest.validate_records("run", settings)
    with pytest.raises(IngestError, match="cannot list"):
        ingest.take_inventory(tmp_path / "missing", "run", settings)
    write_log(tmp_path / "in" / "a-pid1.log", *records(1))
    ingest.take_inventory(tmp_path / "in", "run", settings)
    with pytest.raises(IngestError, match="validated_records"):
        ingest.type_events("run", settings)


def test_no_other_ingest_comes_in_between_the_stages(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", collective())
    type_events = ingest.type_events
    refused = []

    def another_ingest() -> None:
        # It would list the directory anew, and the rest of the first ingest would look for what it has not decoded.
        with pytest.raises(Timeout):
            file_lock(layout.store_dir("run", settings) / ".lock").acquire(timeout=0)
        refused.append(True)

    def between(run: str, settings: Settings) -> dict[str, int]:
        other = threading.Thread(target=another_ingest)
        other.start()
        other.join()
        return type_events(run, settings)

    monkeypatch.setattr(ingest, "type_events", between)
    assert ingest.ingest(tmp_path / "in", "run", settings).records["stored"] == 1
    assert refused == [True]


def test_a_file_whose_name_is_not_utf8_is_read(tmp_path: Path, settings: Settings) -> None:
    path = write_log(tmp_path / "in" / os.fsdecode(b"h\xff-pid1.log"), *records(1))
    assert take_in(tmp_path / "in", settings).records["stored"] == 1
    write_log(path, *records(2))
    assert take_in(tmp_path / "in", settings).records["stored"] == 2


def test_two_jobs_in_one_directory_are_two_incarnations(tmp_path: Path, settings: Settings) -> None:
    day_us = 86_400_000_000
    write_log(tmp_path / "in" / "a-pid1.log", collective(comm="0x1"), collective(comm="0x2", at_us=EPOCH_US + day_us))
    assert take_in(tmp_path / "in", settings).incarnations == 2
    assert query(settings, "SELECT id, incarnation FROM events ORDER BY id") == [("0x1", 1), ("0x2", 2)]
    assert query(settings, "SELECT incarnation, records FROM hosts ORDER BY ALL") == [(1, 1), (2, 1)]


def test_no_logs_at_all_make_an_empty_run(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "in").mkdir()
    assert take_in(tmp_path / "in", settings).records["stored"] == 0
    for table in (
        "events",
        "collectives",
        "p2p",
        "communicators",
        "processes",
        "hosts",
        "files",
        "rejects",
        "channels",
    ):
        assert query(settings, f"SELECT count(*) FROM {table}") == [(0,)]


def test_what_cannot_be_read_costs_only_itself_and_is_named(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    (tmp_path / "in" / "b-pid2.log").symlink_to(tmp_path / "in" / "b-pid2.log")
    (tmp_path / "in" / "c-pid3.log").symlink_to(tmp_path / "gone.log")
    os.mkfifo(tmp_path / "in" / "d-pid4.log")
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.files["unreadable"]) == (2, 3)
    assert query(settings, "SELECT path, problem FROM files WHERE status = 'unreadable' ORDER BY path") == [
        ("b-pid2.log", "Too many levels of symbolic links"),
        ("c-pid3.log", "not a regular file"),
        ("d-pid4.log", "not a regular file"),
    ]


def test_an_interrupted_ingest_starts_over(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    inventory = ingest.take_inventory(tmp_path / "in", "run", settings)
    left = layout.store_dir("run", settings) / f"gen-{inventory.fingerprint}-{ingest.DECODER_VERSION}" / "events"
    left.mkdir(parents=True)
    (left / ".tmp-1-part.parquet").write_bytes(b"half")
    (left / "part-old.parquet").write_bytes(b"half")
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT count(*) FROM events") == [(2,)]
    assert not list(settings.data_dir.rglob(".tmp-*"))


@pytest.mark.parametrize(("grace_s", "left"), [(3600, 3), (0, 1)])
def test_old_generations_go_when_no_reader_can_have_them_open(
    tmp_path: Path, settings: Settings, grace_s: float, left: int
) -> None:
    settings = settings.model_copy(update={"unlink_grace_s": grace_s})
    for number in (1, 2, 3):
        write_log(tmp_path / "in" / "a-pid1.log", *records(number))
        take_in(tmp_path / "in", settings)
    assert len(list(layout.store_dir("run", settings).glob("gen-*"))) == left
    assert query(settings, "SELECT count(*) FROM events") == [(3,)]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(3))
    contents = []
    for _ in range(2):
        take_in(tmp_path / "in", settings)
        generation = read_manifest("run", settings).directory(settings)
        contents.append({path.name: path.read_bytes() for path in generation.rglob("*.parquet")})
        shutil.rmtree(settings.data_dir)
    assert contents[0] == contents[1]


def test_columns_on_disk_carry_role_unit_and_meaning(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(1))
    take_in(tmp_path / "in", settings)
    (part,) = layout.table_files(read_manifest("run", settings).directory(settings), "events")
    metadata = pq.read_schema(part).field("coll_exec_time_us").metadata
    assert (metadata[b"role"], metadata[b"unit"]) == (b"Measurement", b"us")


def test_a_directory_with_too_many_files_is_refused(tmp_path: Path, settings: Settings) -> None:
    for pid in range(3):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(1, pid))
    with pytest.raises(IngestError, match="more than 2 files; raise NIXT_MAX_FILES"):
        take_in(tmp_path / "in", settings.model_copy(update={"max_files": 2}))


def test_a_store_that_cannot_be_written_to_says_so_and_keeps_what_it_had(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "a-pid2.log", *records(2, 2))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nixt_pipeline.store.ingest.write_table", full)
    with pytest.raises(IngestError, match="No space left on device; make room or set NIXT_DATA_DIR"):
        ingest.ingest(tmp_path / "in", "run", settings)
    assert query(settings, "SELECT count(*) FROM events") == [(2,)]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert take_in(tmp_path / "in", settings).records["stored"] == 4


def test_a_damaged_store_is_made_again_or_named(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    take_in(tmp_path / "in", settings)
    manifest = read_manifest("run", settings)
    (manifest.directory(settings) / "validated.json").write_text("")
    assert take_in(tmp_path / "in", settings).records["stored"] == 2
    (layout.store_dir("run", settings) / layout.MANIFEST).write_text("")
    with pytest.raises(DamagedError, match=r"manifest\.json is damaged: .* `nixt check run --repair` rebuilds it"):
        read_manifest("run", settings)
    assert take_in(tmp_path / "in", settings).records["stored"] == 2
    assert read_manifest("run", settings).records["stored"] == 2


def test_a_second_ingest_of_a_run_stops_with_a_message_when_the_first_does_not_end(settings: Settings) -> None:
    from filelock import FileLock

    layout.store_dir("run", settings).mkdir(parents=True)
    with (
        FileLock(layout.store_dir("run", settings) / ".lock"),
        pytest.raises(IngestError, match="being ingested by another process"),
        ingest.run_lock("run", settings, wait_s=0),
    ):
        pass


@pytest.mark.slow
def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    for pid in range(4):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(20, pid))
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "import nixt_pipeline as nixt\n"
        "settings = nixt.load_settings(workers=2, data_dir='data')\n"
        "print(nixt.ingest_run(Path('in'), settings).records['stored'])\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (result.stdout, result.returncode) == ("80\n", 0), result.stderr


@pytest.mark.slow
def test_eight_runs_at_once(tmp_path: Path, settings: Settings) -> None:
    from concurrent.futures import ThreadPoolExecutor

    for number in range(8):
        write_log(tmp_path / str(number) / "a-pid1.log", *records(20))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ingest.ingest(tmp_path / str(number), f"run-{number}", settings), range(8)))
    with catalog.open_store(settings) as con:
        assert con.execute("SELECT count(*), count(DISTINCT run) FROM events").fetchone() == (160, 8)


def test_what_was_decoded_before_a_power_cut_is_used_only_when_it_is_whole(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(3))
    inventory = ingest.take_inventory(tmp_path / "in", "run", settings)
    ingest.decode_share("run", settings, 0, 1)
    (part,) = layout.store_dir("run", settings).glob("gen-*/decoded/events/*.parquet")
    part.write_bytes(b"")
    assert ingest.validate_records("run", settings).records["stored"] == 3
    assert inventory.run == "run"
