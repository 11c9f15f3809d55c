"""Logs decoded in slices, shares and by several workers, and the parts that this leaves."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import ingest, layout, parts
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline_tests.records import marker, write_log
from nixt_pipeline_tests.store.examples import query, records, stored, take_in


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Settings:
    """Settings under which a file of a few kB is already cut into slices."""
    monkeypatch.setattr("nixt_pipeline.store.parts._MIN_SHARE_BYTES", 1000)
    return settings.model_copy(update={"bundle_bytes": 1000})


def test_a_large_file_is_decoded_in_slices(tmp_path: Path, small_slices: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(20), "noise", *records(20, start=20))
    summary = take_in(tmp_path / "in", small_slices)
    assert (summary.records["stored"], summary.rejected_lines, summary.files["read"]) == (40, 1, 1)
    assert query(small_slices, "SELECT line, byte_offset FROM rejects") == [(21, sum(len(r) + 1 for r in records(20)))]
    directory = read_manifest("run", small_slices).directory(small_slices)
    assert len(layout.table_files(directory, "events")) > 5


def test_two_large_files_are_not_copies_for_want_of_a_digest(tmp_path: Path, small_slices: Settings) -> None:
    for pid in (1, 2):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(20, pid))
    assert take_in(tmp_path / "in", small_slices).records["stored"] == 40
    shutil.copy(tmp_path / "in" / "a-pid1.log", tmp_path / "in" / "copy.log")
    assert take_in(tmp_path / "in", small_slices).records["stored"] == 40


def test_a_large_stream_with_markers_is_decoded_in_one_piece(tmp_path: Path, small_slices: Settings) -> None:
    bare = '{"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":8,"coll_exec_time_us":5}}'
    # More than what the inventory looks at stands before the first marker, so that it does not see one.
    filler = records(200)
    write_log(tmp_path / "in" / "a-pid1.log", *filler, marker(100), *(bare % n for n in range(100)))
    summary = take_in(tmp_path / "in", small_slices)
    assert (summary.records["stored"], summary.rejected_lines) == (300, 0)
    assert query(small_slices, "SELECT count(*), count(DISTINCT (coll_sn, coll_exec_time_us)) FROM events") == [
        (300, 300)
    ]


@pytest.mark.parametrize("shares", [(0, 1, 2), (1,)])
def test_what_was_decoded_in_shares_is_not_decoded_again(
    tmp_path: Path, small_slices: Settings, monkeypatch: pytest.MonkeyPatch, shares: tuple[int, ...]
) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(20), "noise", *records(20, start=20))
    write_log(tmp_path / "in" / "a-pid2.log", marker(0), *records(9, pid=2))
    expected = take_in(tmp_path / "in", small_slices), stored(small_slices)
    shutil.rmtree(small_slices.data_dir)

    ingest.take_inventory(tmp_path / "in", "run", small_slices)
    for share in shares:
        ingest.decode_share("run", small_slices, share, 3)
    decoded: list[str] = []

    def noting(bundle: parts.Bundle, settings: Settings) -> parts.DecodedBundle:
        decoded.append(bundle.part)
        return parts.decode_bundle(bundle, settings)

    monkeypatch.setattr("nixt_pipeline.store.fan_out.decode_bundle", noting)
    summary = take_in(tmp_path / "in", small_slices.model_copy(update={"workers": 1}))
    assert (replace(summary, seconds=0), stored(small_slices)) == (replace(expected[0], seconds=0), expected[1])
    directory = read_manifest("run", small_slices).directory(small_slices)
    n_parts = len(layout.table_files(directory, "events"))
    assert n_parts > 5
    assert len(decoded) == (0 if len(shares) == 3 else n_parts - len(range(1, n_parts, 3)))
    assert not (directory / "decoded").exists()


def test_many_small_additions_are_joined(tmp_path: Path, settings: Settings) -> None:
    # Each file is a part of its own.
    settings = settings.model_copy(update={"bundle_bytes": 1, "workers": 1})
    for pid in range(31):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(2, pid))
    take_in(tmp_path / "in", settings)
    assert len(layout.table_files(read_manifest("run", settings).directory(settings), "events")) == 31
    write_log(tmp_path / "in" / "a-pid31.log", *records(2, 31))
    take_in(tmp_path / "in", settings)
    assert len(layout.table_files(read_manifest("run", settings).directory(settings), "events")) == 1
    assert query(settings, "SELECT count(*), count(DISTINCT pid) FROM events") == [(64, 32)]
    write_log(tmp_path / "in" / "a-pid0.log", *records(3, 0))
    assert take_in(tmp_path / "in", settings).records["stored"] == 65


@pytest.mark.slow
def test_many_workers_store_what_one_stores(tmp_path: Path, settings: Settings) -> None:
    for pid in range(4):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(50, pid))
    take_in(tmp_path / "in", settings)
    alone = stored(settings)
    shutil.rmtree(settings.data_dir)
    take_in(tmp_path / "in", settings.model_copy(update={"workers": 2}))
    assert stored(settings) == alone
