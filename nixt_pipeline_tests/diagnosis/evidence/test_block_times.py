"""Forty blocks of a second each, unless it says otherwise, as the clocks of hosts show them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nixt_pipeline.diagnosis.evidence.block_times import BlockTimes, ClockStep, shared_out, times_of
from nixt_pipeline.settings import Thresholds

LIMITS = Thresholds()
EPOCH_US, SECOND_US, HOUR_US = 1_756_587_600_000_000, 1e6, 3.6e9
HOURS = [HOUR_US, -HOUR_US, HOUR_US / 2]


def job(hosts: int, interval_us: float = 0.1 * SECOND_US, seed: int = 1) -> NDArray[np.float64]:
    """When each host wrote the end of each block: at its first pass after it, a dump interval apart."""
    phases = np.random.default_rng(seed).uniform(0, interval_us, (hosts, 1))
    ends = np.arange(1, 41) * SECOND_US
    return np.asarray(EPOCH_US + phases + np.ceil((ends - phases) / interval_us) * interval_us)


def told(ends_us: NDArray[np.float64]) -> BlockTimes:
    return times_of(ends_us, [f"node-{number}" for number in range(len(ends_us))], 40 * SECOND_US, LIMITS)


def test_blocks_of_one_pass_share_its_time_and_those_of_the_first_last_as_long_as_most() -> None:
    # Written at 4, 7, 7, 7 and 9 seconds after two that were written by the first pass, whose time nobody knows.
    durations = np.array([1.0, 0.0, 4.0, 3.0, 0.0, 0.0, 2.0])
    assert shared_out(durations, 0.5).tolist() == [1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("step_us", HOURS)
@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_a_clock_that_is_set_measures_no_block(hosts: int, step_us: float) -> None:
    ends = job(hosts)
    ends[1, 15:] += step_us
    times = told(ends)
    assert times.lasted_us == pytest.approx([SECOND_US] * 40, rel=0.2)
    assert times.lasted_us.sum() == pytest.approx(40 * SECOND_US, rel=0.01)
    (step,) = times.steps
    assert (step.hosts, step.block) == (("node-1",), 15)
    assert step.step_us == pytest.approx(step_us, abs=0.1 * SECOND_US)


@pytest.mark.parametrize("interval_us", [0.1 * SECOND_US, 5 * SECOND_US])
def test_passes_that_are_far_apart_are_no_change_of_a_clock(interval_us: float) -> None:
    for hosts in (1, 2, 5):
        times = told(job(hosts, interval_us))
        assert times.steps == ()
        assert times.lasted_us.sum() == pytest.approx(40 * SECOND_US, rel=0.15)


def test_a_clock_that_was_wrong_for_a_while_was_set_twice() -> None:
    ends = job(4)
    ends[2, 10:18] += HOUR_US
    assert [(step.hosts, step.block, round(step.step_us / HOUR_US)) for step in told(ends).steps] == [
        (("node-2",), 10, 1),
        (("node-2",), 18, -1),
    ]


@pytest.mark.parametrize("step_us", HOURS)
@pytest.mark.parametrize("hosts", [1, 2, 6])
def test_clocks_that_are_all_set_at_once_measure_no_block(hosts: int, step_us: float) -> None:
    ends = job(hosts)
    ends[:, 20:] += step_us
    times = told(ends)
    assert times.lasted_us.sum() == pytest.approx(40 * SECOND_US, rel=0.02)
    (step,) = times.steps
    assert (len(step.hosts), step.block) == (hosts, 20)
    assert step.step_us == pytest.approx(step_us, abs=0.2 * SECOND_US)


def test_a_pause_of_all_is_no_part_of_the_pace_and_nobody_set_a_clock() -> None:
    ends = job(3)
    ends[:, 20:] += 100 * SECOND_US
    times = told(ends)
    assert (times.lasted_us.sum(), times.steps) == (pytest.approx(40 * SECOND_US, rel=0.02), ())


def test_a_drift_is_no_step() -> None:
    ends = job(3)
    ends[0] += np.linspace(0, 10 * SECOND_US, 40)
    assert told(ends).steps == ()


def test_blocks_end_by_a_clock_that_was_not_set() -> None:
    # Of two, the second was an hour ahead until it was set back; of three, the middle one is right.
    two, three = job(2), job(3)
    two[1, :15] += HOUR_US
    three[0] -= 2 * HOUR_US
    for ends in (two, three):
        right = [EPOCH_US + number * SECOND_US for number in range(1, 41)]
        assert told(ends).ends_us == pytest.approx(right, abs=0.2 * SECOND_US)


def test_a_log_without_times_has_blocks_of_equal_length() -> None:
    times = told(np.full((2, 40), np.nan))
    assert times.lasted_us.tolist() == [SECOND_US] * 40
    assert times.ends_us == (None,) * 40


def test_steps_of_a_clock_are_told_with_the_block_in_which_it_was_set() -> None:
    ends = job(2)
    ends[0, 30:] += HOUR_US
    ends[1, 10:] -= HOUR_US
    assert [(step.hosts, step.block) for step in told(ends).steps] == [(("node-1",), 10), (("node-0",), 30)]
    assert isinstance(told(ends).steps[0], ClockStep)


@pytest.mark.parametrize("seed", range(10))
def test_a_pause_is_no_change_of_clocks_where_hosts_lack_blocks(seed: int) -> None:
    ends = job(8)
    ends[:, 20:] += 30 * SECOND_US
    # Whose middle block lies before the pause, and whose after it, is chance.
    missing = np.random.default_rng(seed).random(ends.shape) < 0.6
    missing[np.arange(40) % 8, np.arange(40)] = False
    ends[missing] = np.nan
    times = told(ends)
    assert times.steps == ()
    assert times.lasted_us[2:] == pytest.approx([SECOND_US] * 38, rel=0.25)
