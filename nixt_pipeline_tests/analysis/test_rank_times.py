"""Rank times: what each rank of a communicator spends in the hottest collectives."""

from pytest import approx

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_each_rank_has_its_times_its_place_and_its_distance_from_the_lowest(store_run: StoreRun) -> None:
    run = store_run(
        [event(rank=0, coll_sn=sn, coll_exec_time_us=time) for sn, time in enumerate((200.0, 300.0, 700.0))]
        + [event(rank=1, coll_sn=sn, coll_exec_time_us=100.0, hostname="gpu-2") for sn in range(3)]
    )
    waits, late = run.result("rank_times")
    assert (waits["rank"], waits["process"], waits["records"]) == (0, "gpu-1-pid100", 3)
    times = ("exec_time_min_us", "exec_time_p25_us", "exec_time_p50_us", "exec_time_p75_us", "exec_time_max_us")
    assert [waits[name] for name in times] == [200.0, 250.0, 300.0, 500.0, 700.0]
    assert waits["exec_time_mean_us"] == 400.0
    # 1 MB over two ranks: 1000 GB/s divided by the microseconds.
    assert waits["busbw_p50_gbs"] == approx(1000 / 300, abs=1e-6)
    assert (late["process"], late["above_lowest_us"], waits["above_lowest_us"]) == ("gpu-2-pid101", 0.0, 300.0)


def test_only_collectives_of_the_four_kernels_with_most_bytes_have_rows(store_run: StoreRun) -> None:
    run = store_run(
        [event(coll_sn=sn, coll_msg_size_bytes=1_000_000 + sn) for sn in range(6)]
        + [event(kind="p2p", coll="Send", p2p_peer=1, coll_msg_size_bytes=9_000_000)]
        + [event(id="0xb", n_ranks=1, coll_msg_size_bytes=9_000_000)]
    )
    sizes = [row["coll_msg_size_bytes"] for row in run.result("rank_times")]
    assert sorted(sizes) == [1_000_002, 1_000_003, 1_000_004, 1_000_005]
