import pyarrow as pa
import pytest

from nixt_pipeline.quality.expectations import (
    Expectation,
    among,
    at_least,
    between,
    judge,
    present,
    rows_between,
    unique,
)
from nixt_pipeline.quality.verdicts import Rule, Verdict

TABLE = pa.table(
    {"name": ["a", "b", "b", None], "small": [0.0, 0.5, None, 2.0], "large": [1.0, 1.0, 1.0, 1.0], "key": [1, 2, 3, 4]}
)


def verdict(table: pa.Table, *expectations: Expectation) -> Verdict:
    (found,) = judge(table, {Rule("a_rule", ""): expectations})
    return found


@pytest.mark.parametrize(
    "expectation",
    [
        present("key", ""),
        between("key", 1, 4, ""),
        among("name", ["a", "b"], ""),
        unique(["key"], ""),
        unique(["name", "key"], ""),
        at_least("key", "large", ""),
        rows_between(4, None, ""),
    ],
)
def test_what_is_so_passes(expectation: Expectation) -> None:
    assert verdict(TABLE, expectation).passed


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        (present("name", ""), "1 of 4: missing"),
        (between("key", 1, 3, ""), "1 of 4: 4"),
        (among("name", ["a"], ""), "2 of 4: b, b"),
        (unique(["name"], ""), "2 of 4: b, b"),
        # Both rows with (b, 1.0) are counted.
        (unique(["name", "large"], ""), "2 of 4"),
        (at_least("large", "small", ""), "1 of 4: 1 and 2"),
        (rows_between(0, 3, ""), "4"),
    ],
)
def test_what_is_not_so_fails_and_says_what_was_found(expectation: Expectation, found: str) -> None:
    judged = verdict(TABLE, expectation)
    assert not judged.passed
    assert str(judged.rows[0]["found"]).startswith(found)


def test_a_column_that_is_missing_fails_instead_of_being_skipped() -> None:
    judged = verdict(TABLE, between("weight", 0, 1, "weights are shares"))
    assert not judged.passed
    assert 'column "weight"' in judged.summary


def test_missing_values_are_nothing_to_assess() -> None:
    judged = verdict(pa.table({"rate": pa.array([None], pa.float64())}), between("rate", 0, 1, "the rate is a share"))
    assert judged.passed
    assert judged.summary == "the rate is a share (found: nothing to assess)"


def test_the_summary_names_only_what_is_violated() -> None:
    judged = verdict(TABLE, present("key", "keys are there"), present("name", "names are there"))
    assert judged.summary == "violated: names are there (found: 1 of 4: missing)"


def test_two_expectations_of_one_kind_are_both_judged() -> None:
    judged = verdict(TABLE, between("key", 0, 9, "wide"), between("key", 0, 1, "narrow"))
    assert [row["holds"] for row in judged.rows] == [True, False]


def test_a_profile_of_one_row_gives_its_numbers_as_facts() -> None:
    judged = verdict(pa.table({"lost": [7]}), between("lost", 0, 0, "nothing is lost"))
    assert judged.facts == {"lost": 7}
    assert judged.summary == "violated: nothing is lost (found: 7)"


def test_a_comparison_within_a_profile_shows_both_sides() -> None:
    judged = verdict(pa.table({"kinds": [1], "key_sets": [2]}), at_least("kinds", "key_sets", "one set for each kind"))
    assert judged.summary == "violated: one set for each kind (found: kinds 1, key_sets 2)"


def test_a_table_without_rows_has_nothing_to_show_and_one_row_needs_no_column() -> None:
    nothing = verdict(TABLE.slice(0, 0), between("key", 1, 4, "keys are small"))
    assert (nothing.passed, nothing.facts["violated"], nothing.rows[0]["found"]) == (True, 0, "nothing to assess")
    assert verdict(TABLE.slice(0, 1), unique(["name", "key"], "")).rows[0]["found"] == "as expected"
