"""Steps of operations given as letters; and steps of three equal ones, 10 ms apart, which begin every 100 ms."""

import numpy as np
import pytest

from nixt_pipeline.diagnosis.evidence.operations import Log, Operation
from nixt_pipeline.diagnosis.evidence.steps import Steps, steps_between_pauses, steps_in_order

BUCKET = Operation("AllReduce", 25_000_000)


def in_order(letters: str) -> Steps | None:
    return steps_in_order([Operation(letter, 1) for letter in letters])


def test_steps_end_where_the_shortest_repeated_sequence_does() -> None:
    # One operation before the first step, one between the third and the fourth, and two of a tenth step.
    steps = in_order("x" + "abc" * 3 + "y" + "abc" * 6 + "ab")
    assert steps is not None
    assert "".join(operation.coll for operation in steps.operations) == "abc"
    assert steps.ends == (3, 6, 9, 13, 16, 19, 22, 25, 28)
    assert (steps.first, steps.between, steps.begun) == (1, [slice(10, 11)], 2)


def test_what_is_done_after_the_first_step_does_not_make_it_another() -> None:
    # As a loss that is reduced after every fifth step.
    steps = in_order(("abbbc" + "x" + "abbbc" * 4) * 3 + "abbb")
    assert steps is not None
    assert "".join(operation.coll for operation in steps.operations) == "abbbc"
    assert (steps.first, len(steps.ends), steps.begun) == (0, 15, 4)


@pytest.mark.parametrize(("rest", "begun"), [("xab", 2), ("x", 0), ("ab", 2), ("yab", 0), ("xx", 0)])
def test_a_step_may_be_begun_after_what_was_done_between_steps_before(rest: str, begun: int) -> None:
    steps = in_order("abc" * 4 + "x" + "abc" * 4 + rest)
    assert steps is not None
    assert (len(steps.ends), steps.begun) == (8, begun)


@pytest.mark.parametrize("rest", ["", "b", "ay"])
def test_what_follows_the_last_step_and_begins_none_is_no_begun_step(rest: str) -> None:
    steps = in_order("abc" * 9 + rest)
    assert steps is not None
    assert (len(steps.ends), steps.begun) == (9, 0)


@pytest.mark.parametrize("letters", ["", "a" * 60, "abc" * 5, "abcdefghijklmnopqrstuvwxyz"])
def test_what_hardly_repeats_or_is_all_equal_has_no_steps_in_order(letters: str) -> None:
    assert in_order(letters) is None


def buckets(operations: int, interval_us: int = 1) -> Log:
    """What a dump thread that writes every `interval_us` writes of so many operations."""
    numbers = np.arange(operations)
    times = numbers // 3 * 100_000 + numbers % 3 * 10_000
    return log_of([BUCKET] * operations, -(-times // interval_us) * interval_us)


def log_of(operations: list[Operation], written_us: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Log:
    return Log(operations, np.arange(len(operations)), written_us)


@pytest.mark.parametrize("interval_us", [1, 15_000, 70_000])
@pytest.mark.parametrize("begun", [0, 1, 2])
def test_steps_of_equal_operations_are_told_from_the_pauses(begun: int, interval_us: int) -> None:
    steps = steps_between_pauses(buckets(3 * 40 + begun, interval_us))
    assert steps == Steps((BUCKET,) * 3, tuple(range(2, 120, 3)), begun, by_pauses=True)


def test_a_step_that_began_before_the_log_does_not_count() -> None:
    # Of the first step, only the last operation is there.
    whole = buckets(3 * 40 + 1)
    steps = steps_between_pauses(log_of(whole.operations[2:], whole.written_us[2:]))
    assert steps is not None
    assert (steps.first, len(steps.ends), steps.begun) == (1, 39, 1)


def test_operations_without_a_rhythm_or_of_two_kinds_tell_no_steps() -> None:
    assert steps_between_pauses(log_of([BUCKET] * 121, np.arange(121, dtype=np.int64) * 30_000)) is None
    two_kinds = [*[BUCKET] * 120, Operation("AllReduce", 4)]
    assert steps_between_pauses(log_of(two_kinds, buckets(121).written_us)) is None


def test_few_steps_have_no_rhythm() -> None:
    assert steps_between_pauses(buckets(31)) is None
