"""Runs against the baseline of their workload, from stored results, and what is done again when a run is added."""

import pytest

from benchmarks.fleet_runs import Cluster, Job, write_run
from nixt_pipeline.diagnosis.findings import Diagnosis, Finding, RunCoverage
from nixt_pipeline.fleet.against import COMPARISONS, compare_with_reference, update_comparisons
from nixt_pipeline.fleet.baselines import update_baselines
from nixt_pipeline.fleet.catalog import update_run_catalog
from nixt_pipeline.fleet.compare.compare import ComparisonError
from nixt_pipeline.fleet.decisions import Decision, decide
from nixt_pipeline.fleet.regression import with_regression
from nixt_pipeline.fleet.workload import all_kernels
from nixt_pipeline.settings import Settings

CLUSTER = Cluster(("gpu-1", "gpu-2", "gpu-bad"), frozenset({"gpu-bad"}))
HOSTS = ("gpu-1", "gpu-2")


def job(number: int, factor: float = 1.0, hosts: tuple[str, ...] = HOSTS) -> Job:
    return Job(f"job-{number}", float(number), hosts, factor)


def refresh(settings: Settings) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Bring the fleet up to date: the rows of comparisons by run, and which were made anew."""
    rows = update_run_catalog(settings).table.to_pylist()
    update_baselines(rows, settings)
    table, made = update_comparisons(rows, settings)
    return {row["run"]: row for row in table.to_pylist()}, [comparison.b.name for comparison in made]


@pytest.fixture
def usual(settings: Settings) -> Settings:
    """A store with four runs of the same work on the same hosts."""
    for number in range(4):
        write_run(job(number), CLUSTER, settings)
    return settings


def test_each_run_is_compared_with_what_was_there_before_it(usual: Settings) -> None:
    write_run(job(4, factor=1.2), CLUSTER, usual)
    rows, made = refresh(usual)
    assert [rows[f"job-{n}"]["reference"] for n in range(5)] == [None, "previous", "previous", "baseline", "baseline"]
    assert (rows["job-0"]["against"], rows["job-0"]["verdict"]) == ([], None)
    assert rows["job-3"]["against"] == ["job-2", "job-1", "job-0"]
    assert [rows[f"job-{n}"]["verdict"] for n in (1, 3, 4)] == ["equivalent", "equivalent", "regressed"]
    assert rows["job-4"]["transfer_change"] == pytest.approx(0.2, abs=0.02)
    assert sorted(made) == ["job-1", "job-2", "job-3", "job-4"]


def test_a_run_with_an_urgent_finding_is_never_the_reference(settings: Settings) -> None:
    write_run(job(0), CLUSTER, settings)
    write_run(job(1, hosts=("gpu-1", "gpu-bad")), CLUSTER, settings)
    write_run(job(2), CLUSTER, settings)
    write_run(job(3), CLUSTER, settings)
    rows, _ = refresh(settings)
    assert [rows[f"job-{n}"]["against"] for n in range(4)] == [[], ["job-0"], ["job-0"], ["job-2"]]
    decide("job-2", Decision(decision="rejected"), settings)
    rows, _ = refresh(settings)
    assert rows["job-3"]["against"] == ["job-0"]
    # The command line chooses as the asset does.
    catalog = update_run_catalog(settings).table.to_pylist()
    found = compare_with_reference(["job-3"], catalog, settings)
    assert [run.run for run in found.a.runs] == ["job-0"]


def test_one_more_run_is_one_more_comparison(usual: Settings) -> None:
    refresh(usual)
    before = COMPARISONS.path(usual).read_bytes()
    assert refresh(usual)[1] == []
    assert COMPARISONS.path(usual).read_bytes() == before
    write_run(job(4), CLUSTER, usual)
    assert refresh(usual)[1] == ["job-4"]


def test_what_was_made_bit_by_bit_equals_what_is_made_at_once(usual: Settings) -> None:
    refresh(usual)
    write_run(job(4, factor=1.2), CLUSTER, usual)
    write_run(job(-1), CLUSTER, usual)  # an older run that arrives late
    bit_by_bit, _ = refresh(usual)
    COMPARISONS.path(usual).unlink()
    assert refresh(usual)[0] == bit_by_bit


def test_a_rejected_baseline_is_compared_with_no_more(usual: Settings) -> None:
    write_run(job(4), CLUSTER, usual)
    refresh(usual)
    decide("job-0", Decision(decision="rejected"), usual)
    rows, made = refresh(usual)
    assert rows["job-4"]["against"] == ["job-3", "job-2", "job-1"]
    assert "job-4" in made


def diagnosis(run: str, *findings: Finding) -> Diagnosis:
    coverage = RunCoverage(16, 16, 1000, 1.0, 1000)
    return Diagnosis(run, "findings" if findings else "none-found", coverage, findings)


def test_a_slower_run_has_a_finding_with_evidence_and_what_speaks_against_it(usual: Settings) -> None:
    refresh(usual)
    write_run(job(4, factor=1.5), CLUSTER, usual)
    write_run(job(5), CLUSTER, usual)
    found = with_regression(diagnosis("job-4"), usual)
    (finding,) = found.findings
    assert (finding.kind, finding.level) == ("regression", "run")
    # It costs 0.4 % of the time, which is for information and so no alarm.
    assert (found.verdict, finding.severity) == ("none-found", "info")
    assert finding.evidence.startswith("transfer of ")
    assert "against 4 earlier runs of the same work" in finding.evidence
    assert "nixt compare job-3 job-4" in finding.next_step
    # Half again as long: 2 functions x 100,000 x (24 + 90) us of 8 ranks inside the nodes, and x 814 us of 2 across.
    expected_s = 0.5 * 2 * 100_000 * (8 * (24 + 90) + 2 * 814) / 1e6
    assert finding.effect.lost_rank_seconds == pytest.approx(expected_s, rel=0.05)
    assert finding.effect.cost_share == pytest.approx(expected_s / (16 * 3600), rel=0.05)
    assert with_regression(diagnosis("job-5"), usual).findings == ()


def test_a_regression_that_another_finding_explains_is_for_information(usual: Settings) -> None:
    refresh(usual)
    write_run(job(4, factor=30.0), CLUSTER, usual)
    late = Finding(
        kind="late-arrival", severity="P1", level="host", hosts=("gpu-1",), evidence="late", counter_evidence="none",
        next_step="look",
    )  # fmt: skip
    both = with_regression(diagnosis("job-4", late), usual)
    assert [(finding.kind, finding.severity) for finding in both.findings] == [
        ("late-arrival", "P1"),
        ("regression", "info"),
    ]
    alone = with_regression(diagnosis("job-4"), usual)
    assert [finding.severity for finding in alone.findings] == ["P1"]
    assert (alone.verdict, alone.verdict_alone) == ("findings", "none-found")


def test_without_a_baseline_there_is_no_regression(settings: Settings) -> None:
    write_run(job(0), CLUSTER, settings)
    assert with_regression(diagnosis("job-0"), settings) == diagnosis("job-0")
    refresh(settings)
    write_run(job(1, factor=2.0), CLUSTER, settings)
    assert with_regression(diagnosis("job-1"), settings) == diagnosis("job-1")


def test_asking_for_the_baseline_of_a_run_without_one_says_what_to_do(usual: Settings) -> None:
    write_run(job(9, hosts=("gpu-1",)), CLUSTER, usual)
    rows = update_run_catalog(usual).table.to_pylist()
    update_baselines(rows, usual)
    assert compare_with_reference(["job-3"], rows, usual).verdict == "equivalent"
    with pytest.raises(
        ComparisonError, match=r"job-9 has no baseline, and no earlier run .* `nixt baselines` says why"
    ):
        compare_with_reference(["job-9"], rows, usual)


def test_kernels_of_all_runs_are_kept_and_renewed_when_a_run_is(usual: Settings) -> None:
    def slowest(run: str) -> float:
        return float(max(row["transfer_p50_us"] for row in all_kernels(["job-0", "job-1"], usual)[run]))

    before = slowest("job-0")
    assert slowest("job-0") == before
    write_run(job(0, factor=3.0), CLUSTER, usual)
    assert slowest("job-0") == pytest.approx(3 * before, rel=0.05)
    assert slowest("job-1") == pytest.approx(before, rel=0.05)
    assert all_kernels(["job-1", "missing"], usual).keys() == {"job-1"}
