"""What became of each line, and what the plugin admits to have lost."""

from pathlib import Path

from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import collective, marker, write_log
from nixt_pipeline_tests.store.examples import query, records, take_in


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
