"""What Slurm says of a job: the answer of the configured command, read whole.

States and their meaning are those of `man sacct`, section JOB STATE CODES.
"""

import re
import shlex
import subprocess
from dataclasses import dataclass

# After these a job writes nothing more.
_ENDED = frozenset((
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "RECONFIG_FAIL", "RECONFIG_FAILED", "REVOKED", "TIMEOUT",
))  # fmt: skip
_ACTIVE = frozenset((
    "COMPLETING", "CONFIGURING", "EXPEDITING", "PENDING", "POWER_UP_NODE", "REQUEUE_FED", "REQUEUE_HOLD", "REQUEUED",
    "RESIZING", "RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED",
    "UPDATE_DB",
))  # fmt: skip
# As `squeue` prints them in its column ST, whose header is also the code of STOPPED.
_COMPACT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING", "DL": "DEADLINE",
    "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING",
    "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED", "RS": "RESIZING",
    "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING", "SO": "STAGE_OUT", "TO": "TIMEOUT",
}  # fmt: skip
# An earlier attempt of a job that has gone on since (`sacct --duplicates` prints one line for each).
_REQUEUED = "REQUEUED"
# A state as Slurm writes it, with a "+" where the column was too narrow for it (State has 10 characters by default).
_STATE = re.compile(r"[A-Z][A-Z_]+\+?")
_HEADERS = {"STATE", "ST", "JOBID"}
_JOB_ID = re.compile(r"\d+(?:[_+.]\S+)?")
# `sacct: error: ...`, `slurm_load_jobs error: ...`, `error: ...`
_MESSAGE = re.compile(r"\s*(?:[\w.-]+(?::\s*|\s+))?(?:(?P<error>error|fatal)|warning|debug\d?|info)\s*:", re.IGNORECASE)
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class JobState:
    """Whether the job has ended, None when the answer does not tell, and the states or the reason in words."""

    ended: bool | None
    words: str


def job_state(command: str, job: str, timeout_s: float = 5.0) -> JobState:
    """Ask `command`, to which the job id is appended; what cannot be asked or understood is said in words."""
    try:
        answer = subprocess.run(
            [*shlex.split(command), job],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return JobState(None, f"{command} did not answer within {timeout_s:.0f} s")
    except (OSError, ValueError) as error:
        return JobState(None, f"{command} cannot be started: {error}")
    if answer.returncode != 0:
        said = _first_line(answer.stderr) or _first_line(answer.stdout) or "no message"
        return JobState(None, f"{command} failed with exit code {answer.returncode}: {said}")
    return read_answer(answer.stdout, answer.stderr)


def read_answer(text: str, messages: str = "") -> JobState:
    """The state of a job by all lines of an answer: one for each task of an array, component of a heterogeneous job,
    step, or attempt. The job has ended when every one has, and no error cut the answer short; `messages` is what the
    command wrote to its standard error.

    Columns may be in any order, padded or separated by `|`, with or without a header. A state that was cut counts as
    ended when it is the beginning of ended states only.
    """
    lines = [line for line in text.splitlines() if line.strip() and not _MESSAGE.match(line)]
    answers = [(_job_id(line), _states_in(line, is_first=number == 0)) for number, line in enumerate(lines)]
    states = list(dict.fromkeys(state for _, named in _latest(answers) for state in named))
    if not states:
        said = _first_line(text)
        return JobState(None, f"Slurm names no state: {said}" if said else "Slurm does not know the job")
    verdicts = {state: _has_ended(state) for state in states}
    going_on = [state for state, ended in verdicts.items() if ended is False]
    if going_on:
        return JobState(False, ", ".join(going_on)[:_SHOWN_CHARACTERS])
    broken_off = _first_error(text) or _first_error(messages) or _unread_line(lines, answers)
    if broken_off:
        return JobState(None, f"Slurm's answer may be incomplete: {broken_off}"[:_SHOWN_CHARACTERS])
    unclear = [state for state, ended in verdicts.items() if ended is None]
    return JobState(None if unclear else True, ", ".join(unclear or states)[:_SHOWN_CHARACTERS])


def _latest(answers: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Without the attempts after which the same job was requeued, and those that were when a later one follows."""
    last = {job: number for number, (job, named) in enumerate(answers) if named}
    return [
        (job, named)
        for number, (job, named) in enumerate(answers)
        if named and (named != [_REQUEUED] or number == last[job])
    ]


def _job_id(line: str) -> str:
    return next((word for word in re.split(r"[\s|=,]+", line) if _JOB_ID.fullmatch(word)), "")


def _states_in(line: str, is_first: bool) -> list[str]:
    """The states that a line names: all words that are one, else the codes and spellings of one, else the first word
    that is written like one."""
    words = [word for word in re.split(r"[\s|=,]+", line) if word]
    if is_first and not _HEADERS.isdisjoint(words):
        return []
    written = [word for word in words if _STATE.fullmatch(word)]
    known = [word for word in written if _has_ended(word) is not None]
    if known:
        return known
    codes = [_COMPACT[word] for word in words if word in _COMPACT]
    if codes:
        return codes
    spelled = [word.upper() for word in words if word.upper() in _ENDED | _ACTIVE]
    # In a sentence ("connection failed") it is no state.
    others = [word for word in words if word.upper() not in _ENDED | _ACTIVE and word != "by"]
    if spelled and not any(word.isalpha() for word in others):
        return spelled
    return written[:1]


def _first_error(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if (said := _MESSAGE.match(line)) and said["error"]), "")


def _unread_line(lines: list[str], answers: list[tuple[str, list[str]]]) -> str:
    """The first line behind one with a state that names none."""
    first = next(number for number, (_, named) in enumerate(answers) if named)
    return next(
        (lines[number].strip() for number, (_, named) in enumerate(answers) if number > first and not named), ""
    )


def _has_ended(state: str) -> bool | None:
    """Whether a state is one of an ended job; None for one that is not known, or cut to what several begin with."""
    name = state.removesuffix("+")
    if name == state or name in _ENDED | _ACTIVE:
        return True if name in _ENDED else False if name in _ACTIVE else None
    meant = {known in _ENDED for known in _ENDED | _ACTIVE if known.startswith(name)}
    return meant.pop() if len(meant) == 1 else None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_SHOWN_CHARACTERS]
