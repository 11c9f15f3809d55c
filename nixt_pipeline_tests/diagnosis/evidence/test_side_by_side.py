"""Eight processes in a communicator of a first kind, and in pairs in others of a second kind; forty blocks."""

import numpy as np
import pytest

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.evidence.side_by_side import Columns, Series, waited_twice

PROCESSES, BLOCKS = 8, 40
# Series 10 is that of all; the pairs have 20, 21, 22 and 23.
SERIES = Series(np.array([10, 20, 21, 22, 23]), np.array([1, 2, 2, 2, 2]), np.arange(5))


def spent(world_us: Floats, pairs_us: Floats) -> list[Columns]:
    """What each process (row) spent in each block (column), in the communicator of all and in that of its pair."""
    process, block = (index.ravel() for index in np.indices((PROCESSES, BLOCKS)))
    pair = 20 + process // 2
    return [
        {
            "series": series,
            "process": process,
            "block": block,
            "time_us": times.ravel(),
            "carried_us": times.ravel() * 0,
        }
        for series, times in ((np.full_like(process, 10), world_us), (pair, pairs_us))
    ]


def lags(seed: int) -> Floats:
    """By how much each process comes earlier than the last one of all in a block, by chance."""
    drawn = np.random.default_rng(seed).uniform(0, 100, (PROCESSES, BLOCKS))
    early: Floats = drawn - drawn.min(axis=0)
    return early


def test_what_is_waited_in_two_communicators_at_once_counts_once() -> None:
    early = lags(1)
    # The transfers of all take 500 us, those of a pair 80, and a pair waits for the later of its two only.
    in_pairs = early.reshape(4, 2, BLOCKS)
    in_pairs = (in_pairs - in_pairs.min(axis=1, keepdims=True)).reshape(PROCESSES, BLOCKS)
    twice = waited_twice(spent(500 + early, 80 + in_pairs), SERIES, PROCESSES, BLOCKS)
    assert twice == pytest.approx(in_pairs)


def test_waiting_for_different_reasons_counts_each_time() -> None:
    assert not waited_twice(spent(500 + lags(1), 80 + lags(2)), SERIES, PROCESSES, BLOCKS).any()


def test_a_rank_that_is_always_late_makes_no_two_waits_one() -> None:
    late = np.full((PROCESSES, BLOCKS), 1_000.0)
    late[:2] = 0
    assert not waited_twice(spent(late + lags(1), late + lags(2)), SERIES, PROCESSES, BLOCKS).any()


def test_too_few_blocks_do_not_tell() -> None:
    # 8 processes with 19 changes are 152 pairs.
    half = [{name: values[part["block"] < 20] for name, values in part.items()} for part in spent(lags(1), lags(1))]
    assert not waited_twice(half, SERIES, PROCESSES, 20).any()
