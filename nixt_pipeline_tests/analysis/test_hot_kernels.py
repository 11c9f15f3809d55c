"""Hot kernels: ranking, labels, waiting against transfer, and what the numbers rest on."""

import pytest

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_a_kernel_is_described_by_its_records_and_its_collectives(store_run: StoreRun) -> None:
    # Two AllReduces of 1 MB on two ranks of two hosts. In the first, rank 0 waits 300 us for rank 1. Of the second,
    # rank 1's record is missing, so 3 of 4 expected records were captured.
    run = store_run(
        [
            event(rank=0, nnodes=2, coll_sn=0, coll_exec_time_us=400.0, hostname="a"),
            event(rank=1, nnodes=2, coll_sn=0, coll_exec_time_us=100.0, hostname="b"),
            event(rank=0, nnodes=2, coll_sn=1, coll_exec_time_us=200.0, hostname="a"),
        ]
    )
    [row] = run.result("hot_kernels")
    assert row == {
        "run": "job",
        "rank_by_bytes": 1,
        "label": "AllReduce nic-only 2r/2n 1 MB",
        "kind": "collective",
        "coll": "AllReduce",
        "coll_type": "nic-only",
        "n_ranks": 2,
        "nnodes": 2,
        "coll_msg_size_bytes": 1_000_000,
        "records": 3,
        "collectives": 2,
        "complete_cells": 1,
        "communicators": 1,
        "hosts": 2,
        "payload_bytes": 3e6,
        "wire_bytes": 3e6,
        "rank_time_us": 700.0,
        "transfer_time_us": 100.0,
        "wait_us": 300.0,
        # Bandwidths are 2.5, 5 and 10 GB/s: mean 17.5/3, population variance 43.75 - (17.5/3)^2 = 9.72.
        "busbw_p10_gbs": pytest.approx(3.0),
        "busbw_p50_gbs": 5.0,
        "busbw_p90_gbs": pytest.approx(9.0),
        "busbw_max_gbs": 10.0,
        "busbw_cv": pytest.approx((43.75 - (17.5 / 3) ** 2) ** 0.5 / (17.5 / 3), abs=1e-6),
        "exec_time_p50_us": 200.0,
        "exec_time_p99_us": pytest.approx(396.0),
        "transfer_busbw_p50_gbs": 10.0,
        "capture_rate": 0.75,
        "share_of_payload": 1.0,
        "cumulative_share_of_payload": 1.0,
        "share_of_rank_time": 1.0,
    }


def test_kernels_are_ranked_by_bytes_and_shares_accumulate(store_run: StoreRun) -> None:
    run = store_run(
        [
            event(coll_sn=0, coll_msg_size_bytes=1_000_000, coll_exec_time_us=300.0),
            event(coll_sn=1, coll_msg_size_bytes=3_000_000, coll_exec_time_us=100.0),
        ]
    )
    rows = run.result("hot_kernels")
    assert [row["coll_msg_size_bytes"] for row in rows] == [3_000_000, 1_000_000]
    assert [row["share_of_payload"] for row in rows] == [0.75, 0.25]
    assert [row["cumulative_share_of_payload"] for row in rows] == [0.75, 1.0]
    assert [row["share_of_rank_time"] for row in rows] == [0.25, 0.75]


def test_sizes_that_agree_in_three_digits_are_written_out_in_the_label(store_run: StoreRun) -> None:
    run = store_run([event(coll_sn=sn, coll_msg_size_bytes=size) for sn, size in enumerate((1_540_001, 1_540_002, 8))])
    assert [row["label"] for row in run.result("hot_kernels")] == [
        "AllReduce nvlink-only 2r/1n 1540002 B",
        "AllReduce nvlink-only 2r/1n 1540001 B",
        "AllReduce nvlink-only 2r/1n 8 B",
    ]


def test_a_function_without_a_name_still_has_a_label(store_run: StoreRun) -> None:
    [row] = store_run([event(coll="")]).result("hot_kernels")
    assert row["label"] == "(unnamed) nvlink-only 2r/1n 1 MB"


def test_p2p_kernels_have_neither_collectives_nor_a_capture_rate(store_run: StoreRun) -> None:
    [row] = store_run([event(kind="p2p", coll="Send", p2p_peer=1)]).result("hot_kernels")
    unknown = ("collectives", "complete_cells", "transfer_time_us", "wait_us", "transfer_busbw_p50_gbs", "capture_rate")
    assert [row[name] for name in unknown] == [None] * 6
    assert row["rank_time_us"] == 100.0


def test_a_broadcast_is_not_split_into_waiting_and_transfer(store_run: StoreRun) -> None:
    [row] = store_run([event(rank=rank, coll="Broadcast") for rank in range(2)]).result("hot_kernels")
    assert (row["collectives"], row["complete_cells"]) == (1, 0)
    assert (row["transfer_time_us"], row["wait_us"]) == (None, None)


def test_communicators_of_one_shape_are_one_kernel(store_run: StoreRun) -> None:
    run = store_run([event(id=name, hostname=f"host-{name}") for name in ("0xa", "0xb", "0xc")])
    [row] = run.result("hot_kernels")
    assert (row["records"], row["communicators"], row["hosts"]) == (3, 3, 3)


def test_graph_replays_do_not_raise_the_capture_rate_above_one(store_run: StoreRun) -> None:
    run = store_run(
        [event(rank=rank, dump_timestamp_us=1_700_000_000_000_000 + k) for rank in range(2) for k in range(5)]
    )
    [row] = run.result("hot_kernels")
    assert (row["records"], row["collectives"], row["capture_rate"]) == (10, 5, 1.0)
