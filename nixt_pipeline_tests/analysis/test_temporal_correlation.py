"""Temporal correlation: bins over the run's span."""

from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline_tests.analysis.conftest import START_US, StoreRun, event

# 119.5 seconds make 120 bins of one second (and a fraction of a microsecond, rounded up).
SPAN_US = 119_500_000


def test_bins_cover_the_span_and_hold_quartiles_and_the_transfer(store_run: StoreRun) -> None:
    # In the first bin rank 0 waits 300 us for rank 1: records at 2.5 and 10 GB/s, a transfer at 10 GB/s.
    run = store_run(
        [
            event(rank=0, coll_exec_time_us=400.0),
            event(rank=1, coll_exec_time_us=100.0, dump_timestamp_us=START_US + 10),
            event(rank=0, coll_sn=1, coll_exec_time_us=200.0, dump_timestamp_us=START_US + SPAN_US),
        ]
    )
    first, last = run.result("temporal_correlation")
    assert first == {
        "run": "job",
        "incarnation": 1,
        "bin_start_us": START_US,
        "bin_width_us": SPAN_US // 120 + 1,
        "min_message_bytes": 1_000_000,
        "coll": "AllReduce",
        "coll_type": "nvlink-only",
        "records": 2,
        "busbw_p25_gbs": 4.375,
        "busbw_p50_gbs": 6.25,
        "busbw_p75_gbs": 8.125,
        "exec_time_p50_us": 250.0,
        "cells": 1,
        "transfer_busbw_p50_gbs": 10.0,
    }
    assert last["bin_start_us"] == START_US + 119 * first["bin_width_us"]
    assert (last["records"], last["busbw_p50_gbs"]) == (1, 5.0)
    assert (last["cells"], last["transfer_busbw_p50_gbs"]) == (0, None)  # rank 1 is missing: not a complete cell


def test_small_messages_are_left_out_when_there_are_large_ones(store_run: StoreRun) -> None:
    run = store_run([event(), event(coll_sn=1, coll_msg_size_bytes=999_999)])
    [row] = run.result("temporal_correlation")
    assert (row["records"], row["min_message_bytes"]) == (1, 1_000_000)


def test_a_run_of_small_messages_is_shown_with_all_of_them(store_run: StoreRun) -> None:
    run = store_run([event(coll_msg_size_bytes=8), event(coll_sn=1, coll_msg_size_bytes=4096)])
    [row] = run.result("temporal_correlation")
    assert (row["records"], row["min_message_bytes"]) == (2, 0)


def test_records_with_implausible_times_have_no_bin(store_run: StoreRun) -> None:
    run = store_run([event(), event(coll_sn=1, dump_timestamp_us=5, flags=int(RecordFlag.TIMESTAMP_IMPLAUSIBLE))])
    [row] = run.result("temporal_correlation")
    assert (row["bin_start_us"], row["records"]) == (START_US, 1)


def test_each_launch_has_its_own_bins(store_run: StoreRun) -> None:
    day_us = 86_400_000_000
    run = store_run(
        [
            event(),
            event(coll_sn=1, dump_timestamp_us=START_US + 240),
            event(id="0xb", dump_timestamp_us=START_US + day_us),
        ]
    )
    rows = [(r["incarnation"], r["bin_start_us"], r["bin_width_us"]) for r in run.result("temporal_correlation")]
    # 240 us over 120 bins would put the last record into a 121st one, so that the width is 3 us.
    assert rows == [(1, START_US, 3), (1, START_US + 240, 3), (2, START_US + day_us, 1)]
