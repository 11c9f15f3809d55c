from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.inspector.taxonomy import I64, RUN, Column, Role, schema
from nixt_pipeline.quality.events import EVENT_RULES, event_expectations, judge_columns, judge_rows, judge_values
from nixt_pipeline.quality.profile import event_profile
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.analysis.conftest import StoreRun, event

COLUMNS = (RUN, Column("rank", I64, Role.IDENTIFIER, "", ""))
# A profile in which nothing is wrong: records of one kind, everything else 0.
JUDGED = {
    value
    for expected in event_expectations(Thresholds()).values()
    for expectation in expected
    for name, value in expectation.arguments.items()
    if name.startswith("column")
}
SOUND: dict[str, float] = dict.fromkeys(sorted(JUDGED), 0) | {
    "kinds": 1, "key_sets": 1, "format_versions": 1, "git_revs": 1, "unusable_share": 0.0,
}  # fmt: skip

FAULTS: dict[str, tuple[float, str]] = {
    "null_hostname": (1, "required_values_are_present"),
    "null_coll_sn": (1, "required_values_are_present"),
    "rank_out_of_range": (1, "values_are_in_their_domain"),
    "unknown_functions": (1, "values_are_in_their_domain"),
    # More than 1 %.
    "unusable_share": (0.02, "execution_times_are_usable"),
    "cpu_timed": (1, "all_times_are_measured_on_the_gpu"),
    "other_timed": (1, "all_times_are_measured_on_the_gpu"),
    "bandwidth_impossible": (1, "bandwidth_is_physically_possible"),
    "bandwidth_not_finite": (1, "bandwidth_is_physically_possible"),
    "bandwidth_mismatches": (1, "written_bandwidth_follows_from_size_and_time"),
    "exact_duplicates": (1, "no_two_records_are_equal"),
    "implausible_timestamps": (1, "write_times_are_plausible"),
    "format_versions": (2, "all_records_have_one_schema"),
    # Two sets of fields, but only one kind of record.
    "key_sets": (2, "all_records_have_one_schema"),
}


def failing(**changes: float) -> set[str]:
    profile = pa.Table.from_pylist([SOUND | changes])
    return {verdict.rule for verdict in judge_values(profile, Thresholds()) if not verdict.passed}


def test_a_sound_profile_passes_every_rule() -> None:
    assert failing() == set()


@pytest.mark.parametrize(("column", "value", "rule"), [(name, *fault) for name, fault in FAULTS.items()])
def test_one_fault_fails_exactly_its_rule(column: str, value: float, rule: str) -> None:
    assert failing(**{column: value}) == {rule}


def test_every_rule_about_values_has_a_fault_above() -> None:
    of_files = {"every_column_is_there_with_its_type", "stored_rows_equal_validated_records"}
    assert {rule for _, rule in FAULTS.values()} | of_files == {rule.name for rule in EVENT_RULES}


def test_both_kinds_of_record_may_have_fields_of_their_own() -> None:
    assert failing(key_sets=2, kinds=2) == set()


def test_a_run_without_records_has_nothing_to_object_to_in_its_values() -> None:
    assert failing(kinds=0, key_sets=0, format_versions=0, git_revs=0) == set()


def test_a_share_of_unusable_times_at_the_limit_passes() -> None:
    assert failing(unusable_share=0.01) == set()  # 1 % is allowed


def test_every_expectation_is_about_a_column_of_the_profile(store_run: StoreRun) -> None:
    run = store_run([event()])
    assert set(event_profile(run.con, run.settings).column_names) == JUDGED


def test_columns_as_promised_pass(tmp_path: Path) -> None:
    pq.write_table(schema(COLUMNS).empty_table(), tmp_path / "part.parquet")
    assert judge_columns([tmp_path / "part.parquet"], COLUMNS).passed


def test_a_missing_column_and_one_of_another_type_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"rank": ["0"]}), tmp_path / "part.parquet")
    verdict = judge_columns([tmp_path / "part.parquet"], COLUMNS)
    assert not verdict.passed
    assert [(row["column"], row["found"]) for row in verdict.rows] == [("run", "missing"), ("rank", "string")]


def test_an_encoded_column_has_the_type_of_its_values(tmp_path: Path) -> None:
    encoded = pa.table({"run": pa.array(["a", "a"]).dictionary_encode(), "rank": pa.array([0, 1], pa.int64())})
    pq.write_table(encoded, tmp_path / "part.parquet")
    assert judge_columns([tmp_path / "part.parquet"], COLUMNS).passed


def test_a_store_without_a_file_fails() -> None:
    assert not judge_columns([], COLUMNS).passed


def test_rows_are_counted_over_all_files(tmp_path: Path) -> None:
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in files:
        pq.write_table(pa.table({"rank": [0, 1]}), path)
    assert judge_rows(files, validated=4).passed
    assert judge_rows(files, validated=5).summary == "4 rows stored, 5 records validated"
    assert not judge_rows(files, validated=5).passed
