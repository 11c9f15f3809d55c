"""The fast path: what the compiled scanner finds, as Arrow record batches of the events and channels tables.

A header (communicator, process and versions) is registered once, after a JSON parser and the careful path have read it;
from then on its bytes stand for its values.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from nixt_pipeline.arrays import Array, Ints, Marks
from nixt_pipeline.inspector import scan_arrays, scan_headers, scanner, taxonomy
from nixt_pipeline.inspector.decoder import is_spliced
from nixt_pipeline.inspector.fields import RejectedError
from nixt_pipeline.inspector.records import ForeignError, RecordTyper
from nixt_pipeline.settings import Thresholds

EVENTS = taxonomy.stored_schema(taxonomy.EVENT_COLUMNS)
CHANNELS = taxonomy.stored_schema(taxonomy.CHANNEL_COLUMNS)

# Records, channels and careful lines decoded before they become record batches.
_RECORDS, _CHANNELS, _CAREFUL = 65_536, 262_144, 16_384
# Processes that can share a communicator, a rank and all else before the time stamp: none, unless a cut id collides.
_MAX_ALIKE = 64
_SENTINEL_US = 1_756_587_606_100_000
_BODIES = {b'"coll_perf":{"coll":"': ("coll_perf", "coll"), b'"p2p_perf":{"p2p":"': ("p2p_perf", "p2p")}
_IDENTITY = (
    *("kind", "id", "comm_name", "rank", "n_ranks", "nnodes", "hostname", "pid"),
    *("inspector_output_format_version", "git_rev", "rec_mechanism"),
)
# What has sequence numbers of its own.
_COUNTER = _IDENTITY[:8]
_STRING = pa.dictionary(pa.int32(), pa.string())
_FUNCTIONS = pa.array((*scan_arrays.FUNCTIONS, *scan_arrays.UNKNOWN_FUNCTIONS), pa.string())
_SOURCES = pa.array(scan_arrays.TIMING_SOURCES, pa.string())
_TRACE_SCALARS = (("start_sn", 0), ("stop_sn", 1), ("start_ts", 2), ("stop_ts", 3))
_TRACE_LISTS = tuple(f"kernel_{name}_{suffix}" for suffix in ("sn", "ts") for name in ("start", "stop", "record"))


@dataclass(frozen=True)
class CarefulLine:
    """A line for the careful path: where it lies in the block, and its number in the file, from 1."""

    start: int
    end: int
    number: int


@dataclass(frozen=True)
class Decoded:
    """What one step of the fast path yielded."""

    events: pa.RecordBatch
    channels: pa.RecordBatch | None
    careful: list[CarefulLine]
    collectives: int
    n_bytes: int
    first_us: int | None
    last_us: int | None


class TemplateDecoder:
    """Decodes the blocks of one file, in order; at most so many `records` and `careful` lines come in one step."""

    def __init__(self, file_id: int, thresholds: Thresholds, records: int = _RECORDS, careful: int = _CAREFUL) -> None:
        self._file_id, self._thresholds, self._most_careful = file_id, thresholds, careful
        self._registry = _Registry()
        self._out = scan_arrays.new_output(records, _CHANNELS, careful)
        self._progress = np.array([0, 0, 0, 0, 0, -1, 0], np.int64)
        self._limits = scan_arrays.Limits(
            np.uint64(thresholds.ingest.wrapped_exec_time_us),
            np.uint64(thresholds.ingest.max_message_bytes),
            np.uint64(thresholds.ingest.max_sequence_number),
            np.uint64(thresholds.ingest.min_timestamp_us),
            np.uint64(thresholds.ingest.max_timestamp_us),
        )

    @property
    def lines(self) -> int:
        """Lines decoded so far."""
        return int(self._progress[6])

    @property
    def may_repeat(self) -> bool:
        """Whether a sequence number did not rise, so that a record may have been seen twice.

        Sequence numbers are watched per header, so two headers that say the same in other words count as well.
        """
        return bool(self._progress[3]) or self._registry.says_one_thing_twice()

    def processes(self) -> set[tuple[str | None, int | None]]:
        """The processes whose records were decoded."""
        used = np.asarray((self._out.last_sn >= 0).any(axis=1))
        return self._registry.processes(used)

    def counters(self) -> dict[tuple[Any, ...], tuple[int, int]]:
        """First and last sequence number of each communicator, rank, process and function."""
        used = np.argwhere(self._out.last_sn >= 0)
        spans = ((int(self._out.first_sn[row, place]), int(self._out.last_sn[row, place])) for row, place in used)
        names = (None, *_FUNCTIONS.to_pylist())
        keys = ((*self._registry.counter(int(row)), names[place]) for row, place in used)
        return dict(zip(keys, spans, strict=True))

    def decode(self, block: bytes) -> Iterator[Decoded]:
        """Decode a block of whole lines in steps of bounded size; call `finish` after the last block.

        Records wait for those of later blocks, since small batches cost more than their records; lines for the careful
        path do not, since they are places in this block.
        """
        end = len(block)
        buffer = np.frombuffer(block, np.uint8)
        progress, start, status = self._progress, 0, scanner.FULL
        while status != scanner.DONE:
            headers = self._registry.headers()
            last = progress[5]
            guess = int(headers.following[last]) if last >= 0 else -1
            status = scanner.scan(buffer, start, end, headers, guess, self._out, self._limits, progress)
            start = int(progress[4])
            if status == scanner.NEW_HEADER:
                if self._registry.register(block, start, end, self._thresholds):
                    self._out = scan_arrays.with_counters(self._out, self._registry.headers())
                else:
                    start = self._leave_to_careful(block, start, end)
            if status == scanner.FULL or progress[2] >= self._most_careful or (status == scanner.DONE and progress[2]):
                yield self._flush()

    def finish(self) -> Iterator[Decoded]:
        """The records that still wait."""
        if self._progress[0]:
            yield self._flush()

    def _leave_to_careful(self, block: bytes, start: int, end: int) -> int:
        """Put the line at `start`, whose header is none of the template's, on the careful list; the start of the
        next."""
        progress = self._progress
        after = block.find(b"\n", start, end) + 1 or end
        self._out.careful[progress[2]] = (start, after, progress[6])
        progress[2] += 1
        progress[6] += 1
        return after

    def _flush(self) -> Decoded:
        progress, out = self._progress, self._out
        records, lines = int(progress[0]), int(progress[2])
        careful = [CarefulLine(int(a), int(b), int(n) + 1) for a, b, n in out.careful[:lines]]
        columns = self._columns(records)
        p2p = int(np.count_nonzero(self._registry.p2p(out.header[:records])))
        stamps = out.stamp_us[:records]
        decoded = Decoded(
            events=pa.record_batch([columns[name] for name in EVENTS.names], schema=EVENTS),
            channels=self._channels(columns, records) if progress[1] or (out.traces[:records, 4] >= 0).any() else None,
            careful=careful,
            collectives=records - p2p,
            n_bytes=int(out.n_bytes[:records].sum()),
            first_us=int(stamps.min()) if records else None,
            last_us=int(stamps.max()) if records else None,
        )
        progress[:3] = 0
        return decoded

    def _columns(self, records: int) -> dict[str, pa.Array]:
        out, header = self._out, self._out.header[:records]
        columns = {name: self._registry.column(name, header) for name in _IDENTITY}
        p2p = self._registry.p2p(header)
        # The batch outlives the scanner's arrays, which are used again: everything taken from them is copied.
        columns |= {
            "dump_timestamp_us": pa.array(out.stamp_us[:records].copy()),
            "coll": pa.DictionaryArray.from_arrays(out.function[:records].astype(np.int32), _FUNCTIONS),
            "coll_algo": pa.nulls(records, _STRING),
            "coll_proto": pa.nulls(records, _STRING),
            "coll_sn": pa.array(out.sn[:records].copy()),
            "p2p_peer": pa.array(out.peer[:records].copy(), mask=~p2p),
            "coll_msg_size_bytes": pa.array(out.size_bytes[:records].copy()),
            "coll_exec_time_us": pa.array(out.time_us[:records].copy(), from_pandas=True),
            "coll_timing_source": pa.DictionaryArray.from_arrays(out.source[:records].astype(np.int32), _SOURCES),
            "coll_algobw_gbs": pa.array(out.algobw_gbs[:records].copy(), from_pandas=True),
            "coll_busbw_gbs": pa.array(out.busbw_gbs[:records].copy(), from_pandas=True),
            "flags": pa.array(out.flags[:records].copy()),
            "extra": pa.nulls(records, _STRING),
            "file_id": pa.array(np.full(records, self._file_id, np.int32)),
            "record_bytes": pa.array(out.n_bytes[:records].copy()),
        }
        return columns

    def _channels(self, columns: dict[str, pa.Array], records: int) -> pa.RecordBatch:
        """The traces of the verbose records among the first `records`."""
        out = self._out
        rows = np.flatnonzero(out.traces[:records, 4] >= 0)
        ends = out.traces[rows, 4]
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        used = int(ends[-1]) if rows.size else 0
        table = {name: columns[name].take(pa.array(rows)) for name in CHANNELS.names if name in columns}
        for name, place in _TRACE_SCALARS:
            table[name] = _positive(out.traces[rows, place])
        table["channel_id"] = pa.ListArray.from_arrays(offsets, pa.array(out.channel[:used].copy()))
        for place, name in enumerate(_TRACE_LISTS):
            table[name] = pa.ListArray.from_arrays(offsets, _positive(out.events[place, :used]))
        return pa.record_batch([table[name] for name in CHANNELS.names], schema=CHANNELS)


def _positive(values: Ints) -> pa.Array:
    """Zero means "not observed" in the plugin's traces."""
    return pa.array(values.copy(), mask=values <= 0)


