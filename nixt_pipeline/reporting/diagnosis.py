"""The first screen of a report: the verdict in a sentence, and a card for each finding. It repeats what the diagnosis
says and adds nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from nixt_pipeline.diagnosis.text import certainty
from nixt_pipeline.diagnosis.urgency import URGENCY as WORDS
from nixt_pipeline.diagnosis.urgency import consequence
from nixt_pipeline.reporting.anchors import finding_anchor, host_anchor
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.text import count, duration, moment, number, percent, plain, plural, sentence, shorten, utc
from nixt_pipeline.reporting.views import Card, Fact, Link, SectionView, Spec, table_view

Finding = Mapping[str, Any]

# Cards that a person still reads; the table after them has all.
SHOWN_CARDS = 6
# Rows of the table of all findings; the download has all.
SHOWN_FINDINGS = 200
_NAMES_SHOWN = 4
_NAME_CHARACTERS = 40

# What a finding says of the place it names, for one and for several places.
_TITLES = {
    "late-arrival": ("{} keeps others waiting", "{} keep others waiting"),
    "slow-transfer": ("Slow transfers: {}", "Slow transfers: {}"),
    "fabric-slow": ("Slow network: {}", "Slow network: {}"),
    "hang": ("Hang: {}", "Hang: {}"),
    "unfinished-step": ("Ended in the middle of a step: {}", "Ended in the middle of a step: {}"),
    "process-silent": ("Log ends early: {}", "Logs end early: {}"),
    "mismatch": ("Ranks disagree: {}", "Ranks disagree: {}"),
    "imbalance": ("Uneven work: {}", "Uneven work: {}"),
    "record-loss": ("Records lost: {}", "Records lost: {}"),
    "clock-skew": ("Clocks differ: {}", "Clocks differ: {}"),
    "capture-gap": ("Gap in the log: {}", "Gap in the log: {}"),
    "regression": ("Slower than before: {}", "Slower than before: {}"),
    "not-assessed": ("Could not be assessed: {}", "Could not be assessed: {}"),
}
URGENCY = {severity: words if severity == "info" else f"{severity} {words}" for severity, words in WORDS.items()}


def verdict_sentence(diagnosis: Mapping[str, Any] | None) -> str:
    """The verdict in a sentence, for the top of the page and for lists of runs. Findings that only inform make none."""
    if diagnosis is None:
        return "This run has not been diagnosed."
    findings = diagnosis["findings"]
    if diagnosis["verdict"] == "findings":
        first = findings[0]
        cost = first["effect"]["cost_share"]
        costs = f", costing {percent(cost)} of the time" if cost else ""
        since = f" since {moment(first['onset_us'])}" if first["onset_us"] is not None else ""
        more = f" {plural(len(findings) - 1, 'more finding')} below." if len(findings) > 1 else ""
        return f"{title(first)}{costs}{since}.{more}"
    notes = f" {plural(len(findings), 'note')} for information below." if findings else ""
    if diagnosis["verdict"] == "not-assessable":
        return f"Not assessable: {plain(diagnosis['reason'])}. This says nothing about the job's health.{notes}"
    unjudged = f" But {plain(diagnosis['reason'])}." if diagnosis["reason"] else ""
    return f"Nothing found: no host or process stands out in what was recorded.{unjudged}{notes}"


def verdict_class(diagnosis: Mapping[str, Any] | None) -> str:
    """The most urgent severity, or the verdict: what the page colours the sentence by."""
    if diagnosis is None:
        return "not-diagnosed"
    found = diagnosis["verdict"] == "findings"
    return str(diagnosis["findings"][0]["severity"] if found else diagnosis["verdict"])


def verdict_words(diagnosis: Mapping[str, Any] | None) -> str | None:
    """The verdict for a table of runs: the most urgent severity with what and where, `none found`, `not assessable`."""
    if diagnosis is None:
        return None
    if diagnosis["verdict"] != "findings":
        return {"none-found": "none found", "not-assessable": "not assessable"}.get(diagnosis["verdict"])
    first = diagnosis["findings"][0]
    more = len(diagnosis["findings"]) - 1
    return f"{first['severity']} {first['kind']}: {where(first)}" + (f" (and {more} more)" if more else "")


def cards(content: RunContent) -> tuple[Card, ...]:
    """A card for each of the most urgent findings."""
    findings = _findings(content)[:SHOWN_CARDS]
    start_us = min(filter(None, content.values("processes", "first_dump_us")), default=None)
    shown_hosts = set(content.values("hosts", "hostname"))
    return tuple(
        Card(
            anchor=anchor,
            severity=finding["severity"],
            urgency=URGENCY.get(finding["severity"], str(finding["severity"])),
            title=title(finding),
            facts=_card_facts(finding, start_us),
            links=tuple(
                Link(shorten(host, _NAME_CHARACTERS), f"#{host_anchor(host)}")
                for host in finding["hosts"][:_NAMES_SHOWN]
                if host in shown_hosts
            ),
        )
        for anchor, finding in zip(finding_anchors(findings), findings, strict=True)
    )


def finding_anchors(findings: Sequence[Finding]) -> list[str]:
    """The ids of findings in the page; the second of two that are alike gets `-2`, and so on."""
    seen: dict[str, int] = {}
    anchors = []
    for finding in findings:
        anchor = finding_anchor(finding)
        seen[anchor] = seen.get(anchor, 0) + 1
        anchors.append(anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}")
    return anchors


def all_findings_section(content: RunContent, limit: int = SHOWN_FINDINGS) -> SectionView | None:
    """A table of the first `limit` findings where there are more than cards, with the number of all."""
    findings = _findings(content)
    if len(findings) <= SHOWN_CARDS:
        return None
    rows = [{**finding, **finding["effect"], "where": where(finding)} for finding in findings[:limit]]
    columns = (
        Spec("Severity", "severity"),
        Spec("What", "kind"),
        Spec("Where", "where"),
        Spec("Since", "onset_us", lambda onset: "start of the log" if onset is None else utc(onset)),
        Spec("Until", "until_us", lambda until: "end of the log" if until is None else utc(until)),
        Spec("Cost, share of time", "cost_share", percent, numeric=True),
        Spec("Lost GPU-seconds", "lost_rank_seconds", number, numeric=True),
        Spec("Evidence", "evidence"),
        Spec("What speaks against it", "counter_evidence"),
        Spec("Check next", "next_step"),
    )
    table = table_view("By urgency and cost", rows, columns, total=len(findings), source="findings")
    return SectionView("all-findings", "All findings", tables=(table,))


def _findings(content: RunContent) -> list[Finding]:
    return list(content.diagnosis["findings"]) if content.diagnosis else []


def title(finding: Finding) -> str:
    """What and where, in a line."""
    one, several = _TITLES.get(finding["kind"], (f"{plain(finding['kind'])}: {{}}",) * 2)
    if finding["kind"] == "hang" and finding["until_us"] is not None:
        one = several = "Hang that is over: {}"
    named = len(_names(finding))
    text = (one if named == 1 or finding["ambiguous"] else several).format(where(finding))
    return text[:1].upper() + text[1:] if text.startswith("one of") else text


def where(finding: Finding) -> str:
    """Who is named, by the level of the finding; the first few of many."""
    names = _names(finding)
    if finding["level"] == "fabric":
        return f"the network, or one of {_listed(names)}" if finding["hosts"] else "the network as a whole"
    if not finding["hosts"] and not finding["processes"]:
        if finding.get("place"):
            return plain(finding["place"])
        if not names:
            return "the run as a whole"
        if len(names) > _NAMES_SHOWN:
            return f"{count(len(names))} communicators"
    shown = _listed(names)
    return f"one of {shown}" if finding["ambiguous"] and len(names) > 1 else shown


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(shorten(plain(name), _NAME_CHARACTERS) for name in names[:_NAMES_SHOWN])
    return shown + (f" and {count(len(names) - _NAMES_SHOWN)} more" if len(names) > _NAMES_SHOWN else "")


def _names(finding: Finding) -> list[str]:
    by_process = finding["level"] in ("rank", "communicator") and finding["processes"]
    return list(finding["processes"] if by_process else finding["hosts"] or finding["communicators"])


def _card_facts(finding: Finding, start_us: int | None) -> tuple[Fact, ...]:
    return (
        Fact("Where", f"{where(finding)} ({finding['level']})"),
        Fact("Since", _since(finding, start_us)),
        Fact("Cost", _cost(finding)),
        Fact("How sure", _certainty(finding)),
        Fact("Next", plain(finding["next_step"])),
        Fact("Evidence", plain(finding["evidence"])),
        Fact("But", plain(finding["counter_evidence"])),
    )


def _since(finding: Finding, start_us: int | None) -> str:
    begin = "the start of the log"
    if finding["onset_us"] is not None:
        begin = moment(finding["onset_us"])
        if start_us is not None and finding["onset_us"] > start_us:
            begin += f", {duration(finding['onset_us'] - start_us)} into the log"
    if finding["until_us"] is not None:
        return f"{begin}, until {moment(finding['until_us'])}"
    return begin if finding["kind"] == "hang" else f"{begin}, to its end"


def _cost(finding: Finding) -> str:
    effect = finding["effect"]
    parts = []
    if effect["cost_share"] is not None:
        parts.append(f"{percent(effect['cost_share'])} of the time")
    if effect["lost_rank_seconds"] is not None:
        parts.append(f"{number(effect['lost_rank_seconds'])} GPU-seconds")
    if effect["slowdown"] is not None and finding["kind"] != "late-arrival":
        parts.append(f"{effect['slowdown']:.2g} times as slow")
    return ", ".join(parts) or consequence(finding["kind"], finding["severity"], finding["until_us"])


def _certainty(finding: Finding) -> str:
    """How far the log narrows it down."""
    words = certainty(finding["level"], finding["severity"], finding["ambiguous"], _names(finding), finding["hosts"])
    return f"{sentence(words)}."
