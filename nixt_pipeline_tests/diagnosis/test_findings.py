import json
from dataclasses import replace

import pytest

from nixt_pipeline.diagnosis import Diagnosis, Effect, Finding, RunCoverage
from nixt_pipeline.diagnosis.findings import REPLAYED, capped, ranked, severity_by_cost
from nixt_pipeline.diagnosis.results import findings_table
from nixt_pipeline.diagnosis.wording.text import as_markdown, as_text
from nixt_pipeline.quality.findings import judge_findings
from nixt_pipeline.settings import Thresholds

COVERAGE = RunCoverage(ranks_seen=4, ranks_expected=4, records=100, complete_cells=0.98765, usable_collectives=25)
LATE = Finding(
    kind="late-arrival",
    severity="P1",
    level="host",
    hosts=("gpu-126",),
    processes=("gpu-126-pid1",),
    onset_us=1_756_587_618_000_000,
    effect=Effect(0.22244, 1.286, 28.2756),
    evidence="It came last in 9 of 10 collectives.",
    counter_evidence="In 1 somebody else came last.",
    next_step="Look at its GPU clocks.",
)


def diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis("job", "findings" if findings else "none-found", COVERAGE, findings)


def test_the_json_has_the_keys_that_other_tools_parse() -> None:
    found = json.loads(json.dumps(diagnosis(LATE).to_json()))
    assert found["schema"] == 1
    assert (found["run"], found["verdict"]) == ("job", "findings")
    assert found["coverage"]["complete_cells"] == 0.9877
    (finding,) = found["findings"]
    assert list(finding) == [
        "kind", "severity", "level", "hosts", "processes", "ranks", "communicators", "ambiguous", "onset_us",
        "until_us", "effect", "evidence", "counter_evidence", "next_step", "place", "confidence",
    ]  # fmt: skip
    assert finding["effect"] == {"cost_share": 0.2224, "slowdown": 1.286, "lost_rank_seconds": 28.276}
    assert finding["until_us"] is None


def test_what_is_stored_is_read_as_what_was_written() -> None:
    written = diagnosis(LATE, Finding(**{**vars(LATE), "until_us": 1_756_587_700_000_000, "place": "DP Group 0"}))
    read = Diagnosis.from_json(json.loads(json.dumps(written.to_json())))
    assert read.to_json() == written.to_json()
    assert [finding.hosts for finding in read.findings] == [("gpu-126",), ("gpu-126",)]
    with pytest.raises(ValueError, match="severity"):
        Diagnosis.from_json(json.loads(json.dumps(written.to_json()).replace('"P1"', '"P9"')))


def test_urgent_findings_come_first_and_of_equal_ones_the_costliest() -> None:
    cheap = Finding(**{**vars(LATE), "hosts": ("gpu-1",), "effect": Effect(0.2, 1.2, 1.0)})
    hang = Finding(**{**vars(LATE), "kind": "hang", "severity": "P0", "effect": Effect()})
    assert ranked([cheap, LATE, hang]) == (hang, LATE, cheap)


def test_times_of_less_than_half_of_the_collectives_page_nobody_and_a_hang_is_no_matter_of_times() -> None:
    mostly_left_out = replace(COVERAGE, left_out={REPLAYED: 26})  # beside 25 that were compared
    half = replace(COVERAGE, left_out={REPLAYED: 25})
    hang = replace(LATE, kind="hang")
    told = [capped(finding, seen, Thresholds()) for finding in (LATE, hang) for seen in (mostly_left_out, half)]
    assert [finding.severity for finding in told] == ["P2", "P1", "P1", "P1"]


def test_severity_follows_the_share_of_time_lost_or_the_slowdown() -> None:
    limits = Thresholds()
    assert [severity_by_cost(share, 1.19, 1.2, limits) for share in (0.10, 0.099)] == ["P1", "P2"]
    assert severity_by_cost(0.01, 1.2, 1.2, limits) == "P1"


def test_a_finding_counts_for_its_own_severity_and_for_less_urgent_ones() -> None:
    assert diagnosis(LATE).at_least("P2") == (LATE,)
    assert diagnosis(LATE).at_least("P1") == (LATE,)
    assert diagnosis(LATE).at_least("P0") == ()
    assert diagnosis(LATE).worst == "P1"
    assert diagnosis().worst is None


def test_the_text_says_what_where_since_when_how_bad_how_sure_and_what_next() -> None:
    text = " ".join(as_text(diagnosis(LATE)).split())
    for part in (
        "job: gpu-126 keeps others waiting, costing 22.2 % of the time since 2025-08-30 21:00:18 UTC.",
        "4 of 4 ranks",
        "P1 (open a ticket) gpu-126 keeps others waiting",
        "2025-08-30 21:00:18 UTC, to the end of the log",
        "22.2 % of the time, 28.3 GPU-seconds, computes 1.29 times as long",
        "how sure: no other candidate in the log",
        "evidence: It came last in 9 of 10",
        "but: In 1 somebody else",
        "next: Look at its GPU clocks.",
    ):
        assert part in text
    assert "## P1: gpu-126 keeps others waiting" in as_markdown(diagnosis(LATE))


def test_an_ambiguous_finding_reads_as_one_of_several() -> None:
    one_of = Finding(**{**vars(LATE), "hosts": ("gpu-1", "gpu-2"), "ambiguous": True})
    assert "One of gpu-1, gpu-2 keeps others waiting" in as_text(diagnosis(one_of))


def test_nothing_found_and_not_assessable_read_differently() -> None:
    assert "Nothing found" in as_text(diagnosis())
    blind = Diagnosis("job", "not-assessable", COVERAGE, reason="only 3 collectives were recorded")
    assert "Not assessable: only 3 collectives were recorded. This says nothing about" in as_text(blind)


def test_the_table_has_a_row_for_each_finding() -> None:
    (row,) = findings_table(diagnosis(LATE)).to_pylist()
    assert (row["number"], row["hosts"], row["cost_share"]) == (1, ["gpu-126"], 0.2224)
    assert findings_table(diagnosis()).num_rows == 0


def failing(found: Diagnosis, **changes: object) -> set[str]:
    return {verdict.rule for verdict in judge_findings(found.to_json() | changes) if not verdict.passed}


def test_a_sound_diagnosis_passes_its_checks() -> None:
    assert failing(diagnosis(LATE)) == set()
    assert failing(diagnosis()) == set()


def test_a_finding_without_evidence_or_counter_evidence_fails() -> None:
    bare = Finding(**{**vars(LATE), "counter_evidence": ""})
    assert failing(diagnosis(bare)) == {"no_finding_without_evidence"}


def test_a_verdict_that_contradicts_its_findings_or_another_schema_fails() -> None:
    assert failing(diagnosis(LATE), verdict="none-found") == {"the_findings_keep_their_schema"}
    assert failing(diagnosis(LATE), schema=2) == {"the_findings_keep_their_schema"}


def test_healthy_without_a_single_collective_fails() -> None:
    blind = Diagnosis("job", "none-found", RunCoverage(0, 0, 0, None, 0))
    assert failing(blind) == {"the_verdict_says_what_it_rests_on"}
