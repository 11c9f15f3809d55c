"""Counting how often findings are right, and whether they are as often as they say."""

from typing import Any

from evaluation.independent.calibration import as_csv, counts, reliability
from nixt_pipeline.diagnosis.confidence import Counts, key_of, read_counts
from nixt_pipeline_tests.evaluation.judged import finding, truth


def job(of: Any, *findings: dict[str, Any]) -> dict[str, Any]:
    return {"truth": of, "findings": list(findings)}


GUILTY, INNOCENT = ({"hosts": ["a"], "processes": [process]} for process in ("a-pid1", "a-pid0"))
JOBS = [
    job(truth(1), finding(**GUILTY, confidence=0.9), finding(**INNOCENT, severity="P2", confidence=0.6)),
    job(truth(1), finding(**GUILTY, confidence=0.86), finding(severity="info", confidence=None)),
    # Nobody is at fault.
    job(truth(), finding(**INNOCENT, confidence=0.9)),
    # The guilty one is among those of whom one is said to be it, which the log could tell better.
    job(truth(1), finding(processes=["a-pid0", "a-pid1"], ambiguous=True, confidence=0.97)),
]


def test_findings_are_counted_by_class_without_those_for_information() -> None:
    found = counts(JOBS)
    assert found == {
        key_of("late-arrival", "P1", False): Counts(2, 3),
        key_of("late-arrival", "P2", False): Counts(0, 1),
        key_of("late-arrival", "P1", True): Counts(1, 1),
    }
    assert read_counts(as_csv(found)) == found


def test_confidence_is_held_against_how_many_were_right() -> None:
    rows = [
        (begin, end, number, round(told, 3), round(right, 3)) for begin, end, number, told, right in reliability(JOBS)
    ]
    assert rows == [(0.5, 0.7, 1, 0.6, 0.0), (0.8, 0.9, 3, 0.887, 0.667), (0.95, 1.0, 1, 0.97, 1.0)]
