"""From the bytes of one log line to the JSON objects in it, losing nothing: what is no object comes out as a fragment.

The usual line is one JSON object, which orjson decodes. Anything else goes to the careful path: objects glued together,
in an array or behind a log collector's prefix, torn lines glued to good ones, C's spellings of infinity and NaN,
numbers beyond 64 bits, broken UTF-8. What is within another program's object or text is found by `envelopes`.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import orjson

from nixt_pipeline.inspector.envelopes import (
    BODIES,
    Held,
    as_record,
    held_in,
    may_hold_record,
    unescaped,
    values_in,
)

# How a line of ours can begin: v4.0 records and markers with a header, v4.3 and later also with a bare body.
_RECORD_START = re.compile(rb'\{\s*"(?:header|metadata|coll_perf|p2p_perf|dump_stats|proxy_trace)"\s*:')
# What such a beginning can also stand for: an object within a record. No record is known to hold one, forks may.
_MAX_NESTED = 2
# What is between the elements of an array counts as blank.
_PUNCTUATION = b" \t\r\n\v\f,[]"
# A text in a text in a text: every wrapping doubles the backslashes, so that more than a few do not occur.
_MAX_WRAPPINGS = 8
# Forms in which an envelope may hold the one record that it is about.
_MOST_FORMS = 4
# Colours, and the links and titles of terminals.
_TERMINAL_CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# How Python prints a record.
_SINGLE_QUOTED = re.compile(rb"'(?:coll_perf|p2p_perf)'\s*:")
# Keys that only Inspector writes: whether a text without a single record is a damaged log or another program's file.
_VOCABULARY = re.compile(
    rb'"(?:coll_perf|p2p_perf|dump_stats|proxy_trace|inspector_output_format_version'
    rb'|(?:coll|p2p)_(?:sn|msg_size_bytes|exec_time_us|timing_source|algobw_gbs|busbw_gbs))(?:\\+"|""?)\s*:'
)
# Strings are matched first, so that only a bare token outside strings is taken for a number. One without an end is
# matched as well, and nothing is tried twice: both would cost more than the line is long.
_MAYBE_NON_FINITE = re.compile(rb"nan|inf", re.IGNORECASE)
_NON_FINITE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|-?(?:inf(?:inity)?|nan(?:\(\w{0,32}\))?)(?=[\s,}\]]|$)', re.IGNORECASE)
_TAIL_HEADER = re.compile(rb"==> .* <==\s*")
# Beyond this orjson silently turns an integer into a float.
_MAX_EXACT = 2**64
_DECODER = json.JSONDecoder(strict=False)
_PARTS = (b'"header":', b'"metadata":', b'"coll_perf":', b'"p2p_perf":')
# A key, a value after another, zeros: what damage leaves of a record, and a label has not.
_INSIDE_OBJECT = re.compile(rb'"\s*:|,\s*"|\x00')


class Fragment(NamedTuple):
    """A piece of a line: `value` is the decoded object, or None with the reason why there is none."""

    start: int  # byte position in the line
    end: int
    value: dict[str, Any] | None
    reason: str = ""
    non_finite: tuple[str, ...] = ()  # how infinities and NaNs were spelled, in order; in `value` all are NaN
    cut: Held | None = None  # the text of a record that was cut, for which the next line may have the rest
    is_label: bool = False  # another program's text on the line of a record: a time before it, a word behind it


def has_inspector_vocabulary(text: bytes) -> bool:
    """Whether the text contains a key that only Inspector writes."""
    return _VOCABULARY.search(text) is not None


def is_foreign_line(text: bytes) -> bool:
    """Whether the text is a known separator of other tools: `==> file <==` of tail and head."""
    return _TAIL_HEADER.fullmatch(text) is not None


def decode_line(data: bytes, wrappings: int = 0) -> Iterator[Fragment]:
    """Cut a line into objects and the fragments between them. Blank parts are left out; positions are bytes of
    `data`. `wrappings` counts the texts that it was taken out of."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        yield from _decode_without_colours(data, wrappings)
        return
    if isinstance(value, dict) and any(isinstance(value.get(key), dict) for key in BODIES):
        record = value if "header" in value else as_record(value)
        exact = _is_exact(value) and not is_spliced(data)
        yield from (Fragment(0, len(data), record),) if exact else _decode_carefully(data, wrappings)
        return
    held = _held_exactly(value, data) if may_hold_record(data) else []
    several = len(held) > 1 or (held and isinstance(value, list))
    if several and len(_RECORD_START.findall(data)) == len(held):
        # Each stands there as it was written, so that its place is known.
        yield from _decode_carefully(data, wrappings, within=True)
    elif fragments := _out_of(held, len(data), wrappings):
        yield from fragments
    elif isinstance(value, dict):
        yield Fragment(0, len(data), value)
    else:
        yield Fragment(0, len(data), None, "not a JSON object")


