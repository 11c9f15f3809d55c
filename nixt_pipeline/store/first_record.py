"""Whether a directory holds a record at all: told before it becomes a run, by decoding up to the first one."""

import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from nixt_pipeline.inspector.inventory import RUN_INFO_FILE, describe, files_below, has_log_name
from nixt_pipeline.inspector.log_file import decode_file
from nixt_pipeline.inspector.records import Row, Typed
from nixt_pipeline.inspector.runs import HOLDS_NO_LOG, NO_RECORDS_HINT, LandingError, find_runs, run_id
from nixt_pipeline.inspector.taxonomy import REJECT_COLUMNS
from nixt_pipeline.settings import Settings

# Logs begin with a record, or hold one within the lines after which the ingest gives up as well. A file without one may
# be a core dump of any size, and there may be one of each process.
_MOST_BYTES_OF_A_FILE = 32 << 20
_MOST_BYTES = 128 << 20
_SECONDS = 2.0
_BYTE_OFFSET, _BYTES = ([column.name for column in REJECT_COLUMNS].index(name) for name in ("byte_offset", "bytes"))


class _FoundError(Exception):
    """A record is there: no need to read on."""


class _LateError(Exception):
    """There is no time to read on."""


class _EnoughError(Exception):
    """So much was read without a record that none is to be expected."""


@dataclass(frozen=True)
class _FirstRecord:
    """A sink that ends the decoding at the first record, at the `deadline`, and after `most_bytes` without a record."""

    deadline: float
    most_bytes: int

    def add(self, _typed: Typed) -> None:
        raise _FoundError

    def add_batches(self, _events: pa.RecordBatch, _channels: pa.RecordBatch | None) -> None:
        raise _FoundError

    def refuse(self, row: Row) -> None:
        if time.monotonic() > self.deadline:
            raise _LateError
        if row[_BYTE_OFFSET] + row[_BYTES] >= self.most_bytes:
            raise _EnoughError


def why_no_record(directory: Path, settings: Settings, deadline: float | None = None) -> str | None:
    """Why there is nothing to ingest in `directory`, in words; None when there is a record.

    Files with the plugin's names come first; 32 MiB of each file and 128 MiB of all are read. None as well when the
    directory cannot be listed, or when there is no time to tell before `deadline` (of `time.monotonic`).
    """
    try:
        return _why_no_record(directory, settings, math.inf if deadline is None else deadline)
    except (_LateError, OSError):
        # The ingest takes the time, and meets the same error and names it.
        return None


def not_taken_up(known: Container[str], settings: Settings) -> dict[str, str]:
    """The directories of the landing directory that hold no record, except the runs that are `known`, and why; as far
    as that can be told within two seconds."""
    deadline = time.monotonic() + _SECONDS
    try:
        found, skipped = find_runs(settings, deadline)
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
    empty, left_bytes = 0, _MOST_BYTES
    for path, size_bytes, reason in _files(directory, settings):
        if time.monotonic() > deadline:
            raise _LateError
        if reason is not None:
            reasons.append(reason)
        elif size_bytes == 0:
            empty += 1
        elif left_bytes <= 0:
            return f"{_no_record(len(reasons) + empty, reasons, 'first ')}; nixt ingest {directory} reads them all"
        else:
            n_bytes, reason = _read(path, settings, deadline, min(left_bytes, _MOST_BYTES_OF_A_FILE))
            if reason is None:
                return None
            left_bytes -= n_bytes
            reasons.append(reason)
    if not reasons:
        return f"holds {f'{empty:,} empty' if empty else 'no'} log{'' if empty == 1 else 's'}: {NO_RECORDS_HINT}"
    return f"{_no_record(len(reasons) + empty, reasons)}; nixt ingest {directory} says more"


def _no_record(files: int, reasons: Sequence[str], which: str = "") -> str:
    return f"no Inspector record in its {which}{files:,} file{'' if files == 1 else 's'} (the first: {reasons[0]})"


def _read(path: Path, settings: Settings, deadline: float, most_bytes: int) -> tuple[int, str | None]:
    """How many bytes of a file were read, and why there is no record in them, None when there is."""
    try:
        summary = decode_file(path, path.name, 0, _FirstRecord(deadline, most_bytes), settings)
    except _FoundError:
        return 0, None
    except _EnoughError:
        return most_bytes, f"no record in its first {most_bytes >> 20} MiB"
    return summary.bytes_read, summary.problem or summary.first_reason or "blank"


def _files(directory: Path, settings: Settings) -> Iterator[tuple[Path, int, str | None]]:
    """Each file of a directory with its size, and the reason why it is not read; those named like logs first."""
    for found in sorted(
        files_below(directory, settings), key=lambda found: (not has_log_name(found.entry.name), found.path)
    ):
        if found.entry.name == RUN_INFO_FILE:
            continue
        file = describe(found)
        yield Path(found.entry.path), file.size_bytes, file.ignored or file.unreadable or file.foreign
