"""The diagnosis of whole jobs whose faults are known. `python -m evaluation.labelled` does it with a hundred kinds."""

from pathlib import Path

import pytest

from evaluation.labelled import diagnose_labelled_job
from evaluation.scenarios import SCENARIOS
from evaluation.scoring import Answer, Score, score
from nixt_pipeline.settings import Settings

FOUND = [
    "slow-gpu-1.6x",
    "slow-compute-host-4x",
    "slow-nic-host-4x",
    "slow-nvlink-host-4x",
    "slow-rail-4x",
    "slow-fabric-4x",
    "hang-dp",
    "process-silent",
]
HEALTHY = ["healthy-2.28", "healthy-imbalanced", "healthy-pauses"]

# Writing, ingesting and diagnosing one of these jobs takes a second or two.
pytestmark = pytest.mark.slow


def scored(name: str, seed: int, directory: Path, settings: Settings) -> Score:
    return score(*diagnose_labelled_job(name, seed, directory / "job", settings))


@pytest.mark.parametrize("name", FOUND)
def test_a_strong_fault_is_named_exactly_and_nobody_else(name: str, tmp_path: Path, settings: Settings) -> None:
    result = scored(name, 0, tmp_path, settings)
    assert result.answers == (Answer.FOUND,) * len(SCENARIOS[name].faults)
    assert result.alarms == result.right_alarms
    assert result.wrong_blames == 0


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_raises_no_alarm(name: str, tmp_path: Path, settings: Settings) -> None:
    result = scored(name, 0, tmp_path, settings)
    assert (result.alarms, result.wrong_blames) == (0, 0)


def test_without_gpu_times_nothing_is_concluded(tmp_path: Path, settings: Settings) -> None:
    result = scored("slow-compute-host-cpu-timed", 0, tmp_path, settings)
    assert result.verdict == "not-assessable"
    assert result.alarms == 0


def test_heavy_losses_may_hide_a_fault_but_never_blame_somebody_else(tmp_path: Path, settings: Settings) -> None:
    assert scored("slow-gpu-loss-60%", 0, tmp_path, settings).wrong_blames == 0
