"""Decode one log file: every byte ends up as part of a record, a rejected line, a foreign line or a blank."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nixt_pipeline.inspector.decoder import Fragment, decode_line, has_inspector_vocabulary, is_foreign_line
from nixt_pipeline.inspector.reader import Line, LogReader
from nixt_pipeline.inspector.records import ForeignError, RecordTyper, RejectedError, Row, Typed
from nixt_pipeline.settings import Settings

# A file of nothing but broken lines keeps this many of them as rows; the counts stay exact.
MAX_REJECT_ROWS = 10_000
_SAMPLE_CHARACTERS = 200
# Records with one and the same time stamp among which copies are looked for while reading; more is left to the store's
# search.
_MAX_WINDOW = 100_000


class Sink(Protocol):
    """Takes the typed rows of a file as they are decoded."""

    def add(self, typed: Typed) -> None:
        """Take the rows of one line."""


@dataclass
class FileSummary:
    """What decoding one file came to; byte counts are after decompression and decoding to UTF-8."""

    file_id: int
    path: str
    status: str = "read"
    problem: str | None = None
    first_dump_us: int | None = None
    last_dump_us: int | None = None
    records_collective: int = 0
    records_p2p: int = 0
    records_auxiliary: int = 0
    lines_rejected: int = 0
    lines_foreign: int = 0
    bytes_read: int = 0
    bytes_stored: int = 0
    bytes_rejected: int = 0
    bytes_foreign: int = 0
    bytes_blank: int = 0
    content_digest: str | None = None
    rejects: list[Row] = field(default_factory=list)
    processes: set[tuple[str | None, int | None]] = field(default_factory=set)
    # Whether the file may hold a record twice: time runs backwards, or equal lines were seen close together.
    may_repeat: bool = False


def decode_file(path: Path, name: str, file_id: int, sink: Sink, settings: Settings) -> FileSummary:
    """Decode the file at `path` (called `name` in tables) into `sink`. An unreadable file is a status, not an
    exception."""
    summary = FileSummary(file_id, name)
    reader = LogReader(path, settings.max_line_bytes)
    decoding = _Decoding(summary, RecordTyper(file_id, settings.thresholds), sink)
    try:
        for line in _whole_objects(reader, settings.max_line_bytes):
            decoding.take(line)
    except OSError as error:
        summary.status, summary.problem = "unreadable", f"{error.strerror or error} (at byte {reader.content_bytes})"
    summary.problem = summary.problem or reader.problem
    summary.bytes_read = reader.content_bytes
    summary.bytes_blank += reader.blank_bytes
    summary.content_digest = reader.digest
    decoding.finish()
    return summary


class _Decoding:
    """The state of decoding one file."""

    def __init__(self, summary: FileSummary, typer: RecordTyper, sink: Sink) -> None:
        self._summary, self._typer, self._sink = summary, typer, sink
        self._recognised = False
        self._window: set[bytes] = set()
        self._window_us = 0

    def take(self, line: Line) -> None:
        """Account for every byte of `line`."""
        text = line.data.strip()
        if not text:
            self._summary.bytes_blank += len(line.data)
            return
        if is_foreign_line(text):
            self._refuse(line, line.data, "foreign", "separator written by tail or head")
            return
        taken = 0
        for fragment in decode_line(text):
            # The blanks around a fragment (line end, spaces between objects) count as its own.
            last = fragment.end == len(text)
            end = len(line.data) if last else len(line.data) - len(line.data.lstrip()) + fragment.end
            self._fragment(line, fragment, line.data[taken:end], line.offset + taken)
            taken = end
        self._summary.bytes_blank += len(line.data) - taken

    def _fragment(self, line: Line, fragment: Fragment, data: bytes, offset: int) -> None:
        if fragment.value is None:
            self._typer.lost_line(data)
            self._refuse(line, data, "rejected", fragment.reason, offset)
            return
        try:
            typed = self._typer.type(fragment.value, len(data), offset)
        except RejectedError as error:
            self._recognised = True
            self._refuse(line, data, "rejected", str(error), offset)
        except ForeignError as error:
            self._refuse(line, data, "foreign", str(error), offset)
        else:
            self._store(typed, data)

    def _store(self, typed: Typed, data: bytes) -> None:
        summary = self._summary
        self._sink.add(typed)
        summary.bytes_stored += len(data)
        summary.processes.add(typed.process)
        if typed.event is None:
            summary.records_auxiliary += 1
        elif typed.event[0] == "collective":
            summary.records_collective += 1
        else:
            summary.records_p2p += 1
        self._watch_for_repeats(typed.dump_timestamp_us, data)

    def _watch_for_repeats(self, timestamp_us: int | None, data: bytes) -> None:
        """Copies carry the same time stamp, so in a file whose time never runs back they can only be close together."""
        summary = self._summary
        if timestamp_us is None:
            summary.may_repeat = True
            return
        summary.first_dump_us = min(timestamp_us, summary.first_dump_us or timestamp_us)
        summary.last_dump_us = max(timestamp_us, summary.last_dump_us or timestamp_us)
        if summary.may_repeat:
            return
        if timestamp_us != self._window_us:
            summary.may_repeat = timestamp_us < self._window_us
            self._window_us = timestamp_us
            self._window.clear()
        record = data.strip()
        summary.may_repeat |= record in self._window or len(self._window) >= _MAX_WINDOW
        self._window.add(record)

    def _refuse(self, line: Line, data: bytes, outcome: str, reason: str, offset: int | None = None) -> None:
        summary = self._summary
        self._recognised = self._recognised or has_inspector_vocabulary(data)
        if outcome == "rejected":
            summary.lines_rejected += 1
            summary.bytes_rejected += len(data)
        else:
            summary.lines_foreign += 1
            summary.bytes_foreign += len(data)
        if len(summary.rejects) < MAX_REJECT_ROWS:
            sample = data[: 4 * _SAMPLE_CHARACTERS].decode("utf-8", "replace").strip()[:_SAMPLE_CHARACTERS]
            at = line.offset if offset is None else offset
            row = (summary.file_id, summary.path, at, line.number, len(data), outcome, reason, sample)
            summary.rejects.append(row)

    def finish(self) -> None:
        """Decide what kind of file it was: empty, ours, or somebody else's (then it counts as one thing, not line by
        line)."""
        summary = self._summary
        records = summary.records_collective + summary.records_p2p + summary.records_auxiliary
        if summary.status == "unreadable":
            return
        if summary.bytes_read == summary.bytes_blank:
            summary.status = "empty"
        elif not records and not self._recognised:
            summary.status = "foreign"
            summary.bytes_foreign = summary.bytes_read
            summary.bytes_rejected = summary.bytes_blank = 0
            summary.lines_rejected = summary.lines_foreign = 0
            summary.rejects.clear()


def _whole_objects(lines: LogReader, max_bytes: int) -> Iterator[Line]:
    """Join pretty-printed objects (a line `{` up to a line `}`) into one piece; everything else passes through
    unchanged."""
    held: list[Line] = []
    held_bytes = 0
    for line in lines:
        text = line.data.rstrip()
        if not held and text != b"{":
            yield line
            continue
        if text.startswith(b'{"') or held_bytes + len(line.data) > max_bytes:
            yield from held
            held, held_bytes = [], 0
            yield line
            continue
        held.append(line)
        held_bytes += len(line.data)
        if text == b"}":
            yield Line(held[0].offset, held[0].number, b"".join(part.data for part in held))
            held, held_bytes = [], 0
    yield from held
