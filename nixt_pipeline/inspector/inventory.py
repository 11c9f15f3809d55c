"""Discovery of the files of one run: size, time, content fingerprint, compression, and what their names and ends
tell."""

import codecs
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import xxhash
from pydantic import TypeAdapter

from nixt_pipeline.errors import NixtError
from nixt_pipeline.inspector.decoder import has_inspector_vocabulary
from nixt_pipeline.inspector.decompression import compression_of
from nixt_pipeline.inspector.opening import Found, link_root, open_regular, sparse, walk_files
from nixt_pipeline.inspector.set_aside import (
    archive_reason,
    foreign_content_reason,
    foreign_name_reason,
    leftover_reason,
    unfolded_beginning,
)
from nixt_pipeline.settings import Settings

# The plugin's own name, with what forks and compression append: <host>-pid<pid>[-<epoch>].log[.gz]
_LOG_NAME = re.compile(r"(?P<host>.+)-pid(?P<pid>\d{1,18})(?:-\d+)?\.(?:log|jsonl?)(?:\.\w+)?", re.ASCII)
_HOST = re.compile(rb'"hostname"\s*:\s*"([^"\\]{1,255})"')
_PID = re.compile(rb'"pid"\s*:\s*(\d{1,19})')
_TIMESTAMP = re.compile(rb'"dump_timestamp_us"\s*:\s*(\d{1,19})')
# A verbose record of 64 channels has 14 kB, so this much of a file's end holds a whole one.
_END_BYTES = 64 * 1024
_BZIP2_BLOCK_BYTES = 1 << 20
# How an object over several lines begins.
_OPENING_LINE = re.compile(rb"^[ \t]*\{[ \t\r]*$", re.MULTILINE)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
RUN_INFO_FILE = "run.json"
_MISPLACED_RUN_INFO = f"{RUN_INFO_FILE} counts only in the top folder of its run: move it there"


@dataclass(frozen=True)
class LogFile:
    """One file below a run's directory. `unreadable` is None, or why it is not possible to read. Host and pid are those
    that its name tells, for an ignored file those of its first record."""

    path: str  # relative to the run's directory, with "/"; bytes that are not UTF-8 as \\xff
    size_bytes: int
    mtime_ns: int
    fingerprint: str
    compression: str
    hostname: str | None
    pid: int | None
    first_dump_us: int | None
    last_dump_us: int | None
    # Why it is certainly no log.
    foreign: str | None = None
    unreadable: str | None = None
    # Why it is left alone although it may hold records: a leftover, an archive.
    ignored: str | None = None
    # Whether it can be decoded in slices: plain text in one-byte units whose lines say by themselves whose they are.
    splittable: bool = False
    # The bytes of a path that is not UTF-8, as hexadecimal digits.
    path_bytes: str | None = None

    @property
    def is_log(self) -> bool:
        """Whether it is to be decoded."""
        return self.foreign is None and self.unreadable is None and self.ignored is None

    @property
    def location(self) -> str:
        """The path as the system spells it."""
        return self.path if self.path_bytes is None else os.fsdecode(bytes.fromhex(self.path_bytes))


