"""Detectors run one by one: one that fails becomes a finding of its own, and the others go on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from nixt_pipeline.diagnosis.evidence.parts import Part
from nixt_pipeline.diagnosis.findings import Diagnosis, Finding, ranked
from nixt_pipeline.isolation import Failure, attempt

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Attempts:
    """What was tried for one diagnosis, and what of it failed."""

    failed: list[Failure] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def decisive(self, what: str, detector: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What a detector says that can raise an alarm; None when it failed: without an alarm from elsewhere, the run
        is then not assessable."""
        result = self.informative(what, detector, *args, **kwargs)
        if result is None:
            self.undecided.append(what)
        return result

    def informative(self, what: str, detector: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What a detector says that never raises an alarm; None when it failed."""
        result = attempt(what, detector, *args, **kwargs)
        if isinstance(result, Failure):
            self.failed.append(result)
            return None
        return result

    def told_in(self, diagnosis: Diagnosis) -> Diagnosis:
        """`diagnosis` with a finding for each failure."""
        told = ranked([*diagnosis.findings, *(not_assessed(failure) for failure in self.failed)])
        if not self.undecided or diagnosis.verdict == "findings":
            return replace(diagnosis, findings=told)
        reason = f"a defect of nixt kept it from looking for: {', '.join(dict.fromkeys(self.undecided))}"
        reason += f"; {diagnosis.reason}" if diagnosis.reason else ""
        return replace(diagnosis, verdict="not-assessable", findings=told, reason=reason)


def launches_left_out(launches: int, most_records: int, diagnosed: int) -> Finding:
    """The finding that counts the launches that nobody looked at."""
    return Finding(
        kind="not-assessed",
        severity="info",
        level="run",
        evidence=(
            f"{launches:,} further launches of at most {most_records:,} records each were not diagnosed: the"
            f" {diagnosed} that were are the last one and those with most records."
        ),
        counter_evidence="The analyses count all launches; only the diagnosis leaves these out.",
        next_step=(
            "Put each job into a directory of its own, or raise NIXT_THRESHOLDS__DIAGNOSIS__MAX_DIAGNOSED_LAUNCHES;"
            " each launch takes seconds."
        ),
    )


def parts_left_out(parts: Sequence[Part], examined: int) -> Finding:
    """The finding that counts the parts of a launch in which no hang was looked for."""
    return Finding(
        kind="not-assessed",
        severity="info",
        level="run",
        evidence=(
            f"{len(parts):,} further groups of communicators that share no process, of at most"
            f" {max(len(part.processes) for part in parts):,} processes each, were not examined for hangs: the"
            f" {examined:,} that were are those with most processes."
        ),
        counter_evidence="Late ranks and slow transfers were looked for in all of them.",
        next_step="Put each job into a directory of its own, or raise NIXT_THRESHOLDS__DIAGNOSIS__MAX_DIAGNOSED_PARTS.",
    )


def not_assessed(failure: Failure) -> Finding:
    """The finding that says what was not looked at, and why."""
    return Finding(
        kind="not-assessed",
        severity="info",
        level="run",
        evidence=f"could not be assessed: {failure.what}: {failure.error}",
        counter_evidence="This says nothing about the job, neither good nor bad; whatever else was looked at stands.",
        next_step=(
            "This is a defect of nixt, not of the job: report it with the traceback, which is on standard error or in"
            " the log of the step, and if possible with the log files."
        ),
    )
