from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nixt_pipeline.fleet.baselines import find_baselines, members
from nixt_pipeline.fleet.decisions import Decision, DecisionsError, decide, decisions_path, read_decisions
from nixt_pipeline.fleet.workload import workload_of
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline_tests.fleet.examples import Kernel, slower, summary

LIMITS = Thresholds()
DAY_US = 86_400_000_000


def catalog_row(run: str, day: int = 0, **values: Any) -> dict[str, Any]:
    return {
        "run": run,
        "gpus": 4,
        "first_dump_us": day * DAY_US,
        "verdict": "none-found",
        "worst_severity": None,
        "regressed": False,
        "capture_rate": 1.0,
        "complete_share": 1.0,
        "baseline": False,
    } | values


def find(
    factors: Mapping[str, float], decisions: Mapping[str, Decision] | None = None, **values: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """The baselines among runs of one workload, whose transfers take `factors` times as long; `values` by run."""
    rows = [catalog_row(run, number, **values.get(run, {})) for number, run in enumerate(factors)]
    return {row["run"]: row for row in table(factors, rows, decisions).to_pylist()}


def table(
    factors: Mapping[str, float], rows: list[dict[str, Any]], decisions: Mapping[str, Decision] | None = None
) -> pa.Table:
    kernels = {
        run: [
            kernel.row
            for kernel in summary(run, (slower(Kernel(), factor),), between_runs=0.0, within_run=0.0).kernels.values()
        ]
        for run, factor in factors.items()
    }
    return find_baselines(rows, kernels, decisions or {}, LIMITS)


def test_three_complete_runs_without_findings_are_a_baseline() -> None:
    found = find({"a": 1.0, "b": 1.01, "c": 0.99})
    assert {row["fit"] for row in found.values()} == {True}
    assert {row["established"] for row in found.values()} == {True}
    assert found["b"]["level"] == pytest.approx(1.01)
    assert not find({"a": 1.0, "b": 1.0})["a"]["established"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"worst_severity": "P1", "verdict": "findings"}, "has a finding of severity P1"),
        ({"regressed": True, "verdict": "findings"}, "slower than the baseline it was compared with"),
        # Every rank lost the same operations: those that are left are complete, and a third of the job.
        ({"capture_rate": 0.31}, "only 31% of the records were captured"),
        ({"complete_share": 0.5}, "only 50% of the collectives were recorded by all ranks"),
        ({"verdict": None}, "not diagnosed yet"),
        ({"verdict": "not-assessable"}, "not assessable"),
    ],
)
def test_a_run_that_is_suspicious_or_incomplete_is_none(values: dict[str, Any], reason: str) -> None:
    found = find({"a": 1.0, "b": 1.0, "c": 1.0, "odd": 1.0}, odd=values)
    assert (found["odd"]["fit"], found["odd"]["reason"]) == (False, reason)
    assert found["a"]["fit"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "complete and without findings"),
        ({"worst_severity": "P2", "verdict": "findings"}, "complete and with findings up to P2 only"),
        ({"worst_severity": "info", "verdict": "findings"}, "complete and with findings up to info only"),
        (
            {"capture_rate": 0.9, "complete_share": 0.85},
            "90% of the records captured, 85% of the collectives by all ranks, without findings",
        ),
    ],
)
def test_a_minor_finding_does_not_disqualify_and_is_told(values: dict[str, Any], reason: str) -> None:
    found = find({"a": 1.0}, a=values)["a"]
    assert (found["fit"], found["reason"]) == (True, reason)


def test_a_run_unlike_the_others_is_an_outlier() -> None:
    found = find({"a": 1.0, "b": 1.01, "c": 0.99, "d": 1.0, "slow": 1.4})
    assert [run for run, row in found.items() if not row["fit"]] == ["slow"]
    assert found["slow"]["reason"] == "unlike the other runs: takes 1.40 times as long"


def test_two_groups_of_runs_are_two_modes_and_no_outliers() -> None:
    found = find({"a": 1.0, "b": 1.01, "c": 1.3, "d": 1.31, "e": 1.005})
    assert {run: row["mode"] for run, row in found.items()} == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 1}
    assert all(row["fit"] for row in found.values())


