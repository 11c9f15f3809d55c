"""The compiled scanner of the fast path: decodes the lines that are in exactly the bytes of the released plugins.

The plugin prints one fixed text around the values. The scanner compares that text and reads the numbers from their
digits; a line that deviates by one byte, or holds a number that needs judgement (a zero or wrapped time, a repaired
size, a bandwidth in another form), is left to the careful path. Everything here is compiled by numba and works on plain
arrays; `inspector.template` gives it meaning.
"""

import numpy as np
from numba import njit

from nixt_pipeline.arrays import Ints
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.scan_arrays import (
    FUNCTIONS,
    TIMING_SOURCES,
    UNKNOWN_FUNCTIONS,
    Bytes,
    Headers,
    Limits,
    Output,
)
from nixt_pipeline.inspector.scan_headers import find_header
from nixt_pipeline.inspector.scan_values import matches, micro, one_of, unsigned

# Why the scanner came back: everything is scanned, a header has not been seen before, or an output array is full.
DONE, NEW_HEADER, FULL = 0, 1, 2

# The fixed texts, each for a collective and for a P2P record. The order is the one in a record.
_TEXTS = (
    ',"{}_sn":',
    ',"p2p_peer":',
    ',"{}_msg_size_bytes":',
    ',"{}_exec_time_us":',
    ',"{}_timing_source":"',
    ',"{}_algobw_gbs":',
    ',"{}_busbw_gbs":',
    ',"event_trace_sn":{{"{}_start_sn":',
    ',"{}_stop_sn":',
    '}},"event_trace_ts":{{"{}_start_ts":',
    ',"{}_stop_ts":',
    ',"kernel_events":[',
    '{{"channel_id":',
    ',"kernel_start_sn":',
    ',"kernel_stop_sn":',
    ',"kernel_record_sn":',
    ',"kernel_start_ts":',
    ',"kernel_stop_ts":',
    ',"kernel_record_ts":',
)
_SN, _PEER, _SIZE, _TIME, _SOURCE, _ALGOBW, _BUSBW, _START_SN, _STOP_SN, _START_TS, _STOP_TS, _KERNELS, _CHANNEL = (
    range(13)
)
_KERNEL_SN, _KERNEL_TS = 13, 16


def _joined(texts: list[str]) -> tuple[Bytes, Ints]:
    """Texts in one array, and where each begins (with the end of the last)."""
    starts = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int64)
    return np.frombuffer("".join(texts).encode(), np.uint8).copy(), starts


_LITERALS, _LITERAL_STARTS = _joined([text.format(kind) for text in _TEXTS for kind in ("coll", "p2p")])
_NAMES, _NAME_STARTS = _joined([name + '"' for name in FUNCTIONS + UNKNOWN_FUNCTIONS])
_KNOWN_FUNCTIONS = len(FUNCTIONS)
_SOURCES, _SOURCE_STARTS = _joined([name + '"' for name in TIMING_SOURCES])

_NEWLINE, _COMMA, _BRACE, _BRACKET = 10, 44, 125, 93
_MAX_CHANNEL = 1_000_000
# Room for the channels of one more record; a record with more is left to the careful path.
_RESERVED_CHANNELS = 256
_TIME_ZERO, _BANDWIDTH_UNDEFINED = int(RecordFlag.TIME_ZERO), int(RecordFlag.BANDWIDTH_UNDEFINED)
_UNKNOWN_FUNCTION = int(RecordFlag.UNKNOWN_FUNCTION)
_ALL_GATHER, _ALL_REDUCE, _REDUCE_SCATTER, _ALL_GATHER_V = 0, 1, 2, 8


@njit(cache=True, nogil=True)
def _skip(buffer: Bytes, position: int, end: int, text: int, kind: int) -> int:
    """The position after a fixed text, or -1 when something else stands here (or `position` is -1 already)."""
    if position < 0:
        return -1
    start = _LITERAL_STARTS[2 * text + kind]
    length = _LITERAL_STARTS[2 * text + kind + 1] - start
    return position + length if matches(buffer, position, end, _LITERALS, start, length) else -1


