"""Records that a container runtime cut into pieces of 16 kB, put together again.

containerd and CRI-O write `<time> stdout P <piece>`, with F instead of P for the last one; Docker and what reads its
files write a JSON object for each piece, in which the text ends without a line end.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from nixt_pipeline.inspector.envelopes import Held, held_in, keys, values_in
from nixt_pipeline.inspector.reader import Line

_CRI_PIECE = re.compile(rb"\S{10,40} (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)? (?P<piece>[^\r\n]*)[\r\n]*")
# A verbose record of 64 channels has 14 kB: one of more pieces than this is none.
_MAX_PIECES = 64
# Streams of several containers in one file that are put together at the same time.
_MAX_STREAMS = 64
# What, besides the key of the text, distinguishes the streams that one file may hold.
_STREAM_KEYS = ("stream", "container_id", "partial_id", "CONTAINER_ID")
_Stream = tuple[object, ...]


class Whole(NamedTuple):
    """The text of a record, and the lines from which it was put together."""

    lines: list[Line]
    text: bytes


@dataclass
class _Open:
    lines: list[Line]
    text: list[str] = field(default_factory=list)
    n_bytes: int = 0


class PieceJoiner:
    """Takes the lines of a file in order. What it does not take is not a piece."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._open: dict[_Stream, _Open] = {}
        self.used = False
        # Lines of records whose other pieces are missing, to be accounted for as lost.
        self.lost: list[Line] = []

    def take(self, line: Line) -> Whole | bool:
        """Whether the line is a piece: the whole record if it was the last, True if others follow, False if it is
        none."""
        match = None if line.data.startswith(b"{") else _CRI_PIECE.fullmatch(line.data)
        if match is not None:
            stream: _Stream = ("CRI", match["stream"])
            if match["tag"] == b"P" or stream in self._open:
                return self._add(stream, line, match["piece"].decode("utf-8", "surrogateescape"), match["tag"] == b"F")
            return False
        return self._continue(line) if self._open and b"{" in line.data else False

    def begin(self, line: Line, cut: Held) -> None:
        """Keep a line that holds the beginning of a record as text."""
        self._add(("JSON", *keys(cut.place), None, *_told_apart(_value_in(line.data))), line, cut.text, False)

    def finish(self) -> None:
        """No line follows: what was not completed is lost."""
        self.lost += [line for opened in self._open.values() for line in opened.lines]
        self._open = {}

    def _continue(self, line: Line) -> Whole | bool:
        value = _value_in(line.data)
        for stream in self._open:
            text = _text_at(value, stream)
            if text is None:
                continue
            if any(held.text.lstrip().startswith("{") for held in held_in(value)):
                # Another record begins: the rest of the first one will not come.
                self.lost += self._open.pop(stream).lines
                return False
            return self._add(stream, line, text, text.rstrip().endswith("}"))
        return False

    def _add(self, stream: _Stream, line: Line, piece: str, last: bool) -> Whole | bool:
        self.used = True
        opened = self._open.setdefault(stream, _Open([]))
        opened.lines.append(line)
        opened.text.append(piece)
        opened.n_bytes += len(line.data)
        if last:
            text = "".join(opened.text).encode("utf-8", "surrogateescape")
            if stream[0] == "CRI" or _is_complete(text):
                del self._open[stream]
                return Whole(opened.lines, text)
        full = opened.n_bytes > self._max_bytes or len(opened.lines) >= _MAX_PIECES
        if full or len(self._open) > _MAX_STREAMS:
            self.lost += self._open.pop(stream).lines
        return True


def _value_in(data: bytes) -> object:
    """The JSON value that a line is, or the last one that it holds behind a prefix."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        found = [value for value in values_in(data.decode("utf-8", "replace")) if isinstance(value, dict | list)]
        return found[-1] if found else None


def _told_apart(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        value = next((item for item in reversed(value) if isinstance(item, dict)), None)
    return tuple(str(value.get(key)) for key in _STREAM_KEYS) if isinstance(value, dict) else ()


def _text_at(value: object, stream: _Stream) -> str | None:
    """The text that goes on a stream, if the value is of the same one."""
    if stream[0] != "JSON":
        return None
    end = stream.index(None)
    return _at(value, stream[1:end]) if stream[end + 1 :] == _told_apart(value) else None


def _at(node: object, path: _Stream) -> str | None:
    """The text under some keys; what stands in an array has none of its own."""
    if isinstance(node, list):
        return next(filter(None, (_at(child, path) for child in node)), None)
    if not path:
        return node if isinstance(node, str) else None
    return _at(node.get(path[0]), path[1:]) if isinstance(node, dict) else None


def _is_complete(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
