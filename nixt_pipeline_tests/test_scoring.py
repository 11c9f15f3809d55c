"""What counts as a right answer in the evaluation of the diagnosis, and what as wrong blame."""

from dataclasses import replace
from typing import Any

import pytest

from evaluation.faults import Fault
from evaluation.labelled import MARKS, failures, put_into, summary
from evaluation.labelled_jobs import Label
from evaluation.scoring import Answer, Score, answer, blames_wrongly, score

SLOW_HOST = Fault(
    "slow compute host", "late-arrival", "host", "2x", ("a",), ("a-pid1", "a-pid2"), (), ("a",), 5_000_000
)
SLOW_GPU = replace(SLOW_HOST, name="slow GPU", level="rank", processes=("a-pid1",))
HANG = Fault("hang", "hang", "communicator", "", ("a",), ("a-pid1",), ("0x1",), ("a", "b"), 0, exact=False)
HANG = replace(HANG, members=("a-pid1", "b-pid3"))
SLOW_CARD = Fault("slow NIC host", "slow-transfer", "host", "2x", ("a",), (), (), ("a", "b"), 0, exact=False)
SKEW = Fault("clock skew", "clock-skew", "host", "2.5 s", ("a",), (), (), ("a",), 0)
SLOW_FABRIC = Fault("slow fabric", "fabric-slow", "fabric", "2x", (), (), (), (), 0)
RAIL = Fault("slow rail", "slow-transfer", "link", "2x", ("a", "b"), ("a-pid1", "b-pid3"), ("0x1",), ("a", "b"), 0)


def finding(kind: str, *hosts: str, **changes: Any) -> dict[str, Any]:
    plain = {"severity": "P1", "level": "host", "processes": [], "communicators": [], "ambiguous": False}
    return {"kind": kind, "hosts": list(hosts), "onset_us": None, **plain, **changes}


def label(*faults: Fault, timed: bool = True) -> Label:
    return Label("a scenario", 3, ("a", "b", "c"), (), faults, 0.25, timed, operations=100, records=90)


def scored(of: Label, *findings: dict[str, Any]) -> Score:
    return score(of, {"verdict": "findings", "findings": list(findings)})


@pytest.mark.parametrize(
    ("fault", "found", "expected"),
    [
        (SLOW_HOST, finding("late-arrival", "a"), Answer.FOUND),
        (SLOW_HOST, finding("late-arrival", "a", severity="P2"), Answer.FOUND),
        (SLOW_HOST, finding("late-arrival", "a", severity="info"), Answer.MISSED),
        (SLOW_HOST, finding("late-arrival", "b"), Answer.MISSED),
        (SLOW_HOST, finding("slow-transfer", "a"), Answer.MISSED),
        (SLOW_HOST, finding("late-arrival", "a", "b", ambiguous=True), Answer.AMBIGUOUS),
        (SLOW_HOST, finding("late-arrival", "a", ambiguous=True), Answer.AMBIGUOUS),
        (SLOW_GPU, finding("late-arrival", "a", level="rank", processes=["a-pid1"]), Answer.FOUND),
        (SLOW_GPU, finding("late-arrival", "a", level="rank", processes=["a-pid2"]), Answer.AMBIGUOUS),
        (SLOW_GPU, finding("late-arrival", "a"), Answer.AMBIGUOUS),
        # The records cannot tell a from b, and the answer says so; three hosts would be one too many.
        (SLOW_CARD, finding("slow-transfer", "a", "b", ambiguous=True), Answer.FOUND),
        (SLOW_CARD, finding("slow-transfer", "a", "b", "c", ambiguous=True), Answer.AMBIGUOUS),
        (SLOW_CARD, finding("slow-transfer", "b"), Answer.MISSED),
        (HANG, finding("hang", "a", "b", level="communicator", communicators=["0x1"]), Answer.FOUND),
        (HANG, finding("hang", "a", "b", level="communicator", communicators=["0x1", "0x2"]), Answer.AMBIGUOUS),
        (HANG, finding("hang", "a", "b", level="communicator", communicators=["0x2"]), Answer.MISSED),
        # Both ends of an edge, with all communicators that they are in.
        (HANG, finding("hang", "a", "b", processes=["a-pid1", "b-pid3"], communicators=["0x1", "0x2"]), Answer.FOUND),
        (HANG, finding("hang", "a", processes=["a-pid1", "a-pid2"], communicators=["0x1", "0x2"]), Answer.AMBIGUOUS),
        (SKEW, finding("clock-skew", "a", severity="info"), Answer.FOUND),
        (SKEW, finding("clock-skew", "b", severity="info"), Answer.MISSED),
        (SLOW_FABRIC, finding("fabric-slow", level="fabric"), Answer.FOUND),
        (RAIL, finding("slow-transfer", "a", "b", level="link", communicators=["0x1"]), Answer.FOUND),
        (RAIL, finding("slow-transfer", "a", "b", "c", level="host", communicators=[]), Answer.MISSED),
    ],
)
def test_an_answer_is_as_good_as_the_records_allow(fault: Fault, found: dict[str, Any], expected: Answer) -> None:
    assert answer(fault, found) is expected


