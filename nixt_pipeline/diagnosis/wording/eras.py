"""What the eras of a launch say, put together: what lasts across a change of communicators is one finding, and what
lasted to the end of an era is over."""

from collections.abc import Sequence
from dataclasses import replace

from nixt_pipeline.diagnosis.evidence.era import Era
from nixt_pipeline.diagnosis.findings import SEVERITIES, Effect, Finding
from nixt_pipeline.quantities import moment

# What ends so near to the end of an era, or begins so near to its beginning, as a share of its time, may have lasted
# across: onsets and ends are known to the block, of which a short era has few.
_NEAR = 0.15


def across_eras(eras: Sequence[Era], findings: Sequence[Sequence[Finding] | None]) -> list[Finding]:
    """The findings of all eras, in the order of time; None where an era was too short to look at."""
    known = [number for number, found in enumerate(findings) if found is not None]
    told: list[Finding] = []
    lasting: list[Finding] = []  # to the end of the era before
    for number, (era, found) in enumerate(zip(eras, findings, strict=True)):
        last = number == max(known, default=0)
        still: list[Finding] = []
        for finding in found or ():
            same = [one for one in lasting if _from_start(finding, era) and _subject(one) == _subject(finding)]
            current = _dated(finding, era, number == 0, last)
            for before in same[:1]:
                lasting.remove(before)
                told.remove(before)
                current = _one(before, current, era)
            told.append(current)
            if _to_the_end(finding, era):
                still.append(current)
        lasting = still
    return told


def _subject(finding: Finding) -> tuple[object, ...]:
    return finding.kind, finding.level, finding.hosts, finding.processes, finding.ambiguous, finding.place


def _from_start(finding: Finding, era: Era) -> bool:
    return finding.onset_us is None or finding.onset_us - era.begin_us <= _NEAR * (era.end_us - era.begin_us)


def _to_the_end(finding: Finding, era: Era) -> bool:
    return finding.until_us is None or era.end_us - finding.until_us <= _NEAR * (era.end_us - era.begin_us)


def _dated(finding: Finding, era: Era, first: bool, last: bool) -> Finding:
    """The finding with the moments at which its era began and ended, where it says nothing else."""
    onset = finding.onset_us if first or finding.onset_us is not None else era.begin_us
    until = finding.until_us if last or finding.until_us is not None else era.end_us
    return replace(finding, onset_us=onset, until_us=until)


def _one(before: Finding, after: Finding, era: Era) -> Finding:
    """What was found on both sides of a change, as one finding, with the words of the costlier side."""
    main = max(before, after, key=lambda finding: finding.effect.lost_rank_seconds or 0.0)
    others = " Found before and after communicators were replaced at"
    return replace(
        main,
        severity=min(before.severity, after.severity, key=SEVERITIES.index),
        communicators=tuple(sorted({*before.communicators, *after.communicators})),
        onset_us=before.onset_us,
        until_us=after.until_us,
        effect=_together(before.effect, after.effect, main.effect),
        evidence=f"{main.evidence}{others} {moment(era.begin_us)}; these are the numbers of the costlier side.",
    )


def _together(before: Effect, after: Effect, main: Effect) -> Effect:
    """Both effects, the share of the time weighted by the time that it is a share of."""
    lost = [effect.lost_rank_seconds for effect in (before, after)]
    shares = [effect.cost_share for effect in (before, after)]
    if None in lost or not all(shares):
        return main
    known = [(seconds or 0.0, share or 1.0) for seconds, share in zip(lost, shares, strict=True)]
    elapsed = sum(seconds / share for seconds, share in known)
    total = sum(seconds for seconds, _ in known)
    return replace(main, cost_share=total / elapsed if elapsed else main.cost_share, lost_rank_seconds=total)
