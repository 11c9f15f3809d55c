import errno
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nixt_pipeline.inspector.decompression import Content
from nixt_pipeline.inspector.file_summary import settle
from nixt_pipeline.inspector.log_file import decode_file
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.inspector.examples import Collected, decode
from nixt_pipeline_tests.records import EPOCH_US, collective, marker, send, write_log


def test_every_byte_has_one_place(tmp_path: Path, settings: Settings) -> None:
    good, torn = collective(), collective()[:99]
    path = write_log(tmp_path / "x.log", good, "", "==> a.log <==", torn, '{"summary":1}', good + good)
    summary, _ = decode(path, settings)
    assert summary.records_collective == 3
    assert summary.bytes_stored == 3 * len(good) + 2  # two line ends: the glued pair has one
    assert (summary.lines_rejected, summary.bytes_rejected) == (1, 100)
    assert (summary.lines_foreign, summary.bytes_foreign) == (2, 14 + 14)
    assert summary.bytes_blank == 1
    sink = Collected()
    decode_file(path, path.name, 0, sink, settings)
    # Where it begins, and its line: the separator, the torn record, and the JSON that is none.
    assert [row[2:4] for row in sink.refused] == [(len(good) + 2, 3), (len(good) + 16, 4), (len(good) + 116, 5)]


def test_a_label_beside_a_record_is_foreign_and_no_line_is_rejected(tmp_path: Path, settings: Settings) -> None:
    good = collective()
    sink = Collected()
    path = write_log(tmp_path / "x.log", f"21:00:00 node-01: {good} [done]", f"21:00:01 node-01: {good[:200]}")
    summary = decode_file(path, path.name, 0, sink, settings)
    assert (summary.records_collective, summary.lines_rejected, summary.lines_foreign) == (1, 1, 0)
    assert (summary.bytes_stored, summary.bytes_foreign) == (len(good), len("21:00:00 node-01:  [done]\n"))
    assert summary.bytes_stored + summary.bytes_foreign + summary.bytes_rejected == summary.bytes_read
    assert len(sink.refused) == 1


def test_a_file_of_something_else_is_one_foreign_thing(tmp_path: Path, settings: Settings) -> None:
    path = write_log(tmp_path / "slurm-1.log", "step 1 loss 2.5", "", "done")
    summary, _ = decode(path, settings)
    assert (summary.status, summary.bytes_foreign, summary.lines_rejected) == ("foreign", 22, 0)


def test_a_log_of_nothing_but_damage_is_not_foreign(tmp_path: Path, settings: Settings) -> None:
    summary, _ = decode(write_log(tmp_path / "x.log", collective()[:200]), settings)
    assert (summary.status, summary.lines_rejected) == ("read", 1)


def test_blank_files_are_empty(tmp_path: Path, settings: Settings) -> None:
    for content in (b"", b"\n\n", b"\xef\xbb\xbf"):
        (tmp_path / "x.log").write_bytes(content)
        assert decode(tmp_path / "x.log", settings)[0].status == "empty"


def test_a_missing_file_is_unreadable_with_the_systems_reason(tmp_path: Path, settings: Settings) -> None:
    summary, _ = decode(tmp_path / "gone.log", settings)
    assert summary.status == "unreadable"
    assert summary.problem == "No such file or directory (at byte 0)"


def test_pretty_printed_objects_are_records(tmp_path: Path, settings: Settings) -> None:
    pretty = json.dumps(json.loads(collective(sn=5)), indent=2)
    summary, numbers = decode(write_log(tmp_path / "x.json", pretty, pretty), settings)
    assert numbers == [5, 5]
    assert summary.lines_rejected == 0


@pytest.mark.parametrize("indent", [2, 4, "\t"])
def test_a_pretty_printed_array_is_its_records(tmp_path: Path, settings: Settings, indent: int | str) -> None:
    array = json.dumps([json.loads(collective(sn=sn)) for sn in range(3)], indent=indent)
    summary, numbers = decode(write_log(tmp_path / "x.log", array), settings)
    assert numbers == [0, 1, 2]
    assert (summary.lines_rejected, summary.bytes_stored + summary.bytes_blank) == (0, summary.bytes_read)


def test_a_pretty_printed_object_that_never_ends_does_not_swallow_what_follows(
    tmp_path: Path, settings: Settings
) -> None:
    summary, numbers = decode(write_log(tmp_path / "x.log", "{", ' "header": {', collective(sn=1)), settings)
    assert numbers == [1]
    assert summary.lines_rejected == 2


