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
# An earlier attempt of a job that has gone on since (`sacct --duplicates` prints one line for each).
_REQUEUED = "REQUEUED"
# A state as Slurm writes it, with a "+" where the column was too narrow for it (State has 10 characters by default).
_STATE = re.compile(r"[A-Z][A-Z_]+\+?")
# `sacct: error: ...`, `slurm_load_jobs error: ...`
_MESSAGE = re.compile(r"\s*[\w.-]+(?:: (?:error|fatal|warning|debug\d?|info)\b| error:)", re.IGNORECASE)
_TIMEOUT_S = 5.0
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class JobState:
    """Whether the job has ended, None when the answer does not tell, and the states or the reason in words."""

    ended: bool | None
    words: str


def job_state(command: str, job: str) -> JobState:
    """Ask `command`, to which the job id is appended; what cannot be asked or understood is said in words."""
    try:
        answer = subprocess.run(
            [*shlex.split(command), job],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return JobState(None, f"{command} did not answer within {_TIMEOUT_S:.0f} s")
    except (OSError, ValueError) as error:
        return JobState(None, f"{command} cannot be started: {error}")
    if answer.returncode != 0:
        said = _first_line(answer.stderr) or _first_line(answer.stdout) or "no message"
        return JobState(None, f"{command} failed with exit code {answer.returncode}: {said}")
    return read_answer(answer.stdout)


def read_answer(text: str) -> JobState:
    """The state of a job by all lines of an answer: one for each task of an array, component of a heterogeneous job,
    step, or attempt. The job has ended when every one has.

    Columns may be in any order, padded or separated by `|`, with or without a header. A state that was cut counts as
    ended when it is the beginning of ended states only.
    """
    states = [state for line in text.splitlines() if (state := _state_in(line)) is not None]
    latest = [state for state in states if state != _REQUEUED] or states
    if not latest:
        said = _first_line(text)
        return JobState(None, f"Slurm names no state: {said}" if said else "Slurm does not know the job")
    verdicts = {state: _has_ended(state) for state in latest}
    unclear = [state for state, ended in verdicts.items() if ended is None]
    going_on = [state for state, ended in verdicts.items() if ended is False]
    shown = going_on or unclear or list(verdicts)
    return JobState(False if going_on else None if unclear else True, ", ".join(shown)[:_SHOWN_CHARACTERS])


def _state_in(line: str) -> str | None:
    """The state that a line names: the first word that is one, else the first that is written like one."""
    if _MESSAGE.match(line):
        return None
    words = [word for word in re.split(r"[\s|=,]+", line) if _STATE.fullmatch(word)]
    return next((word for word in words if _has_ended(word) is not None), words[0] if words else None)


def _has_ended(state: str) -> bool | None:
    """Whether a state is one of an ended job; None for one that is not known, or cut to what several begin with."""
    name = state.removesuffix("+")
    if name == state or name in _ENDED | _ACTIVE:
        return True if name in _ENDED else False if name in _ACTIVE else None
    meant = {known in _ENDED for known in _ENDED | _ACTIVE if known.startswith(name)}
    return meant.pop() if len(meant) == 1 else None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_SHOWN_CHARACTERS]
