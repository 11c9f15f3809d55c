"""A diagnosis in words: for a terminal in the middle of the night, as Markdown for a ticket, and for the report."""

import textwrap

from nixt_pipeline.diagnosis.findings import Diagnosis, Finding
from nixt_pipeline.diagnosis.wording.urgency import URGENCY, consequence
from nixt_pipeline.inert import markdown, shorten, visible
from nixt_pipeline.quantities import count, duration, listed, moment, number, percent, plural

_WIDTH = 100
# Names in a sentence, and characters of each: more than the longest name of a host without its domain (63), and a pid.
_MANY = 8
_NAME_CHARACTERS = 80

# What a finding says of the place it names, for one and for several places.
_TITLES = {
    "late-arrival": ("{} keeps others waiting", "{} keep others waiting"),
    "slow-transfer": ("Slow transfers: {}",) * 2,
    "fabric-slow": ("Slow network: {}",) * 2,
    "hang": ("Hang: {}",) * 2,
    "unfinished-step": ("Ended in the middle of a step: {}",) * 2,
    "process-silent": ("Log ends early: {}", "Logs end early: {}"),
    "mismatch": ("Ranks disagree: {}",) * 2,
    "imbalance": ("Uneven work: {}",) * 2,
    "record-loss": ("Records lost: {}",) * 2,
    "clock-skew": ("Clocks differ: {}",) * 2,
    "capture-gap": ("Gap in the log: {}",) * 2,
    "regression": ("Slower than before: {}",) * 2,
    "not-assessed": ("Could not be assessed: {}",) * 2,
}


