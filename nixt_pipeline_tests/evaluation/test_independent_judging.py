"""Holding findings against the truth of a job of the second simulation."""

from typing import Any

import pytest

from evaluation.independent.judging import AS_WELL_AS_POSSIBLE, LESS_PRECISELY, MISSED, NOT_ASKED, judge, table
from nixt_pipeline_tests.evaluation.judged import finding, truth


def judged(of: Any, *findings: dict[str, Any]) -> Any:
    return judge(of, {"verdict": "findings", "findings": list(findings)})


@pytest.mark.parametrize(
    ("of", "found", "answer", "innocents"),
    [
        (truth(1), finding(hosts=["a"], processes=["a-pid1"]), AS_WELL_AS_POSSIBLE, 0),
        (truth(1), finding(hosts=["a"], level="host"), LESS_PRECISELY, 0),
        (truth(1), finding(hosts=["a"], processes=["a-pid0"]), MISSED, 1),
        (truth(1), finding(hosts=["a"], processes=["a-pid1"], severity="info"), MISSED, 0),
        (truth(1), finding(kind="slow-transfer", hosts=["a"], level="host"), MISSED, 0),
        (truth(1), finding(hosts=["a", "b"], level="host", ambiguous=True), LESS_PRECISELY, 0),
        (truth(1), finding(hosts=["a", "b"], level="host"), LESS_PRECISELY, 1),
        # A whole host is late, and one of its GPUs is named.
        (truth(0, 1), finding(hosts=["a"], processes=["a-pid1"]), LESS_PRECISELY, 0),
        (truth(0, 1), finding(hosts=["a"], level="host"), AS_WELL_AS_POSSIBLE, 0),
        # The log leaves open which of two it is.
        (truth(1, possible=(1, 3), level="set"), finding(processes=["a-pid1", "b-pid3"]), AS_WELL_AS_POSSIBLE, 0),
        (truth(1, possible=(1, 3), level="set"), finding(communicators=["0x1"], level="link"), AS_WELL_AS_POSSIBLE, 0),
        (truth(1), finding(communicators=["0x1"], level="link"), LESS_PRECISELY, 0),
        (truth(0), finding(communicators=["0x1"], level="link"), MISSED, 1),
        # What hardly costs anything, or cannot be seen, need not be told.
        (truth(1, cost=0.004), finding(hosts=["b"], level="host"), NOT_ASKED, 1),
        (truth(1, level="none"), finding(kind="fabric-slow", level="fabric"), NOT_ASKED, 0),
        # That it is one of several, of which some left no log, is all that can be said.
        (
            truth(1, level="none"),
            finding(communicators=["0x1"], level="communicator", ambiguous=True),
            AS_WELL_AS_POSSIBLE,
            0,
        ),
        # A slow fabric is nobody's fault, and a host beside it is not late; nor do other groups disagree.
        (truth(0, 1, 2, 3, level="run", link="fabric"), finding(hosts=["a"], level="host"), AS_WELL_AS_POSSIBLE, 0),
        (truth(0, 1, 2, 3, link="fabric", answers=["fabric-slow"]), finding(hosts=["a"], level="host"), MISSED, 1),
        (truth(1, answers=["mismatch"]), finding(kind="mismatch", communicators=["0x2"], level="link"), MISSED, 1),
        # A job that was killed looks like one that hung: half an answer.
        (truth(1, answers=["hang"]), finding(kind="unfinished-step", severity="info"), LESS_PRECISELY, 0),
        (truth(1), finding(kind="unfinished-step", severity="info"), MISSED, 0),
        # No fault at all: whoever is named is innocent.
        (truth(), finding(hosts=["a"], level="host"), None, 1),
        (truth(), finding(kind="fabric-slow", level="fabric"), None, 0),
    ],
)
def test_an_answer_is_as_good_as_whom_it_names(
    of: Any, found: dict[str, Any], answer: str | None, innocents: int
) -> None:
    entry = judged(of, found)
    assert (entry.answer, entry.innocents) == (answer, innocents)


def test_a_gpu_of_a_process_with_several_is_named_by_its_rank() -> None:
    of = truth(1)
    for gpu in of["gpus"][:2]:
        gpu["process"] = "a-pid7"
    assert judged(of, finding(processes=["a-pid7 rank 1"])).answer == AS_WELL_AS_POSSIBLE
    assert judged(of, finding(processes=["a-pid7 rank 0"])).answer == MISSED
    assert judged(of, finding(processes=["a-pid7"])).answer == LESS_PRECISELY


def test_the_table_compares_the_costs() -> None:
    entry = judged(truth(1), finding(hosts=["a"], processes=["a-pid1"]))
    healthy = judged({**truth(), "kind": "healthy"}, finding(hosts=["a"], level="host"))
    rows = table([entry, healthy]).splitlines()
    # Told are 30 % of the 50 s since its onset, true are 20 % of 100 s.
    assert "| late-gpu | 1 | 1 |  |  |  |  | 0.75 | 0.75 |" in rows
    assert "| healthy | 1 | 1 | 1 |" in rows
