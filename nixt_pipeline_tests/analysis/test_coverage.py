"""Coverage: how much of each communicator was recorded."""

from nixt_pipeline_tests.analysis.conftest import START_US, StoreRun, event


def test_gaps_in_the_sequence_numbers_show_what_was_not_recorded(store_run: StoreRun) -> None:
    # Rank 0 recorded numbers 3, 4 and 7, rank 1 number 4 only; rank 2 nothing at all.
    run = store_run(
        [event(rank=0, n_ranks=3, coll_sn=sn, hostname="a") for sn in (3, 4, 7)]
        + [event(rank=1, n_ranks=3, coll_sn=4, hostname="b")]
    )
    [row] = run.result("coverage")
    assert row == {
        "run": "job",
        "incarnation": 1,
        "id": "0xa",
        "comm_name": None,
        "n_ranks": 3,
        "nnodes": 1,
        "coll_type": "nvlink-only",
        "coll": "AllReduce",
        "ranks_seen": 2,
        "hosts_seen": 2,
        "first_sn": 3,
        "last_sn": 7,
        "sn_expected": 5,
        "sn_seen": 3,
        "records": 4,
        "capture_rate": 4 / 15,  # 3 ranks times 5 numbers
        "complete_cells": 0,
        "cells": 3,
        "complete_share": 0.0,
        "records_per_rank_min": 1,
        "records_per_rank_max": 3,
        "dropped_by_plugin": None,
    }


def test_each_function_of_a_communicator_counts_by_itself(store_run: StoreRun) -> None:
    run = store_run([event(rank=r, coll_sn=0) for r in range(2)] + [event(coll="AllGather", coll_sn=40)])
    assert [(row["coll"], row["sn_expected"], row["complete_share"]) for row in run.result("coverage")] == [
        ("AllGather", 1, 0.0),
        ("AllReduce", 1, 1.0),
    ]


def test_repeated_sequence_numbers_do_not_raise_the_capture_rate_above_one(store_run: StoreRun) -> None:
    run = store_run([event(rank=r, dump_timestamp_us=START_US + k) for r in range(2) for k in range(3)])
    [row] = run.result("coverage")
    assert (row["records"], row["cells"], row["sn_seen"], row["capture_rate"]) == (6, 3, 1, 1.0)


def test_what_the_plugin_says_it_lost_is_the_last_count_of_each_writer(store_run: StoreRun) -> None:
    def stats(rank: int, dropped: int, line: int) -> dict[str, object]:
        return {
            "file_id": rank, "byte_offset": line, "record_kind": "dump_stats", "id": "0xa", "rank": rank, "n_ranks": 2,
            "nnodes": 1, "hostname": "gpu-1", "pid": 100 + rank, "coll_dropped_total": dropped, "body": "{}",
        }  # fmt: skip

    run = store_run(
        [event(rank=r) for r in range(2)] + [event(id="0xb")],
        auxiliary=[stats(0, 5, 1), stats(0, 9, 2), stats(1, 2, 1)],
    )
    assert {row["id"]: row["dropped_by_plugin"] for row in run.result("coverage")} == {"0xa": 11, "0xb": None}


def test_a_number_of_more_operations_than_a_job_can_do_which_an_older_store_holds_is_none(store_run: StoreRun) -> None:
    [row] = store_run([event(coll_sn=0), event(coll_sn=2**64 - 1)]).result("coverage")
    assert (row["first_sn"], row["last_sn"], row["sn_expected"], row["records"]) == (0, 0, 1, 2)
