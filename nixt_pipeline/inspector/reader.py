"""Bytes of a log file, decompressed, decoded to UTF-8 and cut into lines, in bounded memory.

A damaged file is data: reading stops where nothing more can be had, what came before is kept, and `LogReader.problem`
says what is wrong. Only an `OSError` (no permission, vanished) leaves this module.
"""

import bz2
import codecs
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import xxhash

_CHUNK_BYTES = 4 << 20
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))
# Longest first: the UTF-32 little-endian mark begins with the UTF-16 one.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What a log without a mark starts with when it was saved as UTF-16.
_UNMARKED_UTF16 = ((b'{\x00"\x00', "utf-16-le"), (b'\x00{\x00"', "utf-16-be"))


class Line(NamedTuple):
    """A piece of a log: normally one line with its line end."""

    offset: int  # of its first byte, in the decoded content
    number: int  # from 1
    data: bytes


class Block(NamedTuple):
    """A stretch of a log that begins at the beginning of a line."""

    offset: int  # of its first byte, in the decoded content
    data: bytes


def compression_of(head: bytes) -> str:
    """The compression of a file by its first bytes (`none`, `gzip`, `bzip2`, `xz`, `zstd`); its name is not to be
    trusted."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "none")


class LogReader:
    """The lines of one log file. Iterate once; then `problem`, `content_bytes`, `blank_bytes` and `digest` are final.

    A line longer than `max_line_bytes` is handed out in pieces, cut between two records where that is possible.
    """

    def __init__(self, path: Path, max_line_bytes: int) -> None:
        self.path = path
        self.problem: str | None = None
        self.content_bytes = 0
        self.blank_bytes = 0
        self._max_line_bytes = max_line_bytes
        self._hash = xxhash.xxh3_128()

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
        for chunk in self._decoded():
            # How long a byte order mark is shows only once the first chunk is there.
            offset = self.blank_bytes if offset is None else offset
            pending = pending + chunk if pending else chunk
            cut = pending.rfind(b"\n") + 1
            while cut or len(pending) > self._max_line_bytes:
                cut = cut or pending.rfind(b'}{"', 0, self._max_line_bytes) + 1 or self._max_line_bytes
                yield Block(offset, pending[:cut])
                offset += cut
                pending = pending[cut:]
                cut = 0
        if pending:
            yield Block(offset or 0, pending)

    def _decoded(self) -> Iterator[bytes]:
        """The content as UTF-8, without a leading byte order mark (counted as blank)."""
        chunks = self._decompressed()
        first = next(chunks, b"")
        while 0 < len(first) < len(codecs.BOM_UTF32_LE):
            more = next(chunks, b"")
            if not more:
                break
            first += more
        mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if first.startswith(m)), (b"", "utf-8"))
        if not mark:
            encoding = next((e for start, e in _UNMARKED_UTF16 if first.startswith(start)), "utf-8")
        first = first[len(mark) :]
        self.blank_bytes = len(codecs.BOM_UTF8) if mark else 0
        self.content_bytes = self.blank_bytes
        decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(errors="replace")
        while first:
            text = first if decoder is None else decoder.decode(first).encode("utf-8", "replace")
            yield self._account(text)
            first = next(chunks, b"")
        if decoder is not None and (tail := decoder.decode(b"", final=True)):
            yield self._account(tail.encode("utf-8", "replace"))

    def _account(self, chunk: bytes) -> bytes:
        self.content_bytes += len(chunk)
        self._hash.update(chunk)
        return chunk

    def _decompressed(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            compression = compression_of(file.read(8))
            file.seek(0)
            raw = iter(lambda: file.read(_CHUNK_BYTES), b"")
            if compression == "none":
                yield from raw
            elif compression == "gzip":
                yield from self._gunzip(raw)
            elif compression == "zstd":
                yield from self._unzstd()
            else:
                yield from self._decompress(
                    raw, bz2.BZ2Decompressor if compression == "bzip2" else lzma.LZMADecompressor
                )

    def _gunzip(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        """All members of a gzip stream, at most a chunk at a time whatever the ratio; on damage, everything before
        it."""
        member = zlib.decompressobj(wbits=31)
        data = b""
        for block in raw:
            data += block
            while data:
                if member.eof:
                    data = data.lstrip(b"\x00")
                    if data and not data.startswith(b"\x1f"):
                        self.problem = "gzip followed by other data"
                        return
                    if not data:
                        break
                    member = zlib.decompressobj(wbits=31)
                before = member.copy()
                try:
                    chunk = member.decompress(data, _CHUNK_BYTES)
                except zlib.error as error:
                    self.problem = f"corrupt gzip: {error}"
                    yield from _salvage(before, data)
                    return
                data = member.unused_data if member.eof else member.unconsumed_tail
                if chunk:
                    yield chunk
        if not member.eof:
            if tail := member.flush():
                yield tail
            self.problem = "truncated gzip"

    def _decompress(
        self, raw: Iterator[bytes], new: type[bz2.BZ2Decompressor] | type[lzma.LZMADecompressor]
    ) -> Iterator[bytes]:
        stream: bz2.BZ2Decompressor | lzma.LZMADecompressor = new()
        for block in raw:
            data = block
            while data or not (stream.needs_input or stream.eof):
                if stream.eof:
                    data, stream = data.lstrip(b"\x00"), new()
                    continue
                try:
                    chunk = stream.decompress(data, _CHUNK_BYTES)
                except (OSError, lzma.LZMAError, EOFError) as error:
                    self.problem = f"corrupt compressed stream: {error}"
                    return
                data = stream.unused_data if stream.eof else b""
                if chunk:
                    yield chunk
        if not stream.eof:
            self.problem = "truncated compressed stream"

    def _unzstd(self) -> Iterator[bytes]:
        with pa.OSFile(str(self.path), "rb") as source, pa.CompressedInputStream(source, "zstd") as stream:
            try:
                while chunk := stream.read(_CHUNK_BYTES):
                    yield chunk
            except OSError as error:
                self.problem = f"truncated or corrupt zstd: {error}"


def _salvage(member: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """What a damaged gzip member still gives: the same input again in ever smaller pieces, up to the damage."""
    for step in (1024, 1):
        while data:
            before = member.copy()
            try:
                chunk = member.decompress(data[:step])
            except zlib.error:
                member = before
                break
            data = data[step:]
            if chunk:
                yield chunk
