"""From a decoded JSON object to a typed row: the five taxonomy roles, the oddities flagged, nothing dropped.

Features are told by the keys of a record (`comm_name`, `p2p_perf`, a missing `header`), never by the version it claims.
A value that a typed column cannot hold, and every unknown key, goes to the `extra` column.
"""

import math
from dataclasses import dataclass
from typing import Any

import orjson

from nixt_pipeline.inspector.envelopes import header_hint
from nixt_pipeline.inspector.operations import (
    BANDWIDTH_FLAGS,
    RecordFlag,
    algobw_gbs,
    busbw_gbs,
    has_bandwidth,
    to_six_decimals,
)
from nixt_pipeline.inspector.traces import trace_columns
from nixt_pipeline.settings import Thresholds

Row = tuple[Any, ...]

_HEADER_KEYS = frozenset(("id", "comm_name", "rank", "n_ranks", "nnodes"))
_METADATA_KEYS = frozenset(
    ("inspector_output_format_version", "git_rev", "rec_mechanism", "dump_timestamp_us", "hostname", "pid")
)
# Behind the prefix coll_ or p2p_.
_BODY_KEYS = ("sn", "msg_size_bytes", "exec_time_us", "timing_source", "algobw_gbs", "busbw_gbs", "algo", "proto")
_KINDS = {"coll_perf": ("collective", "coll"), "p2p_perf": ("p2p", "p2p")}
_BODIES = (*_KINDS, "dump_stats", "proxy_trace")
_COUNTED_BY_MARKER = ("coll_records", "p2p_records", "proxy_records")
_UINT64 = (0, 2**64 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_INT32 = (-(2**31), 2**31 - 1)
# Unknown values are kept down to this depth; orjson writes no more than 254 levels, the forks have five.
_MAX_DEPTH = 100


class RejectedError(ValueError):
    """The object is an Inspector record with something essential missing or of the wrong type; the text says what."""


class ForeignError(ValueError):
    """The object is valid JSON but no Inspector record; the text says what it lacks."""


@dataclass
class Marker:
    """The dump_stats line in force in a v4.3 stream: its header and metadata hold for the next `remaining` bare
    lines."""

    header: dict[str, Any]
    metadata: dict[str, Any]
    remaining: int


@dataclass(frozen=True)
class Typed:
    """One decoded line: exactly one of `event` and `auxiliary` is set; `channels` accompanies verbose events."""

    event: Row | None = None
    channels: Row | None = None
    auxiliary: Row | None = None
    process: tuple[str | None, int | None] = (None, None)
    dump_timestamp_us: int | None = None


@dataclass
class RecordTyper:
    """Types the records of one file in order; it carries the marker that bare v4.3 lines refer to."""

    file_id: int
    thresholds: Thresholds
    marker: Marker | None = None
    # Whether a line was seen that belongs to a marker, or asks for one.
    stateful: bool = False

    def type(self, value: dict[str, Any], n_bytes: int, offset: int, non_finite: tuple[str, ...] = ()) -> Typed:
        """The typed row of one object. Raises `RejectedError` or `ForeignError`.

        `non_finite` says how its infinities and NaNs were spelled; records that differ in it are different records.
        """
        body_key = next((key for key in _BODIES if isinstance(value.get(key), dict)), None)
        if body_key is None:
            raise ForeignError("a JSON object without coll_perf, p2p_perf, dump_stats or proxy_trace: not Inspector")
        header, metadata = self._identity(value)
        if body_key in _KINDS:
            if non_finite:
                value = {**value, "non_finite": list(non_finite)}
            return self._operation(value, header, metadata, body_key, n_bytes)
        return self._auxiliary(header, metadata, body_key, value[body_key], offset)

    def lost_line(self, text: bytes) -> None:
        """Tell that a line could not be decoded: it may have been one of the marker's, or a marker itself."""
        if b'"header"' in text or b'"dump_stats"' in text:
            self.marker = None
        elif self.marker and (b"{" in text or b"}" in text):
            # Anything else is no part of a record: a log collector's prefix, another program's line.
            self.marker.remaining -= 1

    def _identity(self, value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        header = value.get("header")
        if header is None:
            self.stateful = True
            if self.marker is None or self.marker.remaining <= 0:
                hint = header_hint(value)
                raise RejectedError(f"no header, and no dump_stats marker in force to take it from{hint}")
            self.marker.remaining -= 1
            return self.marker.header, self.marker.metadata
        metadata = {} if value.get("metadata") is None else value["metadata"]
        if not isinstance(header, dict) or not isinstance(metadata, dict):
            raise RejectedError("header or metadata is not an object")
        if "id" not in header:
            raise ForeignError("header has no communicator id: not Inspector, perhaps the ACCL profiler")
        return header, metadata

    def _operation(
        self, value: dict[str, Any], header: dict[str, Any], metadata: dict[str, Any], body_key: str, n_bytes: int
    ) -> Typed:
        kind, prefix = _KINDS[body_key]
        fields = _Fields(header, metadata, value[body_key], body_key, self.thresholds)
        identity = fields.identity()
        coll = fields.required_text(prefix)
        time_us, size_bytes = fields.exec_time(f"{prefix}_exec_time_us"), fields.size(f"{prefix}_msg_size_bytes")
        algobw, busbw = fields.bandwidths(prefix, coll, identity["n_ranks"])
        peer = fields.integer(fields.body, "p2p_peer", _INT32) if kind == "p2p" else None
        sequence_number = fields.sequence_number(f"{prefix}_sn")
        tail = (
            fields.text(fields.body, f"{prefix}_algo"),
            fields.text(fields.body, f"{prefix}_proto"),
            sequence_number,
            peer,
            size_bytes,
            time_us,
            fields.text(fields.body, f"{prefix}_timing_source"),
            algobw,
            busbw,
        )
        known = {f"{prefix}_{key}" for key in _BODY_KEYS} | {prefix, "p2p_peer", "event_trace_sn", "event_trace_ts"}
        fields.keep_unknown(value, body_key, known)
        event = (
            kind,
            *(identity[name] for name in ("id", "comm_name", "rank", "n_ranks", "nnodes", "hostname", "pid")),
            *(
                identity[name]
                for name in ("inspector_output_format_version", "git_rev", "rec_mechanism", "dump_timestamp_us")
            ),
            coll,
            *tail,
            int(fields.flags),
            fields.extra_json(),
            self.file_id,
            n_bytes,
        )
        channels = None
        if "event_trace_sn" in fields.body or "event_trace_ts" in fields.body:
            names = ("id", "comm_name", "rank", "n_ranks", "nnodes", "hostname", "pid", "dump_timestamp_us")
            shared = (self.file_id, kind, *(identity[name] for name in names), coll, sequence_number)
            channels = (*shared, *trace_columns(fields.body, prefix))
        process = (identity["hostname"], identity["pid"])
        return Typed(event, channels, process=process, dump_timestamp_us=fields.plausible_timestamp_us)

    def _auxiliary(
        self, header: dict[str, Any], metadata: dict[str, Any], kind: str, body: dict[str, Any], offset: int
    ) -> Typed:
        fields = _Fields(header, metadata, body, kind, self.thresholds)
        identity = fields.identity()
        dropped: tuple[int | None, int | None] = (None, None)
        if kind == "dump_stats":
            counts = [fields.integer(body, key, _INT64) or 0 for key in _COUNTED_BY_MARKER]
            self.marker = Marker(header, metadata, sum(counts))
            dropped = (
                fields.integer(body, "coll_dropped_total", _UINT64),
                fields.integer(body, "p2p_dropped_total", _UINT64),
            )
        names = ("id", "comm_name", "rank", "n_ranks", "nnodes", "hostname", "pid", "dump_timestamp_us")
        row = (self.file_id, offset, kind, *(identity[name] for name in names), *dropped, _to_json(body))
        process = (identity["hostname"], identity["pid"])
        return Typed(auxiliary=row, process=process, dump_timestamp_us=fields.plausible_timestamp_us)


class _Fields:
    """Reads the fields of one record, collecting flags and what the typed columns cannot hold."""

    def __init__(
        self,
        header: dict[str, Any],
        metadata: dict[str, Any],
        body: dict[str, Any],
        body_key: str,
        thresholds: Thresholds,
    ) -> None:
        self.header, self.metadata, self.body = header, metadata, body
        self.flags = RecordFlag(0)
        self.plausible_timestamp_us: int | None = None
        self._sections = {id(header): "header", id(metadata): "metadata", id(body): body_key}
        self._extra: dict[str, Any] = {}
        self._thresholds = thresholds
        self._time_us: float | None = None
        self._size_bytes: int | None = None

    def identity(self) -> dict[str, Any]:
        """The columns of header and metadata."""
        header, metadata = self.header, self.metadata
        comm_name = self.text(header, "comm_name")
        timestamp = self.integer(metadata, "dump_timestamp_us", _INT64)
        if (
            timestamp is None
            or not self._thresholds.ingest.min_timestamp_us <= timestamp < self._thresholds.ingest.max_timestamp_us
        ):
            self.flags |= RecordFlag.TIMESTAMP_IMPLAUSIBLE
        else:
            self.plausible_timestamp_us = timestamp
        return {
            "id": self.text(header, "id"),
            "comm_name": None if comm_name in ("", "unknown") else comm_name,
            "rank": self.integer(header, "rank", _INT32),
            "n_ranks": self.integer(header, "n_ranks", _INT32),
            "nnodes": self.integer(header, "nnodes", _INT32),
            "hostname": self.text(metadata, "hostname"),
            "pid": self.integer(metadata, "pid", _INT64),
            "inspector_output_format_version": self.text(metadata, "inspector_output_format_version"),
            "git_rev": self.text(metadata, "git_rev"),
            "rec_mechanism": self.text(metadata, "rec_mechanism"),
            "dump_timestamp_us": timestamp,
        }

    def text(self, section: dict[str, Any], key: str) -> str | None:
        """A string, or None when absent. Raises `RejectedError` for another type."""
        value = section.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise RejectedError(f"{self._name(section, key)} is {type(value).__name__}, expected a string")
        return _valid_utf8(value)

    def required_text(self, key: str) -> str:
        """A string of the body that must be there."""
        value = self.text(self.body, key)
        if value is None:
            raise RejectedError(f"{self._name(self.body, key)} is missing")
        return value

    def integer(self, section: dict[str, Any], key: str, limits: tuple[int, int]) -> int | None:
        """An exact integer within `limits`, or None; a value out of range is flagged and kept in `extra`."""
        value = self._number(section, key)
        if value is None:
            return None
        if (isinstance(value, float) and not value.is_integer()) or not limits[0] <= value <= limits[1]:
            self._keep(section, key, RecordFlag.VALUE_OUT_OF_RANGE)
            return None
        return int(value)

    def exec_time(self, key: str) -> float | None:
        """A usable execution time in microseconds, or None with a flag that says why."""
        value = self._number(self.body, key)
        if value is None:
            return None
        if value == 0:
            self.flags |= RecordFlag.TIME_ZERO
        elif value < 0:
            self._keep(self.body, key, RecordFlag.TIME_NEGATIVE)
        elif not value <= self._thresholds.ingest.wrapped_exec_time_us:
            self._keep(self.body, key, RecordFlag.TIME_WRAPPED)
        else:
            self._time_us = float(value)
        return self._time_us

    def size(self, key: str) -> int | None:
        """The message size in bytes, repaired when the plugin did not know the data type's size, None when no memory
        can hold it."""
        value = self.integer(self.body, key, _UINT64)
        if value is None or value <= self._thresholds.ingest.max_message_bytes:
            self._size_bytes = value
            return value
        if value > 2**64 - self._thresholds.ingest.max_message_bytes:
            self.flags |= RecordFlag.SIZE_REPAIRED
            return 2**64 - value
        self._keep(self.body, key, RecordFlag.SIZE_IMPLAUSIBLE)
        return None

    def sequence_number(self, key: str) -> int | None:
        """The number of the operation, or None where no job can have done so many."""
        value = self.integer(self.body, key, _UINT64)
        if value is None or value <= self._thresholds.ingest.max_sequence_number:
            return value
        self._keep(self.body, key, RecordFlag.SN_IMPLAUSIBLE)
        return None

    def bandwidths(self, prefix: str, coll: str, n_ranks: int | None) -> tuple[float | None, float | None]:
        """Algorithm and bus bandwidth in GB/s as written, None where the written number has no meaning. Call after
        time and size."""
        known = has_bandwidth(coll)
        if not known:
            self.flags |= RecordFlag.UNKNOWN_FUNCTION
        defined = known and self._time_us is not None and self._size_bytes is not None
        algobw = self._bandwidth(f"{prefix}_algobw_gbs", defined)
        busbw = self._bandwidth(f"{prefix}_busbw_gbs", defined and n_ranks != 1)
        if not self.flags & BANDWIDTH_FLAGS and (algobw, busbw) == self._formula(coll, n_ranks):
            return None, None
        return algobw, busbw

    def _formula(self, coll: str, n_ranks: int | None) -> tuple[float, float] | None:
        if n_ranks is None or self._size_bytes is None or self._time_us is None:
            return None
        algobw = algobw_gbs(coll, self._size_bytes, n_ranks, self._time_us)
        busbw = busbw_gbs(coll, self._size_bytes, n_ranks, self._time_us)
        return None if algobw is None or busbw is None else (to_six_decimals(algobw), to_six_decimals(busbw))

    def _bandwidth(self, key: str, defined: bool) -> float | None:
        if key not in self.body:
            self.flags |= RecordFlag.BANDWIDTH_ABSENT
            return None
        try:
            value = self._number(self.body, key)
        except RejectedError:
            # A bandwidth can be recomputed, so even nonsense in its place does not cost the record.
            self._keep(self.body, key, RecordFlag.BANDWIDTH_INVALID)
            return None
        if value is None or not math.isfinite(value) or value < 0:
            self._keep(self.body, key, RecordFlag.BANDWIDTH_INVALID)
            return None
        if defined:
            return float(value)
        self.flags |= RecordFlag.BANDWIDTH_UNDEFINED
        if value != 0:
            self._keep(self.body, key, RecordFlag.BANDWIDTH_UNDEFINED)
        return None

    def keep_unknown(self, value: dict[str, Any], body_key: str, known_body_keys: set[str]) -> None:
        """Put every key that no column holds into `extra`."""
        for section, known in (
            (self.header, _HEADER_KEYS),
            (self.metadata, _METADATA_KEYS),
            (self.body, known_body_keys),
        ):
            for key in section.keys() - known:
                self._extra[self._name(section, key)] = section[key]
        for key in value.keys() - {"header", "metadata", body_key}:
            self._extra[key] = value[key]

    def extra_json(self) -> str | None:
        """The `extra` column, keys sorted."""
        return _to_json(self._extra) if self._extra else None

    def _number(self, section: dict[str, Any], key: str) -> int | float | None:
        value = section.get(key)
        if value is None or type(value) is int or type(value) is float:
            return value
        if isinstance(value, str):
            for convert in (int, float):
                try:
                    return convert(value)
                except ValueError:
                    continue
        shown = type(value).__name__ if isinstance(value, dict | list) else f"{value!r:.40}"
        raise RejectedError(f"{self._name(section, key)} is {shown}, expected a number")

    def _keep(self, section: dict[str, Any], key: str, flag: RecordFlag) -> None:
        self.flags |= flag
        value = section[key]
        # JSON has no infinity; as null it would be taken for a null that was written.
        lacking = isinstance(value, float) and not math.isfinite(value)
        self._extra[self._name(section, key)] = str(value) if lacking else value

    def _name(self, section: dict[str, Any], key: str) -> str:
        return f"{self._sections[id(section)]}.{key}"


def _valid_utf8(text: str) -> str:
    """Bytes that are not UTF-8 (kept as surrogates by the careful decoder) and halves of escaped pairs become
    replacement characters."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        try:
            written = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            written = text.encode("utf-8", "surrogatepass")
        return written.decode("utf-8", "replace")
    return text


def _to_json(value: object) -> str:
    """Compact JSON with sorted keys; numbers that JSON lacks become strings, so that nothing is lost."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):
        return orjson.dumps(_jsonable(value), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()


def _jsonable(value: object, depth: int = 0) -> object:
    if depth == _MAX_DEPTH:
        return f"left out: nested deeper than {_MAX_DEPTH} levels"
    if isinstance(value, dict):
        return {_valid_utf8(str(key)): _jsonable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item, depth + 1) for item in value]
    if isinstance(value, str):
        return _valid_utf8(value)
    if isinstance(value, int) and not isinstance(value, bool) and not _INT64[0] <= value <= _UINT64[1]:
        return str(value)
    return value
