"""Two pipeline stages of a host with two processes each; a block lasts one second, of which half is computation."""

from dataclasses import replace

from nixt_pipeline.diagnosis.detectors.imbalance import find_imbalance, find_turns
from nixt_pipeline.diagnosis.evidence.observations import Arrival, Observations
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording.imbalance import imbalance_finding, once_for_launches
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import communicator, observations

LIMITS = Thresholds()
A1, A2, B1, B2 = ("a", 1), ("a", 2), ("b", 1), ("b", 2)
HALF = [500_000.0] * 40


def stages(second: list[float]) -> Observations:
    """Stage a communicates for half of each block, stage b as given."""
    comms = [communicator(0, A1, A2, role="tensor"), communicator(1, B1, B2, role="tensor")]
    first = HALF[:1] * len(second)
    waits = {A1: first, A2: first, B1: second, B2: second}
    return observations(comms, wait_us=waits, blocks=len(second), matched_p2p=100)


def imbalance(seen: Observations, limits: Thresholds = LIMITS) -> list[Finding]:
    return [imbalance_finding(seen, suspect) for suspect in find_imbalance(seen, limits)]


def test_a_stage_with_more_work_is_a_role_and_no_fault() -> None:
    (finding,) = imbalance(stages([400_000.0] * 40))
    assert (finding.kind, finding.severity, finding.hosts) == ("imbalance", "info", ("b",))
    assert "1.2 times as long" in finding.evidence


def test_a_stage_that_begins_to_need_longer_is_a_slow_host() -> None:
    (finding,) = imbalance(stages([500_000.0] * 20 + [350_000.0] * 20))
    assert (finding.kind, finding.severity, finding.level, finding.hosts) == ("late-arrival", "P2", "host", ("b",))
    assert finding.onset_us == 20_000_000
    assert finding.effect.slowdown == 1.3


def test_it_may_have_begun_soon_after_the_start() -> None:
    (finding,) = imbalance(stages([500_000.0] * 5 + [350_000.0] * 35))
    assert (finding.kind, finding.hosts, finding.onset_us) == ("late-arrival", ("b",), 5_000_000)
    assert finding.effect.slowdown == 1.3


def test_a_warm_up_of_one_block_and_two_slow_ones_are_no_slow_host() -> None:
    # Three slow blocks in a row would be one; the first block is warm-up and does not count.
    assert imbalance(stages([350_000.0] * 3 + [500_000.0] * 37)) == []
    assert len(imbalance(stages([500_000.0] * 2 + [350_000.0] * 3 + [500_000.0] * 35))) == 1


def test_a_stretch_that_is_slow_in_hardly_more_than_half_of_its_blocks_is_no_slow_host() -> None:
    # Slow blocks alternate with others, but for one more at either end: 51 of 99, where 60 % are needed.
    slow = [True, *(number % 2 == 0 for number in range(97)), True]
    second = [500_000.0] * 10 + [350_000.0 if block else 500_000.0 for block in slow] + [500_000.0] * 11
    assert imbalance(stages(second)) == []
    dense = LIMITS.changed("diagnosis", min_density=0.5)
    assert [finding.kind for finding in imbalance(stages(second), dense)] == ["late-arrival"]


def test_stages_that_work_alike_are_balanced() -> None:
    assert imbalance(stages([495_000.0] * 40)) == []


def test_waiting_for_one_after_the_other_is_nobodys_fault() -> None:
    comm = communicator(0, A1, A2, B1, B2)
    arrivals = [Arrival(0, block, (A1, A2, B1, B2)[block % 4], 5, 200_000.0) for block in range(40)]
    seen = observations([comm], arrivals=arrivals, blocks=40)
    (turns,) = find_turns(seen, LIMITS)
    finding = imbalance_finding(seen, turns)
    assert (finding.kind, finding.severity, finding.hosts) == ("imbalance", "info", ())
    only_one = [Arrival(0, block, A1, 5, 200_000.0) for block in range(40)]
    assert find_turns(observations([comm], arrivals=only_one, blocks=40), LIMITS) == []


def test_launches_in_which_ranks_wait_in_turns_are_told_once() -> None:
    turns = Finding(
        kind="imbalance", severity="info", level="run", evidence="Ranks wait.", counter_evidence="No rank is last.",
        next_step="Look at the work.",
    )  # fmt: skip
    stage = replace(turns, hosts=("b",))
    assert once_for_launches([turns, stage]) == [stage, turns]
    told = once_for_launches([turns, stage, turns, turns])
    assert told == [stage, replace(turns, evidence="Ranks wait. Likewise in 2 more launches.")]
