from pathlib import Path

from nixt_pipeline.diagnosis.wording.urgency import CONSEQUENCES, URGENCY, consequence

DOCS = Path(__file__).parents[3] / "docs" / "diagnosis.md"


def test_a_hang_that_is_over_is_told_in_the_past() -> None:
    assert consequence("hang", "P0", None) == "the job is stuck"
    for severity in URGENCY:
        told = consequence("hang", severity, 1_756_587_660_000_000)
        assert told == "the job stalled until 2025-08-30 21:01:00 UTC, then went on"


def test_only_what_needs_action_now_does_not_go_on() -> None:
    hangs = {severity: consequence("hang", severity, None) for severity in CONSEQUENCES["hang"]}
    assert [severity for severity, words in hangs.items() if words == "the job is stuck"] == ["P0"]
    assert consequence("late-arrival", "P1", None) == "not measurable"


def test_the_documentation_uses_the_same_words() -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for severity, words in URGENCY.items():
        assert any(row.startswith(f"| {severity} | {words} |") for row in rows)
    for severity, words in CONSEQUENCES["hang"].items():
        assert f"| {severity} | {words} |" in rows
