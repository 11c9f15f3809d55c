"""A stop in words: what stopped, what came then, and how urgent it is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nixt_pipeline.diagnosis.detectors.halt import Behind, Halt, NeverCompleted, NotExamined, WithinStep
from nixt_pipeline.diagnosis.detectors.replaced import Interruption
from nixt_pipeline.diagnosis.detectors.sequel import Sequel
from nixt_pipeline.diagnosis.detectors.stopped import ahead
from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.evidence.ending import Ending
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.parts import Part
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of, names_of
from nixt_pipeline.diagnosis.evidence.steps import Steps
from nixt_pipeline.diagnosis.findings import Finding, Severity
from nixt_pipeline.diagnosis.wording.unassessed import parts_left_out
from nixt_pipeline.quantities import listed, moment
from nixt_pipeline.settings import Thresholds

# Names in a sentence.
_SHOWN = 8

_ONLY_COMPLETED = (
    "The log has completed operations only: a process that never entered the operation looks like one that waits in it."
)

_CLOCKS_WERE_SET = "clocks were set while it ran, so that its past cannot be compared."

_BY_PAUSES = " All operations look the same: the length of a step is inferred from the pauses between steps."


def hang_findings(evidence: Evidence, found: Sequence[Halt | NotExamined], _limits: Thresholds) -> list[Finding]:
    """One finding for each halt, and one that counts what was not examined."""
    halts = [suspect for suspect in found if isinstance(suspect, Halt)]
    left_out = [suspect for suspect in found if isinstance(suspect, NotExamined)]
    return [
        *(with_sequel(_stop(halt), halt, evidence.ending) for halt in halts),
        *(parts_left_out(parts.parts, parts.examined) for parts in left_out),
    ]


def _stop(halt: Halt) -> Finding:
    match halt.how:
        case Behind():
            return _behind(halt.how, halt.killed_share)
        case NeverCompleted(series):
            return _never_completed(series)
        case WithinStep(processes, begun):
            return _within_step(processes, begun)
        case Interruption():
            return _interrupted(halt.how)


def _who_waits(number: int) -> str:
    return f"{number} of its peers got further, and wait." if number > 1 else "One of its peers got further."


def _or_killed(share: float | None) -> str:
    if share is None:
        return f" So may a job that was killed: {_CLOCKS_WERE_SET}"
    return f" So would a job that was killed, at {share:.1%} of its past moments."


def _behind(how: Behind, killed_share: float | None) -> Finding:
    """A killed job would leave such a log at `killed_share` of its moments, if that is known."""
    stop, tracks, sure = how.stop, how.tracks, how.sure
    furthest = {track: max(other.reached for other in tracks if other.family == track.family) for track in stop.first}
    # Send and Recv of one process stop together, some of them at the number that others reached.
    behind = [track for track in stop.first if track.reached < furthest[track]] or list(stop.first)
    names = ", ".join(
        f"{track.comm.label} ({track.what} {track.reached}; its peers reached {furthest[track]})"
        for track in behind[:4]
    )
    suspects = sorted(stop.suspects)
    hosts = hosts_of(suspects)
    return Finding(
        kind="hang",
        severity="P0" if sure else "P2",
        level="communicator" if len(suspects) > 1 else "rank",
        hosts=hosts,
        processes=names_of(suspects),
        communicators=tuple(sorted({track.comm.id for track in stop.first})),
        ambiguous=len(suspects) > 1,
        evidence=(
            f"The job stopped in the middle of a step. First to stop: {names}. No rank logged the next operation there:"
            f" it never completed.{_who_hung(len(suspects))}"
        ),
        counter_evidence=(
            f"{_who_waits(ahead(stop, tracks))} {_ONLY_COMPLETED}"
            + (f" Lost records alone would look the same with p < {stop.chance:.1g}." if stop.chance > 0 else "")
            + (_or_killed(killed_share) if not sure else "")
        ),
        next_step=(
            f"Get the stack (py-spy, gdb) of {names_of(suspects)[0]}, and check the kernel log and GPU errors (Xid) of"
            " its host."
            if len(suspects) == 1
            else f"Get stacks (py-spy, gdb) of the {len(suspects)} processes on {', '.join(hosts)}: the one whose"
            " stack is outside the operation is the culprit. Then check the kernel log and GPU errors (Xid) of that"
            " host."
        ),
    )


def _who_hung(suspects: int) -> str:
    return f" One of {suspects} processes hung." if suspects > 1 else ""


def _without_suspects(finding: Finding) -> str:
    """The evidence of a stop that may be none, or of which others are named."""
    return finding.evidence.removesuffix(_who_hung(len(finding.processes)))


def _never_completed(item: Series) -> Finding:
    return Finding(
        kind="hang",
        severity="P1",
        level="communicator",
        hosts=tuple(sorted(item.comm.hosts)),
        processes=names_of(item.comm.members),
        communicators=(item.comm.id,),
        ambiguous=True,
        evidence=(
            f"No rank logged {item.coll} {item.furthest + 1} of {item.comm.label}: all {len(item.comm.members)}"
            " processes completed what precedes it in a step, and none what follows it."
        ),
        counter_evidence="A job whose last step ends before it on purpose would look the same.",
        next_step=(
            "If the job did not end by itself, get stacks (py-spy, gdb) of all processes: the one whose stack is"
            " outside this collective is the culprit."
        ),
    )


def _within_step(processes: Sequence[Process], begun: Mapping[Communicator, Steps]) -> Finding:
    whole = len(begun) == 1 and all(len(comm.members) == len(processes) for comm in begun)
    return Finding(
        kind="hang",
        severity="P1",
        level="communicator" if whole else "run",
        hosts=hosts_of(processes),
        processes=names_of(processes),
        communicators=tuple(sorted(comm.id for comm in begun)),
        ambiguous=True,
        evidence=f"The job stopped in the middle of a step: {'; '.join(_ending(*item) for item in begun.items())}.",
        counter_evidence="A job whose last step ends there on purpose would look the same."
        + (_BY_PAUSES if any(stop.by_pauses for stop in begun.values()) else ""),
        next_step=(
            "If the job did not end by itself, get stacks (py-spy, gdb) of all processes: the one whose stack is"
            " outside any collective is the culprit."
        ),
    )


def _interrupted(pause: Interruption) -> Finding:
    stopped = sorted(pause.stopped, key=lambda comm: (-comm.n_ranks, comm.number))
    completed = [f"{comm.label} ({pause.stopped[comm][0]} {pause.stopped[comm][1]:,} times)" for comm in stopped]
    processes = sorted({member for comm in stopped for member in comm.members})
    return Finding(
        kind="hang",
        severity="P1",
        level="communicator" if len(stopped) == 1 else "run",
        hosts=hosts_of(processes),
        processes=names_of(processes),
        communicators=tuple(sorted({comm.id for comm in stopped})),
        ambiguous=True,
        evidence=(
            f"The job stalled for {(pause.until_us - pause.since_us) / 1e6:,.3g} s in the middle of a step."
            f" Replaced, with their last operation before the stall: {listed(completed, _SHOWN)}. Kept, and one step"
            f" ahead by then: {listed([comm.label for comm in pause.kept], _SHOWN)}."
        ),
        counter_evidence="Up to a step of other work (an evaluation) in those that were kept would look the same.",
        next_step="",
    )


def _ending(comm: Communicator, stop: Steps) -> str:
    following, whole = stop.operations[stop.begun], len(stop.ends)
    coming = f"{following.coll} of {following.size_bytes:,} bytes"
    if stop.begun == 0:
        return f"{comm.label} completed {coming} {whole:,} times, and all others one step more"
    return (
        f"{comm.label} completed {whole:,} steps of {len(stop.operations)} operations, {stop.begun} of one more, and"
        f" never the {coming} that comes next"
    )


def with_sequel(finding: Finding, halt: Halt, ending: Ending) -> Finding:
    """A stop with what came then."""
    finding, sequel = replace(finding, onset_us=halt.since_us), halt.sequel
    if sequel and sequel.went_on:
        return _went_on(finding, halt.part, sequel)
    if halt.only_ended(ending):
        return _ended_within_step(finding, sequel, _often(halt), ending)
    if sequel and sequel.launch:
        return _started_again(finding, sequel)
    if not ending.over:
        return finding
    return replace(
        finding,
        severity=_at_most_p1(finding.severity),
        evidence=f"{finding.evidence} The job is over: Slurm says {ending.state}.",
        next_step=_look_back(finding),
    )


def _at_most_p1(severity: Severity) -> Severity:
    """What is over needs no action this minute."""
    return "P1" if severity == "P0" else severity


def _went_on(finding: Finding, part: Part, sequel: Sequel) -> Finding:
    """Others went on without some of the processes, or all of them in new communicators."""
    where = f" in a communicator of {sequel.n_ranks}" if sequel.n_ranks else ""
    at = "" if sequel.at_us == finding.onset_us else f" at {moment(sequel.at_us)}"
    told = replace(finding, until_us=sequel.at_us)
    if not sequel.left:
        return replace(
            told,
            severity="info" if finding.severity == "P2" else "P2",
            evidence=f"{_without_suspects(finding)} All {len(sequel.went_on)} processes went on{where}{at}.",
            counter_evidence=f"{finding.counter_evidence} Communicators replaced on purpose would look the same.",
            next_step="Check the job's output for why communicators were created again at that time.",
        )
    names = names_of(sequel.left)
    one = len(names) == 1
    hosts = frozenset(hosts_of(sequel.left))
    stay = frozenset(hosts_of(sequel.went_on))
    return replace(
        told,
        severity=_at_most_p1(finding.severity),
        level="rank" if hosts & stay or one else "host",
        hosts=tuple(sorted(hosts)),
        processes=names,
        ambiguous=False,
        evidence=(
            f"{_without_suspects(finding)} {listed(names, _SHOWN)} {'has' if one else 'have'} no record since; the"
            f" {len(sequel.went_on)} other processes went on{where}{at}."
        ),
        counter_evidence=(
            f"{'A process that was' if one else 'Processes that were'} left out on purpose, because of a fault"
            f" elsewhere, would look the same. Of {len(part.processes)} processes, no other has stopped."
        ),
        next_step=(
            f"Find out why {'it' if one else 'they'} ended: kernel log and GPU errors (Xid) of"
            f" {listed(sorted(hosts), _SHOWN)} and the job's output at that time. The job"
            " runs with fewer GPUs unless spares took their place."
        ),
    )


def _started_again(finding: Finding, sequel: Sequel) -> Finding:
    """The job was started again and went on."""
    return replace(
        finding,
        severity=_at_most_p1(finding.severity),
        until_us=sequel.at_us,
        evidence=f"{finding.evidence}{_restart(sequel)}",
        next_step=_look_back(finding),
    )


def _look_back(finding: Finding) -> str:
    return (
        "Its processes are gone. Look in the job's output for the watchdog's message, and in the kernel log and the GPU"
        f" errors (Xid) of {listed(finding.hosts, _SHOWN)} at that time."
    )


def _often(halt: Halt) -> str:
    """How often a killed job would leave such a log, where that decides."""
    if not halt.may_be_killed:
        return ""
    if halt.killed_share is None:
        return f" How often a killed job would leave it is not known: {_CLOCKS_WERE_SET}"
    return f" Cut at other moments of its past, the log would look the same in {halt.killed_share:.0%} of them."


def _ended_within_step(finding: Finding, sequel: Sequel | None, often: str, ending: Ending) -> Finding:
    """For information: the job ended in the middle of a step, which proves no hang."""
    since = finding.onset_us
    running = ending.running(since)
    if running:
        why = " The job seems to be running: its last record was written less than a minute before the logs were read."
        why = why if ending.quiet_us <= 60_000_000 else why.replace("less than a minute", "shortly")
        step = "Diagnose it again when the job has ended."
    elif ending.state:
        why = f" Slurm says {ending.state}."
        step = "Nothing, if that was intended. If it hung before, check its output and the stacks from that time."
    else:
        why = " It was killed, reached its time limit, or hung: the log cannot tell."
        step = "If it was not stopped on purpose and hangs, get stacks (py-spy, gdb) of all processes."
    if sequel and sequel.launch:
        step = "Nothing, if the job was preempted or restarted on purpose; else look in its output for the reason."
    return replace(
        finding,
        kind="unfinished-step",
        severity="info",
        level="run",
        hosts=(),
        processes=(),
        communicators=(),
        ambiguous=False,
        until_us=sequel.at_us if sequel else None,
        evidence=f"{_without_suspects(finding)}{why}{_restart(sequel)}",
        counter_evidence=f"A hang would leave the same log.{often}",
        next_step=step,
    )


def _restart(sequel: Sequel | None) -> str:
    launch = sequel.launch if sequel else None
    if launch is None:
        return ""
    return (
        f" The job was restarted at {moment(launch.first_us)} ({launch.processes} processes) and went on until"
        f" {moment(launch.last_us)}."
    )
