"""Lateness of hosts: last arrivals and the waiting they cause, by host and bin."""

import pytest

from nixt_pipeline_tests.analysis.conftest import START_US, Row, StoreRun, event


def _across(times: dict[str, float], **values: object) -> list[Row]:
    """One collective with a rank on each of the hosts."""
    return [
        event(rank=rank, n_ranks=len(times), nnodes=len(times), hostname=host, coll_exec_time_us=time, **values)
        for rank, (host, time) in enumerate(times.items())
    ]


def test_the_host_that_came_last_caused_the_waiting_of_the_others(store_run: StoreRun) -> None:
    # gpu-2 comes last twice, gpu-1 once: they wait 300 + 100 us for gpu-2 and 50 us for gpu-1.
    run = store_run(
        [
            *_across({"gpu-1": 400.0, "gpu-2": 100.0}),
            *_across({"gpu-1": 200.0, "gpu-2": 100.0}, coll_sn=1),
            *_across({"gpu-1": 100.0, "gpu-2": 150.0}, coll_sn=2),
        ]
    )
    one, two = run.result("host_lateness")
    assert (one["hostname"], one["cells"], one["last_arrivals"], one["expected_last_arrivals"]) == ("gpu-1", 3, 1, 1.5)
    assert (two["hostname"], two["last_arrivals"], two["expected_last_arrivals"]) == ("gpu-2", 2, 1.5)
    assert (one["caused_wait_us"], two["caused_wait_us"]) == (50.0, 400.0)
    # All rank-time: 500 + 300 + 250 us.
    assert two["share_of_rank_time"] == pytest.approx(400 / 1050)
    assert one["bin_start_us"] == START_US


def test_equal_shortest_times_make_nobody_late(store_run: StoreRun) -> None:
    run = store_run(_across({"gpu-1": 100.0, "gpu-2": 100.0, "gpu-3": 150.0}))
    rows = run.result("host_lateness")
    assert [(row["last_arrivals"], row["expected_last_arrivals"], row["caused_wait_us"]) for row in rows] == [
        (0, 0.0, 0.0)
    ] * 3


def test_collectives_within_a_host_and_small_ones_beside_large_ones_are_left_out(store_run: StoreRun) -> None:
    within = [event(rank=rank, coll_exec_time_us=100.0 + rank) for rank in (0, 1)]
    small = _across({"gpu-1": 9000.0, "gpu-2": 10.0}, id="0xb", coll_msg_size_bytes=8)
    large = _across({"gpu-1": 100.0, "gpu-2": 150.0}, id="0xb", coll_sn=1)
    rows = store_run([*within, *small, *large]).result("host_lateness")
    assert [(row["hostname"], row["cells"], row["min_message_bytes"]) for row in rows] == [
        ("gpu-1", 1, 1_000_000),
        ("gpu-2", 1, 1_000_000),
    ]
