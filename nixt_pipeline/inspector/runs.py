"""Runs below the landing directory: which directory is one, what it is called, and whether its job has finished."""

import codecs
import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import xxhash
from pydantic import BaseModel, ConfigDict, ValidationError

from nixt_pipeline.errors import NixtError
from nixt_pipeline.inspector.inventory import RUN_INFO_FILE, LogFile
from nixt_pipeline.inspector.opening import leads_out, link_root, open_regular, walk_files
from nixt_pipeline.inspector.set_aside import leftover_reason
from nixt_pipeline.inspector.slurm import job_state
from nixt_pipeline.settings import Settings

_DUMP_DIRECTORY = re.compile(r"nccl-inspector-(?P<job>.+)")
_JOB_ID = re.compile(r"[1-9][0-9]*(?:[_+][0-9]+)?")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_RUN_ID = 120
# Clocks of file servers are off by seconds; further ahead, a time says nothing.
_CLOCK_AHEAD_S = 300.0
# The sidecar is written by hand or by a launcher: some lines of names and numbers.
_MAX_RUN_INFO_BYTES = 1 << 20
_MAX_RUN_INFO_DEPTH = 20
_UNKNOWN_KEYS = 20
_UNKNOWN_KEY_CHARACTERS = 40
# The first thing that goes wrong, and what to do about it.
NO_RECORDS_HINT = (
    "from NCCL 2.30 on the plugin writes nothing unless NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS is set"
    " in the environment of the job's processes: to 10000 for NCCL 2.30 and later, to 500 for 2.29.7"
)
HOLDS_NO_LOG = f"holds no log: {NO_RECORDS_HINT}"
NOT_REACHED = "not reached within the time budget"


class RunInfo(BaseModel):
    """The optional sidecar `run.json` beside the logs. Of unknown keys only the names are kept: whatever JSON is put in
    its place, its values are published nowhere."""

    model_config = ConfigDict(extra="allow")

    name: str | None = None
    model: str | None = None
    gpus: int | None = None
    parallelism: dict[str, int] = {}
    nccl_version: str | None = None
    tags: list[str] = []
    baseline: bool | str | None = None
    host_nodes: dict[str, str] = {}
    state: str | None = None  # how the job ended, in Slurm's words: COMPLETED, TIMEOUT, CANCELLED, FAILED, ...


@dataclass(frozen=True)
class RunDirectory:
    """A run's directory as the sensor sees it: cheap facts only, no file is opened."""

    run: str
    path: Path
    fingerprint: str  # of names, sizes and times
    newest_change_s: float  # Unix time of the latest change of content or metadata
    file_count: int
    markers: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Finished:
    """Whether a run's job has finished, and how that was told (or what it is waiting for)."""

    finished: bool
    reason: str


class LandingError(NixtError, OSError):
    """The landing directory cannot be listed."""