class _Registry:
    """The headers of one file: their bytes for the scanner, their values for the columns."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._alike: Counter[bytes] = Counter()
        self._values: dict[str, list[Any]] = {name: [] for name in _IDENTITY}
        self._encoded: dict[str, tuple[Array, pa.Array | None]] = {}
        self._text_bytes = 0
        self._count = 0
        self._headers = scan_arrays.new_headers(headers=16, text_bytes=8192)

    def headers(self) -> scan_arrays.Headers:
        """What the scanner needs; ask again after each registration."""
        return self._headers

    def processes(self, used: Marks) -> set[tuple[str | None, int | None]]:
        """The processes of the headers that are marked as used."""
        pairs = zip(self._values["hostname"], self._values["pid"], strict=True)
        return {pair for pair, was_used in zip(pairs, used, strict=False) if was_used}

    def says_one_thing_twice(self) -> bool:
        """Whether two headers name the same communicator, rank and process."""
        counters = list(zip(*(self._values[name] for name in _COUNTER), strict=True))
        return len(set(counters)) < len(counters)

    def counter(self, number: int) -> tuple[Any, ...]:
        """What has sequence numbers of its own, of header `number`."""
        return tuple(self._values[name][number] for name in _COUNTER)

    def register(self, block: bytes, start: int, end: int, thresholds: Thresholds) -> bool:
        """Learn the header of the line at `start`. False when the careful path must read such lines."""
        end = block.find(b"\n", start, end) + 1 or end
        length = scan_headers.prefix_length(np.frombuffer(block, np.uint8), start, end)
        stop = start + length
        while stop < end and block[stop : stop + 1].isdigit():
            stop += 1
        bodies = ((block.find(opening, stop, end), opening) for opening in _BODIES)
        position, opening = min(((at, text) for at, text in bodies if at >= 0), default=(-1, b""))
        if position < 0:
            return False
        prefix, rest = block[start : start + length], block[stop : position + len(opening)]
        # A header that is known already, but not to the scanner, stands around a time stamp that it cannot read.
        # Headers that differ behind the time stamp only are distinguished one by one, so they must not become many.
        if prefix + rest in self._seen or self._alike[prefix] == _MAX_ALIKE:
            return False
        self._seen.add(prefix + rest)
        self._alike[prefix] += 1
        identity = _read_header(prefix, rest, *_BODIES[opening], thresholds)
        if identity is None:
            return False
        for name, value in identity.items():
            self._values[name].append(value)
        self._encoded.clear()
        self._add(prefix, rest, opening == b'"p2p_perf":{"p2p":"', identity["n_ranks"])
        return True

    def _add(self, prefix: bytes, rest: bytes, p2p: bool, n_ranks: int) -> None:
        number, at = self._count, self._text_bytes
        self._headers = scan_headers.with_room(self._headers, number, at + len(prefix) + len(rest))
        headers = self._headers
        text = np.frombuffer(prefix + rest, np.uint8)
        headers.texts[at : at + text.size] = text
        headers.layout[number] = (at, len(prefix), at + len(prefix), len(rest), p2p, n_ranks)
        headers.following[number] = number
        scan_headers.insert(headers, number)
        self._count, self._text_bytes = number + 1, at + text.size

    def column(self, name: str, header: NDArray[np.int32]) -> pa.Array:
        """The values of one identity column for records given by their header numbers."""
        codes, values = self._encode(name)
        taken = codes[header] if header.size else codes[:0]
        if values is None:
            return pa.array(taken)
        indices = pa.array(taken) if (codes >= 0).all() else pa.array(taken, mask=taken < 0)
        return pa.DictionaryArray.from_arrays(indices, values)

    def p2p(self, header: NDArray[np.int32]) -> Marks:
        """Which records are P2P."""
        return np.asarray(self._headers.layout[header, 4] == 1)

    def _encode(self, name: str) -> tuple[Array, pa.Array | None]:
        """Per header: an index into the distinct strings (with them), or the integer itself."""
        if name not in self._encoded:
            kind = EVENTS.field(name).type
            values = self._values[name]
            if pa.types.is_dictionary(kind):
                distinct = list(dict.fromkeys(value for value in values if value is not None))
                index: dict[str | None, int] = {value: number for number, value in enumerate(distinct)}
                codes = np.array([index.get(value, -1) for value in values], np.int32)
                self._encoded[name] = codes, pa.array(distinct, pa.string())
            else:
                self._encoded[name] = np.array(values, kind.to_pandas_dtype()), None
        return self._encoded[name]


def _read_header(prefix: bytes, rest: bytes, body: str, function: str, thresholds: Thresholds) -> dict[str, Any] | None:
    """The values of a header by the careful path; None when they need judgement or stand for more than the columns
    hold."""
    record = prefix + str(_SENTINEL_US).encode() + rest + b'AllReduce"}}'
    if is_spliced(record):
        return None
    try:
        value = orjson.loads(record)
        event = RecordTyper(0, thresholds).type(value, len(record), 0).event
    except (orjson.JSONDecodeError, RejectedError, ForeignError):
        return None
    row = dict(zip(EVENTS.names, event or (), strict=True))
    integers = ("rank", "n_ranks", "nnodes", "pid")
    usual = row["dump_timestamp_us"] == _SENTINEL_US and row["extra"] is None and value[body] == {function: "AllReduce"}
    if not usual or any(row[name] is None for name in integers) or row["n_ranks"] < 2:
        return None
    return {name: row[name] for name in _IDENTITY}
