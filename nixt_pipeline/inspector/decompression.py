"""The content of a file whatever its compression, in bounded memory; of a damaged one, everything before the damage
and every stream after it."""

import bz2
import lzma
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from isal import igzip_lib

from nixt_pipeline.inspector.opening import open_regular

# What is read at a time, and the most that is unfolded at a time: a small compressed block may unfold a thousandfold.
# A chunk that stays in the processor's cache until it is decoded costs a tenth less than one of 4 MiB.
_CHUNK_BYTES = 1 << 20
# Files smaller than this may unfold as far as one of this size: a few kilobytes of a regular log can be very regular.
_SMALLEST_RATED_BYTES = 4 << 20
_COMPRESSED_BYTES = 256 << 10
_FRAME_BYTES = 64 << 10
# Chunks that are unfolded ahead of the one being decoded.
_AHEAD = 3
# xz -9 needs 65 MiB to unfold; a hostile file can ask for 4 GiB.
XZ_MEMORY_BYTES = 256 << 20
_ZSTD_FRAME = 0x28
# Arrow's decoder takes zstd's own default, windows of 2^27 bytes.
_ZSTD_WINDOW_BYTES = 1 << 27
# A file with more damaged streams is read no further.
_MAX_DAMAGED_STREAMS = 100
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    # The 16 kinds of frames to be skipped, with which pzstd begins.
    *((bytes((kind,)) + b"\x2a\x4d\x18", "zstd") for kind in range(0x50, 0x60)),
    (b"\x04\x22\x4d\x18", "lz4"),
)


class _Format(NamedTuple):
    """A format whose files are streams, one after another."""

    beginning: re.Pattern[bytes]
    new: Callable[[], Any]  # a decompressor with the interface of those in `bz2`


_STREAMS = {
    "gzip": _Format(
        re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL),
        # Three times as fast as zlib.
        lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP),
    ),
    "bzip2": _Format(re.compile(rb"BZh[1-9]1AY&SY"), bz2.BZ2Decompressor),
    "xz": _Format(re.compile(rb"\xfd7zXZ\x00"), lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES)),
}
_LONGEST_BEGINNING = 10


