"""Columns that several analyses share, so that one name means one thing in every result."""

from nixt_pipeline.inspector.taxonomy import EVENT_COLUMNS, Column, count, derived
from nixt_pipeline.inspector.views import EVENT_DERIVED_COLUMNS
from nixt_pipeline.settings import Settings

_EVENT = {column.name: column for column in (*EVENT_DERIVED_COLUMNS, *EVENT_COLUMNS)}


def event(*names: str) -> tuple[Column, ...]:
    """Columns of the `events` view by name, as the taxonomy describes them."""
    return tuple(_EVENT[name] for name in names)


RECORDS = count("records", "records", "Stored records")
PAYLOAD_BYTES = derived(
    "payload_bytes", "bytes", "Sum of the message sizes of the observed records; never the bytes moved"
)
WIRE_BYTES = derived(
    "wire_bytes", "bytes", "Sum of the bytes a ring would send for the observed records; null without a formula"
)

EXEC_TIME_P50 = derived("exec_time_p50_us", "us", "Median execution time, waiting for peers included")


def busbw(*percentiles: int) -> tuple[Column, ...]:
    """Percentiles of bus bandwidth, of which the 50th is called the median."""
    words = {number: "Median" if number == 50 else f"{number}th percentile of" for number in percentiles}
    return tuple(
        derived(f"busbw_p{number}_gbs", "GB/s", f"{word} bus bandwidth, waiting included")
        for number, word in words.items()
    )


def large_messages(settings: Settings) -> dict[str, object]:
    """The parameter of `LEAST_BYTES`."""
    return {"large_message_bytes": settings.thresholds.analysis.large_message_bytes}


# From so large messages on bandwidths are those of the link; all count where no message is that large.
LEAST_BYTES = """(
    SELECT CASE WHEN max(coll_msg_size_bytes) >= $large_message_bytes THEN $large_message_bytes ELSE 0 END
    FROM kernel_times
)"""
MIN_MESSAGE_BYTES = count(
    "min_message_bytes",
    "bytes",
    "Smallest message the bandwidths are taken from: the large-message limit, or 0 when no message is that large",
)
TRANSFER_BUSBW_P50 = derived(
    "transfer_busbw_p50_gbs",
    "GB/s",
    "Median bus bandwidth of the last rank to arrive, over complete collectives: the closest to the transfer itself",
)