@dataclass(frozen=True)
class Inventory:
    """The files of a run at one moment, sorted by path."""

    run: str
    directory: str
    files: tuple[LogFile, ...]

    @property
    def fingerprint(self) -> str:
        """Changes when any file appears, vanishes or changes."""
        state = "\n".join(f"{file.path}\0{file.size_bytes}\0{file.mtime_ns}\0{file.fingerprint}" for file in self.files)
        return hashlib.blake2b(state.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


# To JSON and back.
INVENTORY = TypeAdapter(Inventory)


class TooManyFilesError(NixtError, OSError):
    """The directory holds more files than the settings allow."""


def take_inventory(directory: Path, run: str, settings: Settings) -> Inventory:
    """List the files of the run in `directory`, leaving out its `run.json` and the finished markers.

    Raises `OSError` when the directory itself cannot be listed, has a name that is not UTF-8, or holds too many files.
    """
    location = str(directory.resolve())
    if _shown(location) != location:
        raise OSError(f"the name {_shown(location)} is not UTF-8; rename it")
    found = list(islice(files_below(directory, settings), settings.max_files + 1))
    if len(found) > settings.max_files:
        raise TooManyFilesError(f"more than {settings.max_files} files; raise NIXT_MAX_FILES if that is meant")
    files = [describe(file) for file in found]
    return Inventory(run, location, tuple(sorted(files, key=lambda file: file.path)))


def files_below(directory: Path, settings: Settings) -> Iterator[Found]:
    """What may be a log of the run in `directory`: neither its `run.json`, nor a finished marker, nor what this program
    writes itself."""
    own = (settings.data_dir, settings.reports_dir)
    for found in walk_files(directory, own, link_root(directory, settings)):
        if found.path != RUN_INFO_FILE and found.entry.name not in settings.finished_markers:
            yield found


def has_log_name(name: str) -> bool:
    """Whether the plugin names its logs like this; many logs have other names."""
    return _LOG_NAME.fullmatch(name) is not None


def describe(found: Found) -> LogFile:
    """What one file is, by its name and by what begins and ends it."""
    name, entry, problem = found
    shown = _shown(name)
    path_bytes = None if shown == name else os.fsencode(name).hex()
    match = _LOG_NAME.fullmatch(_shown(entry.name))
    hostname, pid = (match["host"], int(match["pid"])) if match else (None, None)
    misplaced = _MISPLACED_RUN_INFO if entry.name == RUN_INFO_FILE else None
    foreign, ignored = foreign_name_reason(_shown(entry.name)), leftover_reason(shown) or misplaced
    if problem is not None:
        return LogFile(shown, 0, 0, "", "none", hostname, pid, None, None, foreign, problem, ignored)
    try:
        with open_regular(Path(entry.path)) as file:
            status = os.fstat(file.fileno())
            problem = sparse(file)
            head = file.read(min(_END_BYTES, status.st_size))
            # Nothing of bzip2 unfolds before a block is complete.
            beginning = head + file.read(_BZIP2_BLOCK_BYTES if head.startswith(b"BZh") else 0)
            file.seek(max(0, status.st_size - _END_BYTES))
            tail = file.read(min(_END_BYTES, status.st_size))
    except OSError as error:
        return describe(found._replace(problem=error.strerror or str(error)))
    compression = compression_of(head)
    foreign = foreign or foreign_content_reason(unfolded_beginning(beginning, compression))
    digest = _fingerprint(head, tail, status.st_size)
    if ignored is not None:
        hostname, pid = _first_process(unfolded_beginning(beginning, compression, _END_BYTES))
    elif (ignored := archive_reason(beginning, compression)) is not None:
        hostname, pid = None, None
    first, last = _time_span(head, tail, compression)
    plain = compression == "none" and b"\0" not in head[:4] and not head.startswith(_UTF16_MARKS)
    splittable = plain and b'"dump_stats"' not in head
    return LogFile(
        path=shown,
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        fingerprint=digest,
        compression=compression,
        hostname=hostname,
        pid=pid,
        first_dump_us=first,
        last_dump_us=last,
        foreign=foreign,
        unreadable=problem,
        ignored=ignored,
        splittable=splittable,
        path_bytes=path_bytes,
    )


def _shown(name: str) -> str:
    """A name with the bytes that are not UTF-8 written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def grew(path: Path, size_bytes: int, fingerprint: str) -> bool:
    """Whether the file at `path` is the one that had this size and fingerprint, with whole lines added at its end.

    Not when there are objects over several lines, within one of which it may have ended.
    """
    head, tail = _ends(path, size_bytes)
    whole_lines = tail.endswith(b"\n") and not _OPENING_LINE.search(tail)
    return whole_lines and _fingerprint(head, tail, size_bytes) == fingerprint


def begins_with(path: Path, size_bytes: int, fingerprint: str) -> bool:
    """Whether the file at `path` begins with the one that had this size and fingerprint."""
    return _fingerprint(*_ends(path, size_bytes), size_bytes) == fingerprint


def _ends(path: Path, size_bytes: int) -> tuple[bytes, bytes]:
    """What begins and ends the first `size_bytes` of a file; nothing of one that cannot be read: decoding will meet the
    same error, and the books say so."""
    try:
        with open_regular(path) as file:
            head = file.read(min(_END_BYTES, size_bytes))
            file.seek(max(0, size_bytes - _END_BYTES))
            return head, file.read(min(_END_BYTES, size_bytes))
    except OSError:
        return b"", b""


def _fingerprint(head: bytes, tail: bytes, size_bytes: int) -> str:
    digest = xxhash.xxh3_64(head)
    digest.update(tail)
    digest.update(str(size_bytes).encode())
    return digest.hexdigest()


def _first_process(text: bytes) -> tuple[str | None, int | None]:
    """Host and pid of a text that begins with a record."""
    line = text.lstrip().partition(b"\n")[0]
    host, pid = _HOST.search(line), _PID.search(line)
    if not (has_inspector_vocabulary(line) and host and pid):
        return None, None
    return host[1].decode("utf-8", "replace"), _int64(pid[1])


def _time_span(head: bytes, tail: bytes, compression: str) -> tuple[int | None, int | None]:
    """First and last record time as far as the ends of the file tell without reading it; of a gzip file only the
    first."""
    if compression == "gzip":
        head, tail = unfolded_beginning(head, compression, _END_BYTES), b""
    first, last = _TIMESTAMP.search(head), _TIMESTAMP.findall(tail)
    return _int64(first[1] if first else None), _int64(last[-1] if last else None)


def _int64(digits: bytes | None) -> int | None:
    return int(digits) if digits is not None and int(digits) < 2**63 else None
