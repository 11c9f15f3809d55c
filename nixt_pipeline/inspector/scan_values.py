"""Compiled readers of what stands at one position of a line: a fixed text, one of several, a number."""

import numpy as np
from numba import njit

from nixt_pipeline.arrays import Ints
from nixt_pipeline.inspector.scan_arrays import Bytes

_ZERO, _POINT = 48, 46


@njit(cache=True, nogil=True)
def matches(buffer: Bytes, position: int, end: int, texts: Bytes, start: int, length: int) -> bool:
    """Whether `length` bytes of `texts` stand here. No early exit, so that it compiles to vector instructions."""
    if position + length > end:
        return False
    # Slices and a typed accumulator: with plain indexing numba checks every index for being negative.
    here, there = buffer[position : position + length], texts[start : start + length]
    difference = np.uint8(0)
    for offset in range(length):
        difference = np.uint8(difference | np.uint8(here[offset] ^ there[offset]))
    return bool(difference == 0)


@njit(cache=True, nogil=True)
def unsigned(buffer: Bytes, position: int, end: int) -> tuple[int, np.uint64]:
    """An integer of at most 19 digits as JSON writes it, and the position after it; -1 when there is none."""
    value = np.uint64(0)
    start = position
    if position < 0:
        return -1, value
    while position < end:
        digit = buffer[position] - np.uint8(_ZERO)
        if digit > 9:
            break
        value = value * np.uint64(10) + np.uint64(digit)
        position += 1
    digits = position - start
    if digits == 0 or digits > 19 or (digits > 1 and buffer[start] == _ZERO):
        return -1, value
    return position, value


@njit(cache=True, nogil=True)
def micro(buffer: Bytes, position: int, end: int) -> tuple[int, np.int64]:
    """A number with exactly six decimals, in millionths, and the position after it; -1 when there is none."""
    position, whole = unsigned(buffer, position, end)
    if position < 0 or position + 7 > end or buffer[position] != _POINT or whole > np.uint64(1_000_000_000):
        return -1, np.int64(0)
    value = np.int64(whole)
    for offset in range(1, 7):
        digit = buffer[position + offset] - np.uint8(_ZERO)
        if digit > 9:
            return -1, np.int64(0)
        value = value * 10 + np.int64(digit)
    return position + 7, value


@njit(cache=True, nogil=True)
def one_of(buffer: Bytes, position: int, end: int, texts: Bytes, starts: Ints) -> tuple[int, int]:
    """Which of `texts` stands here, and the position after it; -1 when none does."""
    if position >= 0:
        for code in range(starts.size - 1):
            length = starts[code + 1] - starts[code]
            if matches(buffer, position, end, texts, starts[code], length):
                return position + length, code
    return -1, -1
