"""The plain arrays that the compiled scanner reads and writes, and what the codes in them stand for."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nixt_pipeline.arrays import Floats, Ints

Bytes = NDArray[np.uint8]

# In the order of the codes that the scanner gives.
FUNCTIONS = ("AllGather", "AllReduce", "ReduceScatter", "Send", "Recv", "Broadcast", "Reduce", "SendRecv", "AllGatherV")
# Names without a bandwidth formula, for which the plugin writes 0.
UNKNOWN_FUNCTIONS = ("Invalid", "AlltoAll", "All2All", "Gather", "Scatter")
TIMING_SOURCES = ("kernel_gpu", "kernel_cpu", "collective_cpu")
STAMP_KEY = b'"dump_timestamp_us":'


class Headers(NamedTuple):
    """The headers known so far. A row of `layout`: start and length of prefix and rest in `texts`, 1 for P2P,
    n_ranks."""

    texts: Bytes
    layout: Ints  # (headers, 6)
    slots: NDArray[np.int32]  # hash table of header numbers, -1 for a free slot; its size is a power of two
    following: NDArray[np.int32]  # the header that followed each one last: the best guess for the next line


class Output(NamedTuple):
    """What the scanner writes, one entry for each decoded record; NaN for a bandwidth that the formula gives
    exactly."""

    header: NDArray[np.int32]
    stamp_us: Ints
    function: NDArray[np.int8]
    sn: NDArray[np.uint64]
    peer: NDArray[np.int32]
    size_bytes: NDArray[np.uint64]
    time_us: Floats  # NaN for a time of 0
    source: NDArray[np.int8]
    algobw_gbs: Floats
    busbw_gbs: Floats
    flags: NDArray[np.int32]
    n_bytes: NDArray[np.int32]
    last_sn: Ints  # (headers, functions + 1): the latest sequence number, -1 before the first; P2P in column 0
    first_sn: Ints  # of the same shape: the first one
    traces: Ints  # (records, 5): start and stop order, start and stop time, end in the channel arrays; end -1 without
    channel: NDArray[np.int32]
    events: Ints  # (6, channels): start, stop and record, first as order, then as time
    careful: Ints  # (lines, 3): start, end and number (from 0) of lines left to the careful path


class Limits(NamedTuple):
    """The values beyond which a record needs judgement."""

    max_time_us: np.uint64
    max_size_bytes: np.uint64
    max_sn: np.uint64
    min_stamp_us: np.uint64
    max_stamp_us: np.uint64


def new_headers(headers: int, text_bytes: int) -> Headers:
    """An empty header table with room for `headers` (a power of two) and their text."""
    return Headers(
        texts=np.zeros(text_bytes, np.uint8),
        layout=np.zeros((headers, 6), np.int64),
        slots=np.full(4 * headers, -1, np.int32),
        following=np.zeros(headers, np.int32),
    )


def new_output(records: int, channels: int, careful: int) -> Output:
    """Output arrays for this many records, channels of verbose records and careful lines."""

    def empty(kind: Any, *shape: int) -> Any:
        return np.empty(shape, kind)

    return Output(
        header=empty(np.int32, records),
        stamp_us=empty(np.int64, records),
        function=empty(np.int8, records),
        sn=empty(np.uint64, records),
        peer=empty(np.int32, records),
        size_bytes=empty(np.uint64, records),
        time_us=empty(np.float64, records),
        source=empty(np.int8, records),
        algobw_gbs=empty(np.float64, records),
        busbw_gbs=empty(np.float64, records),
        flags=empty(np.int32, records),
        n_bytes=empty(np.int32, records),
        last_sn=np.full((0, len(FUNCTIONS) + len(UNKNOWN_FUNCTIONS) + 1), -1, np.int64),
        first_sn=np.full((0, len(FUNCTIONS) + len(UNKNOWN_FUNCTIONS) + 1), -1, np.int64),
        traces=empty(np.int64, records, 5),
        channel=empty(np.int32, channels),
        events=empty(np.int64, 6, channels),
        careful=empty(np.int64, careful, 3),
    )


def with_counters(out: Output, headers: Headers) -> Output:
    """The output with a row of sequence numbers for every header that the table has room for."""
    missing = headers.layout.shape[0] - out.last_sn.shape[0]
    if missing <= 0:
        return out
    rows = np.full((missing, out.last_sn.shape[1]), -1, np.int64)
    return out._replace(last_sn=np.concatenate([out.last_sn, rows]), first_sn=np.concatenate([out.first_sn, rows]))
