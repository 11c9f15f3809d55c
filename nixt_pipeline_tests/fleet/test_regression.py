"""What a run that became slower loses, by hand-worked numbers of one kernel of four ranks."""

from typing import Any

import pytest

from nixt_pipeline.fleet.compare.compare import compare_sides
from nixt_pipeline.fleet.regression import regression_finding
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.fleet.examples import Kernel, side, summary

# A thousand operations of four ranks: 1 ms of transfer, which 100 us of waiting come on top of.
BEFORE = Kernel()
LIMITS = Thresholds()


@pytest.mark.parametrize(
    ("after", "lost_s"),
    [
        (Kernel(wait_us=600.0), 500e-6 * 1000 * 3),  # the last of the four waits for nobody
        (Kernel(transfer_us=1500.0), 500e-6 * 1000 * 4),  # all four transfer
        (Kernel(transfer_us=1500.0, wait_us=600.0), 500e-6 * 1000 * (3 + 4)),
    ],
)
def test_a_regression_costs_the_time_of_the_ranks_that_wait_and_of_all_that_transfer(
    after: Kernel, lost_s: float
) -> None:
    exact: dict[str, Any] = {"between_runs": 0.0, "within_run": 1e-6}
    before = [summary(f"before-{number}", (BEFORE,), seed=number, **exact) for number in range(3)]
    slower = summary("after", (after,), seed=9, duration_us=10_000_000, **exact)
    finding = regression_finding(compare_sides(side(*before), side(slower), LIMITS), False, LIMITS)
    assert finding.effect.lost_rank_seconds == pytest.approx(lost_s, rel=1e-3)
    assert finding.effect.cost_share == pytest.approx(lost_s / (4 * 10), rel=1e-3)  # of four GPUs for ten seconds
