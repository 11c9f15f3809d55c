"""Spatial correlation: hosts and processes, and who arrives last."""

from typing import Any

import pytest

from nixt_pipeline_tests.analysis.conftest import StoredRun, StoreRun, event


def places(run: StoredRun, level: str) -> dict[str, dict[str, Any]]:
    """The rows of one level by place."""
    place = "hostname" if level == "host" else "process"
    return {row[place]: row for row in run.result("spatial_correlation") if row["level"] == level}


def of_rank(rank: int, sn: int, time_us: float, **values: Any) -> dict[str, Any]:
    """A record of a four-rank communicator over hosts a (ranks 0, 1) and b (ranks 2, 3)."""
    return event(
        rank=rank, n_ranks=4, nnodes=2, coll_sn=sn, coll_exec_time_us=time_us, hostname="ab"[rank // 2], **values
    )


def test_the_place_with_the_shortest_time_arrived_last_although_its_bandwidth_is_the_highest(
    store_run: StoreRun,
) -> None:
    # Four collectives; rank 3 on host b is late in three of them, rank 0 on host a in one.
    late = [3, 3, 3, 0]
    run = store_run([of_rank(r, sn, 100.0 if r == late[sn] else 300.0 + r) for sn in range(4) for r in range(4)])
    hosts = places(run, "host")
    assert {name: row["last_arrivals"] for name, row in hosts.items()} == {"a": 1, "b": 3}
    # Two of four ranks on each host: half of the four collectives each.
    assert {name: row["expected_last_arrivals"] for name, row in hosts.items()} == {"a": 2.0, "b": 2.0}
    assert {row["cells"] for row in hosts.values()} == {4}
    assert hosts["b"]["busbw_p90_gbs"] > hosts["a"]["busbw_p90_gbs"]
    processes = places(run, "process")
    assert {name: row["last_arrivals"] for name, row in processes.items()} == {
        "a-pid100": 1,
        "a-pid101": 0,
        "b-pid102": 0,
        "b-pid103": 3,
    }
    assert {row["expected_last_arrivals"] for row in processes.values()} == {1.0}


def test_bandwidth_and_time_are_summarised_per_place(store_run: StoreRun) -> None:
    # AllReduce of 1 MB over 2 ranks in 100, 200, 400 us: 10, 5, 2.5 GB/s.
    run = store_run([event(coll_sn=sn, coll_exec_time_us=100.0 * 2**sn) for sn in range(3)])
    host, process = run.result("spatial_correlation")
    assert host == {
        "run": "job",
        "level": "host",
        "hostname": "gpu-1",
        "pid": None,
        "process": None,
        "coll": "AllReduce",
        "coll_type": "nvlink-only",
        "min_message_bytes": 1_000_000,
        "records": 3,
        "busbw_p10_gbs": pytest.approx(3.0),  # a fifth of the way from 2.5 to 5
        "busbw_p50_gbs": 5.0,
        "busbw_p90_gbs": pytest.approx(9.0),
        "exec_time_p50_us": 200.0,
        "cells": 0,
        "last_arrivals": 0,
        "expected_last_arrivals": 0.0,
    }
    assert process == host | {"level": "process", "pid": 100, "process": "gpu-1-pid100"}


def test_ranks_that_arrive_within_one_microsecond_share_no_blame(store_run: StoreRun) -> None:
    run = store_run([of_rank(r, 0, 100.0) for r in range(4)])
    columns = ("cells", "last_arrivals", "expected_last_arrivals")
    assert [[row[name] for name in columns] for row in places(run, "process").values()] == [[1, 0, 0.0]] * 4


def test_incomplete_collectives_tell_nothing_about_arrival(store_run: StoreRun) -> None:
    run = store_run([of_rank(r, 0, 100.0 + r) for r in range(3)])  # rank 3 may have been later still
    assert {(row["cells"], row["last_arrivals"]) for row in places(run, "process").values()} == {(0, 0)}


@pytest.mark.parametrize("values", [{"coll": "Broadcast"}, {"coll": "Reduce"}])
def test_functions_that_ranks_may_leave_early_tell_nothing_about_arrival(
    values: dict[str, Any], store_run: StoreRun
) -> None:
    run = store_run([of_rank(r, 0, 100.0 + r, **values) for r in range(4)])
    assert {(row["cells"], row["last_arrivals"]) for row in places(run, "process").values()} == {(0, 0)}


def test_small_messages_are_counted_but_do_not_lower_the_bandwidth(store_run: StoreRun) -> None:
    run = store_run([event(), event(coll_sn=1, coll_msg_size_bytes=8, coll_exec_time_us=20.0)])
    row = places(run, "host")["gpu-1"]
    assert (row["records"], row["busbw_p50_gbs"], row["exec_time_p50_us"]) == (2, 10.0, 100.0)


def test_a_process_in_several_communicators_takes_part_in_the_cells_of_all(store_run: StoreRun) -> None:
    # Process 100 is rank 0 of both; in each it is last once of one collective.
    run = store_run(
        [
            event(rank=rank, id=name, coll_exec_time_us=100.0 + rank, pid=100 if rank == 0 else 200 + number)
            for number, name in enumerate(("0xa", "0xb"))
            for rank in range(2)
        ]
    )
    row = places(run, "process")["gpu-1-pid100"]
    assert (row["cells"], row["last_arrivals"], row["expected_last_arrivals"]) == (2, 2, 1.0)
