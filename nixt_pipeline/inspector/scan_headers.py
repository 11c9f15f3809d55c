"""The headers of a file as the scanner finds them again: one comparison where the guess is right, else a hash table."""

import numpy as np
from numba import njit

from nixt_pipeline.inspector.scan_arrays import STAMP_KEY, Bytes, Headers, new_headers
from nixt_pipeline.inspector.scan_values import matches, unsigned

_STAMP = np.frombuffer(STAMP_KEY, np.uint8).copy()
_NEWLINE, _QUOTE = 10, 34
# Before the time stamp stand at least the fixed keys, at most a header with a very long name.
_MIN_PREFIX, _MAX_PREFIX = 60, 2000
# Communicator id, name and rank stand within these bytes of a line; the header table hashes no more.
_HASHED_FROM, _HASHED_TO = 14, 110
_FNV_OFFSET, _FNV_PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


@njit(cache=True, nogil=True)
def hash_prefix(buffer: Bytes, start: int, length: int) -> np.uint64:
    """FNV-1a hash of the bytes in which headers differ."""
    digest = _FNV_OFFSET
    for position in range(start + min(_HASHED_FROM, length), start + min(_HASHED_TO, length)):
        digest = (digest ^ np.uint64(buffer[position])) * _FNV_PRIME
    return digest


@njit(cache=True, nogil=True)
def prefix_length(buffer: Bytes, line: int, end: int) -> int:
    """Bytes of the line up to and including the key of the time stamp; -1 when the line does not have one."""
    for position in range(line + _MIN_PREFIX, min(end - _STAMP.size, line + _MAX_PREFIX)):
        byte = buffer[position]
        if byte == _NEWLINE:
            return -1
        begins = byte == _QUOTE and buffer[position + 1] == _STAMP[1]
        if begins and matches(buffer, position, end, _STAMP, 0, _STAMP.size):
            return position + _STAMP.size - line
    return -1


@njit(cache=True, nogil=True)
def _stamp_and_rest(buffer: Bytes, position: int, end: int, headers: Headers, number: int) -> tuple[int, np.uint64]:
    """Read the time stamp at `position`; the position after the header's rest, or -1 when another rest follows."""
    position, stamp = unsigned(buffer, position, end)
    rest, length = headers.layout[number, 2], headers.layout[number, 3]
    if position < 0 or not matches(buffer, position, end, headers.texts, rest, length):
        return -1, stamp
    return position + length, stamp


@njit(cache=True, nogil=True)
def find_header(buffer: Bytes, line: int, end: int, headers: Headers, guess: int) -> tuple[int, int, np.uint64]:
    """Number of the line's header, position after it, time stamp. Number -1: not known; -2: no header of ours."""
    if guess >= 0:
        start, length = headers.layout[guess, 0], headers.layout[guess, 1]
        if matches(buffer, line, end, headers.texts, start, length):
            position, stamp = _stamp_and_rest(buffer, line + length, end, headers, guess)
            if position >= 0:
                return guess, position, stamp
    length = prefix_length(buffer, line, end)
    if length < 0:
        return -2, -1, np.uint64(0)
    mask = headers.slots.size - 1
    slot = np.int64(hash_prefix(buffer, line, length) & np.uint64(mask))
    while headers.slots[slot] >= 0:
        number = headers.slots[slot]
        same_length = headers.layout[number, 1] == length
        if same_length and matches(buffer, line, end, headers.texts, headers.layout[number, 0], length):
            position, stamp = _stamp_and_rest(buffer, line + length, end, headers, number)
            if position >= 0:
                return number, position, stamp
        slot = (slot + 1) & mask
    return -1, -1, np.uint64(0)


def with_room(headers: Headers, number: int, text_bytes: int) -> Headers:
    """The table with room for one more header than `number` and for so much text; it doubles, so that growing is
    cheap."""
    texts = headers.texts
    if text_bytes > texts.size:
        texts = np.concatenate([texts, np.zeros(max(texts.size, text_bytes), np.uint8)])
    if number < headers.layout.shape[0]:
        return headers._replace(texts=texts)
    grown = new_headers(2 * headers.layout.shape[0], 0)._replace(texts=texts)
    grown.layout[:number], grown.following[:number] = headers.layout, headers.following
    for known in range(number):
        insert(grown, known)
    return grown


def insert(headers: Headers, number: int) -> None:
    """Enter header `number`, whose text and layout are set, into the hash table."""
    mask = headers.slots.size - 1
    start, length = int(headers.layout[number, 0]), int(headers.layout[number, 1])
    slot = int(hash_prefix(headers.texts, start, length)) & mask
    while headers.slots[slot] >= 0:
        slot = (slot + 1) & mask
    headers.slots[slot] = number