@njit(cache=True, nogil=True)
def _expected(function: int, size: np.uint64, n_ranks: int, time: np.uint64) -> tuple[np.int64, np.int64]:
    """Both bandwidths in millionths of GB/s by the plugin's formula: the same operations as the SQL macros."""
    traffic = np.float64(size)
    shared = function in (_ALL_GATHER, _REDUCE_SCATTER, _ALL_GATHER_V)
    if shared:
        traffic = traffic * n_ranks
    algobw = traffic / np.float64(time) / 1000.0
    busbw = algobw
    if function == _ALL_REDUCE:
        busbw = algobw * 2.0 * (n_ranks - 1) / n_ranks
    elif shared:
        busbw = algobw * (n_ranks - 1) / n_ranks
    return np.int64(np.floor(algobw * 1e6 + 0.5)), np.int64(np.floor(busbw * 1e6 + 0.5))


@njit(cache=True, nogil=True)
def _kernel_events(
    buffer: Bytes, position: int, end: int, keys: int, out: Output, row: int, at: int
) -> tuple[int, int]:
    """Read the kernel events of one trace into three rows of `events` from column `at`; position after, and how
    many."""
    position = _skip(buffer, position, end, _KERNELS, 0)
    count = 0
    while position >= 0 and position < end and at + count < out.channel.size:
        position, channel = unsigned(buffer, _skip(buffer, position, end, _CHANNEL, 0), end)
        if position < 0 or channel > np.uint64(_MAX_CHANNEL):
            break
        if row == 0:
            out.channel[at + count] = np.int32(channel)
            if count and out.channel[at + count] <= out.channel[at + count - 1]:
                break
        elif out.channel[at + count] != np.int32(channel):
            break
        for event in range(3):
            position, value = unsigned(buffer, _skip(buffer, position, end, keys + event, 0), end)
            out.events[row + event, at + count] = np.int64(value)
        if position < 0 or position + 1 >= end or buffer[position] != _BRACE:
            break
        count += 1
        if buffer[position + 1] == _BRACKET:
            return position + 2, count
        if buffer[position + 1] != _COMMA:
            break
        position += 2
    return -1, 0


@njit(cache=True, nogil=True)
def _trace(buffer: Bytes, position: int, end: int, kind: int, out: Output, record: int, at: int) -> tuple[int, int]:
    """Read both traces of a verbose record; position after them (-1: left to the careful path), end of its channels."""
    row = out.traces[record]
    position, start_sn = unsigned(buffer, _skip(buffer, position, end, _START_SN, kind), end)
    position, stop_sn = unsigned(buffer, _skip(buffer, position, end, _STOP_SN, kind), end)
    position, orders = _kernel_events(buffer, position, end, _KERNEL_SN, out, 0, at)
    position, start_ts = unsigned(buffer, _skip(buffer, position, end, _START_TS, kind), end)
    position, stop_ts = unsigned(buffer, _skip(buffer, position, end, _STOP_TS, kind), end)
    position, times = _kernel_events(buffer, position, end, _KERNEL_TS, out, 3, at)
    if position < 0 or position >= end or orders != times or buffer[position] != _BRACE:
        return -1, at
    row[0], row[1] = np.int64(start_sn), np.int64(stop_sn)
    row[2], row[3] = np.int64(start_ts), np.int64(stop_ts)
    kept = at
    for channel in range(at, at + orders):
        used = False
        for event in range(6):
            used |= out.events[event, channel] > 0
        if used:
            out.channel[kept] = out.channel[channel]
            for event in range(6):
                out.events[event, kept] = out.events[event, channel]
            kept += 1
    row[4] = kept
    return position + 1, kept


