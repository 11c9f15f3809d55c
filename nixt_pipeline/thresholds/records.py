"""Which records are plausible, how much of a run has to be there, and what counts as a large message."""

from nixt_pipeline.thresholds.group import Group, threshold


class IngestThresholds(Group):
    """Which numbers of a log are not plausible, and which records belong to one launch."""

    wrapped_exec_time_us: int = threshold(
        10**15,
        "longer times are negative differences that wrapped around in the plugin",
        "The plugin's counters have 64 bits; 10^15 us are 31 years.",
    )
    max_message_bytes: int = threshold(
        2**48,
        "larger sizes are the plugin's error for 8-bit types, and are repaired",
        "That error yields 2^64 - count; real counts stay below 2^48 bytes (256 TiB).",
    )
    max_sequence_number: int = threshold(
        2**62 - 1,
        "larger ones are null and flagged, as are sizes above `max_message_bytes` that cannot be repaired",
        "A million operations a second for 146,000 years; the difference of any two below it fits a signed"
        " 64-bit integer.",
    )
    min_timestamp_us: int = threshold(
        1_577_836_800_000_000,
        "earlier times are not Unix times in microseconds",
        "The year 2020; Inspector was released in 2025.",
    )
    max_timestamp_us: int = threshold(4_102_444_800_000_000, "nor are later ones", "The year 2100.")
    incarnation_gap_us: int = threshold(
        600_000_000,
        "after a longer pause, a reused process id is a different process",
        "Longer than any checkpoint in public logs.",
    )


class QualityThresholds(Group):
    """When a data-quality check warns."""

    max_plausible_busbw_gbs: float = threshold(
        2_000.0,
        "higher bus bandwidths are measurement errors",
        "NVLink 5 moves 900 GB/s in each direction, and NVLS can double the apparent rate; early RCCL builds"
        " reported ten times too much.",
    )
    bandwidth_mismatch_gbs: float = threshold(
        0.001,
        "a larger difference between logged and recomputed bandwidth points to another plugin's formula",
        "The two agree to six decimals in 4.2 million records.",
    )
    max_unusable_share: float = threshold(
        0.01,
        "with a larger share of zero or wrapped times, the plugin's timing is in doubt",
        "GPU timing occasionally loses a timestamp; in public logs for well below 1 % of the times.",
    )


class AnalysisThresholds(Group):
    """What analyses and figures rest on."""

    large_message_bytes: int = threshold(
        1_000_000,
        "messages from this size on are used where latency would blur bandwidth",
        "The NIXT paper's own cut in its temporal and scaling queries.",
    )
    min_capture_rate: float = threshold(
        0.5, "with a lower capture rate, ranks are not compared", "Below it, comparing ranks means comparing samples."
    )
