"""Jobs in which nobody is late: how late somebody must have been to be told."""

from dataclasses import replace

import numpy as np
import pytest

from nixt_pipeline.diagnosis.findings import Diagnosis, RunCoverage
from nixt_pipeline.diagnosis.observations import Observations
from nixt_pipeline.diagnosis.resolution import least_cost_share, not_resolvable
from nixt_pipeline.diagnosis.text import as_text
from nixt_pipeline.diagnosis.windows import Noise, Window
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import communicator, observations

LIMITS = Thresholds()
MEMBERS = [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
COVERAGE = RunCoverage(4, 4, 100, 0.5, 100)


def varying(by_us: float) -> Observations:
    """Four processes that communicate for 0.4 s in each of 40 blocks of a second, give or take `by_us`."""
    random = np.random.default_rng(1)
    waits = {member: (400_000 + by_us * random.standard_normal(40)).tolist() for member in MEMBERS}
    return observations([communicator(0, *MEMBERS)], wait_us=waits, blocks=40)


def test_what_would_be_told_is_what_chance_does_not_explain() -> None:
    noise, window = Noise(deviation=0.1, correlation=0.3), Window(0, 19, 20, 40)
    least = noise.least(0.01, length=20, blocks=40, tested=8)
    assert noise.chance(np.full(20, least), window, tested=8) == pytest.approx(0.01)


def test_in_a_calm_job_everything_that_is_worth_a_note_would_be_told() -> None:
    assert least_cost_share(varying(by_us=1_000), LIMITS) == LIMITS.p2_cost_share


def test_in_a_noisy_job_only_more_would_be_told_and_a_verdict_needs_enough() -> None:
    share = least_cost_share(varying(by_us=300_000), LIMITS)
    # Deficits vary by 0.2 s and more; of 20 blocks and 4 processes, 5 standard deviations of a mean are 0.2 s and more.
    assert share is not None
    assert 0.2 < share < 0.5
    assert "at most 20% make a verdict" in not_resolvable(replace(COVERAGE, least_cost_share=share), LIMITS)
    assert not_resolvable(replace(COVERAGE, least_cost_share=0.2), LIMITS) == ""


def test_where_nobody_does_the_same_work_nothing_can_be_said() -> None:
    alone = observations([communicator(0, ("a", 1))], blocks=40)
    assert least_cost_share(alone, LIMITS) is None
    assert not_resolvable(COVERAGE, LIMITS) == ""


def test_the_verdict_says_what_would_have_been_told() -> None:
    quiet = Diagnosis("job", "none-found", replace(COVERAGE, least_cost_share=0.07))
    assert "one that is late in half of it at a cost of 7% of the time would." in as_text(quiet)
    assert quiet.to_json()["coverage"]["least_cost_share"] == 0.07
