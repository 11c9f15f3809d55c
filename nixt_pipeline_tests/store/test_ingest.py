import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nixt_pipeline.errors import DamagedError
from nixt_pipeline.inspector.decoder import decode_line
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, ingest, layout, parts
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline.store.fan_out import IngestError
from nixt_pipeline.store.manifest import UnknownRunError, read_manifest
from nixt_pipeline_tests.records import EPOCH_US, collective, marker, send, write_log


def take_in(directory: Path, settings: Settings) -> IngestSummary:
    summary = ingest.ingest(directory, "run", settings)
    assert summary.bytes["read"] == sum(count for name, count in summary.bytes.items() if name != "read")
    return summary


def query(settings: Settings, sql: str) -> list[Any]:
    with catalog.open_run(settings, "run") as con:
        return con.execute(sql).fetchall()


def stored(settings: Settings) -> list[Any]:
    """Every stored record, without the number of the file it came from."""
    return query(settings, "SELECT * EXCLUDE (file_id) FROM events ORDER BY ALL")


def records(count: int, pid: int = 1, start: int = 0) -> list[str]:
    return [collective(sn=n, pid=pid, at_us=EPOCH_US + n, rank=pid) for n in range(start, start + count)]


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
    assert read_manifest(settings, "run").source_dir == str(tmp_path / "in")


def test_nothing_is_visible_before_it_is_published(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(1))
    ingest.take_inventory(tmp_path / "in", "run", settings)
    ingest.validate_records("run", settings)
    with pytest.raises(UnknownRunError, match="none yet"):
        read_manifest(settings, "run")
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


def test_an_unchanged_run_is_not_read_again(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(3))
    first = take_in(tmp_path / "in", settings)
    again = take_in(tmp_path / "in", settings)
    assert (again.files["read"], again.files["unchanged"]) == (0, 1)
    assert again.records == first.records


def test_only_changed_files_are_read_again(tmp_path: Path, settings: Settings) -> None:
    for pid in (1, 2, 3):
        write_log(tmp_path / "in" / f"node-01-pid{pid}.log", *records(2, pid))
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "node-01-pid2.log", *records(5, 2))
    write_log(tmp_path / "in" / "node-01-pid4.log", *records(1, 4))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.files["read"], summary.files["unchanged"], summary.records["stored"]) == (2, 2, 2 + 5 + 2 + 1)
    grown = stored(settings)
    shutil.rmtree(settings.data_dir)
    take_in(tmp_path / "in", settings)
    assert stored(settings) == grown


