"""Runs on other hosts: what is said of a difference that can be the hosts' or the change's."""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.fleet.compare.compare import compare_sides
from nixt_pipeline.fleet.compare.comparison import Comparison
from nixt_pipeline.fleet.compare.explanation import costs
from nixt_pipeline.fleet.compare.other_hosts import sets_of_hosts
from nixt_pipeline.fleet.compare.summaries import RunSummary
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline_tests.fleet.examples import Kernel, finding, side, slower, summary

LIMITS = Thresholds()
DATA = Kernel()  # 1000 operations of 4 ranks: 1000 us of transfer and 100 us of waiting each
LATE = replace(DATA, wait_us=700.0)  # 600 us more on each of 4000 records: 2.4 rank-seconds
OTHERS = [f"gpu-{number}" for number in range(11, 15)]


def elsewhere(*kernels: Kernel, findings: tuple[dict[str, object], ...] = (), seed: int = 1) -> RunSummary:
    """A run on other hosts than those of the reference."""
    return summary("b", kernels, seed=seed, host_names=OTHERS, findings=findings)


def against(b: RunSummary, history: tuple[RunSummary, ...] = (), a: RunSummary | None = None) -> Comparison:
    return compare_sides(side(a or summary("a")), side(b), LIMITS, history)


def test_a_finding_explains_what_it_cost_and_the_rest_is_left_open() -> None:
    found = against(elsewhere(LATE, findings=(finding("late-arrival", "gpu-12", lost_s=1.8),)))
    # 600 us of 1100 us are 55 %, and 1.8 of 2.4 rank-seconds are three quarters of it.
    assert found.verdict == "slower-other-hosts"
    assert found.reason == (
        "slower by 55% in waiting, on other hosts; B has a P1 finding (gpu-12) that explains 41 of the 55;"
        " the rest is unexplained: the hosts or the change"
    )
    assert found.next_step.startswith("Rerun B without gpu-12, on the hosts of A if possible: any remaining difference")
    explained = found.to_json()["explained"]
    assert (explained["side"], explained["transfer_share"]) == ("b", 0.0)
    assert explained["waiting_share"] == pytest.approx(0.75, abs=0.01)
    assert (explained["rank_seconds"], explained["of_rank_seconds"]) == (1.8, pytest.approx(2.4, rel=0.02))


def test_seven_per_cent_on_other_hosts_are_left_open_and_none_is_none() -> None:
    found = against(elsewhere(slower(DATA, 1.07)))
    assert found.verdict == "slower-other-hosts"
    assert found.reason == "slower by 7% in transfer, on other hosts; unexplained: the hosts or the change"
    assert found.next_step.startswith("Rerun A on the hosts of B")
    assert against(elsewhere(DATA)).verdict == "equivalent"


def test_another_work_on_other_hosts_is_no_slowdown() -> None:
    late = finding("late-arrival", "gpu-12", lost_s=1.8)
    b = summary("b", (LATE,), seed=1, host_names=OTHERS, findings=(late,), parallelism="tp=2 dp=2")
    found = against(b)
    assert (found.verdict, found.explanation, found.next_step) == ("not-comparable", None, "")
    assert found.reason == "the sides do different work (parallelism: dp=4 -> tp=2 dp=2)"


def test_a_finding_never_explains_more_than_the_difference() -> None:
    found = against(elsewhere(LATE, findings=(finding("late-arrival", "gpu-12", lost_s=50.0),)))
    assert found.reason.endswith("B has a P1 finding (gpu-12) that explains 55 of the 55")


def test_a_late_host_explains_no_longer_transfer() -> None:
    found = against(elsewhere(slower(DATA, 1.3), findings=(finding("late-arrival", "gpu-12", lost_s=50.0),)))
    assert found.reason == (
        "slower by 30% in transfer, on other hosts; B has a P1 finding (gpu-12) that explains none of it;"
        " the rest is unexplained: the hosts or the change"
    )


def test_a_slow_path_costs_the_whole_job_for_as_long_as_it_was_slow() -> None:
    # A fifth of the time since second 5 of 10, on 4 GPUs: 4 rank-seconds, whatever its members alone lost.
    slow = finding("slow-transfer", "gpu-12", lost_s=1.0, cost_share=0.2, onset_us=5_000_000)
    assert [cause.rank_seconds for cause in costs(elsewhere(DATA, findings=(slow,)))] == [4.0]


def test_a_host_is_counted_once_and_what_names_no_part_of_the_machine_is_not() -> None:
    findings = (
        finding("late-arrival", "gpu-12", lost_s=1.0),
        finding("slow-transfer", "gpu-12", "gpu-13", lost_s=3.0),
        finding("late-arrival", "gpu-14", lost_s=0.5),
        finding("fabric-slow", lost_s=9.0),
        finding("regression", lost_s=9.0),
        finding("late-arrival", "gpu-11", lost_s=9.0, severity="info"),
    )
    found = costs(elsewhere(DATA, findings=findings))
    assert [(cause.hosts, cause.rank_seconds) for cause in found] == [(("gpu-12", "gpu-13"), 3.0), (("gpu-14",), 0.5)]


