import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.errors import DamagedError, StorageError
from nixt_pipeline.store import files
from nixt_pipeline.store.files import file_lock, replacing, temporary_path, write_batches, write_table, write_text
from nixt_pipeline.store.parts import PartWriter

NO_PROCESS = 2**22 + 1  # beyond the largest process id of Linux
DAY_S = 86_400


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_what_killed_processes_left_goes_and_what_others_write_stays(tmp_path: Path) -> None:
    target = tmp_path / "catalog.duckdb"
    mine = temporary_path(target).name.split("-")[1]
    for name in ("catalog.duckdb", "catalog.duckdb.wal"):
        (tmp_path / f".tmp-{mine}-{NO_PROCESS}-abcd-{name}").touch()
    kept = {
        f".tmp-{mine}-{os.getpid()}-abcd-catalog.duckdb",
        f".tmp-elsewhere-{NO_PROCESS}-abcd-catalog.duckdb",
        f".tmp-{mine}-{NO_PROCESS}-abcd-other",
    }
    for name in kept:
        (tmp_path / name).touch()
    temporary_path(target)
    assert names(tmp_path) == kept


def test_a_process_id_means_nothing_in_another_container_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pods on the host's network share the host name; the process of one is none of the other's."""
    target = tmp_path / "manifest.json"
    monkeypatch.setattr(files, "_process_id_space", lambda: "pod-a")
    with replacing(target) as written_by_a:
        written_by_a.write_text("a")
        monkeypatch.setattr(files, "_process_id_space", lambda: "pod-b")
        monkeypatch.setattr("psutil.pid_exists", lambda _: False)
        write_text("b", target)
        assert written_by_a.exists()
    assert target.read_text() == "a"


def test_what_was_left_by_a_machine_that_is_gone_goes_after_a_day(tmp_path: Path) -> None:
    old, young = tmp_path / ".tmp-gone-7-abcd-manifest.json", tmp_path / ".tmp-gone-8-abcd-manifest.json"
    for path, age_s in ((old, DAY_S + 60), (young, DAY_S - 60)):
        path.touch()
        os.utime(path, (time.time() - age_s, time.time() - age_s))
    temporary_path(tmp_path / "manifest.json")
    assert names(tmp_path) == {young.name}


def test_writers_of_one_process_never_share_a_temporary_file(tmp_path: Path) -> None:
    assert temporary_path(tmp_path / "a") != temporary_path(tmp_path / "a")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.parquet"
    write_text("old", target)

    def breaks() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1]})
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        write_batches(breaks(), pa.schema({"x": pa.int64()}), target)
    with pytest.raises(KeyError), replacing(target) as temporary:
        temporary.write_text("half")
        raise KeyError
    with pytest.raises(KeyError), PartWriter(target, pa.schema({"x": pa.int64()}), 1) as writer:
        writer.append_batch(pa.record_batch({"x": [1]}))
        writer._flush_batches()
        raise KeyError
    assert names(tmp_path) == {"a.parquet"}
    assert target.read_text() == "old"


def test_a_full_disk_is_named_with_its_path_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(StorageError, match="No space left on device; make room") as raised:
        write_table(pa.table({"x": [1]}), tmp_path / "hot_kernels" / "run=a.parquet")
    assert str(tmp_path / "hot_kernels" / "run=a.parquet") in str(raised.value)
    assert raised.value.errno == errno.ENOSPC
    assert list(tmp_path.rglob(".tmp-*")) == []


def test_an_empty_directory_in_the_place_of_a_file_goes_and_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.json").mkdir()
    write_text("{}", tmp_path / "empty.json")
    assert (tmp_path / "empty.json").read_text() == "{}"
    (tmp_path / "full.json" / "inside").mkdir(parents=True)
    with pytest.raises(DamagedError, match=r"full\.json is a directory where a file belongs; move it away"):
        write_text("{}", tmp_path / "full.json")
    assert (tmp_path / "full.json" / "inside").exists()


def test_a_lock_can_be_taken_by_whoever_may_write_to_the_directory(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        for mode in (0o2775, 0o755):
            directory = tmp_path / f"{mode:o}"
            directory.mkdir()
            directory.chmod(mode)
            with file_lock(directory / ".lock"):
                assert stat.S_IMODE((directory / ".lock").stat().st_mode) == mode & 0o666
    finally:
        os.umask(before)