def test_runs_after_a_change_for_the_worse_are_no_second_mode() -> None:
    found = find({"a": 1.0, "b": 1.01, "c": 1.0, "d": 1.08, "e": 1.085})
    assert [run for run, row in found.items() if row["fit"]] == ["a", "b", "c"]
    # 1.08 against the middle of all five, 1.01.
    assert found["d"]["reason"] == "1.07 times as long as the runs before or after a change"
    # For the better, the later ones are the reference, and so are slower ones that a person pinned.
    better = find({"a": 1.08, "b": 1.09, "c": 1.0, "d": 1.0}, {"a": Decision(decision="pinned")})
    assert [run for run, row in better.items() if row["fit"]] == ["a", "c", "d"]


def test_spread_that_no_gap_divides_is_one_mode() -> None:
    random = np.random.default_rng(1)
    found = find({f"r{number}": float(1 + 0.02 * random.standard_normal()) for number in range(12)})
    assert {row["mode"] for row in found.values() if row["fit"]} == {1}
    assert sum(row["fit"] for row in found.values()) >= 11


def test_a_person_pins_and_rejects() -> None:
    decisions = {
        "a": Decision(decision="rejected", reason="wrong driver"),
        "odd": Decision(decision="pinned", reason="reference of the upgrade"),
    }
    found = find({"a": 1.0, "b": 1.0, "odd": 3.0}, decisions, odd={"worst_severity": "P0"})
    assert (found["a"]["fit"], found["a"]["reason"]) == (False, "rejected: wrong driver")
    assert (found["odd"]["fit"], found["odd"]["reason"]) == (True, "pinned: reference of the upgrade")
    assert found["odd"]["established"]  # one pinned run is enough
    assert find({"a": 1.0}, a={"baseline": True})["a"]["reason"] == "pinned: marked as baseline in run.json"


def test_members_are_earlier_and_not_too_old() -> None:
    factors = {"old": 1.0, "a": 1.0, "b": 1.0, "c": 1.0, "later": 1.0}
    days = {"old": 0, "a": 95, "b": 96, "c": 97, "later": 99}
    found = table(factors, [catalog_row(run, day) for run, day in days.items()])
    workload = found["workload"][0].as_py()
    assert members(found, workload, 98 * DAY_US, LIMITS) == {1: ["c", "b", "a"]}
    assert members(found, workload, 97 * DAY_US, LIMITS) == {}  # a and b are two, and old has expired
    assert members(found, "another", 98 * DAY_US, LIMITS) == {}
    pinned = table(factors, [catalog_row(run, day) for run, day in days.items()], {"old": Decision(decision="pinned")})
    assert members(pinned, workload, 98 * DAY_US, LIMITS) == {1: ["old", "c", "b", "a"]}


def test_a_single_run_of_another_level_is_no_reference_yet() -> None:
    # Slow and fast runs take turns: two modes. On day 3 there is one slow run, on day 4 there are two.
    factors = {"a": 1.0, "b": 1.0, "slow": 1.3, "slow-2": 1.3, "c": 1.0}
    found = table(factors, [catalog_row(run, day) for day, run in enumerate(factors)])
    workload = found["workload"][0].as_py()
    assert members(found, workload, 3 * DAY_US, LIMITS) == {1: ["b", "a"]}
    assert members(found, workload, 4 * DAY_US, LIMITS) == {1: ["b", "a"], 2: ["slow-2", "slow"]}


def test_a_workload_is_what_carries_the_bytes() -> None:
    def rows(*kernels: Kernel) -> list[Any]:
        return [kernel.row for kernel in summary("x", kernels).kernels.values()]

    large, small = Kernel(), Kernel(size=8)
    assert workload_of(4, rows(large), LIMITS) == workload_of(4, rows(slower(large, 3.0), small), LIMITS)
    assert (
        len(
            {
                workload_of(4, rows(large), LIMITS),
                workload_of(8, rows(large), LIMITS),
                workload_of(4, rows(Kernel(n_ranks=8)), LIMITS),
            }
        )
        == 3
    )


def test_decisions_are_a_file_that_people_can_edit(settings: Settings) -> None:
    decide("a", Decision(decision="pinned", reason="good week"), settings)
    decide("b", Decision(decision="rejected"), settings)
    decide("b", None, settings)
    assert read_decisions(settings) == {"a": Decision(decision="pinned", reason="good week")}
    decisions_path(settings).write_text('{"a": {"decision": "liked"}}')
    with pytest.raises(DecisionsError, match=r"baselines.json: a.decision: Input should be 'pinned' or 'rejected'"):
        read_decisions(settings)