def _held_exactly(value: object, data: bytes) -> list[Held]:
    """What `value`, decoded from `data`, holds, with every digit of its numbers."""
    held = list(held_in(value))
    if all(one.record is None or _is_exact(one.record) for one in held):
        return held
    try:
        return list(held_in(_DECODER.decode(data.decode("utf-8"))))
    except RecursionError:
        return held


def _out_of(held: Iterable[Held], length: int, wrappings: int) -> list[Fragment]:
    """What an envelope of `length` bytes holds: records, and texts of Inspector's that are none; each counts for its
    share of the bytes."""
    found = _each_once([fragment for one in _unshortened([*held]) for fragment in _taken_out(one, wrappings)])
    bounds = [length * number // len(found) for number in range(len(found) + 1)] if found else []
    return [
        fragment._replace(start=start, end=end) for fragment, (start, end) in zip(found, pairwise(bounds), strict=True)
    ]


def _unshortened(held: list[Held]) -> list[Held]:
    """Without texts that are but the beginning of another one, as a summary of a line is."""
    if not 2 <= len(held) <= _MOST_FORMS:
        return held
    texts = {one.text for one in held if one.text}

    def is_beginning(text: str) -> bool:
        return any(other != text and other.startswith(text.rstrip(".…")) for other in texts)

    return [one for one in held if not one.text or not is_beginning(one.text)]


def _each_once(found: list[Fragment]) -> list[Fragment]:
    """The records of one envelope, each once: many keep a line as text beside what they made of it."""
    if not 2 <= len(found) <= _MOST_FORMS:
        return found
    once: list[Fragment] = []
    for fragment in found:
        if not any(_is_same(fragment.value, other.value) for other in once):
            once.append(fragment)
    return once


def _is_same(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    sections = ("header", "metadata", *BODIES)
    return one is not None and other is not None and all(one.get(name) == other.get(name) for name in sections)


def _taken_out(held: Held, wrappings: int) -> Iterator[Fragment]:
    if held.record is not None:
        yield Fragment(0, 0, held.record)
        return
    where = f"as text under `{held.path}`" if held.place else "as escaped text"
    if wrappings == _MAX_WRAPPINGS:
        yield Fragment(0, 0, None, f"more than {_MAX_WRAPPINGS} nested texts, {where}")
        return
    line = held.text.strip().encode("utf-8", "replace")
    for fragment in decode_line(line, wrappings + 1):
        piece = line[fragment.start : fragment.end]
        if fragment.value is not None and as_record(fragment.value) is not None:
            yield fragment
        elif fragment.value is not None or has_inspector_vocabulary(piece) or _RECORD_START.match(piece):
            reason = fragment.reason or "an object with one of Inspector's keys but no record"
            cut = held if fragment.start == 0 and _RECORD_START.match(piece) and not wrappings else None
            yield Fragment(0, 0, None, f"{reason}, {where}", cut=cut)


def _is_exact(record: dict[str, Any]) -> bool:
    """False when a number may have lost digits: orjson reads integers beyond 64 bits as floats."""
    for part in record.values():
        if isinstance(part, dict):
            for number in part.values():
                if isinstance(number, float) and abs(number) >= _MAX_EXACT:
                    return False
    return True


def _decode_without_colours(data: bytes, wrappings: int) -> Iterator[Fragment]:
    """As `_decode_carefully`, but blind to the codes that colour a terminal; their bytes go to what follows them."""
    codes = [match.span() for match in _TERMINAL_CODE.finditer(data)]
    if not codes:
        yield from _decode_carefully(data, wrappings)
        return
    text = _TERMINAL_CODE.sub(b"", data)
    ends = [end for _, end in codes]
    # Where in `text` each code stood, and how many bytes of codes there were up to its end.
    lengths = list(accumulate(end - start for start, end in codes))
    stood = [end - length for end, length in zip(ends, lengths, strict=True)]

    def in_data(position: int) -> int:
        before = bisect_left(stood, position)
        return len(data) if position == len(text) else position + (lengths[before - 1] if before else 0)

    for fragment in _decode_carefully(text, wrappings):
        yield fragment._replace(start=in_data(fragment.start), end=in_data(fragment.end))


def _decode_carefully(data: bytes, wrappings: int, within: bool = False) -> Iterator[Fragment]:
    """Try an object at each place where a record can start, from the left; what lies between is a fragment with a
    reason. `within` looks for records in an array or object that begins the line."""
    starts = [match.start() for match in _RECORD_START.finditer(data)]
    if not starts and may_hold_record(data):
        text = data.decode("utf-8", "surrogateescape")
        wrapped = _out_of(chain.from_iterable(map(held_in, values_in(text))), len(data), wrappings)
        wrapped = wrapped or _out_of(chain.from_iterable(map(held_in, unescaped(text))), len(data), wrappings)
        if wrapped:
            yield from wrapped
            return
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
        yield from _rest(data, position, start)
        yield decoded
        position = decoded.end
    yield from _rest(data, position, len(data))


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
        if _MAYBE_NON_FINITE.search(data, start, stop):
            text = _NON_FINITE.sub(as_json_number, text)
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    whole = text[:end].encode("utf-8", "surrogateescape")
    if b"\x00" in whole or is_spliced(whole):
        return None
    non_finite = tuple(token for position, token in spellings if position < end)
    return Fragment(start, start + len(whole), value, non_finite=non_finite)


def is_spliced(record: bytes) -> bool:
    """Whether a part of a record stands there twice, as where the middle of a file was lost: its head is then that of
    one operation, and its tail that of another."""
    return any(record.count(part) > 1 for part in _PARTS)


def _rest(data: bytes, start: int, end: int) -> Iterator[Fragment]:
    piece = data[start:end].strip()
    if piece.strip(_PUNCTUATION):
        whole = (start, end) == (0, len(data))
        yield Fragment(start, end, None, _reason(piece, whole), is_label=not whole and _is_label(piece))


def _is_label(piece: bytes) -> bool:
    """Whether the text beside a record is no part of another one: it has no keys, and closes the braces it opens."""
    if may_hold_record(piece) or _INSIDE_OBJECT.search(piece):
        return False
    return piece.count(b"{") == piece.count(b"}")


def _reason(piece: bytes, whole: bool) -> str:
    if not piece.strip(b"\x00"):
        return "zero bytes (a file extended by a crash)"
    if _RECORD_START.match(piece):
        return "record cut short or malformed"
    if has_inspector_vocabulary(piece):
        return "starts in the middle of a record"
    if _SINGLE_QUOTED.search(piece):
        return "Inspector's keys in single quotes (a Python dictionary), which is not JSON"
    if may_hold_record(piece):
        return "words of Inspector's, but no JSON object with them"
    return "not JSON" if whole else "text between records"
