"""The fleet's hosts, with hosts whose state is known."""

from typing import Any

import numpy as np
import pytest

from nixt_pipeline.fleet.hosts import judge_hosts
from nixt_pipeline.settings import Thresholds

LIMITS = Thresholds()
HOUR_US = 3_600_000_000


def run(number: int, *hosts: str, verdict: str = "findings") -> dict[str, Any]:
    """A run of one hour, on eight GPUs of each host."""
    return {
        "run": f"r{number:03}",
        "verdict": verdict,
        "host_names": list(hosts),
        "gpus": 8 * len(hosts),
        "duration_us": HOUR_US,
        "first_dump_us": number * HOUR_US,
        "last_dump_us": (number + 1) * HOUR_US,
    }


def finding(*hosts: str, kind: str = "late-arrival", lost_s: float = 60.0, severity: str = "P1") -> dict[str, Any]:
    return {
        "kind": kind,
        "severity": severity,
        "hosts": list(hosts),
        "ambiguous": len(hosts) > 1,
        "lost_rank_seconds": lost_s,
    }


def judged(runs: list[dict[str, Any]], findings: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    return {row["hostname"]: row for row in judge_hosts(runs, findings, LIMITS).to_pylist()}


def test_a_host_is_described_by_its_runs_and_findings() -> None:
    runs = [run(0, "a", "b"), run(1, "a", "b"), run(2, "a")]
    found = judged(
        runs,
        {
            "r000": [finding("a", lost_s=7200.0)],
            "r001": [finding("a", "b", kind="slow-transfer", lost_s=100.0), finding("a", severity="info")],
        },
    )
    a, b = found["a"], found["b"]
    assert (a["runs"], a["named"], a["named_alone"], a["late"], a["slow"], a["stopped"]) == (3, 2, 1, 1, 1, 0)
    assert a["lost_rank_seconds"] == 7250.0  # all of the first, half of the second
    assert a["rank_hours"] == 24.0
    # Of 16, 16 and 8 GPU-hours: what others lost is a share of their time, too.
    assert a["lost_share"] == pytest.approx(7250 / 3600 / 40)
    assert (a["last_named_run"], a["last_named_us"], a["last_seen_us"]) == ("r001", HOUR_US, 3 * HOUR_US)
    assert (b["named"], b["named_alone"], b["lost_rank_seconds"]) == (1, 0, 50.0)
    # Of the other host's 2 runs, 1 names it: (1 + 1) / (2 + 2) of 3 runs.
    assert a["expected"] == pytest.approx(1.5)


def test_no_more_than_all_of_the_time_is_lost() -> None:
    # Two findings, each of which holds up the whole job of 16 GPUs for its hour.
    findings = [finding("a", lost_s=50_000.0), finding("a", kind="slow-transfer", lost_s=50_000.0)]
    a = judged([run(0, "a", "b")], {"r000": findings})["a"]
    assert (a["lost_share"], a["lost_rank_seconds"]) == (1.0, 16 * 3600.0)


def fleet(seed: int, busy: int = 0) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """200 runs on 4 of 40 hosts, `h00` in `busy` of 10 besides; 3 % of the hosts of a run are named by chance, `bad`
    in half of its runs."""
    random = np.random.default_rng(seed)
    names = [f"h{number:02}" for number in range(39)] + ["bad"]
    runs, findings = [], {}
    for number in range(200):
        hosts = set(random.choice(names, 4, replace=False).tolist())
        hosts |= {"h00"} if number % 10 < busy else set()
        row = run(number, *sorted(hosts))
        named = [host for host in sorted(hosts) if random.random() < (0.5 if host == "bad" else 0.03)]
        runs.append(row)
        findings[row["run"]] = [finding(host) for host in named]
    return runs, findings


def test_the_bad_host_is_the_only_suspect() -> None:
    for seed in range(5):
        found = judged(*fleet(seed))
        assert [name for name, row in found.items() if row["suspect"]] == ["bad"]
        assert next(iter(found)) == "bad"


def test_a_host_that_runs_in_most_jobs_is_named_more_often_and_no_suspect() -> None:
    found = judged(*fleet(1, busy=9))
    assert found["h00"]["runs"] > 150
    assert found["h00"]["named"] >= 2
    assert not found["h00"]["suspect"]
    assert found["bad"]["suspect"]


def test_a_repaired_host_is_drained_no_more() -> None:
    runs = [run(number, "a", "b", "c", "d") for number in range(40)]
    findings = {f"r{number:03}": [finding("a")] for number in range(20)}
    a = judged(runs, findings)["a"]
    assert (a["suspect"], a["trend"]) == (False, "falling")
    still = judged(runs, {f"r{number:03}": [finding("a")] for number in range(20, 40)})["a"]
    assert (still["suspect"], still["trend"]) == (True, "rising")


def test_a_single_incident_in_a_healthy_fleet_is_no_proof() -> None:
    runs = [run(number, "a", "b", verdict="none-found") for number in range(200)]
    assert not judged(runs, {"r199": [finding("a")]})["a"]["suspect"]


def test_a_run_that_was_not_assessable_says_nothing_about_its_hosts() -> None:
    assert judged([run(0, "a", verdict="not-assessable")], {}) == {}