@njit(cache=True, nogil=True)
def _body(  # noqa: PLR0913 (compiled code takes arrays)
    buffer: Bytes, position: int, end: int, headers: Headers, number: int, out: Output, record: int, limits: Limits
) -> int:
    """Decode the body after a header; position after the last value, or -1 for the careful path."""
    kind, n_ranks = headers.layout[number, 4], headers.layout[number, 5]
    position, function = one_of(buffer, position, end, _NAMES, _NAME_STARTS)
    position, sn = unsigned(buffer, _skip(buffer, position, end, _SN, kind), end)
    peer = np.uint64(0)
    if kind == 1:
        position, peer = unsigned(buffer, _skip(buffer, position, end, _PEER, kind), end)
    position, size = unsigned(buffer, _skip(buffer, position, end, _SIZE, kind), end)
    position, time = unsigned(buffer, _skip(buffer, position, end, _TIME, kind), end)
    position, source = one_of(buffer, _skip(buffer, position, end, _SOURCE, kind), end, _SOURCES, _SOURCE_STARTS)
    position, algobw = micro(buffer, _skip(buffer, position, end, _ALGOBW, kind), end)
    position, busbw = micro(buffer, _skip(buffer, position, end, _BUSBW, kind), end)
    if position < 0 or time > limits.max_time_us or size > limits.max_size_bytes:
        return -1
    if sn > limits.max_sn or peer >= np.uint64(2**31):
        return -1
    flags = 0
    if function >= _KNOWN_FUNCTIONS:
        flags = _UNKNOWN_FUNCTION | _BANDWIDTH_UNDEFINED
    if time == 0:
        flags |= _TIME_ZERO | _BANDWIDTH_UNDEFINED
    if flags:
        if algobw != 0 or busbw != 0:
            return -1
        as_expected = True
    else:
        expected_algobw, expected_busbw = _expected(function, size, n_ranks, time)
        as_expected = algobw == expected_algobw and busbw == expected_busbw
    out.function[record], out.source[record] = function, source
    out.sn[record], out.peer[record] = sn, np.int32(peer)
    out.size_bytes[record], out.time_us[record] = size, np.float64(time) if time else np.nan
    out.flags[record] = flags
    out.algobw_gbs[record] = np.nan if as_expected else algobw / 1e6
    out.busbw_gbs[record] = np.nan if as_expected else busbw / 1e6
    return position


@njit(cache=True, nogil=True)
def scan(  # noqa: C901, PLR0913 (compiled code takes arrays, and a call for each line costs)
    buffer: Bytes, start: int, end: int, headers: Headers, guess: int, out: Output, limits: Limits, progress: Ints
) -> int:
    """Decode whole lines of `buffer[start:end]` until done, a new header, or full output; returns which of these.

    `progress` is the scanner's state: records, channels and careful lines in the output, 1 if a sequence number did not
    rise, position in the buffer, last header, lines scanned.
    """
    records, channels, careful = progress[0], progress[1], progress[2]
    line, status = start, DONE
    while line < end:
        room = records < out.header.size and careful < out.careful.shape[0]
        if not room or (channels and channels + _RESERVED_CHANNELS > out.channel.size):
            status = FULL
            break
        number, position, stamp = find_header(buffer, line, end, headers, guess)
        if number == -1:
            status = NEW_HEADER
            break
        kept = channels
        if number >= 0:
            position = _body(buffer, position, end, headers, number, out, records, limits)
            out.traces[records, 4] = -1
            if position >= 0 and position < end and buffer[position] == _COMMA:
                position, kept = _trace(buffer, position, end, headers.layout[number, 4], out, records, channels)
        ended = position >= 0 and position + 2 < end and buffer[position] == _BRACE
        ended = ended and buffer[position + 1] == _BRACE and buffer[position + 2] == _NEWLINE
        if ended and limits.min_stamp_us <= stamp and stamp < limits.max_stamp_us:
            after = position + 3
            out.header[records], out.stamp_us[records], out.n_bytes[records] = number, np.int64(stamp), after - line
            counter = 0 if headers.layout[number, 4] == 1 else out.function[records] + 1
            if np.int64(out.sn[records]) <= out.last_sn[number, counter]:
                progress[3] = 1
            elif out.last_sn[number, counter] < 0:
                out.first_sn[number, counter] = np.int64(out.sn[records])
            out.last_sn[number, counter] = np.int64(out.sn[records])
            if guess >= 0:
                headers.following[progress[5]] = number
            progress[5] = number
            guess = headers.following[number]
            records, channels, line = records + 1, kept, after
        else:
            after = line
            while after < end and buffer[after] != _NEWLINE:
                after += 1
            after = min(after + 1, end)
            out.careful[careful, 0], out.careful[careful, 1], out.careful[careful, 2] = line, after, progress[6]
            careful, line = careful + 1, after
        progress[6] += 1
    progress[0], progress[1], progress[2], progress[4] = records, channels, careful, line
    return status
