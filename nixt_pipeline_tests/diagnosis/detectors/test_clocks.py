from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis import Diagnosis
from nixt_pipeline.diagnosis.detectors.clocks import host_clocks
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log


def offsets(times: list[dict[str, int]]) -> dict[str, float]:
    return {host: clock.offset_us for host, clock in host_clocks(times).items()}


def test_a_host_that_is_off_does_not_move_the_others() -> None:
    times = [{"a": 100 + n, "b": 102 + n, "c": 5_101 + n} for n in range(5)]
    # Of a: from the median of 102 and 5101; of c: from the median of 100 and 102.
    assert offsets(times)["c"] == 5_000
    many = [{"a": 100, "b": 102, "c": 5_101, "d": 101}]
    # Of a: from the median of 101, 102 and 5101.
    assert offsets(many) == {"a": -2, "b": 1, "c": 5_000, "d": -1}


def test_one_of_three_hosts_that_is_an_hour_off_does_not_move_the_others_by_half_an_hour() -> None:
    assert offsets([{"a": 0, "b": 2, "c": 3_600_000_000}]) == {"a": -2, "b": 2, "c": 3_599_999_999}


def test_of_two_hosts_each_is_off_from_the_other() -> None:
    assert offsets([{"a": 0, "b": 10}, {"a": 0, "b": 12}, {"a": 0, "b": 50}]) == {"a": -12, "b": 12}


def test_a_collective_within_one_host_tells_nothing() -> None:
    assert host_clocks([{"a": 7}]) == {}


def test_the_uncertainty_is_the_scatter_of_one_measurement() -> None:
    # Distances of b: 0, 10, 20; their median absolute deviation is 10.
    clock = host_clocks([{"a": 0, "b": 0}, {"a": 1_000, "b": 1_010}, {"a": 2_000, "b": 2_020}])["b"]
    assert (clock.offset_us, clock.drift_ppm) == (10, None)
    assert clock.uncertainty_us == pytest.approx(14.826)


def job(drift_ppm: float, minutes: float, seed: int = 1) -> list[dict[str, int]]:
    """Collectives every second, written up to 10 ms later, on three hosts of which c drifts."""
    random = np.random.default_rng(seed)
    times = []
    for at in np.arange(0, minutes * 60e6, 1e6):
        delays = random.uniform(0, 10_000, 3)
        times.append(
            {"a": int(at + delays[0]), "b": int(at + delays[1]), "c": int(at * (1 + drift_ppm / 1e6) + delays[2])}
        )
    return times


def test_a_drift_is_told_from_the_scatter_of_dump_times() -> None:
    clock = host_clocks(job(drift_ppm=50, minutes=20))["c"]
    # 50 us a second over 20 minutes are 60 ms; in the middle of the log 30 ms.
    assert clock.drift_ppm == pytest.approx(50, rel=0.05)
    assert clock.offset_us == pytest.approx(30_000, rel=0.05)
    assert clock.uncertainty_us < 10_000


@pytest.mark.parametrize("seed", range(5))
def test_a_drift_that_the_log_is_too_short_for_is_not_told(seed: int) -> None:
    clocks = host_clocks(job(drift_ppm=50, minutes=2, seed=seed))
    assert {clock.drift_ppm for clock in clocks.values()} == {None}


def diagnosed(
    directory: Path,
    settings: Settings,
    clock_us: Callable[[int], int],
    nnodes: int = 1,
    waited_us: int = 0,
    set_host: int = 1,
) -> Diagnosis:
    """The diagnosis of a job of three hosts, tray-0 to tray-2, with an AllReduce every tenth of a second, in which all
    wait for tray-2; the clock of tray-1 (`set_host`) is off by `clock_us` of the number of the collective."""
    for rank in range(3):
        lines = [
            collective(
                sn=n, rank=rank, n_ranks=3, nnodes=nnodes, host=f"tray-{rank}", pid=1, name="unknown",
                time_us=100 + (rank < 2) * waited_us,
                at_us=EPOCH_US + n * 100_000 + (clock_us(n) if rank == set_host else 0),
            )
            for n in range(80)
        ]  # fmt: skip
        write_log(directory / f"tray-{rank}-pid1.log", *lines)
    return nixt.diagnose_run(nixt.ingest_run(directory, settings).run, settings)


