"""The content of a log file, decoded to UTF-8 and cut into blocks of whole lines, in bounded memory.

A damaged file is data: reading stops where nothing more can be had, what came before is kept, and `LogReader.problem`
says what is wrong. Only an `OSError` (no permission, vanished) leaves this module.
"""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import xxhash

from nixt_pipeline.inspector.decompression import WHOLE, Content, Span

# Longest first: the UTF-32 little-endian mark begins with the UTF-16 one.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What a log without a mark starts with when it was saved in one of these, as lines or indented.
_UNMARKED = (
    *((b"{\x00" + after + b"\x00", "utf-16-le") for after in (b'"', b"\r", b"\n")),
    *((b"\x00{\x00" + after, "utf-16-be") for after in (b'"', b"\r", b"\n")),
    (b"{\x00\x00\x00", "utf-32-le"),
)
# Where a line that is too long is cut, if it holds records.
_RECORD_STARTS = (b'{"header"', b'{"coll_perf"', b'{"p2p_perf"', b'"{\\"header\\"')


class Line(NamedTuple):
    """A piece of a log: normally one line with its line end."""

    offset: int  # of its first byte, in the decoded content
    number: int  # from 1
    data: bytes


class Block(NamedTuple):
    """A stretch of a log that begins at the beginning of a line."""

    offset: int  # of its first byte, in the decoded content
    data: bytes


class LogReader:
    """The lines of one log file. Iterate once; then `problem`, `content_bytes`, `blank_bytes` and `digest` are final.

    A line longer than `max_line_bytes` is handed out in pieces, cut between two records where that is possible.
    """

    def __init__(self, path: Path, max_line_bytes: int, span: Span = WHOLE, *, max_ratio: int) -> None:
        self._content = Content(path, span, max_ratio)
        self._chunks = iter(self._content)
        self.content_bytes = 0
        self.blank_bytes = 0
        self._max_line_bytes = max_line_bytes
        self._hash = xxhash.xxh3_128()
        self._failure: OSError | None = None
        self._stopped: str | None = None

    def stop(self, reason: str) -> None:
        """Read no further than what has been read by now; `reason` becomes the problem."""
        self._stopped = reason

    @property
    def problem(self) -> str | None:
        """Why the file was not read to its end, or None."""
        return self._stopped or self._content.problem

    @property
    def digest(self) -> str:
        """Hash of the decoded content; two files with equal digests are copies, whatever their names and
        compression."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines in order, each with its line end; the last one may lack it."""
        number = 1
        for block in self.blocks():
            start = 0
            while (end := block.data.find(b"\n", start) + 1) > 0:
                yield Line(block.offset + start, number, block.data[start:end])
                number += 1
                start = end
            if start < len(block.data):
                yield Line(block.offset + start, number, block.data[start:])

    def blocks(self) -> Iterator[Block]:
        """Yield the content in blocks of whole lines. Only the last line of a file, or one that is too long, lacks
        its end."""
        pending = b""
        offset: int | None = None
        for chunk in self._until_failure():
            # How long a byte order mark is shows only once the first chunk is there.
            offset = self._content.start + self.blank_bytes if offset is None else offset
            cut = chunk.rfind(b"\n") + 1
            if cut:
                block = b"".join((pending, memoryview(chunk)[:cut]))
                yield Block(offset, block)
                offset += len(block)
                pending = chunk[cut:]
            else:
                pending += chunk
            while len(pending) > self._max_line_bytes:
                cut = max(pending.rfind(start, 1, self._max_line_bytes) for start in _RECORD_STARTS)
                cut = cut if cut > 0 else self._max_line_bytes
                yield Block(offset, pending[:cut])
                offset += cut
                pending = pending[cut:]
        if pending:
            yield Block(offset or 0, pending)
        if self._failure:
            raise self._failure

    def _until_failure(self) -> Iterator[bytes]:
        """The content up to where the disk fails: what was read is handed out before the error is."""
        try:
            yield from self._decoded()
        except OSError as error:
            self._failure = error

    def _decoded(self) -> Iterator[bytes]:
        """The content as UTF-8, without a leading byte order mark (counted as blank)."""
        chunks = self._chunks
        first = next(chunks, b"")
        while 0 < len(first) < len(codecs.BOM_UTF32_LE):
            more = next(chunks, b"")
            if not more:
                break
            first += more
        mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if first.startswith(m)), (b"", "utf-8"))
        if not mark:
            encoding = next((e for start, e in _UNMARKED if first.startswith(start)), "utf-8")
        first = first[len(mark) :]
        self.blank_bytes = len(codecs.BOM_UTF8) if mark else 0
        self.content_bytes = self.blank_bytes
        decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(errors="replace")
        while first and not self._stopped:
            text = first if decoder is None else decoder.decode(first).encode("utf-8", "replace")
            yield self._account(text)
            first = next(chunks, b"")
        if decoder is not None and not self._stopped and (tail := decoder.decode(b"", final=True)):
            yield self._account(tail.encode("utf-8", "replace"))

    def _account(self, chunk: bytes) -> bytes:
        self.content_bytes += len(chunk)
        self._hash.update(chunk)
        return chunk
