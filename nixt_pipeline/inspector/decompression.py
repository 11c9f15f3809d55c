"""The content of a file whatever its compression, in bounded memory; of a damaged one, everything before the damage."""

import bz2
import lzma
import queue
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from isal import isal_zlib
from isal.igzip_lib import IsalError

# What is read at a time, and the most that is unfolded at a time: a small compressed block may unfold a thousandfold.
# A chunk that stays in the processor's cache until it is decoded costs a tenth less than one of 4 MiB.
_CHUNK_BYTES = 1 << 20
# Files smaller than this may unfold as far as one of this size: a few kilobytes of a regular log can be very regular.
_SMALLEST_RATED_BYTES = 4 << 20
_COMPRESSED_BYTES = 256 << 10
# Chunks that are unfolded ahead of the one being decoded.
_AHEAD = 3
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))
_GZIP_WINDOW_BITS = 31


def compression_of(head: bytes) -> str:
    """The compression of a file by its first bytes (`none`, `gzip`, `bzip2`, `xz`, `zstd`), whatever its name says."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "none")


class Span(NamedTuple):
    """A stretch of an uncompressed file, in bytes; `end` is None for the end of the file."""

    start: int
    end: int | None


WHOLE = Span(0, None)


class Content:
    """The unfolded content of one file, as chunks. Iterate once; then `problem` says what is wrong, None if nothing is.

    Raises `OSError` while iterating when the file cannot be read.
    """

    def __init__(self, path: Path, span: Span = WHOLE, max_ratio: int = 200) -> None:
        self._max_ratio = max_ratio
        self.problem: str | None = None
        self.start = 0  # position of the first byte; final once the first chunk is there
        self._path, self._span = path, span

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks of at most 1 MiB; decompression runs ahead in a thread."""
        with self._path.open("rb") as file:
            compression = compression_of(file.read(8))
            if compression == "none":
                yield from self._plain(file)
                return
        unfold = {"gzip": self._gzip, "bzip2": self._bzip2, "xz": self._xz, "zstd": self._zstd}[compression]
        most = self._max_ratio * max(self._path.stat().st_size, _SMALLEST_RATED_BYTES)
        for chunk in _ahead(unfold()):
            most -= len(chunk)
            if most < 0:
                self.problem = f"unfolds to more than {self._max_ratio} times its size; the rest was not read"
                return
            yield chunk

    def _plain(self, file: BinaryIO) -> Iterator[bytes]:
        """The lines that begin within the span, whole."""
        begin, end = self._span
        file.seek(max(0, begin - 1))
        if begin:
            for _ in _rest_of_line(file):
                pass
        self.start = file.tell()
        left = self.start
        chunk = b"\n"
        while end is None or left < end:
            chunk = file.read(_CHUNK_BYTES if end is None else min(_CHUNK_BYTES, end - left))
            if not chunk:
                return
            left += len(chunk)
            yield chunk
        if not chunk.endswith(b"\n"):
            yield from _rest_of_line(file)

    def _raw(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from iter(lambda: file.read(_COMPRESSED_BYTES), b"")

    def _gzip(self) -> Iterator[bytes]:
        """Unfold with ISA-L, three times as fast as zlib; at damage zlib, which can be asked again, takes over."""
        delivered = 0
        try:
            for chunk in self._members(isal_zlib.decompressobj):
                delivered += len(chunk)
                yield chunk
        except IsalError:
            for chunk in self._members(zlib.decompressobj):
                yield chunk[delivered:]
                delivered = max(0, delivered - len(chunk))

    def _members(self, new: Callable[..., Any]) -> Iterator[bytes]:
        """All members of a gzip stream; padding with zeros between and after them is no member."""
        salvages = new is zlib.decompressobj
        member = new(wbits=_GZIP_WINDOW_BITS)
        data = b""
        for block in self._raw():
            data += block
            while data:
                if member.eof:
                    data = data.lstrip(b"\x00")
                    if data and not data.startswith(b"\x1f"):
                        self.problem = "gzip followed by other data"
                        return
                    if not data:
                        break
                    member = new(wbits=_GZIP_WINDOW_BITS)
                before = member.copy() if salvages else None
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
            self.problem = "truncated gzip"
            if tail := member.flush():
                yield tail

    def _bzip2(self) -> Iterator[bytes]:
        return self._streams(bz2.BZ2Decompressor)

    def _xz(self) -> Iterator[bytes]:
        return self._streams(lzma.LZMADecompressor)

    def _streams(self, new: type[bz2.BZ2Decompressor] | type[lzma.LZMADecompressor]) -> Iterator[bytes]:
        """All streams of a bzip2 or xz file."""
        stream: bz2.BZ2Decompressor | lzma.LZMADecompressor = new()
        for block in self._raw():
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

    def _zstd(self) -> Iterator[bytes]:
        with pa.OSFile(str(self._path), "rb") as source, pa.CompressedInputStream(source, "zstd") as stream:
            try:
                while chunk := stream.read(_CHUNK_BYTES):
                    yield chunk
            except OSError as error:
                self.problem = f"truncated or corrupt zstd: {error}"


def _rest_of_line(file: BinaryIO) -> Iterator[bytes]:
    """What is left of the current line, with its end."""
    while piece := file.readline(_CHUNK_BYTES):
        yield piece
        if piece.endswith(b"\n"):
            return


def _salvage(member: Any, data: bytes) -> Iterator[bytes]:
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


def _ahead(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same chunks, produced by a thread a few ahead of where they are used; its exceptions come out here."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def produce() -> None:
        try:
            for chunk in chunks:
                ready.put(chunk)
                if stopped.is_set():
                    return
            ready.put(None)
        except BaseException as error:  # handed on to the thread that waits for it
            ready.put(error)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        while not ready.empty():
            ready.get_nowait()
