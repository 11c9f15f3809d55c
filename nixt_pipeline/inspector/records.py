"""From a decoded JSON object to a typed row: the five taxonomy roles, the oddities flagged, nothing dropped.

Features are recognised by the keys of a record (`comm_name`, `p2p_perf`, a missing `header`), never by the version it
claims. A value that a typed column cannot hold, and every unknown key, goes to the `extra` column.
"""

from dataclasses import dataclass
from typing import Any

from nixt_pipeline.inspector.envelopes import header_hint
from nixt_pipeline.inspector.fields import INT32, INT64, UINT64, Fields, RejectedError, to_json
from nixt_pipeline.settings import Thresholds

Row = tuple[Any, ...]

# Behind the prefix coll_ or p2p_.
_BODY_KEYS = ("sn", "msg_size_bytes", "exec_time_us", "timing_source", "algobw_gbs", "busbw_gbs", "algo", "proto")
_KINDS = {"coll_perf": ("collective", "coll"), "p2p_perf": ("p2p", "p2p")}
_BODIES = (*_KINDS, "dump_stats", "proxy_trace")
# Who wrote a record, and when.
_WRITER = ("id", "comm_name", "rank", "n_ranks", "nnodes", "hostname", "pid", "dump_timestamp_us")
_COUNTED_BY_MARKER = ("coll_records", "p2p_records", "proxy_records")


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
        fields = Fields(header, metadata, value[body_key], body_key, self.thresholds)
        identity = fields.identity()
        coll = fields.required_text(prefix)
        time_us, size_bytes = fields.exec_time(f"{prefix}_exec_time_us"), fields.size(f"{prefix}_msg_size_bytes")
        algobw, busbw = fields.bandwidths(prefix, coll, identity["n_ranks"])
        peer = fields.integer(fields.body, "p2p_peer", INT32) if kind == "p2p" else None
        sequence_number = fields.sequence_number(f"{prefix}_sn")
        known = {f"{prefix}_{key}" for key in _BODY_KEYS} | {prefix, "p2p_peer", "event_trace_sn", "event_trace_ts"}
        fields.keep_unknown(value, body_key, known)
        event = (
            kind,
            *identity.values(),
            coll,
            fields.text(fields.body, f"{prefix}_algo"),
            fields.text(fields.body, f"{prefix}_proto"),
            sequence_number,
            peer,
            size_bytes,
            time_us,
            fields.text(fields.body, f"{prefix}_timing_source"),
            algobw,
            busbw,
            int(fields.flags),
            fields.extra_json(),
            self.file_id,
            n_bytes,
        )
        channels = None
        if "event_trace_sn" in fields.body or "event_trace_ts" in fields.body:
            shared = (self.file_id, kind, *(identity[name] for name in _WRITER), coll, sequence_number)
            channels = (*shared, *_trace_columns(fields.body, prefix))
        process = (identity["hostname"], identity["pid"])
        return Typed(event, channels, process=process, dump_timestamp_us=fields.plausible_timestamp_us)

    def _auxiliary(
        self, header: dict[str, Any], metadata: dict[str, Any], kind: str, body: dict[str, Any], offset: int
    ) -> Typed:
        fields = Fields(header, metadata, body, kind, self.thresholds)
        identity = fields.identity()
        dropped: tuple[int | None, int | None] = (None, None)
        if kind == "dump_stats":
            counts = [fields.integer(body, key, INT64) or 0 for key in _COUNTED_BY_MARKER]
            self.marker = Marker(header, metadata, sum(counts))
            dropped = (
                fields.integer(body, "coll_dropped_total", UINT64),
                fields.integer(body, "p2p_dropped_total", UINT64),
            )
        row = (self.file_id, offset, kind, *(identity[name] for name in _WRITER), *dropped, to_json(body))
        process = (identity["hostname"], identity["pid"])
        return Typed(auxiliary=row, process=process, dump_timestamp_us=fields.plausible_timestamp_us)


def _trace_columns(body: dict[str, Any], prefix: str) -> tuple[Any, ...]:
    """Event counters and host times of the operation and of each channel's kernel. A zero means "not observed" in the
    plugin's arrays, and a channel of zeros was not in use."""
    times, order = _dict(body.get("event_trace_ts")), _dict(body.get("event_trace_sn"))
    time_events, order_events = _by_channel(times), _by_channel(order)
    channels = sorted(
        channel
        for channel in time_events.keys() | order_events.keys()
        if any(
            _positive(v)
            for events in (time_events, order_events)
            for k, v in events.get(channel, {}).items()
            if k != "channel_id"
        )
    )
    lists = [
        [_positive(events.get(channel, {}).get(f"kernel_{name}_{suffix}")) for channel in channels]
        for events, suffix in ((time_events, "ts"), (order_events, "sn"))
        for name in ("start", "stop", "record")
    ]
    return (
        _positive(times.get(f"{prefix}_start_ts")),
        _positive(times.get(f"{prefix}_stop_ts")),
        _positive(order.get(f"{prefix}_start_sn")),
        _positive(order.get(f"{prefix}_stop_sn")),
        channels,
        *lists,
    )


def _by_channel(trace: dict[str, Any]) -> dict[int, dict[str, Any]]:
    events = trace.get("kernel_events")
    pairs = (
        (event.get("channel_id"), event)
        for event in (events if isinstance(events, list) else [])
        if isinstance(event, dict)
    )
    return {channel: event for channel, event in pairs if type(channel) is int and 0 <= channel < 2**31}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _positive(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= INT64[1] else None