def test_the_reference_can_be_the_one_with_the_late_host() -> None:
    late = summary("a", (LATE,), findings=(finding("late-arrival", "gpu-2", lost_s=2.4),), worst_severity="P1")
    found = against(elsewhere(DATA), a=late)
    assert found.verdict == "faster-other-hosts"
    assert (
        "faster by 35% in waiting, on other hosts; A has a P1 finding (gpu-2) that explains 35 of the 35"
        in found.reason
    )
    assert found.next_step.startswith("Rerun A without gpu-2")


def history(spread: float) -> tuple[RunSummary, ...]:
    """Four earlier runs, each on hosts of its own, whose transfers differ by `spread`."""
    factors = (1 - spread, 1 + spread, 1 - spread, 1 + spread)
    return tuple(
        summary(f"h{n}", (slower(DATA, factor),), seed=50 + n, between_runs=0.0, host_names=[f"x{n}-1", f"x{n}-2"])
        for n, factor in enumerate(factors)
    )


def test_beyond_what_hosts_differ_by_anyway_it_is_the_change() -> None:
    found = against(elsewhere(slower(DATA, 1.2)), history(0.005))
    assert (found.verdict, found.suspected, found.host_sets) == ("regressed", True, 5)
    assert found.transfer is not None
    assert found.transfer.estimate is not None
    # Deviation 0.5 % between five sets: 2.78 x 0.5 % x sqrt(2) = 2 % on either side.
    assert found.transfer.estimate.low == pytest.approx(0.18, abs=0.01)


def test_within_what_hosts_differ_by_it_cannot_be_told() -> None:
    found = against(elsewhere(slower(DATA, 1.2)), history(0.1))
    assert found.verdict == "slower-other-hosts"
    assert "sets of hosts normally differ by 10.1%" in found.reason
    # And a difference that would be none on the same hosts may hide a change.
    assert against(elsewhere(DATA), history(0.1)).verdict == "inconclusive"
    assert against(elsewhere(DATA), history(0.005)).verdict == "equivalent"


def test_what_a_finding_explains_is_not_the_change_however_alike_hosts_are_otherwise() -> None:
    steady = history(0.001)
    late = finding("late-arrival", "gpu-12", lost_s=2.3)
    assert against(elsewhere(LATE, findings=(late,)), steady).verdict == "slower-other-hosts"
    assert against(elsewhere(LATE), steady).verdict == "regressed"
    small = finding("late-arrival", "gpu-12", lost_s=0.4)
    assert against(elsewhere(LATE, findings=(small,)), steady).verdict == "regressed"


def test_sets_that_share_most_hosts_are_no_further_evidence() -> None:
    def run(*hosts: str) -> RunSummary:
        return summary("-".join(hosts), host_names=[*hosts])

    assert sets_of_hosts([run("a", "b", "c"), run("b", "c", "d"), run("x", "y", "z")], 3) == ()
    assert len(sets_of_hosts([run("a", "b"), run("a", "b"), run("b", "c"), run("d", "e")], 3)) == 3


@pytest.mark.parametrize(
    ("gate", "slower_fails", "faster_fails"),
    [
        ("regressed", False, False),
        ("slower-other-hosts", True, False),
        ("not-comparable", True, False),
        ("inconclusive", True, True),
    ],
)
def test_a_gate_can_stop_at_slower_on_other_hosts(gate: str, slower_fails: bool, faster_fails: bool) -> None:
    assert against(elsewhere(slower(DATA, 1.3))).fails(gate) is slower_fails  # type: ignore[arg-type]
    assert against(elsewhere(slower(DATA, 0.7))).fails(gate) is faster_fails  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("job", "host"), [("slow-compute-host-32", "gpu-126"), ("slow-nic-host-32", "gpu-120")])
def test_whole_jobs_on_other_hosts_are_slower_for_the_sake_of_the_planted_host(
    job: str, host: str, corpus: Path, tmp_path: Path, settings: Settings
) -> None:
    runs = []
    for name in ("healthy-32", job):
        with tarfile.open(corpus / "corpus" / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path / name, filter="data")
        (directory,) = (tmp_path / name).iterdir()
        runs.append(nixt.ingest_run(directory, settings).run)
        nixt.diagnose_run(runs[-1], settings)
    found = nixt.compare(runs[0], runs[1], settings)
    assert (found.verdict, found.placement.common) == ("slower-other-hosts", 0)
    assert found.explanation is not None
    assert [cause.hosts for cause in found.explanation.causes] == [(host,)]
    assert 0.85 < found.explanation.waiting_share <= 1.0
