"""Cells gathered in arrays: what most collectives need, in a fraction of the time that grouping records takes.

The sequence numbers of a stream (a function of a communicator) follow one another, so that a cell's place in an array
is its number minus the stream's first. Each record is added to its cell as it streams by, in any order. A second record
of a rank shows in a bit for each rank and cell; such cells are only marked, for SQL that distinguishes repetitions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from nixt_pipeline.arrays import Array

# A cell while it is gathered; times are +-inf and dumps the ends of int64 until a record has one.
_CELL = np.dtype(
    [
        ("shortest_us", np.float64),
        ("second_us", np.float64),
        ("longest_us", np.float64),
        ("sum_us", np.float64),
        ("first_dump_us", np.int64),
        ("last_dump_us", np.int64),
        ("size_bytes", np.uint64),
        ("shortest_rank", np.int32),
        ("second_rank", np.int32),
        ("ranks_seen", np.int32),
        ("ranks_timed", np.int32),
        ("ranks_gpu_timed", np.int32),
        ("size_mismatch", np.bool_),
        ("repeated", np.bool_),
    ],
    align=True,
)
NO_SIZE = 2**64 - 1
NO_DUMP = -(2**63)
_EMPTY = (np.inf, np.inf, -np.inf, 0.0, 2**63 - 1, NO_DUMP, NO_SIZE, -1, -1, 0, 0, 0, False, False)


@dataclass(frozen=True)
class Stretch:
    """Consecutive sequence numbers of one stream; `stream` is its hash, `ranks` are counted from 0."""

    stream: int
    first_sn: int
    numbers: int
    ranks: int


def cell_bytes(ranks: int) -> float:
    """Memory that a cell of a communicator of so many ranks takes."""
    return _CELL.itemsize + ranks / 8


def passes(streams: Iterable[Stretch], bytes_per_pass: int) -> Iterator[list[Stretch]]:
    """The streams in their order, cut so that the cells of each pass fit into `bytes_per_pass`."""
    chosen: list[Stretch] = []
    room = float(bytes_per_pass)
    for stream in streams:
        first, left, size = stream.first_sn, stream.numbers, cell_bytes(stream.ranks)
        while left:
            if room < size and chosen:
                yield chosen
                chosen, room = [], float(bytes_per_pass)
            taken = min(left, max(1, int(room // size)))
            chosen.append(Stretch(stream.stream, first, taken, stream.ranks))
            first, left, room = first + taken, left - taken, room - taken * size
    if chosen:
        yield chosen


class DenseCells:
    """The cells of one pass: `add` its records, then read them in the order of the stretches."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        streams = np.array([stretch.stream for stretch in stretches], np.uint64)
        first_sns = np.array([stretch.first_sn for stretch in stretches], np.uint64)
        numbers = np.array([stretch.numbers for stretch in stretches], np.int64)
        ranks = np.array([stretch.ranks for stretch in stretches], np.int64)
        starts, bits = np.cumsum(numbers) - numbers, numbers * ranks
        first_bits = np.cumsum(bits) - bits
        self._layout = _Layout(_hash_places(streams), streams, first_sns, numbers, ranks, starts, first_bits)
        self._bits = np.zeros(int(bits.sum()) // 8 + 1, np.uint8)
        self._cells = np.empty(int(numbers.sum()), _CELL)
        self._cells[:] = np.array(_EMPTY, _CELL)

    def add(self, records: pa.RecordBatch) -> None:
        """Add records: stream, sequence number, rank, size, time in us, whether the GPU took it, write time.

        There are no nulls: a missing size is `NO_SIZE`, a time NaN, a write time `NO_DUMP`. Records of other streams
        and numbers are passed over.
        """
        columns = _Records(*(column.to_numpy(zero_copy_only=True) for column in records.columns))
        _add(self._cells, self._bits, self._layout, columns)

    def batches(self, rows: int) -> Iterator[pa.Table]:
        """The cells that have records and no rank twice, about `rows` at a time."""
        for start in range(0, len(self._cells), rows):
            part = self._cells[start : start + rows]
            found = np.flatnonzero((part["ranks_seen"] > 0) & ~part["repeated"])
            if found.size:
                cells = part[found]
                values = {name: np.ascontiguousarray(cells[name]) for name in _CELL.names or ()}
                yield pa.table(self._keys(found + start) | values)

    def repeated(self) -> pa.Table:
        """Stream and sequence number of the cells in which a rank has several records."""
        return pa.table(self._keys(np.flatnonzero(self._cells["repeated"])))

    def _keys(self, numbers: Array) -> dict[str, Array]:
        layout = self._layout
        stretch = np.searchsorted(layout.starts, numbers, side="right") - 1
        offsets = (numbers - layout.starts[stretch]).astype(np.uint64)
        return {"stream": layout.streams[stretch], "coll_sn": layout.first_sns[stretch] + offsets}


def _hash_places(streams: Array) -> Array:
    """An open hash table: the number of a stream at the first free place from its hash on, -1 where there is none."""
    mask = (1 << (2 * len(streams)).bit_length()) - 1
    places = np.full(mask + 1, -1, np.int32)
    for number, stream in enumerate(streams):
        place = int(stream) & mask
        while places[place] >= 0:
            place = (place + 1) & mask
        places[place] = number
    return places


class _Layout(NamedTuple):
    """Where the cells of each stream are, by its number, which `places` (an open hash table) finds."""

    places: Array
    streams: Array
    first_sns: Array
    numbers: Array
    ranks: Array
    starts: Array
    first_bits: Array


class _Records(NamedTuple):
    """The columns of some records."""

    stream: Array
    sn: Array
    rank: Array
    size: Array
    time_us: Array
    by_gpu: Array
    dump_us: Array


@njit(cache=True, nogil=True)
def _number_of(stream: np.uint64, layout: _Layout) -> np.int32:
    """The number of a stream; -1 for one that has none."""
    mask = np.uint64(len(layout.places) - 1)
    place = stream & mask
    known: np.int32 = layout.places[place]
    while known >= 0 and layout.streams[known] != stream:
        place = (place + np.uint64(1)) & mask
        known = layout.places[place]
    return known


@njit(cache=True, nogil=True)
def _add(cells: Array, bits: Array, layout: _Layout, records: _Records) -> None:
    for row in range(len(records.stream)):
        known = _number_of(records.stream[row], layout)
        if known < 0 or records.sn[row] < layout.first_sns[known]:
            continue
        number = np.int64(records.sn[row] - layout.first_sns[known])
        if number < 0 or number >= layout.numbers[known]:
            continue
        cell, rank = cells[layout.starts[known] + number], records.rank[row]
        bit = layout.first_bits[known] + number * layout.ranks[known] + rank
        if bits[bit >> 3] & (1 << (bit & 7)):
            cell.repeated = True
            continue
        bits[bit >> 3] |= 1 << (bit & 7)
        cell.ranks_seen += 1
        if records.size[row] != NO_SIZE:
            if cell.size_bytes == NO_SIZE:
                cell.size_bytes = records.size[row]
            elif records.size[row] != cell.size_bytes:
                cell.size_mismatch = True
                cell.size_bytes = max(records.size[row], cell.size_bytes)
        if records.dump_us[row] != NO_DUMP:
            cell.first_dump_us = min(cell.first_dump_us, records.dump_us[row])
            cell.last_dump_us = max(cell.last_dump_us, records.dump_us[row])
        if not np.isnan(records.time_us[row]):
            cell.ranks_gpu_timed += records.by_gpu[row]
            _add_time(cell, records.time_us[row], rank)


@njit(cache=True, nogil=True)
def _add_time(cell: Any, us: np.float64, rank: np.int32) -> None:
    cell.ranks_timed += 1
    cell.sum_us += us
    cell.longest_us = max(cell.longest_us, us)
    if us < cell.shortest_us or (us == cell.shortest_us and rank < cell.shortest_rank):
        cell.second_us, cell.second_rank = cell.shortest_us, cell.shortest_rank
        cell.shortest_us, cell.shortest_rank = us, rank
    elif us < cell.second_us or (us == cell.second_us and rank < cell.second_rank):
        cell.second_us, cell.second_rank = us, rank