@pytest.mark.parametrize("nnodes", [1, 3])
def test_a_clock_that_is_off_is_told_in_a_rack_as_elsewhere(nnodes: int, tmp_path: Path, settings: Settings) -> None:
    found = diagnosed(tmp_path / "job", settings, lambda _: 37_000_000, nnodes)
    (finding,) = found.findings
    assert (found.verdict, finding.kind, finding.severity) == ("none-found", "clock-skew", "info")
    assert finding.hosts == ("tray-1",)
    assert "+37 s" in finding.evidence


def test_a_clock_may_be_off_by_no_more_than_the_write_times_scatter(tmp_path: Path, settings: Settings) -> None:
    # Distances of 0.2 and 2.2 s in turns: in the middle 1.2 s, which is more than 1 s, give or take 1.5 s.
    found = diagnosed(tmp_path / "job", settings, lambda n: 200_000 + n % 2 * 2_000_000)
    assert (found.verdict, found.findings) == ("none-found", ())


@pytest.mark.parametrize(("set_host", "step_us"), [(0, 3_600_000_000), (2, -3_600_000_000)])
def test_a_clock_that_is_set_hides_nobody_who_is_late(
    set_host: int, step_us: int, tmp_path: Path, settings: Settings
) -> None:
    found = diagnosed(tmp_path / "job", settings, lambda n: (n >= 40) * step_us, waited_us=30_000, set_host=set_host)
    late, clock = found.findings
    assert (late.kind, late.hosts, late.onset_us) == ("late-arrival", ("tray-2",), EPOCH_US + 100_000)
    # The others wait 30 ms of every 100 ms.
    assert late.effect.cost_share == pytest.approx(0.3, rel=0.02)
    assert (clock.kind, clock.hosts, clock.onset_us) == ("clock-skew", (f"tray-{set_host}",), EPOCH_US + 3_900_000)
    assert "3,600 s while the job ran" in clock.evidence


def test_a_host_without_a_clock_measures_nothing(tmp_path: Path, settings: Settings) -> None:
    at_zero = diagnosed(tmp_path / "job", settings, lambda n: -(EPOCH_US + n * 100_000), waited_us=30_000)
    (late,) = at_zero.findings
    assert late.effect.cost_share == pytest.approx(0.3, rel=0.02)


def test_a_host_in_1970_is_told(tmp_path: Path, settings: Settings) -> None:
    late, clock = diagnosed(tmp_path / "job", settings, lambda _: -EPOCH_US + 5_000_000, waited_us=30_000).findings
    assert late.effect.cost_share == pytest.approx(0.3, rel=0.02)
    assert (clock.kind, clock.hosts) == ("clock-skew", ("tray-1",))


def test_a_log_that_ends_before_the_others_is_no_clock_that_was_set(tmp_path: Path, settings: Settings) -> None:
    # Two hosts with a pair of their own and a pair across, ten steps in a second; the log of the first ends 2 s early.
    # A block of its own pair is shorter for that, so that its clock seems to lag more and more.
    for host in (0, 1):
        for slot in (0, 1):
            pairs = [(f"0x{host}", slot, 1, 4), (f"0x{7 + slot}", host, 2, 1)]
            lines = [
                collective(
                    sn=step * often + n, rank=rank, n_ranks=2, nnodes=nnodes, comm=comm, name=None,
                    host=f"node-{host}", pid=slot, at_us=EPOCH_US + step * 100_000 + n * 10_000,
                )
                for step in range(60 + 20 * host)
                for comm, rank, nnodes, often in pairs
                for n in range(often)
            ]  # fmt: skip
            write_log(tmp_path / "job" / f"node-{host}-pid{slot}.log", *lines)
    found = nixt.diagnose_run(nixt.ingest_run(tmp_path / "job", settings).run, settings).findings
    assert [finding for finding in found if finding.kind == "clock-skew"] == []
