import numpy as np
import pytest

from nixt_pipeline.fleet.compare.robust_stats import (
    Limits,
    corrected,
    difference_of_times,
    judge,
    of_blocks,
    of_runs,
    pairs,
    ratio_of_times,
    runs_needed,
)

LIMITS = Limits(margin=0.05, error=0.05)


def test_the_interval_of_two_times_two_runs_is_welchs() -> None:
    # Differences of 0 and 2 per mille of 1000 us around means 1.0 and 1.1: variances 2e-6 each (and 1e-8 for the
    # resolution), standard error sqrt(2.01e-6), 2 degrees of freedom, t(0.975) = 4.3027.
    found = difference_of_times(np.array([999.0, 1001.0]), np.array([1099.0, 1101.0]), 1000.0, of_runs, 0.05)
    assert found is not None
    assert found.change == pytest.approx(0.1)
    assert found.high - found.change == pytest.approx(4.3027 * np.sqrt(2.01e-6), rel=1e-4)


def test_a_ratio_is_one_of_geometric_means() -> None:
    found = ratio_of_times(np.array([100.0, 400.0]), np.array([220.0, 220.0]), of_runs, 0.05)
    assert found is not None
    assert found.change == pytest.approx(0.1)  # sqrt(100 * 400) = 200


def test_two_single_runs_have_no_variance() -> None:
    assert ratio_of_times(np.array([1.0]), np.array([2.0]), of_runs, 0.05) is None
    assert judge(None, 0.0, LIMITS) == "inconclusive"


def test_a_single_run_borrows_the_variance_of_the_others() -> None:
    found = ratio_of_times(np.array([99.0, 100.0, 101.0, 100.0]), np.array([130.0]), of_runs, 0.05)
    assert found is not None
    assert judge(found, found.p_value, LIMITS) == "regressed"


def test_runs_that_agree_to_the_last_digit_are_not_infinitely_precise() -> None:
    found = ratio_of_times(np.array([24.0, 24.0]), np.array([24.0, 24.0]), of_runs, 0.05)
    assert found is not None
    assert 0 < found.high < 0.05


def test_a_change_of_level_is_no_variance_and_neighbours_that_resemble_are_fewer() -> None:
    random = np.random.default_rng(0)
    noise = random.standard_normal(19)
    step = np.where(np.arange(19) < 9, 0.0, 100.0)
    assert of_blocks(noise + step).variance == pytest.approx(noise.var(), rel=0.5)
    drift = np.convolve(random.standard_normal(30), np.ones(12), "valid")[:19]
    assert of_blocks(drift).units < 12 < of_blocks(noise).units
    assert of_blocks(np.ones(4)).variance is None


def test_pairs_see_a_small_change_of_very_different_things() -> None:
    found = pairs([0.10, 0.11, 0.12, 0.11], 0.05)
    assert found is not None
    assert 0.09 < found.low < found.change < found.high < 0.13
    assert pairs([0.1, 0.1], 0.05) is None


def test_verdicts_follow_from_where_the_interval_lies() -> None:
    def verdict(low: float, high: float, q: float = 0.001, limits: Limits = LIMITS) -> str:
        found = ratio_of_times(np.array([1.0, 1.0]), np.array([1.0, 1.0]), of_runs, 0.05)
        assert found is not None
        return judge(type(found)((low + high) / 2, low, high, q, 0.01), q, limits)

    assert verdict(0.06, 0.08) == "regressed"
    assert verdict(0.06, 0.08, q=0.2) == "inconclusive"  # one of many tests
    assert verdict(-0.10, -0.07) == "improved"
    assert verdict(0.01, 0.04) == "equivalent"
    assert verdict(0.01, 0.06) == "inconclusive"
    # One microsecond of twelve is the resolution of the times.
    assert verdict(0.06, 0.08, limits=Limits(0.05, 0.05, floor=1 / 12)) == "equivalent"


def test_q_values_are_those_of_benjamini_and_hochberg() -> None:
    assert corrected([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert corrected([]) == []


def test_as_many_runs_are_needed_as_the_noise_is_to_the_distance() -> None:
    found = ratio_of_times(np.array([100.0, 101.0]), np.array([107.0, 108.0]), of_runs, 0.05)
    assert found is not None
    # log(1.0697 / 1.05) = 0.0185: 2 (2.80 * 0.00688 / 0.0185)^2 = 2.2 runs, rounded up.
    assert runs_needed(found, LIMITS) == 3
