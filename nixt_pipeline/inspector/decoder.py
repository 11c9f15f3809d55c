"""From the bytes of one log line to the JSON objects in it, losing nothing: what is no object comes out as a fragment.

The usual line is one JSON object, which orjson decodes. Anything else goes to the careful path: objects glued together,
in an array or behind a log collector's prefix, torn lines glued to good ones, C's spellings of infinity and NaN,
numbers beyond 64 bits, broken UTF-8.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

_BODIES = ("coll_perf", "p2p_perf", "dump_stats", "proxy_trace")
# How a line of ours can begin: v4.0 records and markers with a header, v4.3 and later also with a bare body.
_RECORD_START = re.compile(rb'\{\s*"(?:header|metadata|coll_perf|p2p_perf|dump_stats|proxy_trace)"\s*:')
# What such a beginning can also stand for: an object within a record. No record is known to hold one, forks may.
_MAX_NESTED = 2
# What stands between the elements of an array counts as blank.
_PUNCTUATION = b" \t\r\n\v\f,[]"
# Where log collectors (docker, journald, fluentd) put the line that they read.
_ENVELOPES = ("log", "MESSAGE", "message")
# Keys that only Inspector writes: whether a text without a single record is a damaged log or somebody else's file.
_VOCABULARY = re.compile(
    rb'"(?:coll_perf|p2p_perf|dump_stats|proxy_trace|inspector_output_format_version'
    rb'|(?:coll|p2p)_(?:sn|msg_size_bytes|exec_time_us|timing_source|algobw_gbs|busbw_gbs))"\s*:'
)
# Strings are matched first, so that only a bare token outside strings is taken for a number.
_NON_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:inf(?:inity)?|nan(?:\(\w{0,32}\))?)(?=[\s,}\]]|$)', re.IGNORECASE)
_TAIL_HEADER = re.compile(rb"==> .* <==\s*")
# Beyond this orjson silently turns an integer into a float.
_MAX_EXACT = 2**64
_DECODER = json.JSONDecoder(strict=False)


class Fragment(NamedTuple):
    """A piece of a line: `value` is the decoded object, or None with the reason why there is none."""

    start: int  # byte position in the line
    end: int
    value: dict[str, Any] | None
    reason: str = ""
    non_finite: tuple[str, ...] = ()  # how infinities and NaNs were spelled, in order; in `value` all are NaN


def has_inspector_vocabulary(text: bytes) -> bool:
    """Whether the text contains a key that only Inspector writes."""
    return _VOCABULARY.search(text) is not None


def is_foreign_line(text: bytes) -> bool:
    """Whether the text is a known separator of other tools: `==> file <==` of tail and head."""
    return _TAIL_HEADER.fullmatch(text) is not None


def decode_line(data: bytes) -> Iterator[Fragment]:
    """Cut a line into objects and the fragments between them. Blank parts are left out; positions are bytes of
    `data`."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        yield from _decode_carefully(data)
        return
    if isinstance(value, dict) and any(key in value for key in _BODIES):
        yield from (Fragment(0, len(data), value),) if _is_exact(value) else _decode_carefully(data)
    elif _RECORD_START.search(data, 1):
        yield from _decode_carefully(data, within=True)
    elif isinstance(value, dict):
        yield _in_envelope(value, len(data)) or Fragment(0, len(data), value)
    else:
        yield Fragment(0, len(data), None, "not a JSON object")


def _is_exact(record: dict[str, Any]) -> bool:
    """False when a number may have lost digits: orjson reads integers beyond 64 bits as floats."""
    for part in record.values():
        if isinstance(part, dict):
            for number in part.values():
                if isinstance(number, float) and abs(number) >= _MAX_EXACT:
                    return False
    return True


def _in_envelope(value: dict[str, Any], length: int) -> Fragment | None:
    """The record that a log collector put as text into an object of its own, if it holds one and nothing else."""
    for text in (value.get(key) for key in _ENVELOPES):
        if isinstance(text, str) and _RECORD_START.search(line := text.strip().encode()):
            fragments = list(decode_line(line))
            if len(fragments) == 1 and fragments[0].value is not None:
                return fragments[0]._replace(start=0, end=length)
    return None


def _decode_carefully(data: bytes, within: bool = False) -> Iterator[Fragment]:
    """Try an object at each place where a record can start, from the left; what lies between is a fragment with a
    reason. `within` looks for records in an array or object that begins the line."""
    starts = [match.start() for match in _RECORD_START.finditer(data)]
    if data.startswith(b"{") and 0 not in starts[:1]:
        starts.insert(0, 0)
    if within and 0 in starts[:1]:
        del starts[0]
    ends = [*starts[1:], len(data)]
    position = 0
    for number, start in enumerate(starts):
        if start < position:
            continue
        stops = ends[number : number + _MAX_NESTED + 1]
        decoded = next(filter(None, (_decode_object(data, start, stop) for stop in stops)), None)
        if decoded is None:
            continue
        yield from _rest(data, position, start, whole=False)
        yield decoded
        position = decoded.end
    yield from _rest(data, position, len(data), whole=position == 0)


def _decode_object(data: bytes, start: int, stop: int) -> Fragment | None:
    """The object that begins at byte `start` and ends before `stop`; None when there is no complete one."""
    text = data[start:stop].decode("utf-8", "surrogateescape")
    spellings: list[tuple[int, str]] = []

    def as_json_number(match: re.Match[str]) -> str:
        """A token of the same length that Python's JSON accepts; strings stay as they are."""
        token = match.group()
        if token.startswith('"'):
            return token
        spellings.append((match.start(), token))
        return "NaN".rjust(len(token))

    try:
        value, end = _DECODER.raw_decode(_NON_FINITE.sub(as_json_number, text))
    except (ValueError, RecursionError):
        return None
    non_finite = tuple(token for position, token in spellings if position < end)
    return Fragment(start, start + len(text[:end].encode("utf-8", "surrogateescape")), value, non_finite=non_finite)


def _rest(data: bytes, start: int, end: int, whole: bool) -> Iterator[Fragment]:
    piece = data[start:end]
    if piece.strip(_PUNCTUATION):
        yield Fragment(start, end, None, _reason(piece.strip(), whole))


def _reason(piece: bytes, whole: bool) -> str:
    if not piece.strip(b"\x00"):
        return "zero bytes (a file extended by a crash)"
    if _RECORD_START.match(piece):
        return "record cut short or malformed"
    if has_inspector_vocabulary(piece):
        return "starts in the middle of a record"
    return "not JSON" if whole else "text between records"
