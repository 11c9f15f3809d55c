"""How likely findings are right, by how often those like them were."""

import pytest

from nixt_pipeline.diagnosis.confidence import Counts, confidence_of, key_of, read_counts, with_confidence
from nixt_pipeline.diagnosis.findings import Finding, Severity
from nixt_pipeline.diagnosis.wording.text import how_sure

SURE, UNSURE = key_of("hang", "P0", False), key_of("hang", "P2", True)


def test_findings_are_as_likely_right_as_others_of_their_class_and_few_of_them_as_others_of_their_kind() -> None:
    counts = {SURE: Counts(9, 10), UNSURE: Counts(1, 2)}
    # Of the kind: (10 + 4 x 1/2) / (12 + 4) = 3/4. Of the classes: (9 + 3) / (10 + 4), and (1 + 3) / (2 + 4).
    assert confidence_of(SURE, counts) == 0.86
    assert confidence_of(UNSURE, counts) == 0.67
    # Nothing is known of such a class but its kind.
    assert confidence_of(key_of("hang", "P1", False), counts) == 0.75
    assert confidence_of(key_of("mismatch", "P0", True), counts) is None


def test_counts_are_read_from_csv() -> None:
    assert read_counts("kind,severity,ambiguous,right,seen\nhang,P2,yes,1,2\n") == {UNSURE: Counts(1, 2)}


@pytest.mark.parametrize(("severity", "known"), [("P1", True), ("info", False)])
def test_what_blames_somebody_says_how_likely_it_is_right(severity: Severity, known: bool) -> None:
    late = Finding(
        kind="late-arrival", severity=severity, level="rank", evidence="e", counter_evidence="c", next_step="n"
    )
    finding = with_confidence(late)
    assert (finding.confidence is not None) is known
    assert finding.confidence is None or 0 < finding.confidence < 1
    assert ("confidence: no other candidate" in how_sure(finding)) is known
