"""What of each collective is transfer and what is waiting: by bin of time, and by stretch of sequence numbers."""

from nixt_pipeline_tests.analysis.conftest import START_US, StoreRun, event

# 59.5 seconds make 60 bins of one second, and a fraction of a microsecond, rounded up.
SPAN_US = 59_500_000


def test_a_complete_collective_is_split_into_transfer_and_waiting(store_run: StoreRun) -> None:
    # Rank 0 waits 300 us for rank 1 in the first bin and 40 us in the last.
    run = store_run(
        [
            event(rank=0, coll_exec_time_us=400.0),
            event(rank=1, coll_exec_time_us=100.0),
            event(rank=0, coll_sn=1, coll_exec_time_us=160.0, dump_timestamp_us=START_US + SPAN_US),
            event(rank=1, coll_sn=1, coll_exec_time_us=120.0, dump_timestamp_us=START_US + SPAN_US),
        ]
    )
    first, last = run.result("waiting_over_time")
    assert first == {
        "run": "job",
        "incarnation": 1,
        "bin_start_us": START_US,
        "bin_width_us": SPAN_US // 60 + 1,
        "rank_by_bytes": 1,
        "label": "AllReduce nvlink-only 2r/1n 1 MB",
        "coll": "AllReduce",
        "coll_type": "nvlink-only",
        "cells": 1,
        "transfer_rank_time_us": 200.0,
        "wait_rank_time_us": 300.0,
        "transfer_time_p25_us": 100.0,
        "transfer_time_p50_us": 100.0,
        "transfer_time_p75_us": 100.0,
        # 300 us over two ranks.
        "wait_p25_us": 150.0,
        "wait_p50_us": 150.0,
        "wait_p75_us": 150.0,
    }
    assert last["bin_start_us"] == START_US + 59 * first["bin_width_us"]
    assert (last["transfer_rank_time_us"], last["wait_rank_time_us"]) == (240.0, 40.0)


def test_kernels_beyond_the_hottest_are_pooled(store_run: StoreRun) -> None:
    run = store_run(
        [event(rank=rank, coll_sn=sn, coll_msg_size_bytes=1_000_000 + sn) for rank in (0, 1) for sn in range(10)]
    )
    rows = run.result("waiting_over_time")
    assert [row["rank_by_bytes"] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, None]
    assert (rows[-1]["label"], rows[-1]["cells"]) == (None, 2)


def test_incomplete_collectives_and_functions_that_do_not_end_together_are_left_out(store_run: StoreRun) -> None:
    run = store_run([event(rank=0), *[event(rank=rank, coll="Broadcast") for rank in (0, 1)]])
    assert run.result("waiting_over_time") == []


def test_stretches_are_fortieths_of_the_sequence_numbers_and_ignore_the_clock(store_run: StoreRun) -> None:
    # Numbers 0 to 79: two in each stretch. From number 40 on, rank 0 waits 300 us; its clock runs backwards.
    run = store_run(
        [
            event(
                rank=rank,
                coll_sn=sn,
                coll_exec_time_us=400.0 if rank == 0 and sn >= 40 else 100.0,
                dump_timestamp_us=START_US - sn * 1000,
            )
            for sn in range(80)
            for rank in (0, 1)
        ]
    )
    rows = run.result("waiting_by_progress")
    assert [row["stretch"] for row in rows] == list(range(40))
    assert [(row["first_sn"], row["last_sn"], row["cells"]) for row in rows[:2]] == [(0, 1, 2), (2, 3, 2)]
    assert {row["transfer_time_p50_us"] for row in rows} == {100.0}
    # 300 us over two ranks.
    assert [row["wait_p50_us"] for row in rows] == [0.0] * 20 + [150.0] * 20


def test_a_number_near_the_largest_that_there_is_breaks_nothing(store_run: StoreRun) -> None:
    run = store_run([event(rank=rank, coll_sn=sn) for rank in (0, 1) for sn in (0, 2**62 - 1)])
    rows = run.result("waiting_by_progress")
    assert [(row["stretch"], row["cells"]) for row in rows] == [(0, 1), (39, 1)]


def test_incomplete_collectives_are_left_out(store_run: StoreRun) -> None:
    assert store_run([event(rank=0)]).result("waiting_by_progress") == []
