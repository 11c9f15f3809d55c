"""What a delay costs a job: ten or twenty blocks, of which some last longer."""

from dataclasses import replace

import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.late_ranks import as_felt
from nixt_pipeline.diagnosis.detectors.lateness import Late
from nixt_pipeline.diagnosis.detectors.lengthening import lengthened_us
from nixt_pipeline.diagnosis.detectors.windows import Window
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import communicator, observations

LIMITS = Thresholds()
A, B, C = ("a", 1), ("b", 1), ("c", 1)
WINDOW = Window(10, 19, 10, 20)


def test_blocks_are_compared_with_those_outside_but_for_the_first_and_the_unusual_ones() -> None:
    # Warm-up, then 1 s each, one with a checkpoint; in the window 1.2 s, one with a checkpoint as well.
    lasted_us = np.array([5e6, *[1e6] * 4, 9e6, *[1e6] * 4, *[1.2e6] * 5, 9e6, *[1.2e6] * 4])
    assert lengthened_us(lasted_us, WINDOW, LIMITS) == pytest.approx(10 * 0.2e6)


def test_a_job_that_became_no_longer_lost_nothing_and_one_without_another_time_does_not_tell() -> None:
    assert lengthened_us(np.full(20, 1e6), WINDOW, LIMITS) == 0
    assert lengthened_us(np.full(20, 1e6), Window(1, 19, 19, 20), LIMITS) is None


def late_by(wait_us: float, carried_us: float, lasted_us: float) -> tuple[Observations, Late]:
    """b and c wait for a in the second half of the job, in which each block lasts so long."""
    waits = {process: [0.0] * 10 + [wait_us] * 10 for process in (B, C)}
    carried = {process: [0.0] * 10 + [carried_us] * 10 for process in (B, C)}
    seen = observations([communicator(0, A, B, C)], wait_us=waits, carried_us=carried, blocks=20)
    seen = replace(seen, block_us=np.array([1e6] * 10 + [lasted_us] * 10))
    late = Late(
        level="rank", hosts=("a",), processes=(A,), stage=0, window=WINDOW, cost_share=0.1, typical_share=0.1,
        slowdown=1.1, lost_us=2e6, late_us=1e5, probability=0.0, last_share=1.0, waited_cells=100, peers=2,
    )  # fmt: skip
    return seen, late


@pytest.mark.parametrize(
    ("wait_us", "carried_us", "cost_us"),
    [
        (100_000, 400_000, 250_000),  # as long as the job became, between what is fresh and all that was waited
        (400_000, 100_000, 250_000),  # of which overlap hid a part
        (100_000, 50_000, 150_000),  # no more than was waited: something else took the rest
    ],
)
def test_a_late_one_costs_what_the_job_became_longer_but_no_more_than_it_lacks(
    wait_us: float, carried_us: float, cost_us: float
) -> None:
    seen, late = late_by(wait_us, carried_us, 1_250_000.0)
    felt = as_felt(seen, late, LIMITS)
    assert felt.cost_share == felt.typical_share == pytest.approx(cost_us / 1_250_000)
    assert felt.lost_us == pytest.approx(2e6 * felt.cost_share / 0.1)


def test_who_is_late_now_and_then_keeps_its_costs() -> None:
    seen, late = late_by(100_000, 0, 1_250_000.0)
    hesitating = replace(late, intermittent=True)
    assert as_felt(seen, hesitating, LIMITS) == hesitating
