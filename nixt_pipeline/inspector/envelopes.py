"""What log collectors and log stores make of a record: where in a JSON value, or in a text, it still stands.

No list of collectors: a record is found as an object under any key at any depth, as flat keys (`header.id`), as text
in a string (escaped as often as it was wrapped, for JSON, HTML or URLs), as an array of byte values, as hexadecimal
digits, or as Base64, also of gzip.
"""

import base64
import binascii
import html
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import orjson

BODIES = ("coll_perf", "p2p_perf", "dump_stats", "proxy_trace")
_SECTIONS = ("header", "metadata", *BODIES)
_NAMES = "|".join(BODIES)
# A text that may hold a record, or begins like one that was cut.
_TEXT_OF_INTEREST = re.compile(rf"{_NAMES}|^\s*\{{\s*\"(?:header|metadata)\"\s*:")
# How a text begins that is encoded: `{"` and gzip in Base64, `{"` in hexadecimal digits.
_BASE64_OBJECT, _BASE64_GZIP, _HEX_OBJECT = "eyJ", "H4sI", "7b22"
_ENCODING = rf"(?:\b|\\x)(?:{_BASE64_OBJECT}|{_BASE64_GZIP}|7[bB]22)[\w+/-]{{36}}"
_ENCODED = re.compile(rf"{_ENCODING}[\w+/-]*={{0,2}}", re.ASCII)
# What such a text looks like in the bytes of a line, whatever it is wrapped in: as text, as byte values, encoded.
_MAY_HOLD = re.compile(
    rf"{_NAMES}|\"\"?(?:header|metadata)\\*\"|\[\s*\d{{1,3}}\s*,\s*\d{{1,3}}\s*,\s*\d{{1,3}}\s*,"
    rf"|{_ENCODING}".encode()
)
# A batch of records shrinks to a thirtieth; a hostile text unfolds a thousandfold.
_MAX_UNFOLDING, _MAX_UNFOLDED_BYTES = 50, 16 << 20
_HTML_QUOTE, _URL_QUOTE = re.compile(r"&(?:quot|#34|#x22);", re.IGNORECASE), "%22"
# `prefix.coll_perf.coll_sn`, or `prefix.coll_perf` for an object, with the separators of Elasticsearch, jq, Loki (`_`)
# and others.
_FLAT_BODY = re.compile(rf"(?P<prefix>.*?)(?:{_NAMES})(?:(?P<separator>[._:/])\w.*)?", re.DOTALL)
_FLAT_HEADER, _HEADER_KEYS = re.compile(r"header(?P<separator>[._:/])\w"), {"id", "rank", "n_ranks"}
# A record that is escaped in a text that is not JSON: with backslashes, or with quotes doubled (CSV).
_ESCAPED_START = re.compile(rf'\{{\s*(?P<quote>\\+"|"")(?:{"|".join(_SECTIONS)})(?P=quote)\s*:')
# What is left of the string that it is in, up to its closing quote.
_CSV_REST = re.compile(r'(?:[^"]++|"")*+')
_STRING_REST = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY_VALUES, _PAIR = "kvlistValue", {"key", "value"}
_MIN_BYTE_VALUES = 40
_DECODER = json.JSONDecoder(strict=False)


class Held(NamedTuple):
    """Where something of Inspector's stands in a JSON value: `place` are its keys, innermost first, each with what
    holds it. It is a record as an object, or a text."""

    place: "Place"
    record: dict[str, Any] | None
    text: str = ""

    @property
    def path(self) -> str:
        """The keys from the outside in, joined by dots; arrays do not show."""
        return ".".join(keys(self.place))


Place = tuple[Any, str] | None


def keys(place: Place) -> list[str]:
    """The keys of a place, from the outside in."""
    found: list[str] = []
    while place is not None:
        place, key = place
        found.append(key)
    return found[::-1]


def may_hold_record(data: bytes) -> bool:
    """Whether a line can hold a record in any of the forms that `held_in` finds; quick, and rarely true without one."""
    return _MAY_HOLD.search(data) is not None


