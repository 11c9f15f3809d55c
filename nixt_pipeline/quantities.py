"""Numbers, times and sizes as people read them: the same on the terminal and in reports."""

from collections.abc import Sequence
from datetime import UTC, datetime

from nixt_pipeline.inspector.operations import format_bytes

NOT_AVAILABLE = "–"  # noqa: RUF001 (an en dash is meant)


def count(value: float | None) -> str:
    """`69,120`."""
    return NOT_AVAILABLE if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """A share of 1 as a percentage that never rounds a part to nothing or to everything: `<0.1 %`, `99.9 %`."""
    if share is None:
        return NOT_AVAILABLE
    if 0 < share < 0.001:
        return "<0.1 %"
    if 0.999 < share < 1:
        return ">99.9 %"
    return f"{share * 100:.3g} %"


def change(share: float | None) -> str:
    """A relative change as `+7.1 %`, and no negative nothing; empty for none."""
    return "" if share is None else f"{round(100 * share, 1) + 0.0:+.1f} %"


def number(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return NOT_AVAILABLE
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def size(value: float | None) -> str:
    """Bytes in decimal units: `13.5 MB`."""
    return NOT_AVAILABLE if value is None else format_bytes(value)


def duration(microseconds: float | None) -> str:
    """A time span in the unit that suits it: `870 us`, `12.3 ms`, `4.5 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if microseconds is None:
        return NOT_AVAILABLE
    if microseconds < 1000:
        return f"{microseconds:.3g} us"
    if microseconds < 1e6:
        return f"{microseconds / 1e3:.3g} ms"
    seconds = microseconds / 1e6
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return _two_units(seconds, 60, "min", 1, "s")
    if seconds < 2 * 86_400:
        return _two_units(seconds, 3600, "h", 60, "min")
    return _two_units(seconds, 86_400, "d", 3600, "h")


def _two_units(seconds: float, large: int, large_name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(round(seconds / small), large // small)
    return f"{whole} {large_name} {rest} {small_name}" if rest else f"{whole} {large_name}"


def utc(timestamp_us: int | None) -> str:
    """A Unix time in microseconds as `2025-08-30T20:20:06Z`."""
    if timestamp_us is None:
        return NOT_AVAILABLE
    return datetime.fromtimestamp(timestamp_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(timestamp_us: int | None) -> str:
    """A Unix time in microseconds as `2025-08-30 20:20:06 UTC`, for sentences."""
    return utc(timestamp_us).replace("T", " ").replace("Z", " UTC")


def plural(amount: int, noun: str, nouns: str | None = None) -> str:
    """`1 host`, `2 hosts`, `3 processes` (with `nouns` given)."""
    return f"{amount:,} {noun if amount == 1 else nouns or noun + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` names and the number of the others: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {count(len(names) - most)} more" if len(names) > most else "")
