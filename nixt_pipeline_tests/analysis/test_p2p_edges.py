"""P2P edges: Sends and Recvs by the processes that they join."""

from typing import Any

from nixt_pipeline_tests.analysis.conftest import Row, StoreRun, event

HOSTS = ("gpu-1", "gpu-2")


def _message(coll: str, rank: int, peer: int, time_us: float, **values: Any) -> Row:
    place = {"nnodes": 2, "hostname": HOSTS[rank], "pid": 100 + rank}
    return event(kind="p2p", coll=coll, rank=rank, p2p_peer=peer, coll_exec_time_us=time_us, **place, **values)


def test_both_ends_of_an_edge_meet_in_one_row(store_run: StoreRun) -> None:
    run = store_run(
        [_message("Send", 0, 1, time, coll_sn=sn) for sn, time in enumerate((90.0, 100.0, 110.0))]
        + [_message("Recv", 1, 0, time, coll_sn=sn) for sn, time in enumerate((500.0, 600.0))]
    )
    [edge] = run.result("p2p_edges")
    assert (edge["source_process"], edge["target_process"], edge["same_host"]) == (
        "gpu-1-pid100",
        "gpu-2-pid101",
        False,
    )
    assert (edge["send_records"], edge["recv_records"], edge["payload_bytes"]) == (3, 2, 3_000_000.0)
    assert (edge["send_time_p50_us"], edge["recv_time_p50_us"], edge["shorter_time_us"]) == (100.0, 550.0, 100.0)
    assert edge["waiting_side"] == "Recv", "the receiver was there first"


def test_an_end_without_records_leaves_the_edge_undecided(store_run: StoreRun) -> None:
    [edge] = store_run([_message("Send", 0, 1, 90.0)]).result("p2p_edges")
    assert (edge["target_rank"], edge["target_process"], edge["recv_records"]) == (1, None, 0)
    assert (edge["shorter_time_us"], edge["waiting_side"]) == (None, None)


def test_both_directions_and_each_size_are_edges_of_their_own(store_run: StoreRun) -> None:
    run = store_run(
        [
            _message("Send", 0, 1, 90.0),
            _message("Send", 1, 0, 90.0),
            _message("Send", 0, 1, 90.0, coll_sn=1, coll_msg_size_bytes=8),
        ]
    )
    edges = [(r["source_rank"], r["target_rank"], r["coll_msg_size_bytes"]) for r in run.result("p2p_edges")]
    assert edges == [(0, 1, 8), (0, 1, 1_000_000), (1, 0, 1_000_000)]


def test_a_run_without_p2p_has_no_edge(store_run: StoreRun) -> None:
    assert store_run([event()]).result("p2p_edges") == []