def run_id(relative_path: str) -> str:
    """A safe, readable id for the directory at `relative_path` below the landing directory.

    Only letters, digits, `_`, `.` and `-` survive, path parts are joined by `__`; where anything had to be replaced or
    cut, a short hash of the original keeps ids distinct.
    """
    parts = [part for part in relative_path.replace("\\", "/").split("/") if part not in ("", ".")]
    safe = [re.sub(r"\.{2,}", ".", _UNSAFE.sub("_", part)).strip(".-") for part in parts]
    joined = "__".join(part for part in safe if part)
    if safe == parts and joined and len(joined) <= _MAX_RUN_ID and not any("__" in part for part in parts):
        return joined
    digest = hashlib.sha256(relative_path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{joined[: _MAX_RUN_ID - 9] or 'run'}-{digest}"


def slurm_job_id(directory: Path) -> str | None:
    """The Slurm job id in the plugin's default directory name, also of an array's task (`36_4`) or a component of a
    heterogeneous job (`36+1`); None when there is none."""
    match = _DUMP_DIRECTORY.fullmatch(directory.name)
    return match["job"] if match and _JOB_ID.fullmatch(match["job"]) else None


def read_run_info(directory: Path, root: Path | None = None) -> dict[str, object]:
    """The content of `run.json`, or {}; what is wrong with an unusable one stands under the key `problem`, the names of
    keys that mean nothing here under `unknown_keys`. A link is followed as far as it stays below `root` (None: wherever
    it leads)."""
    path = directory / RUN_INFO_FILE
    try:
        if not os.path.lexists(path):
            return {}
        if (reason := leads_out(path, root)) is not None:
            return {"problem": f"{path.name} is {reason}"}
        if not path.is_file():
            return {"problem": f"{path.name} is not a regular file"}
        with open_regular(path.resolve(), follow=False) as file:
            text = file.read(_MAX_RUN_INFO_BYTES + 1)
        if len(text) > _MAX_RUN_INFO_BYTES:
            raise ValueError(f"larger than {_MAX_RUN_INFO_BYTES} bytes")
        content = orjson.loads(text.removeprefix(codecs.BOM_UTF8))
        if _is_deeper(content, _MAX_RUN_INFO_DEPTH):
            raise ValueError(f"nested deeper than {_MAX_RUN_INFO_DEPTH} levels")
        info = RunInfo.model_validate(content).model_dump(exclude_unset=True, include={*RunInfo.model_fields})
        unknown = sorted(content.keys() - RunInfo.model_fields.keys())
        names = [f"{name:.{_UNKNOWN_KEY_CHARACTERS}}" for name in unknown[:_UNKNOWN_KEYS]]
        return info | ({"unknown_keys": names} if names else {})
    except ValidationError as error:
        # Only the first part of the place is a name of ours; others are keys of the file.
        first = error.errors()[0]
        return {"problem": f"{path.name} is not usable: {': '.join([*map(str, first['loc'][:1]), first['msg']])}"}
    except (OSError, ValueError) as error:
        return {"problem": f"{path.name} is not usable: {str(error).splitlines()[0]}"}


def refused_run_info(directory: Path, root: Path | None = None) -> LogFile | None:
    """A `run.json` that is not usable, as a file that is left alone for that reason; None for any other."""
    problem = read_run_info(directory, root).get("problem")
    if problem is None:
        return None
    reason = str(problem).removeprefix(f"{RUN_INFO_FILE} is ")
    digest = xxhash.xxh3_64_hexdigest(reason.encode("utf-8", "backslashreplace"))
    return LogFile(RUN_INFO_FILE, 0, 0, digest, "none", None, None, None, None, ignored=reason)


def _is_deeper(value: object, levels: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels == 0 or _is_deeper(part, levels - 1) for part in parts)


def run_info(directory: Path, settings: Settings) -> dict[str, object]:
    """What is known of a run beside its logs: its `run.json`, and from Slurm the state of its job if that lacks it."""
    info = read_run_info(directory, link_root(directory, settings))
    job = slurm_job_id(directory)
    if settings.sacct_command and job and "state" not in info:
        state = job_state(settings.sacct_command, job)
        if state.ended is not None:
            info["state"] = state.words
    return info


def find_runs(
    settings: Settings, deadline: float | None = None, start: str = ""
) -> tuple[list[RunDirectory], dict[str, str]]:
    """The runs below the landing directory, and why other directories were skipped (relative path -> reason).

    A run is a directory directly below the landing directory, unless that one merely groups runs: then each directory
    in it that is named `nccl-inspector-*`, holds a `run.json` or a finished marker, is a run. Looking stops at
    `deadline` (of `time.monotonic`); what was not reached is skipped as `NOT_REACHED`. Looking begins with the name
    `start` and wraps around, so that a landing directory too large for one budget is seen whole over several calls.
    A dump directory without a log in it is skipped, too. Raises `LandingError`.
    """
    landing, markers = settings.landing_dir, settings.finished_markers
    root = link_root(landing, settings)
    runs: list[RunDirectory] = []
    skipped: dict[str, str] = {}
    try:
        names = sorted(entry.name for entry in os.scandir(landing) if _is_shown_directory(entry))
    except OSError as error:
        raise LandingError(
            f"cannot list the landing directory {landing}: {error.strerror}; set NIXT_LANDING_DIR"
        ) from error
    for name in sorted(names, key=lambda name: (name < start, name)):
        if deadline is not None and time.monotonic() > deadline:
            skipped[name] = NOT_REACHED
            continue
        try:
            if (reason := leads_out(landing / name, root)) is not None:
                skipped[name] = reason
                continue
            for directory in _run_roots(landing / name, markers):
                relative = directory.relative_to(landing).as_posix()
                found = _look_at(directory, run_id(relative), markers, root)
                if found.file_count:
                    runs.append(found)
                elif _is_marked(directory, markers):
                    skipped[relative] = HOLDS_NO_LOG
        except OSError as error:
            skipped[name] = f"cannot be read: {error.strerror or error}"
    return runs, skipped


def is_finished(directory: RunDirectory, settings: Settings, now: float) -> Finished:
    """Whether the job behind `directory` has finished: by marker, by scheduler, or by a quiet period, in this order."""
    if directory.markers:
        return Finished(True, f"marked by {min(directory.markers)}")
    job = slurm_job_id(directory.path)
    unanswered = ""
    if settings.sacct_command and job:
        state = job_state(settings.sacct_command, job)
        if state.ended is not None:
            return Finished(state.ended, f"Slurm job {job} is {state.words}")
        unanswered = f" (Slurm job {job}: {state.words})"
    quiet_s = now - directory.newest_change_s
    if quiet_s >= settings.quiet_period_s:
        return Finished(True, f"unchanged for {quiet_s:.0f} s{unanswered}")
    wait = f"changed {max(quiet_s, 0):.0f} s ago; counts as finished after {settings.quiet_period_s:.0f} s"
    return Finished(False, wait + unanswered)


def _run_roots(directory: Path, markers: tuple[str, ...]) -> list[Path]:
    """`directory` itself, or the marked run directories below it when it only groups runs."""
    if _is_marked(directory, markers):
        return [directory]
    marked: list[Path] = []
    stack = [directory]
    while stack:
        try:
            entries = sorted(os.scandir(stack.pop()), key=lambda entry: entry.name)
        except OSError:
            # Taking the inventory names what cannot be listed.
            continue
        for entry in entries:
            if _is_shown_directory(entry) and not entry.is_symlink():
                path = Path(entry.path)
                (marked if _is_marked(path, markers) else stack).append(path)
    return sorted(marked) or [directory]


def _is_shown_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and not entry.name.startswith(".")
    except OSError:
        # A link to itself.
        return False


def _is_marked(directory: Path, markers: tuple[str, ...]) -> bool:
    if _DUMP_DIRECTORY.fullmatch(directory.name):
        return True
    return any(os.path.exists(directory / name) for name in (RUN_INFO_FILE, *markers))  # noqa: PTH110 (no permission is no)


def _look_at(directory: Path, identity: str, markers: tuple[str, ...], root: Path | None) -> RunDirectory:
    state, count, found = hashlib.blake2b(digest_size=8), 0, set()
    changes_s = [directory.stat().st_mtime]
    for path, entry, problem in sorted(walk_files(directory, root=root), key=lambda found: found.path):
        if problem is None:
            status = entry.stat()
            # A copy keeps the old modification time while it is being written; its change time is fresh.
            changes_s += [status.st_mtime, status.st_ctime]
        if leftover_reason(path) is not None:
            # A copy on its way keeps its run waiting; that is all it does.
            continue
        if problem is not None:
            state.update(f"{path}\0{problem}\n".encode("utf-8", "surrogateescape"))
            continue
        if entry.name in markers:
            found.add(entry.name)
            continue
        state.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
        count += 1
    # A file from the future (a host with a wrong clock) must not keep its run waiting for ever; one that is ahead by
    # less is as good as fresh.
    now = time.time()
    newest = min(max((change for change in changes_s if change <= now + _CLOCK_AHEAD_S), default=0.0), now)
    return RunDirectory(identity, directory, state.hexdigest(), newest, count, frozenset(found))
