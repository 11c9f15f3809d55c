"""CUDA graphs: replays of a tensor-parallel job of four GPUs on one host, in which every AllReduce takes 100 us and
those who wait for GPU 2 take 400 us."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis import Diagnosis
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

STEP_US = 1_000


def diagnosed(
    directory: Path,
    settings: Settings,
    numbers: Iterable[int],
    late: Callable[[int], bool] = lambda _: True,
    lost: Mapping[int, set[int]] | None = None,
) -> Diagnosis:
    """The diagnosis of a log in which the n-th AllReduce has the n-th of the `numbers`; GPU 2 comes late where `late`
    says so, and ranks have `lost` records."""
    for rank in range(4):
        lines = [
            collective(
                sn=number, rank=rank, pid=100 + rank, name="unknown", at_us=EPOCH_US + n * STEP_US,
                time_us=400 if rank != 2 and late(n) else 100,
            )
            for n, number in enumerate(numbers)
            if n not in (lost or {}).get(rank, ())
        ]  # fmt: skip
        write_log(directory / f"node-01-pid{100 + rank}.log", *lines)
    return nixt.diagnose_run(nixt.ingest_run(directory, settings).run, settings)


ONLY_REPLAYS = [0] * 200
# Requests of 4 eager collectives and 16 replays that have the number of the last eager one.
EAGER_AND_REPLAYS = [4 * (n // 20) + min(n % 20, 3) for n in range(200)]
# A graph of 8 collectives that keep the numbers they were captured with.
NUMBERS_OF_THE_CAPTURE = [n % 8 for n in range(200)]


@pytest.mark.parametrize("numbers", [ONLY_REPLAYS, EAGER_AND_REPLAYS, NUMBERS_OF_THE_CAPTURE])
def test_a_gpu_that_is_late_in_replays_is_named(numbers: list[int], tmp_path: Path, settings: Settings) -> None:
    found = diagnosed(tmp_path / "job", settings, numbers)
    (finding,) = found.findings
    assert (finding.kind, finding.severity, finding.processes) == ("late-arrival", "P1", ("node-01-pid102",))
    # It waits 300 us of 1000 us less than the others.
    assert finding.effect.cost_share == pytest.approx(0.3, rel=0.05)
    assert found.coverage.usable_collectives == 200
    assert found.coverage.left_out == {}


def test_a_gpu_that_is_late_in_the_second_half_of_replays_has_its_onset_there(
    tmp_path: Path, settings: Settings
) -> None:
    (finding,) = diagnosed(tmp_path / "job", settings, NUMBERS_OF_THE_CAPTURE, late=lambda n: n >= 100).findings
    assert finding.onset_us == pytest.approx(EPOCH_US + 100 * STEP_US, abs=5 * STEP_US)


def test_a_gpu_that_is_late_in_replays_only_is_named(tmp_path: Path, settings: Settings) -> None:
    (finding,) = diagnosed(tmp_path / "job", settings, EAGER_AND_REPLAYS, late=lambda n: n % 20 >= 4).findings
    assert finding.processes == ("node-01-pid102",)


@pytest.mark.parametrize("numbers", [ONLY_REPLAYS, EAGER_AND_REPLAYS, NUMBERS_OF_THE_CAPTURE])
def test_nobody_is_late_in_healthy_replays(numbers: list[int], tmp_path: Path, settings: Settings) -> None:
    found = diagnosed(tmp_path / "job", settings, numbers, late=lambda _: False)
    assert (found.verdict, found.findings) == ("none-found", ())


def test_replays_of_which_some_were_lost_are_not_assessable(tmp_path: Path, settings: Settings) -> None:
    lost = {rank: set(range(10 + rank, 190, 7)) for rank in range(3)}
    found = diagnosed(tmp_path / "job", settings, ONLY_REPLAYS, lost=lost)
    assert found.verdict == "not-assessable"
    assert found.reason == (
        "all 200 collectives repeat a sequence number (CUDA graphs), not equally often on all ranks"
    )
    assert found.coverage.usable_collectives == 0
    assert [finding.kind for finding in found.findings] == ["record-loss"]


def test_eager_collectives_do_not_speak_for_replays_that_were_lost(tmp_path: Path, settings: Settings) -> None:
    # 30 of 200 are eager and in order: enough to look at, and to find nobody late, but the job is in its replays. In 7
    # of 10 requests, every rank lost one of 17, so that 193 are seen.
    lost = {rank: {n for n in range(20 * rank, 200) if n % 20 == 7 + rank} for rank in range(4)}
    found = diagnosed(tmp_path / "job", settings, EAGER_AND_REPLAYS, late=lambda n: n % 20 >= 4, lost=lost)
    assert found.verdict == "not-assessable"
    assert found.reason.startswith("all but 30 of 193 collectives repeat a sequence number")
    assert found.coverage.usable_collectives == 30


def test_the_end_of_a_log_that_was_cut_in_its_replays_leaves_the_rest(tmp_path: Path, settings: Settings) -> None:
    # A job that is killed loses what was not written yet: of the last number, ranks have 17, 16, 15 and 14.
    lost = {rank: set(range(200 - rank, 200)) for rank in range(4)}
    found = diagnosed(tmp_path / "job", settings, EAGER_AND_REPLAYS, lost=lost)
    assert "node-01-pid102" in found.findings[0].processes
    assert found.coverage.usable_collectives == 183


def side_by_side(directory: Path, settings: Settings, lossy: set[str], sizes: tuple[int, ...] = (2**21,)) -> Diagnosis:
    """Two replicas of two GPUs, which share nothing; those on `lossy` hosts lost the 50th replay of one rank."""
    for host in ("node-01", "node-02"):
        for rank in range(2):
            lines = [
                collective(
                    sn=0, rank=rank, n_ranks=2, host=host, pid=100 + rank, comm=f"0x{host[-2:]}", name="unknown",
                    at_us=EPOCH_US + n * STEP_US, size=sizes[n % len(sizes)],
                )
                for n in range(100)
                if not (host in lossy and rank == 1 and n == 50)
            ]  # fmt: skip
            write_log(directory / f"{host}-pid{100 + rank}.log", *lines)
    return nixt.diagnose_run(nixt.ingest_run(directory, settings).run, settings)


def test_a_replica_that_lost_replays_leaves_the_others_to_be_judged(tmp_path: Path, settings: Settings) -> None:
    found = side_by_side(tmp_path / "job", settings, {"node-02"})
    assert (found.verdict, found.findings) == ("none-found", ())
    assert "whether one of 2 processes is late could not be judged" in found.reason
    assert found.reason.endswith("node-02-pid100, node-02-pid101")
    assert side_by_side(tmp_path / "lost", settings, {"node-01", "node-02"}).verdict == "not-assessable"


def test_replays_that_were_lost_are_no_disagreement_about_sizes(tmp_path: Path, settings: Settings) -> None:
    # From the 50th on, one rank's k-th record is another replay than the other's.
    found = side_by_side(tmp_path / "job", settings, {"node-01", "node-02"}, sizes=(2**20, 2**21))
    assert (found.verdict, found.findings) == ("not-assessable", ())
