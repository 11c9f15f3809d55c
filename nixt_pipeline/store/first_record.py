"""Whether a directory holds a record at all: told before it becomes a run, by decoding up to the first one."""

import math
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from nixt_pipeline.inspector.inventory import RUN_INFO_FILE, describe
from nixt_pipeline.inspector.log_file import decode_file
from nixt_pipeline.inspector.opening import link_root
from nixt_pipeline.inspector.records import Row, Typed
from nixt_pipeline.inspector.runs import HOLDS_NO_LOG, NO_RECORDS_HINT, LandingError, find_runs, run_id
from nixt_pipeline.inspector.walk import walk_files
from nixt_pipeline.settings import Settings

# Logs begin with a record, so that little of them is read. What is larger and does not is left to the ingest.
_MOST_BYTES_OF_A_FILE = 64 << 20
_MOST_BYTES = 256 << 20
_SECONDS = 2.0


class _FoundError(Exception):
    """A record is there: no need to read on."""


class _LateError(Exception):
    """There is no time to read on."""


@dataclass(frozen=True)
class _FirstRecord:
    """A sink that ends the decoding at the first record, and at the `deadline`."""

    deadline: float

    def add(self, _typed: Typed) -> None:
        raise _FoundError

    def add_batches(self, _events: pa.RecordBatch, _channels: pa.RecordBatch | None) -> None:
        raise _FoundError

    def refuse(self, _row: Row) -> None:
        if time.monotonic() > self.deadline:
            raise _LateError


def why_no_record(directory: Path, settings: Settings, deadline: float | None = None) -> str | None:
    """Why there is nothing to ingest in `directory`, in words; None when there is a record.

    None as well when it cannot be listed, or when it would take longer to tell: more than 256 MiB to read, or until
    `deadline` (of `time.monotonic`).
    """
    try:
        return _why_no_record(directory, settings, math.inf if deadline is None else deadline)
    except (_LateError, OSError):
        # The ingest takes the time, and meets the same error and names it.
        return None


def not_taken_up(settings: Settings, known: Container[str]) -> dict[str, str]:
    """The directories of the landing directory that hold no record, except the runs that are `known`, and why; as far
    as that can be told within two seconds."""
    deadline = time.monotonic() + _SECONDS
    try:
        found, skipped = find_runs(
            settings.landing_dir, settings.finished_markers, deadline, follow_links=settings.follow_links
        )
    except LandingError:
        return {}
    reasons = {name: reason for name, reason in without_emptied(skipped, known).items() if reason == HOLDS_NO_LOG}
    for directory in found:
        if directory.run not in known and time.monotonic() < deadline:
            reason = why_no_record(directory.path, settings, deadline)
            reasons |= {directory.run: reason} if reason is not None else {}
    return reasons


def without_emptied(skipped: Mapping[str, str], known: Container[str]) -> dict[str, str]:
    """Why directories were skipped (by path), without those of `known` runs whose logs were deleted since."""
    return {name: reason for name, reason in skipped.items() if reason != HOLDS_NO_LOG or run_id(name) not in known}


def _why_no_record(directory: Path, settings: Settings, deadline: float) -> str | None:
    reasons: list[str] = []
    empty = left_bytes = 0
    for path, size_bytes, reason in _files(directory, settings):
        if reason is not None:
            reasons.append(reason)
            continue
        if size_bytes == 0:
            empty += 1
            continue
        left_bytes += size_bytes
        if time.monotonic() > deadline or size_bytes > _MOST_BYTES_OF_A_FILE or left_bytes > _MOST_BYTES:
            # Most such files begin with a record; where this one does not, the ingest will tell.
            return None
        try:
            summary = decode_file(path, path.name, 0, _FirstRecord(deadline), settings)
        except _FoundError:
            return None
        reasons.append(summary.problem or summary.first_reason or "blank")
    if not reasons:
        return f"holds {f'{empty:,} empty' if empty else 'no'} log{'' if empty == 1 else 's'}: {NO_RECORDS_HINT}"
    return (
        f"no Inspector record in its {len(reasons) + empty:,} file{'' if len(reasons) + empty == 1 else 's'}"
        f" (the first: {reasons[0]}); nixt ingest {directory} says more"
    )


def _files(directory: Path, settings: Settings) -> Iterator[tuple[Path, int, str | None]]:
    """Each file of a directory with its size, and the reason why it is not read."""
    root = link_root(directory, settings.landing_dir, settings.follow_links)
    own = (settings.data_dir, settings.reports_dir)
    for found in walk_files(directory, own, root):
        if found.entry.name in (RUN_INFO_FILE, *settings.finished_markers):
            continue
        file = describe(found)
        foreign = "no log by its name" if file.foreign else None
        yield Path(found.entry.path), file.size_bytes, file.ignored or file.unreadable or foreign
