"""Ranks that lost records of Send and Recv; codes stand for direction and peer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nixt_pipeline.diagnosis.evidence.p2p_order import find_order

# One step of a pipeline's last stage but one: receive, send, send back, receive back, twice.
STEP = [1, 4, 0, 5, 1, 4, 0, 5]


def test_the_order_is_known_for_numbers_that_were_lost() -> None:
    numbers = np.array([n for n in range(1, 81) if n % 3])
    codes = np.array([STEP[(n - 1) % 8] for n in numbers])
    order = find_order(numbers, codes)
    assert order is not None
    assert (order.period, order.codes) == (4, (1, 4, 0, 5))
    assert order.positions() == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1)]


def test_operations_alike_in_one_period_are_counted() -> None:
    numbers = np.array([n for n in range(1, 61) if n != 7])
    order = find_order(numbers, np.array([[2, 2, 3][(n - 1) % 3] for n in numbers]))
    assert order is not None
    assert order.positions() == [(0, 0, 2), (1, 1, 2), (2, 0, 1)]


def test_what_does_not_repeat_has_no_order() -> None:
    random = np.random.default_rng(1)
    assert find_order(np.arange(2, 2002), random.integers(0, 4, 2000)) is None


def test_too_few_records_show_no_order() -> None:
    assert find_order(np.array([1, 3, 5, 7]), np.array([2, 2, 2, 2])) is None


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_a_found_order_explains_every_record(step: list[int], seed: int) -> None:
    kept = np.flatnonzero(np.random.default_rng(seed).random(60 + 40 * len(step)) < 0.6) + 1
    codes = np.array([step[(n - 1) % len(step)] for n in kept])
    order = find_order(kept, codes)
    assert order is not None
    assert order.period <= len(step)
    assert [order.codes[(n - 1) % order.period] for n in kept.tolist()] == codes.tolist()
