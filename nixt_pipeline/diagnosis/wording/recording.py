"""What was recorded of a run, in sentences: what was lost, and whose log is short or ends early."""

from nixt_pipeline.diagnosis.evidence.coverage import (
    CUT_FILE,
    EARLY_END,
    NO_FILE,
    ONE_SLOT,
    OVERFLOW,
    RING,
    SIZE_FILTER,
    UNKNOWN,
    Capture,
    Recorded,
)
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, name_of, names_of
from nixt_pipeline.diagnosis.findings import Finding, RunCoverage
from nixt_pipeline.quantities import listed
from nixt_pipeline.settings import Thresholds

# Processes in a sentence.
_SHOWN = 8


def capture_findings(recorded: Recorded, limits: Thresholds) -> list[Finding]:
    """What was lost, whose records lack most, and whose log ends early: it says nothing about the job, and is told for
    information, or as a note where a process stopped logging."""
    coverage = recorded.coverage
    gap = _capture_gap(coverage, recorded.captures, limits)
    return [*_record_loss(coverage, limits), *gap, *_silent(recorded, limits)]


def _record_loss(coverage: RunCoverage, limits: Thresholds) -> list[Finding]:
    if coverage.capture_rate is None or 1 - coverage.capture_rate < limits.diagnosis.told_loss_share:
        return []
    causes = sorted(coverage.losses.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{lost:,} ({cause})" for cause, lost in causes)
    cut = f" Files that are damaged or end within a record: {coverage.cut_files}." if coverage.cut_files else ""
    return [
        Finding(
            kind="record-loss",
            severity="info",
            level="run",
            evidence=(
                f"{coverage.capture_rate:.1%} of the records that the sequence numbers imply were written; the process"
                f" with the fewest, of those that left a log, wrote {coverage.lowest_capture_rate or 0:.1%}. Missing"
                f" records: {shares}.{cut}"
            ),
            counter_evidence=(
                "What lies before the first and after the last record of a communicator is not counted. Lost records"
                " make findings less certain; they say nothing about the job."
            ),
            next_step=_ADVICE[causes[0][0]] if causes else _ADVICE[UNKNOWN],
        )
    ]


_WRITE_MORE_OFTEN = "Write more often (NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS),"
_ADVICE = {
    OVERFLOW: f"{_WRITE_MORE_OFTEN} or remember more records (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE).",
    RING: f"{_WRITE_MORE_OFTEN} or remember more records (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE).",
    ONE_SLOT: f"{_WRITE_MORE_OFTEN} or use the plugin of NCCL 2.30.",
    SIZE_FILTER: "Nothing, unless small messages matter: NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES.",
    CUT_FILE: "Copy the files again; check for a full disk, a quota, and other programs that write or rotate them.",
    EARLY_END: "Where logs end early, check for a full disk and look at the plugin's dump thread.",
    NO_FILE: "Look for the logs of the missing processes: was the plugin loaded everywhere, was everything copied?",
    UNKNOWN: "Compare the dump interval and the free disk space of the processes with the fewest records.",
}


def _capture_gap(coverage: RunCoverage, captures: list[Capture], limits: Thresholds) -> list[Finding]:
    """Processes with far fewer records than the middle one, and processes without any."""
    typical = captures[len(captures) // 2].rate if captures else 0.0
    poor = [capture for capture in captures if capture.rate < limits.diagnosis.capture_gap_share * typical]
    missing = max(0, coverage.ranks_expected - coverage.ranks_seen)
    if not poor and not missing:
        return []
    parts = []
    if missing:
        parts.append(f"{missing} of {coverage.ranks_expected} processes left no record.")
    if poor:
        names = ", ".join(f"{name_of(c.process)} ({c.rate:.1%})" for c in poor[:_SHOWN])
        parts.append(f"{len(poor)} processes recorded less than half as much as the others ({typical:.1%}): {names}.")
    return [
        Finding(
            kind="capture-gap",
            severity="info",
            level="rank" if poor else "run",
            hosts=hosts_of(capture.process for capture in poor),
            processes=names_of(capture.process for capture in poor),
            evidence=" ".join(parts),
            counter_evidence="A process that joined late or left early has fewer records as well.",
            next_step=(
                "Look for the missing logs, also in archives and unfinished copies that were set aside (`nixt ingest"
                " DIR` lists them); compare the plugin's settings and the disks of these hosts."
            ),
        )
    ]


def _silent(recorded: Recorded, limits: Thresholds) -> list[Finding]:
    """A finding for each process whose log ends long before its peers', and one for all whose files were cut; none when
    they are many."""
    long = sorted(process for process, end in recorded.early.items() if end.long)
    if len(long) > limits.diagnosis.many_short_logs_share * recorded.coverage.ranks_seen:
        return []
    cut = [process for process in long if process in recorded.cut]
    groups = [*([cut] if cut else []), *([process] for process in long if process not in cut)]
    return [_silent_processes(group, recorded, group is cut) for group in groups]


def _silent_processes(processes: list[Process], recorded: Recorded, cut: bool) -> Finding:
    ends = {name_of(process): recorded.early[process] for process in processes}
    missing = [f"{sum(end.missing.values()):,}" for end in ends.values()]
    if len(processes) == 1:
        [name] = ends
        how = "Its file was cut: it ends within a record or a block." if cut else "Its file ends with a whole record."
        evidence = (
            f"The log of {name} ends {missing[0]} records early: its peers completed collectives that need it, so it"
            f" was still running when its log ended. {how}"
        )
    else:
        shown = listed([f"{name} ({number} records)" for name, number in zip(ends, missing, strict=True)], _SHOWN)
        evidence = (
            f"The logs of {len(ends)} processes end early: {shown}. Their peers completed collectives that need them,"
            " so they were still running when their logs ended. Their files were cut: each ends within a record or a"
            " block."
        )
    return Finding(
        kind="process-silent",
        severity="info" if cut else "P2",
        level="rank",
        hosts=hosts_of(processes),
        processes=tuple(ends),
        onset_us=min((end.last_us for end in ends.values() if end.last_us is not None), default=None),
        evidence=evidence,
        counter_evidence="If the job can go on without a process, it may have left the job.",
        next_step="Check whether the files were copied whole, the disk is full, or the plugin's dump thread stopped.",
    )
