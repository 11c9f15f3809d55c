"""The columns of displayed tables: what each is called and how its values are worded, in one place for all pages."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nixt_pipeline.inert import shorten, visible
from nixt_pipeline.quantities import NOT_AVAILABLE, change, count, duration, number, percent, size, utc

Link = Callable[[Mapping[str, Any]], str | None]

# Headings that are not simply the name of the column.
HEADINGS = {
    "a_us": "A (us)",
    "above_lowest_us": "Above the lowest of its communicator",
    "against": "Runs",
    "b_us": "B (us)",
    "benchmark_cv": "Its CV",
    "between_ranks_cv": "CV between ranks",
    "busbw_cv": "CV",
    "busbw_gbs": "GB/s",
    "busbw_high_gbs": "To",
    "busbw_low_gbs": "From",
    "busbw_p10_gbs": "Bandwidth p10, GB/s",
    "busbw_p25_gbs": "Bandwidth p25, GB/s",
    "busbw_p50_gbs": "p50",
    "busbw_p75_gbs": "p75",
    "busbw_p90_gbs": "p90",
    "busbw_trend": "Trend",
    "busbw_trend_p": "by chance",
    "bytes_per_gpu": "Bytes per GPU",
    "cells": "Complete collectives",
    "change_by_mix_gbs": "by mix",
    "change_by_rate_gbs": "by rate",
    "change_gbs": "Change",
    "coll": "Function",
    "coll_msg_size_bytes": "Size",
    "coll_timing_source": "Timing source",
    "coll_type": "Placement",
    "comm_name": "Name",
    "complete_share": "Seen by all ranks",
    "cost_share": "Cost, share of time",
    "counter_evidence": "What speaks against it",
    "cumulative_share_of_payload": "Cumulative",
    "cv_ratio": "Ratio",
    "dropped_by_plugin": "Lost by its own count",
    "exec_time_cv": "CV",
    "exec_time_mean_us": "Mean time",
    "exec_time_p50_us": "Time p50",
    "exec_time_p99_us": "Time p99",
    "expected_last_arrivals": "Expected if equal",
    "first_dump_us": "Began",
    "fit": "Baseline",
    "git_rev": "Plugin build",
    "git_revs": "Plugin",
    "gpus": "GPUs",
    "hostname": "Host",
    "hosts_seen": "Hosts",
    "id": "Communicator",
    "incarnation": "Launch",
    "inspector_output_format_version": "Format version",
    "label": "Kernel",
    "last": "Last to arrive",
    "last_arrivals": "Last to arrive",
    "last_dump_us": "Last record",
    "last_named_us": "Last flagged",
    "last_seen_us": "Last seen",
    "lost": "Rank-seconds",
    "lost_rank_seconds": "Lost rank-seconds",
    "measure": "Part",
    "n_ranks": "Ranks",
    "named": "Flagged in runs",
    "nccl": "NCCL release (hint)",
    "nccl_version": "NCCL",
    "next_step": "Check next",
    "nnodes": "NCCL nodes",
    "onset_us": "Since",
    "parallel_role": "Role",
    "parallel_role_source": "Role from",
    "path": "File",
    "payload_bytes": "Observed payload",
    "rank_by_bytes": "Rank",
    "ranks": "Ranks seen",
    "rec_mechanism": "Attached by",
    "recv_records": "Recvs",
    "recv_time_p50_us": "Recv p50",
    "reference": "Against",
    "same_kernel_share": "In same kernels",
    "samples": "Records",
    "send_records": "Sends",
    "send_time_p50_us": "Send p50",
    "series": "Kernel or role",
    "shorter_time_us": "Shorter of both",
    "size_bytes": "Size",
    "sn_expected": "Operations due",
    "sn_seen": "Operations seen",
    "source": "From",
    "target": "To",
    "transfer_busbw_p50_gbs": "Transfer p50, GB/s",
    "transfer_change": "Transfer",
    "transfer_cv": "Transfer CV",
    "transfer_cv_ratio": "of transfers",
    "transfer_mean_us": "Mean transfer",
    "until_us": "Until",
    "volume_note": "Volumes",
    "wait_mean_us": "Mean waiting",
    "wait_us": "Time waited",
    "waiting_change": "Waiting",
    "waiting_share": "Waiting",
    "waiting_side": "Who waits",
    "within_ranks_cv": "CV over time",
}
SAMPLE_CHARACTERS = 160


@dataclass(frozen=True)
class Column:
    """A column of a displayed table: key of the row, heading, and where a row's value leads."""

    key: str
    heading: str
    link: Link | None = None

    def is_numeric(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether its values are numbers, which are aligned at their right ends."""
        values = [row.get(self.key) for row in rows]
        are_numbers = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        return self.key == "interval" or (are_numbers and not _MOMENT.search(self.key))


def columns_of(names: str, *, link: Mapping[str, Link] | None = None, **headings: str) -> tuple[Column, ...]:
    """The columns called `names`, separated by spaces; `headings` are those of this table alone."""
    named = HEADINGS | headings
    return tuple(
        Column(name, named.get(name, name.replace("_", " ").capitalize()), (link or {}).get(name))
        for name in names.split()
    )


def words(key: str, value: Any) -> str:
    """A value of the column `key` in words: by what it measures, as its name says, or else by its type."""
    if key in _WORDS:
        return _WORDS[key](value)
    if value is None:
        return NOT_AVAILABLE
    for pattern, in_words in _BY_NAME:
        if pattern.search(key):
            return in_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(visible(str(item)) for item in value)
    if isinstance(value, int):
        return count(value)
    return number(value) if isinstance(value, float) else visible(str(value))


_MOMENT = re.compile(r"^(first|last|onset|until)_.*us$")
_BY_NAME: tuple[tuple[re.Pattern[str], Callable[[Any], str]], ...] = (
    (_MOMENT, utc),
    (re.compile(r"^[ab]_us$"), number),
    (re.compile(r"_us$"), duration),
    (re.compile(r"(size|payload)_bytes$|^bytes_per_gpu$"), size),
    (re.compile(r"share|_rate$|^chance$|_trend_p$"), percent),
    (re.compile(r"^(transfer_|waiting_)?change$"), change),
)
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "onset_us": lambda onset: "start of the log" if onset is None else utc(onset),
    "until_us": lambda until: "end of the log" if until is None else utc(until),
    "parallel_role": lambda role: "unknown" if role is None else visible(str(role)),
    "sample": lambda sample: shorten(sample, SAMPLE_CHARACTERS),
}
