"""Comparing the findings of a diagnosis (the findings' JSON) with what was planted."""

from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from evaluation.faults import Fault
from evaluation.labelled_jobs import Label

Finding = dict[str, Any]

# What a finding is about when it is about the records and not about the job; never an alarm.
ABOUT_RECORDS = frozenset({"record-loss", "capture-gap", "clock-skew"})
# What is answered by a finding that only informs: a log that ends early is not an alarm either.
INFORMING = ABOUT_RECORDS | {"process-silent"}
# Uneven work is no fault, and saying so no alarm; naming a host for it is.
NO_ALARM = ABOUT_RECORDS | {"imbalance"}
ALARMING = frozenset({"P0", "P1", "P2"})
BLAMING = frozenset({"P0", "P1"})


class Answer(StrEnum):
    """How well a planted fault was answered, best first."""

    FOUND = "found"  # named as precisely as the records allow
    AMBIGUOUS = "ambiguous"  # the true ones are named among others, or a host where a process could be
    MISSED = "missed"


def answer(fault: Fault, finding: Finding) -> Answer:
    """How well one finding answers one planted fault. Findings that only inform do not count as answers."""
    informs_only = finding["severity"] not in ALARMING and fault.kind not in INFORMING
    if informs_only or finding["kind"] not in (fault.kind, *fault.accepted_kinds):
        return Answer.MISSED
    if finding["kind"] == "fabric-slow":
        return Answer.FOUND if fault.level != "link" else Answer.AMBIGUOUS
    communicators = set(finding["communicators"])
    if fault.communicators and communicators and communicators <= set(fault.communicators):
        return Answer.FOUND
    if fault.members and set(fault.processes) <= set(finding["processes"]) <= set(fault.members):
        return Answer.FOUND
    if fault.level in ("communicator", "link"):
        return Answer.AMBIGUOUS if communicators & set(fault.communicators) else Answer.MISSED
    if not set(fault.hosts) <= set(finding["hosts"]):
        return Answer.MISSED
    precise = set(finding["hosts"]) <= set(fault.candidates)
    if fault.level == "rank":
        precise = set(finding["processes"]) == set(fault.processes)
    return Answer.FOUND if precise and not (fault.exact and finding["ambiguous"]) else Answer.AMBIGUOUS


def blames_wrongly(label: Label, finding: Finding) -> bool:
    """Whether a finding at P0 or P1 names an innocent host.

    A set of hosts (an ambiguous answer, or the members of a communicator) is wrong when no true host is among them;
    whoever names hosts without a reservation must name true ones only.
    """
    hosts = set(finding["hosts"])
    silent = finding["level"] in ("fabric", "run") or finding["kind"] in ABOUT_RECORDS or not hosts
    if finding["severity"] not in BLAMING or silent:
        return False
    possible = {host for fault in label.faults for host in fault.candidates}
    if finding["ambiguous"] or finding["level"] in ("communicator", "link"):
        return not hosts & possible
    return not hosts <= possible


@dataclass(frozen=True)
class Score:
    """One job's findings against its label. `onset_errors_s` has one value for each answered fault with an onset."""

    label: Label
    verdict: str
    answers: tuple[Answer, ...]
    wrong_blames: int
    alarms: int
    right_alarms: int
    onset_errors_s: tuple[float | None, ...]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        """Whether there is anything to look into."""
        missed = Answer.MISSED in self.answers and self.label.timed
        return missed or self.wrong_blames > 0 or self.alarms > self.right_alarms


def score(label: Label, diagnosis: dict[str, Any]) -> Score:
    """Compare a diagnosis, as its JSON, with the label of the job."""
    findings: list[Finding] = diagnosis["findings"]
    alarms = [finding for finding in findings if finding["severity"] in ALARMING]
    alarms = [finding for finding in alarms if finding["kind"] not in NO_ALARM]
    answers, onset_errors = [], []
    for fault in label.faults:
        ranked = sorted(findings, key=lambda finding: list(Answer).index(answer(fault, finding)))
        best = answer(fault, ranked[0]) if ranked else Answer.MISSED
        answers.append(best)
        onset = ranked[0]["onset_us"] if best is not Answer.MISSED else None
        onset_errors.append(None if onset is None else (onset - fault.onset_us) / 1e6)
    right = [f for f in alarms if any(answer(fault, f) is not Answer.MISSED for fault in label.faults)]
    return Score(
        label=label,
        verdict=diagnosis["verdict"],
        answers=tuple(answers),
        wrong_blames=sum(blames_wrongly(label, finding) for finding in findings),
        alarms=len(alarms),
        right_alarms=len(right),
        onset_errors_s=tuple(onset_errors),
        findings=tuple(findings),
    )


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _loss(label: Label) -> str:
    """The share of lost records, rounded so that jobs of one scenario fall together."""
    return f"{label.loss:.0%}" if label.loss < 0.03 else f"{round(label.loss, 1):.0%}"


def _markdown(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def faults_table(scores: list[Score]) -> str:
    """Markdown: one row for each fault, strength, kind of job and loss rate, in the order of the scores."""
    groups: dict[tuple[str, str, str, str], list[tuple[Score, int]]] = {}
    for entry in scores:
        for index, fault in enumerate(entry.label.faults):
            name = fault.name if len(entry.label.faults) == 1 else f"{fault.name}, and another fault"
            key = (name, fault.strength, "exact" if fault.exact else "a set", _loss(entry.label))
            groups.setdefault(key if entry.label.timed else (*key[:3], "CPU times"), []).append((entry, index))
    rows: list[tuple[object, ...]] = []
    for key, members in sorted(groups.items()):
        answers = [entry.answers[index] for entry, index in members]
        errors = [abs(e) for entry, index in members if (e := entry.onset_errors_s[index]) is not None]
        alarms = sum(entry.alarms for entry, _ in members)
        rows.append(
            (
                *key,
                f"{median(entry.label.cost_share for entry, _ in members):.1%}",
                len(members),
                _percent(answers.count(Answer.FOUND), len(answers)),
                _percent(answers.count(Answer.AMBIGUOUS), len(answers)),
                _percent(answers.count(Answer.MISSED), len(answers)),
                _percent(sum(entry.right_alarms for entry, _ in members), alarms),
                sum(entry.wrong_blames for entry, _ in members),
                f"{median(errors):.2f}" if errors else "-",
            )
        )
    columns = (
        "fault", "strength", "identifiable", "records lost", "time lost", "jobs", "found", "ambiguous", "missed",
        "precision", "wrong blames", "onset off by, s",
    )  # fmt: skip
    return _markdown(columns, rows)


def healthy_table(scores: list[Score]) -> str:
    """Markdown: one row for each kind of healthy job, with its false alarms."""
    groups: dict[str, list[Score]] = {}
    for entry in scores:
        if not entry.label.faults:
            groups.setdefault(entry.label.scenario, []).append(entry)
    rows: list[tuple[object, ...]] = [
        (
            name,
            _loss(entries[0].label),
            len(entries),
            sum(entry.alarms > 0 for entry in entries),
            sum(entry.wrong_blames for entry in entries),
            sum(entry.verdict == "not-assessable" for entry in entries),
        )
        for name, entries in groups.items()
    ]
    return _markdown(
        ("healthy job", "records lost", "jobs", "with a false alarm", "wrong blames", "not assessable"), rows
    )
