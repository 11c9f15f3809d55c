"""The first screen of a report: the verdict in a sentence, and a card for each finding. It repeats what the diagnosis
says and adds nothing."""

from collections.abc import Sequence
from dataclasses import asdict

from nixt_pipeline.diagnosis.findings import Diagnosis, Finding
from nixt_pipeline.diagnosis.wording.text import how_bad, how_sure, since, title, where
from nixt_pipeline.diagnosis.wording.urgency import URGENCY as WORDS
from nixt_pipeline.inert import shorten, visible
from nixt_pipeline.reporting.anchors import finding_anchor, host_anchor
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.text import numbered, sentence
from nixt_pipeline.reporting.views import Card, Fact, Link, SectionView, table_view

# Cards that a person still reads; the table after them has all.
SHOWN_CARDS = 6
# Rows of the table of all findings; the download has all.
SHOWN_FINDINGS = 200
_NAMES_SHOWN = 4
_NAME_CHARACTERS = 40

URGENCY = {severity: words if severity == "info" else f"{severity} {words}" for severity, words in WORDS.items()}


def verdict_class(diagnosis: Diagnosis | None) -> str:
    """The most urgent severity, or the verdict: what the page colours the sentence by."""
    if diagnosis is None:
        return "not-diagnosed"
    return diagnosis.findings[0].severity if diagnosis.verdict == "findings" else diagnosis.verdict


def cards(content: RunContent) -> tuple[Card, ...]:
    """A card for each of the most urgent findings."""
    findings = _findings(content)[:SHOWN_CARDS]
    start_us = min(filter(None, content.values("processes", "first_dump_us")), default=None)
    shown_hosts = set(content.values("hosts", "hostname"))
    return tuple(
        Card(
            anchor=anchor,
            severity=finding.severity,
            urgency=URGENCY[finding.severity],
            title=title(finding),
            facts=_card_facts(finding, start_us),
            links=tuple(
                Link(shorten(host, _NAME_CHARACTERS), f"#{host_anchor(host)}")
                for host in finding.hosts[:_NAMES_SHOWN]
                if host in shown_hosts
            ),
        )
        for anchor, finding in zip(finding_anchors(findings), findings, strict=True)
    )


def finding_anchors(findings: Sequence[Finding]) -> list[str]:
    """The ids of findings in the page; the second of two equal ones gets `-2`, and so on."""
    return numbered(map(finding_anchor, findings), "-{}")


def all_findings_section(content: RunContent, limit: int = SHOWN_FINDINGS) -> SectionView | None:
    """A table of the first `limit` findings where there are more than cards, with the number of all."""
    findings = _findings(content)
    if len(findings) <= SHOWN_CARDS:
        return None
    rows = [{**asdict(finding), **asdict(finding.effect), "where": where(finding)} for finding in findings[:limit]]
    columns = columns_of(
        "severity kind where onset_us until_us cost_share lost_rank_seconds evidence counter_evidence next_step",
        kind="What",
        lost_rank_seconds="Lost GPU-seconds",
    )
    table = table_view("By urgency and cost", rows, columns, total=len(findings), source="findings")
    return SectionView("all-findings", "All findings", tables=(table,))


def _findings(content: RunContent) -> tuple[Finding, ...]:
    return content.diagnosis.findings if content.diagnosis else ()


def _card_facts(finding: Finding, start_us: int | None) -> tuple[Fact, ...]:
    return (
        Fact("Where", f"{where(finding)} ({finding.level})"),
        Fact("Since", since(finding, start_us)),
        Fact("Cost", how_bad(finding)),
        Fact("How sure", f"{sentence(how_sure(finding))}."),
        Fact("Next", visible(finding.next_step)),
        Fact("Evidence", visible(finding.evidence)),
        Fact("But", visible(finding.counter_evidence)),
    )
