"""After a power cut only what was synced is there: the store is then the old state, or the new one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import catalog, ingest, layout
from nixt_pipeline.store.manifest import UnknownRunError, manifest_path, read_manifest
from nixt_pipeline_tests.records import collective, write_log

State = tuple[int, int, int]  # inode, size, time of the last change


def state_of(status: os.stat_result) -> State:
    return status.st_ino, status.st_size, status.st_mtime_ns


class Disk:
    """Remembers what was synced, and copies the store as a power cut would leave it before each sync and rename.

    Of a file whose content was not synced the name stays and the content is gone, which file systems with delayed
    allocation do: the worst of what may happen.
    """

    def __init__(self, data: Path, copies: Path) -> None:
        self.data, self.copies = data, copies
        self.synced: set[State] = set()
        self.cuts: list[Path] = []

    def cut(self) -> None:
        copy = self.copies / str(len(self.cuts))
        shutil.copytree(self.data, copy, copy_function=self._as_on_disk)
        self.cuts.append(copy)

    def _as_on_disk(self, source: str, target: str) -> None:
        if state_of(Path(source).stat()) in self.synced:
            shutil.copy2(source, target)
        else:
            Path(target).touch()


@pytest.fixture
def disk(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    watched = Disk(settings.data_dir, tmp_path / "copies")
    fsync, replace = os.fsync, Path.replace

    def note_sync(handle: int) -> None:
        watched.cut()
        fsync(handle)
        watched.synced.add(state_of(os.fstat(handle)))

    def note_rename(path: Path, target: Path) -> Path:
        watched.cut()
        return replace(path, target)

    settings.data_dir.mkdir()
    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    yield watched


def count(settings: Settings) -> int:
    with catalog.open_run("run", settings) as con:
        [(records,)] = con.sql("SELECT count(*) FROM events JOIN processes USING (run, hostname, pid)").fetchall()
    return int(records)


def test_whatever_a_power_cut_takes_the_run_is_whole_or_is_ingested_again(
    settings: Settings, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "in"
    write_log(logs / "a-pid1.log", *(collective(sn=n, pid=1) for n in range(3)), "no record {")
    ingest.ingest(logs, "run", settings)
    first = len(disk.cuts)
    write_log(logs / "b-pid2.log", *(collective(sn=n, pid=2) for n in range(4)))
    ingest.ingest(logs, "run", settings)
    disk.cut()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)

    seen = []
    for number, copy in enumerate(disk.cuts):
        after = load_settings(data_dir=copy, workers=1)
        try:
            seen.append(count(after))
        except UnknownRunError:
            seen.append(0)
        assert seen[-1] in ((0, 3) if number < first else (3, 7)), f"cut {number}"
        if number % 4 == 0 or number == len(disk.cuts) - 1:
            ingest.ingest(logs, "run", after)
            assert count(after) == 7, f"cut {number}"
    assert seen == sorted(seen)
    assert seen[-1] == 7  # what was published is on the disk


def test_a_manifest_names_only_what_is_synced_and_is_synced_with_its_directory(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, Path]] = []
    fsync, replace = os.fsync, Path.replace

    def note_sync(handle: int) -> None:
        order.append(("sync", Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    def note_rename(path: Path, target: Path) -> Path:
        order.append(("rename", target))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    write_log(tmp_path / "in" / "a-pid1.log", collective(sn=1))
    ingest.ingest(tmp_path / "in", "run", settings)
    published = order.index(("rename", manifest_path("run", settings)))
    before = {path for kind, path in order[:published] if kind == "sync"}
    generation = read_manifest("run", settings).directory(settings)
    named = layout.written_files(generation)
    assert {generation / name for name in read_manifest("run", settings).contents} == set(named)
    assert {*named, *(path.parent for path in named), generation, generation.parent} <= before
    assert order[published + 1] == ("sync", layout.store_dir("run", settings))
