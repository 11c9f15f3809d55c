import numpy as np
import pytest

from nixt_pipeline.diagnosis.clocks import WriteTimes, host_clocks


def offsets(times: WriteTimes) -> dict[str, float]:
    return {host: clock.offset_us for host, clock in host_clocks(times).items()}


def test_a_host_that_is_off_does_not_move_the_others() -> None:
    times = [{"a": 100 + n, "b": 102 + n, "c": 5_101 + n} for n in range(5)]
    # Of a: from the median of 102 and 5101; of c: from the median of 100 and 102.
    assert offsets(times)["c"] == 5_000
    many = [{"a": 100, "b": 102, "c": 5_101, "d": 101}]
    # Of a: from the median of 101, 102 and 5101.
    assert offsets(many) == {"a": -2, "b": 1, "c": 5_000, "d": -1}


def test_of_two_hosts_each_is_off_from_the_other() -> None:
    assert offsets([{"a": 0, "b": 10}, {"a": 0, "b": 12}, {"a": 0, "b": 50}]) == {"a": -12, "b": 12}


def test_a_collective_within_one_host_tells_nothing() -> None:
    assert host_clocks([{"a": 7}]) == {}


def test_the_uncertainty_is_the_scatter_of_one_measurement() -> None:
    # Distances of b: 0, 10, 20; their median absolute deviation is 10.
    clock = host_clocks([{"a": 0, "b": 0}, {"a": 1_000, "b": 1_010}, {"a": 2_000, "b": 2_020}])["b"]
    assert (clock.offset_us, clock.drift_ppm) == (10, None)
    assert clock.uncertainty_us == pytest.approx(14.826)


def job(drift_ppm: float, minutes: float, seed: int = 1) -> WriteTimes:
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
