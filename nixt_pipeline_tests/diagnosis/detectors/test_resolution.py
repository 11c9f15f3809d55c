"""Jobs in which nobody is late: how late somebody must have been to be told."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.detectors.resolution import Resolution, least_cost_share, resolution_of
from nixt_pipeline.diagnosis.detectors.windows import Noise, Window
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.findings import Diagnosis, RunCoverage
from nixt_pipeline.diagnosis.wording.reasons import UNJUDGED, not_resolvable
from nixt_pipeline.diagnosis.wording.text import as_text
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline_tests.diagnosis.examples import collective, communicator, observations
from nixt_pipeline_tests.records import EPOCH_US, write_log
from nixt_pipeline_tests.records import collective as collective_line

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
    assert least_cost_share(varying(by_us=1_000), LIMITS) == LIMITS.diagnosis.p2_cost_share


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
    assert "a rank that is late half of the time at a cost of 7 % would." in as_text(quiet)
    assert quiet.to_json()["coverage"]["least_cost_share"] == 0.07


def test_where_only_a_loss_is_exchanged_no_process_can_be_compared() -> None:
    world = communicator(0, *MEMBERS)
    seen = observations([world], transfers=collective(world, [10.0] * 40, size=16_384), blocks=40)
    assert resolution_of(seen, LIMITS) == Resolution(None, obstacle="nobody compared")


def test_where_each_process_is_a_stage_of_its_own_only_transfers_can_be_judged() -> None:
    # The first and the last of four stages of one GPU share an embedding, and nobody else shares anything.
    tied = [communicator(0, MEMBERS[0], MEMBERS[3]), communicator(1, *MEMBERS)]
    transfers = [*collective(tied[0], [100.0] * 40), *collective(tied[1], [10.0] * 40, size=16_384)]
    resolution = resolution_of(observations(tied, transfers=transfers, blocks=40), LIMITS)
    assert resolution == Resolution(None, unjudged="late process")
    quiet = Diagnosis("job", "none-found", COVERAGE, (), UNJUDGED["late process"])
    assert f"in what was recorded. But {UNJUDGED['late process']}." in as_text(quiet)


def test_a_host_that_is_a_stage_of_its_own_is_compared_with_none() -> None:
    inside = [communicator(number, (host, 1), (host, 2)) for number, host in enumerate("ab")]
    resolution = resolution_of(observations(inside, blocks=40), LIMITS)
    assert resolution == Resolution(LIMITS.diagnosis.p2_cost_share, unjudged="late host")


def test_processes_that_share_several_groups_that_do_the_same_drive_several_gpus() -> None:
    groups = [communicator(number, *MEMBERS) for number in (0, 1)]
    assert resolution_of(observations(groups, blocks=40), LIMITS).obstacle == "several GPUs"
    # One group for the gradients and one for the parameters, or for what is seldom exchanged, is one GPU's.
    parameters = [*collective(groups[0], [100.0] * 40), *collective(groups[1], [100.0] * 40, size=20_000_000)]
    assert resolution_of(observations(groups, transfers=parameters, blocks=40), LIMITS).obstacle is None
    seldom = [*collective(groups[0], [100.0] * 40), *collective(groups[1], [100.0] * 20)]
    assert resolution_of(observations(groups, transfers=seldom, blocks=40), LIMITS).obstacle is None


def test_ranks_of_one_process_are_not_compared_where_it_is_not_known_which_is_in_which_group() -> None:
    ranks = [("a", 7, f" rank {rank}") for rank in range(4)]
    world = communicator(0, *ranks)
    pairs = [replace(communicator(n, *ranks[2 * n - 2 : 2 * n]), certain=False) for n in (1, 2)]
    assert resolution_of(observations([world, *pairs], blocks=40), LIMITS).obstacle == "several GPUs"
    # With the whole job's communicator alone, each rank has times of its own.
    assert resolution_of(observations([world], blocks=40), LIMITS).obstacle is None


def test_groups_that_follow_one_another_are_of_one_gpu_each() -> None:
    groups = [communicator(number, *MEMBERS) for number in (0, 1)]
    groups = [replace(comm, span=(at, at + 20_000_000)) for comm, at in zip(groups, (0, 20_000_000), strict=True)]
    assert resolution_of(observations(groups, blocks=40), LIMITS).obstacle is None


def test_ranks_whose_records_name_no_host_are_said_to_be_unjudged(tmp_path: Path, settings: Settings) -> None:
    for rank in range(4):
        lines = [collective_line(sn=n, rank=rank, pid=100 + rank, at_us=EPOCH_US + 1_000 * n) for n in range(100)]
        if rank == 3:
            lines = [line.replace('"hostname":"node-01",', "") for line in lines]
        write_log(tmp_path / "job" / f"node-01-pid{100 + rank}.log", *lines)
    diagnosis = nixt.diagnose_run(nixt.ingest_run(tmp_path / "job", settings).run, settings)
    assert diagnosis.verdict == "none-found"
    assert "whether 1 of 4 ranks of a communicator are late could not be judged" in as_text(diagnosis)
