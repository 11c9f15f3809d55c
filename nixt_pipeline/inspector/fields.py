"""The fields of one decoded record as typed values: what no column can hold is flagged and kept, nothing is dropped."""

import math
from typing import Any

import orjson

from nixt_pipeline.inspector.operations import (
    BANDWIDTH_FLAGS,
    RecordFlag,
    algobw_gbs,
    busbw_gbs,
    has_bandwidth,
    to_six_decimals,
)
from nixt_pipeline.settings import Thresholds

UINT64 = (0, 2**64 - 1)
INT64 = (-(2**63), 2**63 - 1)
INT32 = (-(2**31), 2**31 - 1)
_HEADER_KEYS = frozenset(("id", "comm_name", "rank", "n_ranks", "nnodes"))
_METADATA_KEYS = frozenset(
    ("inspector_output_format_version", "git_rev", "rec_mechanism", "dump_timestamp_us", "hostname", "pid")
)
# Unknown values are kept down to this depth; orjson writes no more than 254 levels, the forks have five.
_MAX_DEPTH = 100


class RejectedError(ValueError):
    """The object is an Inspector record with something essential missing or of the wrong type; the text says what."""


class Fields:
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
        """The columns of header and metadata, in the order in which `events` has them."""
        header, metadata = self.header, self.metadata
        comm_name = self.text(header, "comm_name")
        timestamp = self.integer(metadata, "dump_timestamp_us", INT64)
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
            "rank": self.integer(header, "rank", INT32),
            "n_ranks": self.integer(header, "n_ranks", INT32),
            "nnodes": self.integer(header, "nnodes", INT32),
            "hostname": self.text(metadata, "hostname"),
            "pid": self.integer(metadata, "pid", INT64),
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
        value = self.integer(self.body, key, UINT64)
        if value is None or value <= self._thresholds.ingest.max_message_bytes:
            self._size_bytes = value
            return value
        if value > 2**64 - self._thresholds.ingest.max_message_bytes:
            self.flags |= RecordFlag.SIZE_REPAIRED
            return 2**64 - value
        self._keep(self.body, key, RecordFlag.SIZE_IMPLAUSIBLE)
        return None

    def sequence_number(self, key: str) -> int | None:
        """The number of the operation, or None where no job can have done that many."""
        value = self.integer(self.body, key, UINT64)
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
        return to_json(self._extra) if self._extra else None

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


def to_json(value: object) -> str:
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
    if isinstance(value, int) and not isinstance(value, bool) and not INT64[0] <= value <= UINT64[1]:
        return str(value)
    return value