def test_another_decoder_reads_every_log_again_that_is_still_there(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One log stays as it is, one is touched, one grows, one vanishes, and one is replaced by a later one."""
    paths = [write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(2, pid), "noise") for pid in range(5)]
    take_in(tmp_path / "in", settings)
    os.utime(paths[1], (0, 0))
    write_log(paths[2], *records(2, 2), "noise", *records(1, 2, start=2))
    paths[3].unlink()
    write_log(paths[4], *records(1, 4, start=9))

    def other(line: bytes, *arguments: Any, **options: Any) -> Any:
        return decode_line(line.replace(b"AllReduce", b"AllGather"), *arguments, **options)

    monkeypatch.setattr(ingest, "DECODER_VERSION", ingest.DECODER_VERSION + 1)
    monkeypatch.setattr("nixt_pipeline.inspector.log_file.decode_line", other)
    summary = take_in(tmp_path / "in", settings)
    assert (summary.files["read"], summary.files["unchanged"], summary.files["vanished"]) == (4, 0, 1)
    assert (summary.records["stored"], summary.records["duplicate"]) == (2 + 2 + 3 + 2 + (2 + 1), 0)
    assert query(settings, "SELECT pid, coll, count(*) FROM events GROUP BY ALL ORDER BY ALL") == [
        (0, "AllGather", 2),
        (1, "AllGather", 2),
        (2, "AllGather", 3),
        (3, "AllReduce", 2),
        (4, "AllGather", 1),
        (4, "AllReduce", 2),
    ]
    assert query(settings, "SELECT count(*) FROM rejects") == [(4,)]
    assert take_in(tmp_path / "in", settings).files["read"] == 0


def test_records_of_a_deleted_file_stay(tmp_path: Path, settings: Settings) -> None:
    first = write_log(tmp_path / "in" / "node-01-pid1.log", *records(2, 1))
    write_log(tmp_path / "in" / "node-01-pid2.log", *records(2, 2))
    take_in(tmp_path / "in", settings)
    first.unlink()
    summary = take_in(tmp_path / "in", settings)
    assert (summary.files["vanished"], summary.files["unchanged"], summary.records["stored"]) == (1, 1, 4)


def test_what_only_the_earlier_version_of_a_file_had_is_kept_and_marked(tmp_path: Path, settings: Settings) -> None:
    """The plugin reopens its file with "w" when it starts again in the same process, and earlier records are gone."""
    write_log(tmp_path / "in" / "a-pid1.log", *records(4))
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "a-pid1.log", *records(4, start=2))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.records["duplicate"], summary.files["superseded"]) == (6, 0, 1)
    kept = "SELECT coll_sn FROM events JOIN files USING (file_id) WHERE status = 'superseded' ORDER BY 1"
    assert query(settings, kept) == [(0,), (1,)]
    write_log(tmp_path / "in" / "a-pid1.log", *records(1, start=9))
    assert take_in(tmp_path / "in", settings).records["stored"] == 7


def test_a_file_that_grew_is_read_on_where_it_ended(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nixt_pipeline.inspector.log_file import decode_file

    spans = []

    def watched(*arguments: Any, **options: Any) -> Any:
        spans.append(options["span"])
        return decode_file(*arguments, **options)

    monkeypatch.setattr("nixt_pipeline.store.parts.decode_file", watched)
    path = write_log(tmp_path / "in" / "a-pid1.log", *records(3), "noise")
    size = path.stat().st_size
    take_in(tmp_path / "in", settings)
    write_log(path, *records(3), "noise", *records(2, start=3), "more noise", records(1)[0])
    summary = take_in(tmp_path / "in", settings)
    assert spans == [(0, None), (size, None)]
    assert (summary.records["stored"], summary.records["duplicate"], summary.rejected_lines) == (5, 1, 2)
    assert summary.bytes["read"] == path.stat().st_size
    assert query(settings, "SELECT line, sample FROM rejects ORDER BY line") == [(4, "noise"), (7, "more noise")]
    assert query(settings, "SELECT count(*), min(status) FROM files") == [(1, "read")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("".join(line + "\n" for line in records(3)).rstrip(), records(4)),  # its last line may have been cut
        ("".join(line + "\n" for line in records(3, start=9)), records(4)),  # another file with the same name
        (marker(1) + "\n", [marker(1), '{"coll_perf":{"coll":"AllReduce","coll_sn":1}}']),
    ],
)
def test_a_file_that_did_not_merely_grow_is_read_anew(
    tmp_path: Path, settings: Settings, before: str, after: list[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a-pid1.log").write_text(before)
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "a-pid1.log", *after)
    take_in(tmp_path / "in", settings)
    present = "SELECT count(*) FROM events JOIN files USING (file_id) WHERE status = 'read'"
    assert query(settings, present) == [(len([line for line in after if "coll_perf" in line]),)]


@pytest.mark.parametrize("grown", [8, 7.5])
def test_a_file_that_grows_while_it_is_read_counts_nothing_twice(
    tmp_path: Path, settings: Settings, grown: float
) -> None:
    path = write_log(tmp_path / "in" / "a-pid1.log", *records(5))
    ingest.take_inventory(tmp_path / "in", "run", settings)
    path.write_text("\n".join(records(8))[: int(grown * len(records(1)[0]))])
    ingest.validate_records("run", settings)
    ingest.type_events("run", settings)
    ingest.publish_run("run", settings)
    write_log(path, *records(10))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.records["duplicate"], summary.rejected_lines) == (10, 0, 0)
    assert summary.bytes["read"] == path.stat().st_size


def test_the_rejects_of_an_earlier_version_of_a_file_go_with_it(tmp_path: Path, settings: Settings) -> None:
    path = write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    whole = path.read_text()
    path.write_text(whole[:-50])
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT reason FROM rejects") == [("record cut short or malformed",)]
    path.write_text(whole)
    assert take_in(tmp_path / "in", settings).rejected_lines == 0
    assert query(settings, "SELECT reason FROM rejects") == []


def test_an_object_over_several_lines_that_was_cut_is_whole_once_the_file_grew(
    tmp_path: Path, settings: Settings
) -> None:
    pretty = "".join(json.dumps(json.loads(line), indent=2) + "\n" for line in records(2))
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a-pid1.log"
    path.write_text(pretty[: pretty.rindex('    "coll_sn"')])
    assert take_in(tmp_path / "in", settings).records["stored"] == 1
    path.write_text(pretty)
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.rejected_lines, summary.files["superseded"]) == (2, 0, 0)


def test_a_file_whose_name_is_not_utf8_is_read(tmp_path: Path, settings: Settings) -> None:
    path = write_log(tmp_path / "in" / os.fsdecode(b"h\xff-pid1.log"), *records(1))
    assert take_in(tmp_path / "in", settings).records["stored"] == 1
    write_log(path, *records(2))
    assert take_in(tmp_path / "in", settings).records["stored"] == 2


def test_the_earlier_version_of_a_file_that_grew_leaves_nothing(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "a-pid1.log", *records(5))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.files["superseded"]) == (5, 0)
    assert query(settings, "SELECT DISTINCT status FROM files") == [("read",)]


def test_a_copied_file_counts_once_whatever_its_compression(tmp_path: Path, settings: Settings) -> None:
    text = write_log(tmp_path / "in" / "node-01-pid1.log", *records(3)).read_bytes()
    (tmp_path / "in" / "node-01-pid1.log.gz").write_bytes(gzip.compress(text))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.files["read"], summary.files["duplicate"]) == (1, 1)
    assert summary.records == {"stored": 3, "collective": 3, "p2p": 0, "duplicate": 3}
    assert summary.bytes["duplicate"] == len(text)


def test_a_copy_whose_original_changes_is_read_again(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(3))
    write_log(tmp_path / "in" / "b-pid1.log", *records(3))
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "a-pid1.log", *records(2, start=10))
    assert take_in(tmp_path / "in", settings).records["stored"] == 5
    assert query(settings, "SELECT count(*) FROM files WHERE status = 'superseded'") == [(0,)]


def test_a_rotated_prefix_counts_once(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(5))
    write_log(tmp_path / "in" / "node-01-pid1.log.1", *records(3))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.records["duplicate"]) == (5, 3)
    assert query(settings, "SELECT count(*), count(DISTINCT coll_sn) FROM events") == [(5, 5)]


def test_a_file_appended_to_itself_counts_once(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "node-01-pid1.log", *records(4), *records(4))
    assert take_in(tmp_path / "in", settings).records == {"stored": 4, "collective": 4, "p2p": 0, "duplicate": 4}


def test_one_sequence_number_with_other_times_is_no_duplicate(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *(collective(sn=0, time_us=100 + n, at_us=EPOCH_US) for n in range(3)))
    assert take_in(tmp_path / "in", settings).records["stored"] == 3


def test_verbose_traces_of_duplicates_go_too(tmp_path: Path, settings: Settings) -> None:
    line = collective().replace(
        '"coll_busbw_gbs":15.000000',
        '"coll_busbw_gbs":15.000000,"event_trace_ts":{"coll_start_ts":5,"kernel_events":[]}',
    )
    write_log(tmp_path / "in" / "a-pid1.log", line, line)
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT count(*), min(start_ts) FROM channels") == [(1, 5)]


def test_rejects_name_file_offset_line_and_reason(tmp_path: Path, settings: Settings) -> None:
    good = collective()
    write_log(tmp_path / "in" / "sub" / "a-pid1.log", good, good[:50])
    take_in(tmp_path / "in", settings)
    rows = query(settings, "SELECT path, byte_offset, line, bytes, outcome, reason, sample FROM rejects")
    assert rows == [
        ("sub/a-pid1.log", len(good) + 1, 2, 51, "rejected", "record cut short or malformed", good[:50]),
    ]


def test_what_the_plugin_says_it_lost_is_added_up_once_per_communicator(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", marker(0, dropped=5), marker(0, dropped=9), collective())
    write_log(tmp_path / "in" / "a-pid2.log", marker(0, dropped=2, pid=2))
    assert take_in(tmp_path / "in", settings).dropped_by_plugin == 11


def test_counters_beyond_64_bits_are_no_reason_to_stop(tmp_path: Path, settings: Settings) -> None:
    lines = (marker(0, dropped=2**64 - 1), marker(0, dropped=2**64 - 1, pid=2))
    write_log(tmp_path / "in" / "a.log", *lines, *records(1))
    assert take_in(tmp_path / "in", settings).dropped_by_plugin == 2**63 - 1


def test_two_jobs_in_one_directory_are_two_incarnations(tmp_path: Path, settings: Settings) -> None:
    day_us = 86_400_000_000
    write_log(tmp_path / "in" / "a-pid1.log", collective(comm="0x1"), collective(comm="0x2", at_us=EPOCH_US + day_us))
    assert take_in(tmp_path / "in", settings).incarnations == 2
    assert query(settings, "SELECT id, incarnation FROM events ORDER BY id") == [("0x1", 1), ("0x2", 2)]
    assert query(settings, "SELECT incarnation, records FROM hosts ORDER BY ALL") == [(1, 1), (2, 1)]


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


def test_dimension_tables_say_who_wrote_what(tmp_path: Path, settings: Settings) -> None:
    for pid in (1, 2):
        world = collective(comm="0xf", name="WORLD Group 0", rank=pid - 1, n_ranks=2, nnodes=1, pid=pid)
        write_log(tmp_path / "in" / f"a-pid{pid}.log", world, collective(comm="0x1", rank=pid, n_ranks=4, pid=pid))
    take_in(tmp_path / "in", settings)
    assert query(
        settings, "SELECT id, ranks_seen, n_ranks, parallel_role, parallel_role_source FROM communicators ORDER BY id"
    ) == [
        ("0x1", 2, 4, "tensor", "name"),
        ("0xf", 2, 2, "world", "name"),
    ]
    assert query(settings, "SELECT pid, global_rank, communicators, records FROM processes ORDER BY pid") == [
        (1, 0, 2, 2),
        (2, 1, 2, 2),
    ]


def test_the_global_rank_is_the_order_of_most_communicators_whatever_they_are_called(
    tmp_path: Path, settings: Settings
) -> None:
    # A child of a split in reverse order has its parent's name and the lowest id.
    for pid in (1, 2):
        lines = [
            collective(comm="0xf", name="default_pg", rank=pid - 1, n_ranks=2, pid=pid),
            collective(comm="0xe", name="mesh_dp", rank=pid - 1, n_ranks=2, pid=pid),
            collective(comm="0x1", name="default_pg", rank=2 - pid, n_ranks=2, pid=pid),
        ]
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *lines)
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT pid, global_rank FROM processes ORDER BY pid") == [(1, 0), (2, 1)]


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
    left = layout.generation_dir(settings, "run", f"gen-{inventory.fingerprint}-{ingest.DECODER_VERSION}") / "events"
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
    assert len(list(layout.store_dir(settings, "run").glob("gen-*"))) == left
    assert query(settings, "SELECT count(*) FROM events") == [(3,)]


def test_a_reader_with_the_catalog_open_is_not_disturbed(tmp_path: Path, settings: Settings) -> None:
    import duckdb

    write_log(tmp_path / "in" / "a-pid1.log", *records(1))
    take_in(tmp_path / "in", settings)
    with duckdb.connect(str(settings.catalog_path), read_only=True) as reader:
        write_log(tmp_path / "in" / "a-pid1.log", *records(2))
        take_in(tmp_path / "in", settings)
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
    with duckdb.connect(str(settings.catalog_path), read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (2,)


@pytest.mark.slow
def test_many_workers_store_what_one_stores(tmp_path: Path, settings: Settings) -> None:
    for pid in range(4):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(50, pid))
    take_in(tmp_path / "in", settings)
    alone = stored(settings)
    shutil.rmtree(settings.data_dir)
    take_in(tmp_path / "in", settings.model_copy(update={"workers": 2}))
    assert stored(settings) == alone


def test_the_same_input_gives_the_same_bytes(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(3))
    contents = []
    for _ in range(2):
        take_in(tmp_path / "in", settings)
        generation = read_manifest(settings, "run").directory(settings)
        contents.append({path.name: path.read_bytes() for path in generation.rglob("*.parquet")})
        shutil.rmtree(settings.data_dir)
    assert contents[0] == contents[1]


def test_columns_on_disk_carry_role_unit_and_meaning(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(1))
    take_in(tmp_path / "in", settings)
    (part,) = layout.table_files(read_manifest(settings, "run").directory(settings), "events")
    metadata = pq.read_schema(part).field("coll_exec_time_us").metadata
    assert (metadata[b"role"], metadata[b"unit"]) == (b"Measurement", b"us")


LINES = [collective(sn=n, pid=pid, rank=pid, at_us=EPOCH_US + n) for pid in range(3) for n in range(4)]


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=8)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=5))
def test_a_run_that_arrives_in_pieces_equals_one_that_arrives_at_once(
    tmp_path: Path, settings: Settings, arrivals: list[tuple[int, int]]
) -> None:
    """Each arrival lets the log of one process reach a length; in the end all are whole."""
    shutil.rmtree(tmp_path / "in", ignore_errors=True)
    shutil.rmtree(settings.data_dir, ignore_errors=True)
    (tmp_path / "in").mkdir()
    stamp = 1_000_000_000
    for pid, length in [*arrivals, (0, 4), (1, 4), (2, 4)]:
        path = write_log(tmp_path / "in" / f"a-pid{pid}.log", *LINES[4 * pid : 4 * pid + length])
        stamp += 1_000_000_000
        os.utime(path, ns=(stamp, stamp))
        take_in(tmp_path / "in", settings)
    pieces = stored(settings), query(settings, "SELECT * FROM communicators ORDER BY ALL")
    shutil.rmtree(settings.data_dir)
    take_in(tmp_path / "in", settings)
    assert pieces == (stored(settings), query(settings, "SELECT * FROM communicators ORDER BY ALL"))


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
    directory = read_manifest(small_slices, "run").directory(small_slices)
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
    directory = read_manifest(small_slices, "run").directory(small_slices)
    n_parts = len(layout.table_files(directory, "events"))
    assert n_parts > 5
    assert len(decoded) == (0 if len(shares) == 3 else n_parts - len(range(1, n_parts, 3)))
    assert not (directory / "decoded").exists()


def test_many_small_additions_are_joined(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nixt_pipeline.store.parts._MANY_SMALL_PARTS", 4)
    for pid in range(6):
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *records(2, pid))
        take_in(tmp_path / "in", settings)
    directory = read_manifest(settings, "run").directory(settings)
    assert len(layout.table_files(directory, "events")) < 4
    assert query(settings, "SELECT count(*), count(DISTINCT pid) FROM events") == [(12, 6)]
    write_log(tmp_path / "in" / "a-pid0.log", *records(3, 0))
    assert take_in(tmp_path / "in", settings).records["stored"] == 13


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
    manifest = read_manifest(settings, "run")
    (manifest.directory(settings) / "validated.json").write_text("")
    assert take_in(tmp_path / "in", settings).records["stored"] == 2
    (layout.store_dir(settings, "run") / layout.MANIFEST).write_text("")
    with pytest.raises(DamagedError, match=r"manifest\.json is damaged: .* `nixt check run --repair` rebuilds it"):
        read_manifest(settings, "run")
    assert take_in(tmp_path / "in", settings).records["stored"] == 2
    assert read_manifest(settings, "run").records["stored"] == 2


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


def test_a_second_ingest_of_a_run_stops_with_a_message_when_the_first_does_not_end(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filelock import FileLock

    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    monkeypatch.setattr("nixt_pipeline.store.ingest._LOCK_TIMEOUT_S", 0)
    layout.store_dir(settings, "run").mkdir(parents=True)
    with (
        FileLock(layout.store_dir(settings, "run") / ".lock"),
        pytest.raises(IngestError, match="being ingested by another process"),
    ):
        ingest.ingest(tmp_path / "in", "run", settings)


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


def test_a_file_with_repeats_is_read_again_when_the_other_one_may_have_changed(
    tmp_path: Path, settings: Settings
) -> None:
    """Of record 1 the copy in b was dropped. When a no longer has it, b is where it is."""
    one, two, three = (collective(sn=n) for n in (1, 2, 3))
    write_log(tmp_path / "in" / "a-pid1.log", one, two)
    write_log(tmp_path / "in" / "b-pid1.log", one, three)
    assert take_in(tmp_path / "in", settings).records["duplicate"] == 1
    write_log(tmp_path / "in" / "a-pid1.log", two)
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.records["duplicate"]) == (3, 0)
    assert (summary.files["read"], summary.files["superseded"]) == (2, 0)


def test_what_was_decoded_before_a_power_cut_is_used_only_when_it_is_whole(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(3))
    inventory = ingest.take_inventory(tmp_path / "in", "run", settings)
    ingest.decode_share("run", settings, 0, 1)
    (part,) = layout.store_dir(settings, "run").glob("gen-*/decoded/events/*.parquet")
    part.write_bytes(b"")
    assert ingest.validate_records("run", settings).records["stored"] == 3
    assert inventory.run == "run"
