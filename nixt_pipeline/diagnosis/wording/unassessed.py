"""What was not examined, in sentences: launches and parts beyond a limit, and detectors that failed."""

from collections.abc import Sequence

from nixt_pipeline.diagnosis.evidence.parts import Part
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.isolation import Failure


def launches_left_out(launches: int, most_records: int, diagnosed: int) -> Finding:
    """The finding that counts the launches that were not diagnosed."""
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
    """The finding that says what could not be assessed, and why."""
    return Finding(
        kind="not-assessed",
        severity="info",
        level="run",
        evidence=f"could not be assessed: {failure.what}: {failure.error}",
        counter_evidence="This says nothing about the job, good or bad; the other findings are still valid.",
        next_step=(
            "This is a defect of nixt, not of the job: report it with the traceback, which is on standard error or in"
            " the log of the step, and if possible with the log files."
        ),
    )
