from typing import Any

import pyarrow as pa
import pytest

from nixt_pipeline.analysis import ANALYSES, analysis_named
from nixt_pipeline.analysis.base import Counted
from nixt_pipeline.inspector.taxonomy import schema
from nixt_pipeline.quality.results import captured_enough, error_in, judge_failure, judge_result, result_rules
from nixt_pipeline.settings import Thresholds

NAMES = [analysis.name for analysis in ANALYSES]
STORED: dict[Counted, int] = {"events": 10, "collectives": 10}


def table(analysis: str, *rows: dict[str, Any]) -> pa.Table:
    columns = schema(analysis_named(analysis).columns)
    filled = [{name: row.get(name) for name in columns.names} | {"run": "job"} for row in rows]
    return pa.Table.from_pylist(filled, schema=columns)


def failing(analysis: str, *rows: dict[str, Any]) -> set[str]:
    verdicts = judge_result(analysis_named(analysis), table(analysis, *rows), STORED, Thresholds())
    return {verdict.rule for verdict in verdicts if not verdict.passed}


def key_row(analysis: str) -> dict[str, Any]:
    """A row with a value in each key column; keys of any type take 1, text, or a half."""
    types = schema(analysis_named(analysis).columns)
    values: dict[str, Any] = {}
    for name in analysis_named(analysis).key:
        column = types.field(name).type
        values[name] = "x" if pa.types.is_string(column) else 0.5 if pa.types.is_floating(column) else 1
    return values | {"kind": "collective", "capture_rate": 1.0, "sn_expected": 5, "n_ranks": 2}


def test_the_columns_of_keys_and_fractions_exist() -> None:
    for analysis in ANALYSES:
        names = {column.name for column in analysis.columns}
        assert set(analysis.key) | set(analysis.fractions) <= names


@pytest.mark.parametrize("analysis", NAMES)
def test_a_result_with_one_row_per_group_that_counts_every_record_passes(analysis: str) -> None:
    assert failing(analysis, key_row(analysis) | {"records": 10}) == set()


@pytest.mark.parametrize("analysis", NAMES)
def test_a_group_that_appears_twice_is_found(analysis: str) -> None:
    half = key_row(analysis) | {"records": 5}
    assert failing(analysis, half, half) == {"every_row_is_one_group"}


@pytest.mark.parametrize("analysis", [item.name for item in ANALYSES if item.adds_up_to])
def test_a_record_that_was_lost_is_found(analysis: str) -> None:
    assert failing(analysis, key_row(analysis) | {"records": 9}) == {"every_record_is_counted_once"}


def test_a_wrong_result_is_withheld_with_the_rule_that_it_breaks() -> None:
    analysis = analysis_named("hot_kernels")
    half = key_row("hot_kernels") | {"records": 5}
    assert error_in(analysis, table("hot_kernels", half | {"records": 10}), STORED, Thresholds()) == ""
    error = error_in(analysis, table("hot_kernels", half, half), STORED, Thresholds())
    assert error.startswith("every_row_is_one_group: ")
    failed = {verdict.rule: verdict.summary for verdict in judge_failure(analysis, error) if not verdict.passed}
    assert failed == {"every_row_is_one_group": error}


def test_a_log_that_captured_too_little_is_no_error_of_the_result() -> None:
    rare = key_row("coverage") | {"records": 10, "capture_rate": 0.1}
    assert error_in(analysis_named("coverage"), table("coverage", rare), STORED, Thresholds()) == ""


@pytest.mark.parametrize(("analysis", "share"), [(item.name, share) for item in ANALYSES for share in item.fractions])
def test_a_share_above_one_is_found(analysis: str, share: str) -> None:
    assert failing(analysis, key_row(analysis) | {"records": 10, share: 1.5}) == {"every_row_is_one_group"}


def test_a_share_below_zero_is_found() -> None:
    row = key_row("hot_kernels") | {"records": 10, "share_of_payload": -0.1}
    assert failing("hot_kernels", row) == {"every_row_is_one_group"}


def test_an_empty_result_of_a_run_with_records_is_found() -> None:
    assert failing("hot_kernels") == {"every_row_is_one_group", "every_record_is_counted_once"}


def test_only_coverage_says_whether_ranks_can_be_compared() -> None:
    rule = "the_log_captured_enough_to_compare_ranks"
    assert [item.name for item in ANALYSES if rule in {found.name for found in result_rules(item)}] == ["coverage"]


def test_the_capture_rate_weighs_communicators_by_the_records_they_should_have() -> None:
    # 8 * 10 of 80 expected records were captured, and 0 of the other 2 * 10.
    coverage = table(
        "coverage",
        {"n_ranks": 8, "sn_expected": 10, "capture_rate": 1.0},
        {"n_ranks": 2, "sn_expected": 10, "capture_rate": 0.0},
    )
    assert captured_enough(coverage, 0.8).facts["capture_rate"] == pytest.approx(0.8)
    assert captured_enough(coverage, 0.8).passed
    assert not captured_enough(coverage, 0.81).passed


def test_without_a_communicator_of_several_ranks_capture_cannot_be_assessed() -> None:
    verdict = captured_enough(table("coverage", {"n_ranks": 1, "sn_expected": 10, "capture_rate": 1.0}), 0.5)
    assert not verdict.passed
    assert verdict.summary.startswith("not assessable")
