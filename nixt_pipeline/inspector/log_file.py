"""Decode one log file: every byte ends up as part of a record, a rejected line, a foreign line or a blank."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.decoder import Fragment, decode_line, has_inspector_vocabulary, is_foreign_line
from nixt_pipeline.inspector.decompression import WHOLE, Span
from nixt_pipeline.inspector.fields import RejectedError
from nixt_pipeline.inspector.file_summary import FileSummary
from nixt_pipeline.inspector.pieces import PieceJoiner, Whole
from nixt_pipeline.inspector.reader import Line, LogReader
from nixt_pipeline.inspector.records import ForeignError, RecordTyper, Row, Typed
from nixt_pipeline.settings import Settings

if TYPE_CHECKING:
    from nixt_pipeline.inspector.template import Decoded

# A file, or a slice of one, of nothing but broken lines keeps this many of them as rows; the counts stay exact.
MAX_REJECT_ROWS = 10_000
_SAMPLE_CHARACTERS = 200
_EVENT_NAMES = [column.name for column in taxonomy.EVENT_COLUMNS]
_VERSION, _COLL, _SN = (_EVENT_NAMES.index(name) for name in ("inspector_output_format_version", "coll", "coll_sn"))


class Sink(Protocol):
    """Takes the typed rows of a file as they are decoded."""

    def add(self, typed: Typed, /) -> None:
        """Take the rows of one line."""

    def add_batches(self, events: pa.RecordBatch, channels: pa.RecordBatch | None, /) -> None:
        """Take rows that the fast path decoded."""

    def refuse(self, row: Row, /) -> None:
        """Take the row of a line that is no record; its number counts from the beginning of the slice."""


def decode_file(  # noqa: PLR0913 (three of them only in an ingest, by keyword)
    path: Path,
    name: str,
    file_id: int,
    sink: Sink,
    settings: Settings,
    *,
    span: Span = WHOLE,
    size_bytes: int | None = None,
    by_template: bool = False,
) -> FileSummary:
    """Decode the file at `path` (called `name` in tables) into `sink`; an unreadable one is a status, not an exception.

    `span` limits it to the lines that begin there. `size_bytes` is where a plain file ended when it was listed: what it
    has grown by since is left to the next time, which would read it again. `by_template` tries the fast path on every
    line first; the result is the same. Call `settle` on the summary of the whole file.
    """
    summary = FileSummary(file_id, name)
    listed = Span(span.start, size_bytes) if span.end is None else span
    reader = LogReader(path, settings.max_line_bytes, listed, max_ratio=settings.max_compression_ratio)
    decoding = _Decoding(summary, RecordTyper(file_id, settings.thresholds), sink, settings)
    try:
        if by_template:
            decoding.take_blocks(reader)
        else:
            for line in reader:
                decoding.take(line)
                summary.lines = line.number
                decoding.stop_if_hopeless(reader)
    except OSError as error:
        summary.status, summary.problem = "unreadable", f"{error.strerror or error} (at byte {reader.content_bytes})"
    decoding.finish()
    summary.problem = summary.problem or reader.problem
    summary.bytes_read = reader.content_bytes
    summary.bytes_blank += reader.blank_bytes
    summary.content_digest = reader.digest if span == WHOLE and not decoding.stopped else None
    return summary


class _Stretch(NamedTuple):
    """A stretch of a log: what stands there, where it begins, and for how many bytes it counts."""

    data: bytes
    offset: int
    n_bytes: int


class _Decoding:
    """The state of decoding one file."""

    def __init__(self, summary: FileSummary, typer: RecordTyper, sink: Sink, settings: Settings) -> None:
        self._summary, self._typer, self._sink, self._settings = summary, typer, sink, settings
        self._counters: dict[Row, tuple[int, int]] = {}
        self.stopped = False  # nothing was a record so far, so that reading went no further
        self._joiner = PieceJoiner(settings.max_line_bytes)
        self._held: list[Line] = []
        self._held_bytes = 0
        self._closing: tuple[bytes, bytes] = (b"}", b"},")

    def stop_if_hopeless(self, reader: LogReader) -> None:
        """Read no further when nothing was a record so far."""
        summary, most = self._summary, self._settings.max_refused_lines
        refused = summary.lines_rejected + summary.lines_foreign
        if refused >= most and not summary.bytes_stored and not self.stopped:
            self.stopped = True
            reader.stop(f"no record in its first {refused:,} lines; the rest was not read (NIXT_MAX_REFUSED_LINES)")

    def take_blocks(self, reader: LogReader) -> None:
        """Decode blocks by the fast path, and what it leaves by the careful one."""
        from nixt_pipeline.inspector.template import TemplateDecoder

        decoder = TemplateDecoder(self._summary.file_id, self._settings.thresholds)
        try:
            for block in reader.blocks():
                for decoded in decoder.decode(block.data):
                    self._add(decoded)
                    for line in decoded.careful:
                        self.take(Line(block.offset + line.start, line.number, block.data[line.start : line.end]))
                self.stop_if_hopeless(reader)
        finally:
            # What was read before a file became unreadable is kept.
            for decoded in decoder.finish():
                self._add(decoded)
            self._summary.may_repeat |= decoder.may_repeat
            self._summary.processes |= decoder.processes()
            self._summary.counters = decoder.counters()
            self._summary.lines += decoder.lines

    def _add(self, decoded: "Decoded") -> None:
        if not decoded.events.num_rows:
            return
        self._sink.add_batches(decoded.events, decoded.channels)
        summary = self._summary
        summary.records_collective += decoded.collectives
        summary.records_p2p += decoded.events.num_rows - decoded.collectives
        summary.bytes_stored += decoded.n_bytes
        self._extend_span(decoded.first_us)
        self._extend_span(decoded.last_us)

    def take(self, line: Line) -> None:
        """Decode a line, joining pretty-printed objects (a line `{` up to a line `}` as far to the right) into one."""
        text = line.data.rstrip()
        if self._held and (line.number != self._held[-1].number + 1 or text.startswith(b'{"')):
            self._flush()
        if not self._held:
            if text.lstrip() != b"{":
                self._take(line)
                return
            self._held_bytes, self._closing = 0, (text[:-1] + b"}", text[:-1] + b"},")
            # No line of it can be understood by itself, nor in a slice that begins within it.
            self._typer.stateful = True
        self._held.append(line)
        self._held_bytes += len(line.data)
        if text in self._closing:
            whole = Line(self._held[0].offset, self._held[0].number, b"".join(part.data for part in self._held))
            self._held.clear()
            self._take(whole)
        elif self._held_bytes > self._settings.max_line_bytes:
            self._flush()

    def finish(self) -> None:
        """Hand over what was collected on the way."""
        self._flush()
        self._joiner.finish()
        self._flush_lost()
        summary = self._summary
        # The two paths watch sequence numbers apart, so a file in which both found operations may hold one twice.
        summary.may_repeat |= bool(summary.counters and self._counters)
        summary.counters |= self._counters
        summary.stateful = self._typer.stateful or self._joiner.used

    def _flush(self) -> None:
        """Decode the held lines of a pretty-printed object that did not end one by one."""
        held, self._held = self._held, []
        for line in held:
            self._take(line)

    def _take(self, line: Line) -> None:
        """Account for every byte of `line`."""
        text = line.data.strip()
        if not text:
            self._summary.bytes_blank += len(line.data)
            return
        if is_foreign_line(text):
            stretch = _Stretch(line.data, line.offset, len(line.data))
            self._refuse(line, stretch, "foreign", "separator written by tail or head")
            return
        piece = self._joiner.take(line)
        if piece is True:
            self._flush_lost()
            return
        if piece:
            self._take_whole(piece)
            return
        self._flush_lost()
        taken = 0
        for fragment in decode_line(text):
            if fragment.cut is not None and (fragment.start, fragment.end) == (0, len(text)):
                self._joiner.begin(line, fragment.cut)
                return
            # The blanks around a fragment (line end, spaces between objects) count as its own.
            last = fragment.end == len(text)
            end = len(line.data) if last else len(line.data) - len(line.data.lstrip()) + fragment.end
            self._fragment(line, fragment, _Stretch(line.data[taken:end], line.offset + taken, end - taken))
            taken = end
        self._summary.bytes_blank += len(line.data) - taken

    def _take_whole(self, whole: Whole) -> None:
        """Decode a record that was put together from several lines; all their bytes are its own."""
        self._typer.stateful = True
        first, n_bytes = whole.lines[0], sum(len(line.data) for line in whole.lines)
        fragments = list(decode_line(whole.text.strip()))
        if not fragments:
            self._summary.bytes_blank += n_bytes
        for number, fragment in enumerate(fragments):
            share = n_bytes * (number + 1) // len(fragments) - n_bytes * number // len(fragments)
            piece = whole.text.strip()[fragment.start : fragment.end]
            self._fragment(first, fragment, _Stretch(piece, first.offset, share))

    def _flush_lost(self) -> None:
        """Account for the pieces of records that never became whole."""
        for line in self._joiner.lost:
            stretch = _Stretch(line.data, line.offset, len(line.data))
            self._fragment(line, Fragment(0, 0, None, "a piece of a record, of which others are missing"), stretch)
        self._joiner.lost.clear()

    def _fragment(self, line: Line, fragment: Fragment, stretch: "_Stretch") -> None:
        if fragment.is_label:
            self._summary.bytes_foreign += stretch.n_bytes
            return
        if fragment.value is None:
            self._typer.lost_line(stretch.data)
            self._refuse(line, stretch, "rejected", fragment.reason)
            return
        try:
            typed = self._typer.type(fragment.value, stretch.n_bytes, stretch.offset, fragment.non_finite)
        except RejectedError as error:
            self._summary.recognised = True
            self._refuse(line, stretch, "rejected", str(error))
        except ForeignError as error:
            self._refuse(line, stretch, "foreign", str(error))
        else:
            self._store(typed, stretch.n_bytes)

    def _store(self, typed: Typed, n_bytes: int) -> None:
        summary = self._summary
        self._sink.add(typed)
        summary.bytes_stored += n_bytes
        summary.processes.add(typed.process)
        if typed.event is None:
            summary.records_auxiliary += 1
        elif typed.event[0] == "collective":
            summary.records_collective += 1
        else:
            summary.records_p2p += 1
        self._extend_span(typed.dump_timestamp_us)
        self._watch_for_repeats(typed.event)

    def _watch_for_repeats(self, event: Row | None) -> None:
        """Sequence numbers rise, so that a record can only be there twice where one does not."""
        if event is None:
            return
        kind, sequence_number = event[0], event[_SN]
        counter = (*event[:_VERSION], event[_COLL] if kind == "collective" else None)
        first, last = self._counters.get(counter, (sequence_number, -1))
        if sequence_number is None or sequence_number <= last:
            self._summary.may_repeat = True
        else:
            self._counters[counter] = first, sequence_number

    def _extend_span(self, timestamp_us: int | None) -> None:
        summary = self._summary
        if timestamp_us is not None:
            summary.first_dump_us = min(timestamp_us, summary.first_dump_us or timestamp_us)
            summary.last_dump_us = max(timestamp_us, summary.last_dump_us or timestamp_us)

    def _refuse(self, line: Line, stretch: "_Stretch", outcome: str, reason: str) -> None:
        summary, data = self._summary, stretch.data
        summary.recognised = summary.recognised or has_inspector_vocabulary(data)
        if outcome == "rejected":
            summary.lines_rejected += 1
            summary.bytes_rejected += stretch.n_bytes
        else:
            summary.lines_foreign += 1
            summary.bytes_foreign += stretch.n_bytes
        summary.first_reason = summary.first_reason or reason
        if summary.lines_rejected + summary.lines_foreign <= MAX_REJECT_ROWS:
            sample = data[: 4 * _SAMPLE_CHARACTERS].decode("utf-8", "replace").strip()[:_SAMPLE_CHARACTERS]
            place = (stretch.offset, line.number, stretch.n_bytes)
            row = (summary.file_id, summary.path, *place, outcome, reason, sample)
            self._sink.refuse(row)
