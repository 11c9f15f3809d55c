"""Resource correlation: exact sizes on communicator shapes."""

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_records_are_counted_per_shape_function_and_exact_size(store_run: StoreRun) -> None:
    run = store_run(
        [
            *[event(rank=rank, coll_sn=sn) for rank in range(2) for sn in range(3)],
            event(coll_sn=3, coll_msg_size_bytes=1_000_001),
            event(n_ranks=8, nnodes=2, id="0xb"),
            event(kind="p2p", coll="Send", p2p_peer=1),
        ]
    )
    rows = [
        (r["n_ranks"], r["nnodes"], r["coll_type"], r["kind"], r["coll"], r["coll_msg_size_bytes"], r["records"],
         r["collectives"], r["payload_bytes"])
        for r in run.result("resource_correlation")
    ]  # fmt: skip
    assert rows == [
        (8, 2, "mixed", "collective", "AllReduce", 1_000_000, 1, 1, 1e6),
        (2, 1, "nvlink-only", "collective", "AllReduce", 1_000_000, 6, 3, 6e6),
        (2, 1, "nvlink-only", "collective", "AllReduce", 1_000_001, 1, 1, 1_000_001.0),
        (2, 1, "nvlink-only", "p2p", "Send", 1_000_000, 1, None, 1e6),
    ]


def test_a_collective_with_two_sizes_is_counted_once_at_the_larger(store_run: StoreRun) -> None:
    run = store_run([event(rank=0, coll_msg_size_bytes=1000), event(rank=1, coll_msg_size_bytes=2000)])
    assert [(r["coll_msg_size_bytes"], r["records"], r["collectives"]) for r in run.result("resource_correlation")] == [
        (1000, 1, 0),
        (2000, 1, 1),
    ]