def test_a_brace_before_a_long_text_costs_no_more_than_its_bytes(tmp_path: Path, settings: Settings) -> None:
    # A minute, if every line of what may become an object added up those before it.
    _, numbers = decode(write_log(tmp_path / "x.log", "{", *["x"] * 50_000, collective(sn=1)), settings)
    assert numbers == [1]


@pytest.mark.parametrize("by_template", [False, True])
def test_a_file_of_nothing_but_refused_lines_is_not_read_to_its_end(
    tmp_path: Path, settings: Settings, by_template: bool
) -> None:
    path = tmp_path / "a-pid1.log"
    path.write_text('{"header":{x}\n' * 300_000)
    few = settings.model_copy(update={"max_refused_lines": 1000})
    summary = settle(decode_file(path, path.name, 0, Collected(), few, by_template=by_template))
    assert summary.bytes_read == summary.bytes_foreign < path.stat().st_size
    assert "NIXT_MAX_REFUSED_LINES" in str(summary.problem)
    assert summary.content_digest is None


def test_a_record_among_many_refused_lines_is_found(tmp_path: Path, settings: Settings) -> None:
    path = write_log(tmp_path / "a-pid1.log", collective(), *["x"] * 2000, collective(sn=1))
    few = settings.model_copy(update={"max_refused_lines": 1000})
    assert decode_file(path, path.name, 0, Collected(), few).records_collective == 2


def test_counts_by_kind_and_time_span(tmp_path: Path, settings: Settings) -> None:
    lines = (marker(1), collective(at_us=EPOCH_US + 5), send(), collective(at_us=0))
    summary, _ = decode(write_log(tmp_path / "x.log", *lines), settings)
    assert (summary.records_collective, summary.records_p2p, summary.records_auxiliary) == (2, 1, 1)
    assert (summary.first_dump_us, summary.last_dump_us) == (EPOCH_US, EPOCH_US + 5)
    assert summary.processes == {("node-01", 100)}


def test_files_that_cannot_repeat_a_record_are_told_from_those_that_may(tmp_path: Path, settings: Settings) -> None:
    forward = [collective(sn=n, at_us=EPOCH_US + n) for n in range(5)]
    assert not decode(write_log(tmp_path / "a.log", *forward), settings)[0].may_repeat
    assert decode(write_log(tmp_path / "b.log", *forward, *forward), settings)[0].may_repeat
    assert decode(write_log(tmp_path / "c.log", forward[0], forward[0]), settings)[0].may_repeat


RECORDS = [collective(sn=n, at_us=EPOCH_US + n) + "\n" for n in range(6)]
TEXT = "".join(RECORDS).encode()


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    position=st.integers(0, len(TEXT)),
    damage=st.sampled_from(["cut", "flip", "insert", "splice"]),
    noise=st.binary(min_size=1, max_size=30),
    zipped=st.booleans(),
)
def test_damage_anywhere_costs_only_the_record_it_hits(
    tmp_path: Path, settings: Settings, position: int, damage: str, noise: bytes, zipped: bool
) -> None:
    """The undamaged records of a file are exactly those whose bytes (line end apart) are still there in one piece."""
    if damage == "cut":
        data = TEXT[:position]
    elif damage == "flip":
        data = TEXT[:position] + bytes(255 - byte for byte in TEXT[position : position + 1]) + TEXT[position + 1 :]
    elif damage == "insert":
        data = TEXT[:position] + noise + TEXT[position:]
    else:
        data = TEXT[:position] + TEXT[position // 2 :]
    (tmp_path / "x.log").write_bytes(gzip.compress(data) if zipped else data)
    _, numbers = decode(tmp_path / "x.log", settings)
    intact = {number for number, record in enumerate(RECORDS) if record.strip().encode() in data}
    assert intact <= set(numbers)


def test_what_was_read_before_a_disk_failed_is_kept_and_accounted_for(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (collective(sn=1) + "\n" + collective(sn=2)[:50]).encode()

    def failing(_content: Content) -> Iterator[bytes]:
        yield whole
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Content, "__iter__", failing)
    path = write_log(tmp_path / "x.log", "")
    summary, numbers = decode(path, settings)
    assert (summary.status, summary.problem) == ("unreadable", f"Input/output error (at byte {len(whole)})")
    assert numbers == [1]
    assert (summary.bytes_read, summary.bytes_rejected, summary.processes) == (len(whole), 50, {("node-01", 100)})
