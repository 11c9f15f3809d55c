"""The verbose part of a record: event counters and host times of the operation and of each channel's kernel."""

from typing import Any

_MAX_INT64 = 2**63 - 1


def trace_columns(body: dict[str, Any], prefix: str) -> tuple[Any, ...]:
    """The verbose columns. A zero means "not observed" in the plugin's arrays, and a channel of zeros was not in
    use."""
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
    return value if type(value) is int and 0 < value <= _MAX_INT64 else None
