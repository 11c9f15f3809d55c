"""A record that is in the logs more than once counts once."""

import gzip
from pathlib import Path

from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log
from nixt_pipeline_tests.store.examples import query, records, take_in


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


def test_equal_replays_written_one_after_the_other_are_no_duplicates(tmp_path: Path, settings: Settings) -> None:
    replays = [collective(sn=0, time_us=100, at_us=EPOCH_US + at_us) for at_us in (0, 7, 7)]
    write_log(tmp_path / "in" / "a-pid1.log", *replays, *replays)
    assert take_in(tmp_path / "in", settings).records == {"stored": 3, "collective": 3, "p2p": 0, "duplicate": 3}


def test_a_line_that_was_written_twice_is_a_duplicate(tmp_path: Path, settings: Settings) -> None:
    """No other execution has its number, so that nothing speaks for replays."""
    line = collective(sn=0, time_us=100, at_us=EPOCH_US)
    write_log(tmp_path / "in" / "a-pid1.log", line, line, collective(sn=1, time_us=100, at_us=EPOCH_US))
    assert take_in(tmp_path / "in", settings).records == {"stored": 2, "collective": 2, "p2p": 0, "duplicate": 1}


def test_verbose_traces_of_duplicates_go_too(tmp_path: Path, settings: Settings) -> None:
    line = collective().replace(
        '"coll_busbw_gbs":15.000000',
        '"coll_busbw_gbs":15.000000,"event_trace_ts":{"coll_start_ts":5,"kernel_events":[]}',
    )
    write_log(tmp_path / "in" / "a-pid1.log", line, line)
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT count(*), min(start_ts) FROM channels") == [(1, 5)]


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