def held_in(value: object) -> Iterator[Held]:
    """All records and texts of interest in a JSON value, in the order in which they stand; takes as long as the value
    is large."""
    stack: list[tuple[Place, object]] = [(None, value)]
    while stack:
        place, node = stack.pop()
        if isinstance(node, dict):
            node = _from_key_values(node) if _KEY_VALUES in node else node
            record = as_record(node)
            if record is not None:
                yield Held(place, record)
                continue
            stack += [((place, str(key)), child) for key, child in reversed(node.items())]
        elif isinstance(node, list):
            text = _from_byte_values(node)
            if text is not None:
                yield Held(place, None, text)
                continue
            record = as_record(_from_pairs(node))
            if record is not None:
                yield Held(place, record)
                continue
            stack += [(place, child) for child in reversed(node) if isinstance(child, dict | list | str)]
        elif isinstance(node, str):
            text = _decoded(node)
            if _TEXT_OF_INTEREST.search(text):
                yield Held(place, None, text)


def as_record(node: dict[str, Any]) -> dict[str, Any] | None:
    """The record that an object is: itself, or made of its flat keys or of sections that are texts; None if none."""
    for body in BODIES:
        if body in node:
            if isinstance(node[body], dict):
                return node if "header" in node else _with_header(node)
            return _with_parsed_sections(node) if isinstance(node[body], str) else None
    flat = next(
        filter(None, (_FLAT_BODY.fullmatch(key) for key in node if "_perf" in key or "dump_stats" in key)), None
    )
    if flat is None:
        return None
    if flat["separator"]:
        return _unflattened(node, flat["prefix"], flat["separator"])
    return as_record({key.removeprefix(flat["prefix"]): value for key, value in node.items()})


def _with_header(node: dict[str, Any]) -> dict[str, Any]:
    """A record whose header may stand as flat keys."""
    flat = next((match for match in map(_FLAT_HEADER.match, node) if match), None)
    return _unflattened(node, "", flat["separator"]) if flat else node


def header_hint(record: dict[str, Any]) -> str:
    """Where the header of a record without one seems to be, as the end of a sentence; nothing if nowhere."""
    named = (key for key, value in record.items() if isinstance(value, dict) and {*value} >= _HEADER_KEYS)
    key = next(named, None)
    return "" if key is None else f"; `{key}` has the keys of a header and must be called `header`"


def _with_parsed_sections(node: dict[str, Any]) -> dict[str, Any] | None:
    record = dict(node)
    for section in _SECTIONS:
        if isinstance(text := node.get(section), str):
            try:
                record[section] = orjson.loads(text)
            except orjson.JSONDecodeError:
                return None
    return record if any(isinstance(record.get(body), dict) for body in BODIES) else None


def _unflattened(node: dict[str, Any], prefix: str, separator: str) -> dict[str, Any]:
    """Flat keys as sections of keys; what belongs to no section stays as it is. Search results hold arrays of one."""
    record: dict[str, Any] = {}
    for key, value in node.items():
        if key.removeprefix(prefix) in _SECTIONS:
            record[key.removeprefix(prefix)] = value
            continue
        section = next((name for name in _SECTIONS if key.startswith(f"{prefix}{name}{separator}")), None)
        if section is None:
            record[key] = value
            continue
        rest = key[len(prefix) + len(section) + len(separator) :]
        *outer, last = [rest] if separator == "_" else rest.split(separator)
        target = record.setdefault(section, {})
        for name in outer:
            inner = target.setdefault(name, {})
            target = inner if isinstance(inner, dict) else target
        target[last] = value[0] if isinstance(value, list) and len(value) == 1 else value
    return record


def _from_key_values(node: dict[str, Any]) -> dict[str, Any]:
    """The object that OpenTelemetry writes as a list of keys and typed values."""
    listed = node[_KEY_VALUES]
    pairs = listed.get("values") if isinstance(listed, dict) else None
    return _from_pairs(pairs) if isinstance(pairs, list) else node


