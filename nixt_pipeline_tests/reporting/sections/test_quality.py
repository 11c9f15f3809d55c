import pyarrow as pa
import pytest

from nixt_pipeline.reporting.coverage import pooled_capture_rate
from nixt_pipeline.reporting.sections.coverage import coverage_parts
from nixt_pipeline.reporting.sections.quality import quality_section
from nixt_pipeline.reporting.sections.run import facts_section, nccl_hint
from nixt_pipeline.reporting.views import SectionView, TableView
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.reporting import examples


def _table(section: SectionView, caption: str) -> TableView:
    return next(view for view in section.tables if view.caption == caption)


def _words(view: TableView) -> list[list[str]]:
    return [[cell.text for cell in row] for row in view.rows]


def test_the_capture_rate_of_a_run_weighs_communicators_by_the_records_that_were_due() -> None:
    # 2 ranks x 10 operations all captured, 8 ranks x 10 operations half captured: (20 + 40) / (20 + 80).
    rows = [
        {"capture_rate": 1.0, "n_ranks": 2, "sn_expected": 10},
        {"capture_rate": 0.5, "n_ranks": 8, "sn_expected": 10},
        {"capture_rate": None, "n_ranks": None, "sn_expected": None},
    ]
    assert pooled_capture_rate(pa.Table.from_pylist(rows)) == pytest.approx(0.6)


def test_a_sequence_number_with_more_bits_than_a_float_is_rounded() -> None:
    rows = [{"capture_rate": 0.5, "n_ranks": 2, "sn_expected": 2**53 + 1}]
    assert pooled_capture_rate(pa.Table.from_pylist(rows)) == 0.5


def test_without_any_rate_there_is_no_capture_rate() -> None:
    assert pooled_capture_rate(examples.coverage(capture_rate=None)) is None


def test_good_coverage_has_no_caveat() -> None:
    coverage = examples.content().coverage
    assert coverage.caveats(Thresholds()) == ()


def test_a_low_capture_rate_is_a_caveat() -> None:
    coverage = examples.content(tables={"coverage": examples.coverage(capture_rate=0.25)}).coverage
    (caveat,) = coverage.caveats(Thresholds())
    assert caveat.startswith("Only 25 % of the operations were captured.")


def test_a_function_that_was_hardly_captured_is_a_caveat_even_when_the_rest_was() -> None:
    good, thin = examples.coverage(sn_expected=96), examples.coverage(coll="AllGather", capture_rate=0.02)
    coverage = examples.content(tables={"coverage": pa.concat_tables([good, thin])}).coverage
    (caveat,) = coverage.caveats(Thresholds())
    assert caveat == "Only 2 % of AllGather nic-only were captured: volumes and comparisons of these describe a sample."


def test_processes_that_left_nothing_are_counted_from_the_largest_communicator() -> None:
    # A communicator of 8 ranks needs 8 processes; records came from 2.
    coverage = examples.content(tables={"communicators": examples.communicators(8, 2)}).coverage
    assert (coverage.processes_seen, coverage.processes_expected, coverage.ranks_missing) == (2, 8, 6)
    (caveat,) = coverage.caveats(Thresholds())
    assert caveat == "2 of at least 8 processes left records; nothing here describes the others."


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"git_rev": "v2.30.7-1"}, "2.30.7 (build name)"),
        ({"git_rev": "5067397c", "algo_records": 3}, "after 2.30 (algorithm written)"),
        ({"git_rev": "", "p2p_records": 3}, "2.30 or later (P2P or names written)"),
        ({"git_rev": None}, "unknown; 2.28 and 2.29 write neither P2P nor names"),
    ],
)
def test_the_release_of_nccl_is_a_hint_from_what_the_records_hold(changes: dict[str, object], hint: str) -> None:
    nothing = {"git_rev": "", "algo_records": 0, "p2p_records": 0, "named_records": 0}
    assert nccl_hint(nothing | changes) == hint


def test_bytes_are_listed_by_outcome_and_checked_against_what_was_read() -> None:
    counts = {"read": 100, "stored": 60, "duplicate": 20, "rejected": 10, "foreign": 5, "blank": 5}
    section = quality_section(examples.content(manifest=examples.manifest(bytes=counts)))
    assert _words(_table(section, "Where the bytes went"))[-1] == ["read, the sum of the above", "100", "100 %"]


def test_bytes_that_do_not_add_up_are_said_to() -> None:
    counts = {"read": 100, "stored": 60, "duplicate": 0, "rejected": 0, "foreign": 0, "blank": 0}
    section = quality_section(examples.content(manifest=examples.manifest(bytes=counts)))
    assert _words(_table(section, "Where the bytes went"))[-1][0] == "read, which is NOT the sum of the above"


def test_a_file_with_a_problem_is_named() -> None:
    section = quality_section(examples.content())
    assert _words(_table(section, "Files with a problem")) == [
        ["gpu-1.gz", "unreadable", "truncated gzip near gpu-1", "7 B", "0"]
    ]


def test_rejected_lines_show_their_place_reason_and_sample_and_how_many_there_are() -> None:
    reason = {"outcome": "rejected", "reason": "not JSON", "lines": 5000, "bytes": 45000, "files": 1}
    section = quality_section(examples.content(tables={"reject_reasons": pa.Table.from_pylist([reason])}))
    lines = _table(section, "Rejected and foreign lines")
    assert _words(lines) == [["gpu-1-pid7.log", "5", "1,234", "rejected", "not JSON", "{gpu-1"]]
    assert lines.total == 5000


def test_a_run_without_rejected_lines_has_no_table_of_them() -> None:
    section = quality_section(examples.content(tables={"reject_reasons": None}))
    assert not [view for view in section.tables if "Rejected" in view.caption]


def test_a_completely_captured_run_lists_no_communicator() -> None:
    section = coverage_parts(examples.content())
    assert [view.caption for view in section.tables] == ["Capture rate by placement and function"]
    assert "completely" in section.notes[0]


def test_incompletely_captured_communicators_are_listed_least_first() -> None:
    rows = pa.concat_tables(
        [examples.coverage(id="0x1", capture_rate=0.9), examples.coverage(id="0x2", capture_rate=0.6)]
    )
    section = coverage_parts(examples.content(tables={"coverage": rows}))
    assert [row[0] for row in _words(_table(section, "Incompletely captured, least first"))] == ["0x2", "0x1"]


def test_what_run_json_says_is_shown_key_by_key() -> None:
    run_info = {"model": "340b", "parallelism": {"tp": 8}}
    section = facts_section(examples.content(manifest=examples.manifest(run_info=run_info)))
    assert _words(_table(section, "What run.json says")) == [["model", "340b"], ["parallelism", '{"tp": 8}']]


def test_several_launches_in_one_directory_are_announced() -> None:
    section = facts_section(examples.content(manifest=examples.manifest(incarnations=2)))
    assert section.notes[0].startswith("This directory holds 2 launches")