def compression_of(head: bytes) -> str:
    """The compression of a file by its first bytes (`none`, `gzip`, `bzip2`, `xz`, `zstd`, `lz4`), whatever its name
    says."""
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

    def __init__(self, path: Path, span: Span, max_ratio: int) -> None:
        self._max_ratio = max_ratio
        self.problem: str | None = None
        self.start = 0  # position of the first byte; final once the first chunk is there
        self._path, self._span = path, span

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks of at most 1 MiB; decompression runs ahead in a thread."""
        with open_regular(self._path) as file:
            compression = compression_of(file.read(8))
            if compression == "none":
                yield from self._plain(file)
                return
        unfolded = self._streams(compression) if compression in _STREAMS else self._frames(compression)
        most = self._max_ratio * max(self._path.stat().st_size, _SMALLEST_RATED_BYTES)
        for chunk in _ahead(unfolded):
            most -= len(chunk)
            if most < 0:
                self.problem = f"decompresses to more than {self._max_ratio} times its size; the rest was not read"
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

    def _streams(self, compression: str) -> Iterator[bytes]:
        """All streams of a gzip, bzip2 or xz file and zeros between them. After a damaged stream comes the next that
        can be found; what follows a sound one and is no stream is handed on as it stands."""
        beginning, new = _STREAMS[compression]
        start: int | None = 0
        damaged = 0
        with open_regular(self._path) as file:
            while start is not None and damaged <= _MAX_DAMAGED_STREAMS:
                end, problem = yield from _stream(file, start, new, compression)
                if problem:
                    self.problem = self.problem or problem
                    damaged += 1
                    start = _find(file, beginning, start + 1)
                    continue
                start = _skip_zeros(file, end)
                if start is not None and not beginning.match(file.read(_LONGEST_BEGINNING)):
                    self.problem = self.problem or f"{compression} followed by other data"
                    file.seek(start)
                    yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
                    return

    def _frames(self, compression: str) -> Iterator[bytes]:
        """All frames of a zstd or lz4 file.

        At damage Arrow does not hand out what the same call had unfolded before it: the last of the input is then read
        again byte by byte, and asked for in ever smaller pieces.
        """
        delivered, fine_from = 0, None
        for step in (_CHUNK_BYTES, 4096, 1):
            with open_regular(self._path) as file:
                stream = pa.CompressedInputStream(pa.PythonFile(_Trickle(file, fine_from), "r"), compression)
                try:
                    skipped = 0
                    while skipped < delivered:
                        skipped += len(stream.read(min(delivered - skipped, _CHUNK_BYTES)))
                    while chunk := stream.read(step):
                        delivered += len(chunk)
                        yield chunk
                    return
                except OSError as error:
                    too_wide = _zstd_window_problem(self._path) if compression == "zstd" else None
                    if too_wide is not None:
                        self.problem = too_wide
                        return
                    self.problem = f"truncated or corrupt {compression}: {error}"
                    fine_from = max(0, file.tell() - _FRAME_BYTES)


def _zstd_window_problem(path: Path) -> str | None:
    """Why a zstd file cannot be unfolded here although it is sound: it asks for more memory than is given; None for any
    other. By the header of its first frame (RFC 8878, 3.1.1.1)."""
    with open_regular(path) as file:
        magic, descriptor, rest = file.read(4), file.read(1), file.read(12)
    if compression_of(magic) != "zstd" or magic[0] != _ZSTD_FRAME or len(rest) < 12:
        return None
    if descriptor[0] >> 5 & 1:
        # A single segment: the window is the content, whose size follows the dictionary's id.
        start = (0, 1, 2, 4)[descriptor[0] & 3]
        window = int.from_bytes(rest[start : start + (1, 2, 4, 8)[descriptor[0] >> 6]], "little")
    else:
        base = 1 << (10 + (rest[0] >> 3))
        window = base + base // 8 * (rest[0] & 7)
    if window <= _ZSTD_WINDOW_BYTES:
        return None
    return (
        f"compressed with a window of {window / 2**20:,.0f} MiB, which is more than is unfolded here;"
        f" unpack it with zstd -d --long={(window - 1).bit_length()}"
    )


class _Trickle:
    """A file for Arrow to read that gives single bytes from a position on."""

    closed = False

    def __init__(self, file: BinaryIO, fine_from: int | None) -> None:
        self._file, self._fine_from = file, fine_from

    def read(self, n_bytes: int) -> bytes:
        """At most `n_bytes`."""
        fine = self._fine_from is not None and self._file.tell() >= self._fine_from
        return self._file.read(1 if fine else min(n_bytes, _FRAME_BYTES))

    def close(self) -> None:
        """The file is closed by who opened it."""


def _stream(
    file: BinaryIO, start: int, new: Callable[[], Any], compression: str
) -> Generator[bytes, None, tuple[int, str]]:
    """Unfold the stream that begins at `start`; returns the position after it, and what is wrong with it.

    At damage a decompressor does not hand out what the same call had unfolded before it: the last of the input is then
    fed to another one byte by byte.
    """
    delivered, fine_from, problem = 0, None, ""
    while True:
        stream, repeated = new(), delivered
        file.seek(start)
        while not stream.eof:
            fine = fine_from is not None and file.tell() >= fine_from
            data = file.read(1 if fine else _COMPRESSED_BYTES) if stream.needs_input else b""
            if stream.needs_input and not data:
                return file.tell(), problem or f"truncated {compression}"
            try:
                chunk = stream.decompress(data, _CHUNK_BYTES)
            except (igzip_lib.IsalError, lzma.LZMAError, OSError, EOFError) as error:
                problem = f"corrupt {compression}: {error}"
                break
            fresh = chunk[repeated:]
            repeated -= len(chunk) - len(fresh)
            delivered += len(fresh)
            if fresh:
                yield fresh
        else:
            return file.tell() - len(stream.unused_data), problem
        if fine_from is not None:
            return file.tell(), problem
        fine_from = max(start, file.tell() - _COMPRESSED_BYTES)


def _find(file: BinaryIO, beginning: re.Pattern[bytes], start: int) -> int | None:
    """Where, from `start` on, the next stream begins."""
    file.seek(start)
    held = b""
    while block := file.read(_CHUNK_BYTES):
        held += block
        if match := beginning.search(held):
            return start + match.start()
        start += len(held[: 1 - _LONGEST_BEGINNING])
        held = held[1 - _LONGEST_BEGINNING :]
    return None


def _skip_zeros(file: BinaryIO, start: int) -> int | None:
    """The first position from `start` on with another byte, where the file then stands; None at its end."""
    file.seek(start)
    while block := file.read(4096):
        if rest := block.lstrip(b"\x00"):
            return file.seek(-len(rest), 1)
    return None


def _rest_of_line(file: BinaryIO) -> Iterator[bytes]:
    """What is left of the current line, with its end."""
    while piece := file.readline(_CHUNK_BYTES):
        yield piece
        if piece.endswith(b"\n"):
            return


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