def test_a_slow_fabric_answers_a_slow_card_only_where_no_host_can_be_exonerated() -> None:
    fabric = finding("fabric-slow", level="fabric")
    assert answer(SLOW_CARD, fabric) is Answer.MISSED
    assert answer(replace(SLOW_CARD, accepted_kinds=("fabric-slow",)), fabric) is Answer.FOUND


@pytest.mark.parametrize(
    ("of", "found", "wrong"),
    [
        (label(SLOW_HOST), finding("late-arrival", "a"), False),
        (label(SLOW_HOST), finding("slow-transfer", "a"), False),  # the wrong kind, but no innocent host
        (label(SLOW_HOST), finding("late-arrival", "b"), True),
        (label(SLOW_HOST), finding("late-arrival", "b", severity="P2"), False),
        (label(SLOW_HOST), finding("late-arrival", "a", "b"), True),
        (label(SLOW_HOST), finding("late-arrival", "a", "b", ambiguous=True), False),
        (label(SLOW_HOST), finding("late-arrival", "b", "c", ambiguous=True), True),
        (label(SLOW_HOST), finding("slow-transfer", "a", "b", level="communicator"), False),
        (label(SLOW_HOST), finding("clock-skew", "b"), False),
        (label(HANG), finding("process-silent", "b", level="rank"), False),  # one of those who may be missing
        (label(HANG), finding("process-silent", "c", level="rank"), True),
        (label(), finding("late-arrival", "a"), True),
        (label(), finding("fabric-slow", "a", "b", "c", level="fabric"), False),
    ],
)
def test_blame_is_wrong_when_an_innocent_host_is_named(of: Label, found: dict[str, Any], wrong: bool) -> None:
    assert blames_wrongly(of, found) is wrong


def test_a_score_takes_the_best_answer_and_counts_the_alarms_that_answer_nothing() -> None:
    right = finding("late-arrival", "a", onset_us=5_500_000)
    vague = finding("late-arrival", "a", "b", ambiguous=True, onset_us=1)
    result = scored(label(SLOW_HOST, HANG), vague, right, finding("slow-transfer", "c"), finding("record-loss"))
    assert result.answers == (Answer.FOUND, Answer.MISSED)
    assert result.onset_errors_s == (0.5, None)
    assert (result.alarms, result.right_alarms, result.wrong_blames) == (3, 2, 1)
    assert result.failed


def test_a_fault_in_a_job_without_gpu_times_may_be_missed() -> None:
    assert not scored(label(SLOW_HOST, timed=False)).failed
    assert scored(label(SLOW_HOST)).failed


def test_the_summary_counts_faulty_and_healthy_jobs() -> None:
    scores = [
        scored(label(SLOW_HOST), finding("late-arrival", "a", onset_us=5_250_000)),
        scored(label(SLOW_HOST)),
        scored(label(), finding("late-arrival", "a")),
    ]
    text = summary(scores)
    assert "2 faulty jobs with 2 faults: 1 found, 0 ambiguous, 1 missed; 0 wrong blames." in text
    assert "1 healthy jobs: 1 with a false alarm." in text
    assert "| slow compute host | 2x | exact | 10% | 25.0% | 2 | 50% | 0% | 50% | 100% | 0 | 0.25 |" in text
    assert "| a scenario | 10% | 1 | 1 | 1 | 0 |" in text


def test_failures_list_what_was_expected_and_what_came() -> None:
    text = failures([scored(label(SLOW_HOST), finding("late-arrival", "b")), scored(label())])
    assert text.count("## ") == 1
    assert "- expected: late-arrival/host 2x hosts=['a']" in text
    assert '- got: {"kind": "late-arrival", "hosts": ["b"]' in text


def test_the_tables_replace_what_is_between_the_marks_of_a_page(tmp_path: Any) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}old\n{MARKS[1]}after\n")
    put_into(page, "new")
    put_into(page, "newer")
    assert page.read_text() == f"before\n{MARKS[0]}\nnewer\n{MARKS[1]}after\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Any) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n")
    with pytest.raises(ValueError, match="lacks the lines"):
        put_into(page, "new")
    assert page.read_text() == "text\n"