def as_text(diagnosis: Diagnosis) -> str:
    """Plain text: what, where, since when, how bad, how sure, what to check next."""
    lines = [visible(line) for line in (f"{diagnosis.run}: {verdict_sentence(diagnosis)}", *_basis(diagnosis))]
    for position, finding in enumerate(diagnosis.findings, start=1):
        lines += ["", visible(f"{position}. {finding.severity} ({URGENCY[finding.severity]})  {title(finding)}")]
        for label, value in _parts(finding):
            lines += textwrap.wrap(
                visible(value),
                _WIDTH,
                initial_indent=f"   {label + ':':<12}",
                subsequent_indent=" " * 15,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def as_markdown(diagnosis: Diagnosis) -> str:
    """The same as Markdown."""
    lines = [f"# {markdown(diagnosis.run)}", "", markdown(verdict_sentence(diagnosis)), ""]
    lines += map(markdown, _basis(diagnosis))
    for finding in diagnosis.findings:
        lines += ["", f"## {finding.severity}: {markdown(title(finding))}", ""]
        lines += [f"- **{label}**: {markdown(value)}" for label, value in _parts(finding)]
    return "\n".join(lines)


def verdict_sentence(diagnosis: Diagnosis | None) -> str:
    """The verdict in a sentence; None for a run that was not diagnosed. Findings that only inform make none."""
    if diagnosis is None:
        return "This run has not been diagnosed."
    findings = diagnosis.findings
    if diagnosis.verdict == "findings":
        first = findings[0]
        costs = f", costing {percent(first.effect.cost_share)} of the time" if first.effect.cost_share else ""
        begun = f" since {moment(first.onset_us)}" if first.onset_us is not None else ""
        more = f" {plural(len(findings) - 1, 'more finding')} below." if len(findings) > 1 else ""
        return f"{title(first)}{costs}{begun}.{more}"
    notes = f" {plural(len(findings), 'note')} for information below." if findings else ""
    if diagnosis.verdict == "not-assessable":
        return f"Not assessable: {visible(diagnosis.reason)}. This says nothing about the job's health.{notes}"
    share = diagnosis.coverage.least_cost_share
    power = "" if share is None else f"; a rank that is late half of the time at a cost of {percent(share)} would"
    unjudged = f" But {visible(diagnosis.reason)}." if diagnosis.reason else ""
    return f"Nothing found: no host or process stands out in what was recorded{power}.{unjudged}{notes}"


def verdict_in_brief(diagnosis: Diagnosis | None) -> str | None:
    """The verdict for a table of runs: the most urgent severity with what and where, `none found`, `not assessable`."""
    if diagnosis is None:
        return None
    if diagnosis.verdict != "findings":
        return diagnosis.verdict.replace("-", " ")
    first, more = diagnosis.findings[0], len(diagnosis.findings) - 1
    return f"{first.severity} {first.kind}: {where(first)}" + (f" (and {more} more)" if more else "")


def title(finding: Finding) -> str:
    """What and where, in a line."""
    one, several = _TITLES[finding.kind]
    if finding.kind == "hang" and finding.until_us is not None:
        one = several = "Hang that is over: {}"
    text = (one if len(_named(finding)) == 1 or finding.ambiguous else several).format(where(finding))
    return text[:1].upper() + text[1:] if text.startswith(("one of ", "a rank ")) else text


def where(finding: Finding) -> str:
    """Who is named, by the level of the finding; the first few of many."""
    names = _named(finding)
    if finding.level == "fabric":
        return f"the network, or one of {_listed(names)}" if finding.hosts else "the network as a whole"
    if finding.place:
        return visible(finding.place)
    if not (finding.hosts or finding.processes):
        if not names:
            return "the run as a whole"
        if len(names) > _MANY:
            return f"{count(len(names))} communicators"
    shown = _listed(names)
    return f"one of {shown}" if finding.ambiguous and len(names) > 1 else shown


def _named(finding: Finding) -> tuple[str, ...]:
    by_process = finding.level != "host" and finding.processes
    return finding.processes if by_process else finding.hosts or finding.communicators


def _listed(names: tuple[str, ...]) -> str:
    return listed([shorten(name, _NAME_CHARACTERS) for name in names], _MANY)


def _parts(finding: Finding) -> list[tuple[str, str]]:
    about_records = finding.severity == "info"
    return [
        *([] if about_records else [("since", since(finding)), ("how bad", how_bad(finding))]),
        *([] if about_records else [("how sure", how_sure(finding))]),
        ("evidence", finding.evidence),
        ("but", finding.counter_evidence),
        ("next", finding.next_step),
    ]


def how_sure(finding: Finding) -> str:
    """How likely it is that what is named is at fault, and how far the log narrows it down to it."""
    told = _how_far(finding)
    return told if finding.confidence is None else f"{finding.confidence:.0%} confidence: {told}"


def _how_far(finding: Finding) -> str:
    if finding.level == "fabric" and finding.hosts:
        what = f"{len(finding.processes)} processes" if finding.processes else f"{len(finding.hosts)} hosts"
        return f"the network, or one of {what} that every path crosses; the log cannot tell which"
    if finding.level in ("fabric", "run"):
        return "no single host or process stands out; it concerns all"
    if finding.ambiguous:
        named = len(_named(finding))
        between = ", or what is between them" if finding.place else ""
        return (
            f"one of {named}{between}; the log cannot tell which" if named > 1 else "what exactly, the log cannot tell"
        )
    doubt = "; its cost or certainty is too low for a ticket" if finding.severity == "P2" else ""
    return f"no other candidate in the log{doubt}"


def since(finding: Finding, start_us: int | None = None) -> str:
    """When it began and whether it ended; with `start_us`, the first moment of the log, also how far into it."""
    begin = "the start of the log"
    if finding.onset_us is not None:
        begin = moment(finding.onset_us)
        if start_us is not None and finding.onset_us > start_us:
            begin += f", {duration(finding.onset_us - start_us)} into the log"
    if finding.until_us is not None:
        return f"{begin}, until {moment(finding.until_us)}"
    return begin if finding.kind == "hang" else f"{begin}, to the end of the log"


def how_bad(finding: Finding) -> str:
    """The effect in words."""
    effect = finding.effect
    parts = []
    if effect.cost_share is not None:
        parts.append(f"{percent(effect.cost_share)} of the time")
    if effect.lost_rank_seconds is not None:
        parts.append(f"{number(effect.lost_rank_seconds)} GPU-seconds")
    if effect.slowdown is not None:
        late = finding.kind == "late-arrival"
        parts.append(f"{'computes ' if late else ''}{effect.slowdown:.3g} times as {'long' if late else 'slow'}")
    return ", ".join(parts) or consequence(finding.kind, finding.severity, finding.until_us)


def _basis(diagnosis: Diagnosis) -> list[str]:
    """What the verdict rests on, and what could not be looked at."""
    coverage = diagnosis.coverage
    worst = ""
    if coverage.lowest_capture_rate is not None and coverage.lowest_capture_rate < (coverage.capture_rate or 0) - 0.005:
        worst = f" (worst process {percent(coverage.lowest_capture_rate)})"
    lines = [
        f"based on {coverage.usable_collectives:,} collectives: {_share(coverage.capture_rate)} of their records exist"
        f"{worst}, {_share(coverage.complete_cells)} of the collectives are complete;"
        f" {coverage.ranks_seen} of {coverage.ranks_expected} ranks left records{_by_launch(coverage.ranks_by_launch)}"
    ]
    if coverage.left_out:
        reasons = ", ".join(f"{cells:,} that {reason}" for reason, cells in coverage.left_out.items())
        lines.append(f"left out: {reasons}")
    if diagnosis.reason and diagnosis.verdict == "findings":
        whole = not diagnosis.reason.startswith("whether ")
        lines.append(f"{'lateness and transfers could not be assessed: ' if whole else ''}{diagnosis.reason}")
    return lines


def _by_launch(ranks: tuple[int, ...]) -> str:
    """How many ranks each launch has, for a number that adds them up; empty for one launch."""
    if len(ranks) < 2:
        return ""
    if len(set(ranks)) == 1:
        return f": {ranks[0]} in each of {len(ranks)} launches"
    shown = ", ".join(map(str, ranks[:_MANY])) + (", ..." if len(ranks) > _MANY else "")
    return f": {shown} in the {len(ranks)} launches"


def _share(value: float | None) -> str:
    return "none" if value is None else percent(value)
