"""A diagnosis in words, for a terminal in the middle of the night, and as Markdown for a ticket."""

import textwrap
from collections.abc import Collection

from nixt_pipeline.diagnosis.findings import SEVERITIES, Diagnosis, Finding
from nixt_pipeline.diagnosis.urgency import URGENCY, consequence, utc
from nixt_pipeline.inert import markdown, visible

_WIDTH = 100
_MANY = 8

_TITLES = {
    "late-arrival": "late: others wait for it",
    "slow-transfer": "slow transfers",
    "fabric-slow": "all transfers between hosts are slow",
    "hang": "hang",
    "unfinished-step": "ended in the middle of a step",
    "process-silent": "its log ends before the job does",
    "mismatch": "ranks disagree",
    "regression": "slower than earlier runs of the same work",
    "imbalance": "uneven work, nobody at fault",
    "record-loss": "records are missing",
    "capture-gap": "some processes were hardly recorded",
    "clock-skew": "its clock is off",
    "not-assessed": "could not be assessed",
}


def as_text(diagnosis: Diagnosis) -> str:
    """Plain text: what, where, since when, how bad, how sure, what to check next."""
    lines = [visible(line) for line in (f"{diagnosis.run}: {verdict_line(diagnosis)}", *_basis(diagnosis))]
    for number, finding in enumerate(diagnosis.findings, start=1):
        lines += ["", visible(f"{number}. {finding.severity} ({URGENCY[finding.severity]})  {headline(finding)}")]
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
    lines = [f"# {markdown(diagnosis.run)}", "", markdown(verdict_line(diagnosis)), ""]
    lines += map(markdown, _basis(diagnosis))
    for finding in diagnosis.findings:
        lines += ["", f"## {finding.severity}: {markdown(headline(finding))}", ""]
        lines += [f"- **{label}**: {markdown(value)}" for label, value in _parts(finding)]
    return "\n".join(lines)


def verdict_line(diagnosis: Diagnosis) -> str:
    """The verdict in a sentence."""
    if diagnosis.verdict == "not-assessable":
        return f"NOT ASSESSABLE: {diagnosis.reason}. This says nothing about the job's health."
    if diagnosis.verdict == "none-found":
        share = diagnosis.coverage.least_cost_share
        power = "" if share is None else f"; one that is late in half of it at a cost of {share:.0%} of the time would"
        unjudged = f" But {diagnosis.reason}." if diagnosis.reason else ""
        return f"nothing found. No host or process stands out in what was recorded{power}.{unjudged}"
    counts = [(severity, len([f for f in diagnosis.findings if f.severity == severity])) for severity in SEVERITIES]
    told = ", ".join(f"{number} {severity}" for severity, number in counts if number)
    number = len(diagnosis.findings)
    return f"{number} finding{'' if number == 1 else 's'} ({told}), the most urgent first"


def headline(finding: Finding) -> str:
    """What and where, in a line."""
    what = _TITLES.get(finding.kind, finding.kind)
    if finding.kind == "hang" and finding.until_us is not None:
        what = "hang that is over"
    return f"{where(finding)}: {what}" if where(finding) else what


def where(finding: Finding) -> str:
    """Who is named, by the level of the finding; empty for the fabric."""
    if finding.level == "fabric":
        return f"the network, or one of {_listed(finding.hosts)}" if finding.hosts else ""
    if finding.level in ("rank", "communicator") and finding.processes:
        names = finding.processes
    elif finding.hosts:
        names = finding.hosts
    else:
        number = len(finding.communicators)
        return finding.place or (f"{number} communicator{'' if number == 1 else 's'}" if number else "")
    shown = _listed(names)
    return f"one of {shown}" if finding.ambiguous and len(names) > 1 else shown


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY} more" if len(names) > _MANY else "")


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
    """Whether the log points to one place, or to several of which one is it."""
    by_process = finding.level in ("rank", "communicator") and finding.processes
    named = finding.processes if by_process else finding.hosts or finding.communicators
    return certainty(finding.level, finding.severity, finding.ambiguous, named, finding.hosts)


def certainty(level: str, severity: str, ambiguous: bool, named: Collection[str], hosts: Collection[str]) -> str:
    """How far the log narrows it down to what is `named`; the same words here and in the report."""
    if level == "fabric" and hosts:
        return f"the network, or one of {len(hosts)} hosts that every path crosses; the log cannot tell which"
    if level in ("fabric", "run"):
        return "no single host or process stands out; it concerns all"
    if ambiguous:
        return (
            f"one of {len(named)}; the log cannot tell which" if len(named) > 1 else "what exactly, the log cannot tell"
        )
    return "the log points nowhere else" + ("; too little costs or coverage for more" if severity == "P2" else "")


def since(finding: Finding) -> str:
    """When it began and whether it ended."""
    begin = "the start of the log" if finding.onset_us is None else utc(finding.onset_us)
    if finding.until_us is not None:
        return f"{begin}, until {utc(finding.until_us)}"
    return begin if finding.kind == "hang" else f"{begin}, to the end of the log"


def how_bad(finding: Finding) -> str:
    """The effect in words."""
    effect = finding.effect
    parts = []
    if effect.cost_share is not None:
        parts.append(f"costs {effect.cost_share:.1%} of the time since then")
    if effect.slowdown is not None:
        late = finding.kind == "late-arrival"
        parts.append(f"{'computes ' if late else ''}{effect.slowdown:.3g} times as {'long' if late else 'slow'}")
    if effect.lost_rank_seconds is not None:
        parts.append(f"{effect.lost_rank_seconds:,.1f} GPU-seconds lost")
    return ", ".join(parts) or consequence(finding.kind, finding.severity, finding.until_us)


def _basis(diagnosis: Diagnosis) -> list[str]:
    """What the verdict rests on, and what could not be looked at."""
    coverage = diagnosis.coverage
    worst = ""
    if coverage.lowest_capture_rate is not None and coverage.lowest_capture_rate < (coverage.capture_rate or 0) - 0.005:
        worst = f" (worst process {coverage.lowest_capture_rate:.1%})"
    lines = [
        f"rests on {coverage.usable_collectives:,} collectives: {_share(coverage.capture_rate)} of their records are"
        f" there{worst}, {_share(coverage.complete_cells)} of those seen have all ranks;"
        f" {coverage.ranks_seen} of {coverage.ranks_expected} ranks left records{_by_launch(coverage.ranks_by_launch)}"
    ]
    if coverage.left_out:
        reasons = ", ".join(f"{cells:,} that {reason}" for reason, cells in coverage.left_out.items())
        lines.append(f"left out: {reasons}")
    if diagnosis.reason and diagnosis.verdict == "findings":
        lines.append(f"lateness and transfers could not be looked at: {diagnosis.reason}")
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
    return "none" if value is None else f"{value:.1%}"
