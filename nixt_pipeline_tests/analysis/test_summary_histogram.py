"""Summary histogram: what was recorded, by function and placement."""

import pytest

from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_records_bytes_times_and_shares_add_up_per_operation(store_run: StoreRun) -> None:
    # Three AllReduces on two ranks (one record is missing) and one Send: 6 records, of which 5 are AllReduce.
    run = store_run(
        [
            event(rank=0, coll_sn=0, coll_exec_time_us=100.0),
            event(rank=1, coll_sn=0, coll_exec_time_us=200.0),
            event(rank=0, coll_sn=1, coll_exec_time_us=400.0),
            event(rank=1, coll_sn=1, coll_exec_time_us=800.0),
            event(rank=0, coll_sn=2, coll_exec_time_us=None, flags=int(RecordFlag.TIME_ZERO)),
            event(kind="p2p", coll="Send", p2p_peer=1, coll_msg_size_bytes=5_000_000, coll_exec_time_us=50.0),
        ]
    )
    collective, send = run.result("summary_histogram")
    assert collective == {
        "run": "job",
        "kind": "collective",
        "coll": "AllReduce",
        "coll_type": "nvlink-only",
        "records": 5,
        "collectives": 3,
        "payload_bytes": 5e6,
        # 2 (n - 1) / n = 1 for two ranks: each sends as much as its message is long.
        "wire_bytes": 5e6,
        "exec_time_us": 1500.0,
        "share_of_records": pytest.approx(5 / 6),
        "share_of_payload": 0.5,
        "unusable_times": 1,
        "exec_time_p50_us": 300.0,
        # 1 MB in 100, 200, 400, 800 us: 10, 5, 2.5, 1.25 GB/s.
        "busbw_p50_gbs": 3.75,
    }
    assert (send["kind"], send["coll"], send["records"], send["collectives"]) == ("p2p", "Send", 1, None)
    assert (send["payload_bytes"], send["share_of_payload"], send["busbw_p50_gbs"]) == (5e6, 0.5, 100.0)


def test_an_operation_is_split_by_placement(store_run: StoreRun) -> None:
    run = store_run([event(nnodes=1), event(nnodes=2), event(n_ranks=4, nnodes=2), event(n_ranks=1)])
    assert {row["coll_type"]: row["records"] for row in run.result("summary_histogram")} == {
        "nvlink-only": 1,
        "nic-only": 1,
        "mixed": 1,
        "single-rank": 1,
    }


def test_an_unknown_function_keeps_its_name_and_has_no_bandwidth(store_run: StoreRun) -> None:
    [row] = store_run([event(coll="AlltoAll", flags=int(RecordFlag.UNKNOWN_FUNCTION))]).result("summary_histogram")
    assert (row["coll"], row["records"], row["wire_bytes"], row["busbw_p50_gbs"]) == ("AlltoAll", 1, None, None)


def test_sizes_too_large_to_add_up_in_64_bits_do_not_fail(store_run: StoreRun) -> None:
    run = store_run([event(coll_sn=sn, coll_msg_size_bytes=2**48, coll_busbw_gbs=None) for sn in range(2**16)])
    [row] = run.result("summary_histogram")
    assert row["payload_bytes"] == 2.0**64