def _from_pairs(pairs: list[Any]) -> dict[str, Any]:
    """The object whose keys and values are the items of a list, as OpenTelemetry writes attributes."""
    return {str(pair["key"]): _plain(pair["value"]) for pair in pairs if isinstance(pair, dict) and {*pair} >= _PAIR}


def _plain(value: object) -> object:
    """A typed value of OpenTelemetry (`{"intValue": "5"}`) as the value itself; its objects stay to be looked into."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == _KEY_VALUES:
        return _from_key_values(value)
    return inner if kind.endswith("Value") and not isinstance(inner, dict) else value


def _from_byte_values(node: list[Any]) -> str | None:
    """The text whose bytes stand in an array, as journald writes what is not plain text."""
    if len(node) < _MIN_BYTE_VALUES or not isinstance(node[0], int):
        return None
    try:
        text = bytes(node).decode("utf-8", "replace")
    except (TypeError, ValueError):
        return None
    return text if _TEXT_OF_INTEREST.search(text) else None


def _decoded(text: str) -> str:
    """What a text encodes in hexadecimal digits (PostgreSQL puts `\\x` before them) or Base64, itself if nothing."""
    digits = text.removeprefix("\\x")
    try:
        if digits[:4].lower() == _HEX_OBJECT:
            return bytes.fromhex(digits).decode("utf-8", "replace")
        if text.startswith((_BASE64_OBJECT, _BASE64_GZIP)):
            data = _from_base64(text)
            return data.decode("utf-8", "replace") if text.startswith(_BASE64_OBJECT) else _unfolded(data)
    except (binascii.Error, ValueError, zlib.error):
        pass
    return text


def _from_base64(text: str) -> bytes:
    """The bytes of a text in either alphabet of Base64, padded or not."""
    digits = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)


def _unfolded(data: bytes) -> str:
    """The text in gzip as far as it is no larger than that of a log; nothing if it holds gzip itself."""
    most = min(_MAX_UNFOLDING * len(data), _MAX_UNFOLDED_BYTES)
    text = zlib.decompressobj(wbits=31).decompress(data, most).decode("utf-8", "replace")
    return "" if _BASE64_GZIP in text else text


def unescaped(text: str) -> list[str]:
    """What stands in a text escaped for HTML or for URLs, or encoded without quotes around it."""
    if _HTML_QUOTE.search(text):
        return [html.unescape(text)]
    if _URL_QUOTE in text:
        return [unquote_plus(text)]
    return [decoded for encoded in _ENCODED.findall(text) if (decoded := _decoded(encoded)) != encoded]


# Beginnings of objects and arrays in one line that turn out to be none; each may cost as much as the line is long.
_MAX_FAILURES = 16
_OPENING = re.compile(r"[\[{]")


def values_in(text: str) -> Iterator[object]:
    """The JSON values in a text that is none itself, and the texts that stand escaped between them, in order.

    Behind the prefix of a collector, in CSV, logfmt, or what Ruby and Go print.
    """
    position = gap = failures = 0
    while failures < _MAX_FAILURES and (opening := _OPENING.search(text, position)):
        try:
            value, end = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            failures += 1
            position = opening.end()
            continue
        if isinstance(value, dict) or value:
            yield from _escaped_in(text, gap, opening.start())
            yield value
            gap = end
        position = end
    yield from _escaped_in(text, gap, len(text))


def _escaped_in(text: str, start: int, end: int) -> Iterator[str]:
    """The texts between two positions that begin as an escaped record, each up to the end of the string it is in."""
    while match := _ESCAPED_START.search(text, start, end):
        csv = match["quote"] == '""'
        rest = (_CSV_REST if csv else _STRING_REST).match(text, match.start(), end)
        inner = rest.group() if rest else ""
        start = match.start() + max(len(inner), 1)
        if csv:
            yield inner.replace('""', '"')
            continue
        try:
            yield _DECODER.decode(f'"{inner}"')
        except ValueError:
            # Escaped in another language's way.
            yield inner.replace('\\"', '"')
