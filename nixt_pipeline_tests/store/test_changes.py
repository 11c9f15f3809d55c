"""A dump directory that is ingested again: logs that grew, were rewritten, went, or came in pieces."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nixt_pipeline.api import diagnose_run
from nixt_pipeline.inspector.decoder import decode_line
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import ingest
from nixt_pipeline.store.integrity import list_runs
from nixt_pipeline_tests.records import EPOCH_US, collective, marker, write_log
from nixt_pipeline_tests.store.examples import query, records, stored, take_in


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


def test_the_earlier_version_of_a_file_that_grew_leaves_nothing(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *records(2))
    take_in(tmp_path / "in", settings)
    write_log(tmp_path / "in" / "a-pid1.log", *records(5))
    summary = take_in(tmp_path / "in", settings)
    assert (summary.records["stored"], summary.files["superseded"]) == (5, 0)
    assert query(settings, "SELECT DISTINCT status FROM files") == [("read",)]


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
    for lengths in [*({pid: length} for pid, length in arrivals), dict.fromkeys(range(3), 4)]:
        stamp += 1_000_000_000
        for pid, length in lengths.items():
            path = write_log(tmp_path / "in" / f"a-pid{pid}.log", *LINES[4 * pid : 4 * pid + length])
            os.utime(path, ns=(stamp, stamp))
        take_in(tmp_path / "in", settings)
    pieces = stored(settings), query(settings, "SELECT * FROM communicators ORDER BY ALL")
    shutil.rmtree(settings.data_dir)
    take_in(tmp_path / "in", settings)
    assert pieces == (stored(settings), query(settings, "SELECT * FROM communicators ORDER BY ALL"))


def test_other_limits_of_what_is_plausible_make_an_ingest_read_the_logs_again(
    tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(tmp_path / "in" / "a-pid1.log", *(collective(sn=n, time_us=100) for n in range(3)))
    strict = settings.model_copy(update={"thresholds": settings.thresholds.changed("ingest", wrapped_exec_time_us=50)})
    times = "SELECT count(coll_exec_time_us) FROM events"
    take_in(tmp_path / "in", strict)
    assert query(strict, times) == [(0,)]
    run = list_runs(settings)[0].run
    diagnose_run(run, settings)
    assert "was ingested with other thresholds" in caplog.text
    take_in(tmp_path / "in", settings)
    assert query(settings, times) == [(3,)]
    take_in(tmp_path / "in", strict)
    assert query(strict, times) == [(0,)]
