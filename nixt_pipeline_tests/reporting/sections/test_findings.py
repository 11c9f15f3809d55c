import pytest

from nixt_pipeline.diagnosis import Diagnosis
from nixt_pipeline.diagnosis.wording.text import verdict_in_brief, verdict_sentence
from nixt_pipeline.reporting.report import report_html
from nixt_pipeline.reporting.sections.findings import all_findings_section, cards, verdict_class
from nixt_pipeline_tests.reporting import examples
from nixt_pipeline_tests.reporting.examples import diagnosis, finding


def test_the_verdict_is_a_sentence_with_what_where_cost_and_onset() -> None:
    found = diagnosis(finding(), finding(kind="clock-skew", severity="info"))
    assert verdict_sentence(found) == (
        "Slow transfers: gpu-1, costing 22 % of the time since 2025-08-30 20:20:08 UTC. 1 more finding below."
    )
    assert verdict_class(found) == "P1"


@pytest.mark.parametrize(
    ("found", "sentence", "colour"),
    [
        (diagnosis(), "Nothing found: no host or process stands out in what was recorded.", "none-found"),
        (
            diagnosis(verdict="not-assessable", reason="too few collectives"),
            "Not assessable: too few collectives. This says nothing about the job's health.",
            "not-assessable",
        ),
        (None, "This run has not been diagnosed.", "not-diagnosed"),
    ],
)
def test_a_run_without_findings_says_what_that_means(found: Diagnosis | None, sentence: str, colour: str) -> None:
    assert (verdict_sentence(found), verdict_class(found)) == (sentence, colour)


def test_findings_that_only_inform_make_no_verdict() -> None:
    found = diagnosis(finding(kind="clock-skew", severity="info"), verdict="none-found")
    assert verdict_sentence(found).endswith("in what was recorded. 1 note for information below.")
    assert (verdict_class(found), verdict_in_brief(found)) == ("none-found", "none found")
    html = report_html(examples.content(tables=dict.fromkeys(examples.READINGS), diagnosis=found))
    assert html.index("Nothing to do") < html.index("Clocks differ: gpu-1")


def test_a_card_says_what_where_since_when_cost_confidence_and_next_step() -> None:
    (card,) = cards(examples.content(diagnosis=diagnosis(finding())))
    assert (card.title, card.urgency) == ("Slow transfers: gpu-1", "P1 open a ticket")
    assert [(fact.label, fact.value) for fact in card.facts] == [
        ("Where", "gpu-1 (host)"),
        ("Since", "2025-08-30 20:20:08 UTC, 2 s into the log, to the end of the log"),
        ("Cost", "22 % of the time, 69 GPU-seconds, 1.6 times as slow"),
        ("How sure", "No other candidate in the log."),
        ("Next", "Check the network card."),
        ("Evidence", "Transfers take longer."),
        ("But", "Nothing speaks against it."),
    ]
    assert [(link.text, link.target) for link in card.links] == [("gpu-1", "#host-gpu-1")]


def test_an_ambiguous_finding_blames_nobody_alone() -> None:
    hang = finding(
        kind="hang",
        severity="P0",
        level="communicator",
        hosts=["a", "b"],
        processes=[f"a-pid{number}" for number in range(6)],
        ambiguous=True,
        effect={"cost_share": None, "slowdown": None, "lost_rank_seconds": None},
    )
    (card,) = cards(examples.content(diagnosis=diagnosis(hang)))
    facts = {fact.label: fact.value for fact in card.facts}
    assert card.title == "Hang: one of a-pid0, a-pid1, a-pid2, a-pid3, a-pid4, a-pid5"
    assert facts["How sure"] == "One of 6; the log cannot tell which."
    assert facts["Cost"] == "the job is stuck"
    assert facts["Since"].endswith("into the log")


def test_of_many_findings_the_first_are_cards_and_all_are_in_a_table() -> None:
    content = examples.content(diagnosis=diagnosis(*(finding(hosts=[f"gpu-{number}"]) for number in range(40))))
    assert len(cards(content)) == 6
    section = all_findings_section(content)
    assert section is not None and len(section.tables[0].rows) == 40
    cut = all_findings_section(content, limit=10)
    assert cut is not None and (len(cut.tables[0].rows), cut.tables[0].total) == (10, 40)
    assert all_findings_section(examples.content(diagnosis=diagnosis(finding()))) is None


def test_findings_that_are_alike_have_different_anchors() -> None:
    found = cards(examples.content(diagnosis=diagnosis(finding(), finding(onset_us=None))))
    assert [card.anchor for card in found] == ["finding-slow-transfer-gpu-1", "finding-slow-transfer-gpu-1-2"]


def test_the_verdict_fits_a_table_of_runs() -> None:
    assert verdict_in_brief(diagnosis(finding(), finding())) == "P1 slow-transfer: gpu-1 (and 1 more)"
    assert verdict_in_brief(diagnosis()) == "none found"
    assert verdict_in_brief(None) is None


def test_a_path_that_names_no_host_is_told_by_its_communicator_and_members_in_the_same_words_as_elsewhere() -> None:
    place = "DP Group 3 (gpu-1-pid7, gpu-2-pid7: process 3 of each host)"
    path = finding(level="communicator", hosts=[], ambiguous=True, place=place)
    (card,) = cards(examples.content(diagnosis=diagnosis(path)))
    facts = {fact.label: fact.value for fact in card.facts}
    assert card.title == f"Slow transfers: {place}"
    assert facts["How sure"] == "What exactly, the log cannot tell."
