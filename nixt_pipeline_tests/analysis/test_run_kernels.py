"""`run_kernels` of a few hand-written records."""

from typing import Any

import pytest

from nixt_pipeline.analysis.base import compute
from nixt_pipeline.analysis.run_kernels import BLOCKS, RUN_KERNELS
from nixt_pipeline_tests.analysis.conftest import StoredRun, StoreRun, event


def kernels(run: StoredRun) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = compute(RUN_KERNELS, run.con, run.settings).to_pylist()
    return rows


def pair(sn: int, transfer_us: float, wait_us: float, **values: Any) -> list[dict[str, Any]]:
    """A collective of two ranks on two hosts: rank 0 waits for rank 1."""
    common = {"coll_sn": sn, "nnodes": 2, **values}
    return [
        event(rank=0, hostname="a", coll_exec_time_us=transfer_us + wait_us, **common),
        event(rank=1, hostname="b", coll_exec_time_us=transfer_us, **common),
    ]


def test_transfer_and_waiting_are_kept_apart_for_each_stretch(store_run: StoreRun) -> None:
    # 40 collectives are two for each of the 20 blocks: of 100 and 102 us, rank 0 waiting 7 us.
    events = [record for sn in range(40) for record in pair(sn, 100.0 + 2 * (sn % 2), 7.0)]
    [row] = kernels(store_run(events))
    assert (row["records"], row["operations"], row["cells"], row["communicators"]) == (80, 40, 40, 1)
    assert (row["capture_rate"], row["usable_share"]) == (1.0, 1.0)
    assert (row["transfer_p50_us"], row["transfer_us"], row["wait_us"]) == (101.0, 4040.0, 7.0)
    assert (row["block"], row["block_cells"]) == (list(range(BLOCKS)), [2] * BLOCKS)
    assert row["block_transfer_us"] == [101.0] * BLOCKS
    assert row["transfer_capped_us"] == 101.0
    assert row["block_wait_us"] == [7.0] * BLOCKS
    assert (row["comm_hosts"], row["comm_cells"], row["comm_transfer_us"]) == (["a b"], [40], [101.0])
    assert row["comm_wait_us"] == [7.0]
    # All of the transfer's variance, 1 us2, is over time: there is one communicator.
    assert row["transfer_variance_over_time"] == pytest.approx(1.0)
    assert row["transfer_variance_between_communicators"] == 0.0
    assert (row["timing_sources"], row["git_revs"]) == ("kernel_gpu", "abc")


def test_whole_microseconds_are_resolved_by_how_many_there_are_of_each(store_run: StoreRun) -> None:
    # In each block of 5 collectives: 24, 24, 24, 25, 25 us, on average 24.4.
    times = [24.0, 24.0, 24.0, 25.0, 25.0]
    [row] = kernels(store_run([record for sn in range(100) for record in pair(sn, times[sn % 5], 0.0)]))
    assert row["block_transfer_us"] == [24.4] * BLOCKS


def test_a_part_of_the_communicators_that_is_slow_moves_the_time(store_run: StoreRun) -> None:
    # One of three communicators takes 15 times as long; the median of all stays 100 us, the mean is 1700 / 3.
    comms = (("0xa", 100.0), ("0xb", 100.0), ("0xc", 1500.0))
    [row] = kernels(store_run([r for sn in range(20) for comm, us in comms for r in pair(sn, us, 0.0, id=comm)]))
    assert row["transfer_p50_us"] == 100.0
    assert row["block_transfer_us"] == [pytest.approx(1700 / 3, abs=0.001)] * BLOCKS
    assert sorted(row["comm_transfer_us"]) == [100.0, 100.0, 1500.0]


def test_a_part_of_the_operations_that_is_slow_moves_the_time(store_run: StoreRun) -> None:
    # In each block of 4: 100, 100, 100, 900 us. One in four is no exception and counts in full: 1200 / 4.
    times = [100.0, 100.0, 100.0, 900.0]
    [row] = kernels(store_run([r for sn in range(80) for r in pair(sn, times[sn % 4], 0.0)]))
    assert row["block_transfer_us"] == [300.0] * BLOCKS


def test_one_operation_that_was_stuck_does_not_decide_about_a_run(store_run: StoreRun) -> None:
    # 100 collectives of 100 us, five in each block, one of them stuck for 10 s, which counts as 300 us: 700 / 5.
    events = [r for sn in range(100) for r in pair(sn, 10_000_000.0 if sn == 42 else 100.0, 0.0)]
    [row] = kernels(store_run(events))
    assert row["block_transfer_us"] == [140.0 if block == 8 else 100.0 for block in range(BLOCKS)]
    assert row["transfer_us"] == 99 * 100.0 + 10_000_000.0


def test_kernels_beyond_those_that_take_most_time_are_counted_in_one_row_of_their_kind(store_run: StoreRun) -> None:
    # Sizes 1, 2, 3, ... take 10, 20, 30, ... us on each of two ranks: 4 and 5 are described, 1 to 3 counted.
    events = [r for size in range(1, 6) for r in pair(size, 10.0 * size, 0.0, coll_msg_size_bytes=size)]
    run = store_run(events)
    rows = compute(RUN_KERNELS, run.con, run.settings, max_kernels=2).to_pylist()
    assert [(row["coll"], row["coll_msg_size_bytes"]) for row in rows] == [
        ("AllReduce", 5),
        ("AllReduce", 4),
        (None, None),
    ]
    rest = rows[-1]
    assert (rest["kind"], rest["records"], rest["rank_time_us"]) == ("collective", 6, 2 * (10.0 + 20.0 + 30.0))
    assert rest["payload_bytes"] == 2.0 * (1 + 2 + 3)


def test_the_slowest_communicators_of_the_kernels_with_most_time_are_described(store_run: StoreRun) -> None:
    comms = (("0xa", 100.0), ("0xb", 300.0), ("0xc", 200.0))
    run = store_run([r for sn in range(20) for comm, us in comms for r in pair(sn, us, 0.0, id=comm)])
    [row] = compute(RUN_KERNELS, run.con, run.settings, max_communicators=2).to_pylist()
    assert (row["communicators"], row["comm_transfer_us"]) == (3, [300.0, 200.0])


def test_a_communicators_id_is_no_part_of_a_kernel(store_run: StoreRun) -> None:
    events = [
        r for sn in range(20) for comm, us in (("0xa", 100.0), ("0xb", 104.0)) for r in pair(sn, us, 0.0, id=comm)
    ]
    [row] = kernels(store_run(events))
    assert (row["communicators"], row["operations"]) == (2, 40)
    # Means of 100 and 104 us around 102: (4 + 4) / 2 us2, and nothing over time.
    assert row["transfer_variance_between_communicators"] == pytest.approx(4.0)
    assert row["transfer_variance_over_time"] == 0.0


def test_what_cannot_be_told_apart_has_no_transfer(store_run: StoreRun) -> None:
    missing = pair(0, 100.0, 0.0)[:1]
    broadcast = pair(0, 50.0, 0.0, coll="Broadcast")
    send = event(kind="p2p", coll="Send", p2p_peer=1, coll_exec_time_us=30.0)
    rows = {row["coll"]: row for row in kernels(store_run([*missing, *broadcast, send]))}
    assert [rows[coll]["cells"] for coll in ("AllReduce", "Broadcast", "Send")] == [None, None, None]
    assert rows["AllReduce"]["capture_rate"] == 0.5
    assert rows["AllReduce"]["operations"] == 1
    assert rows["Send"]["operations"] is None
    assert rows["Send"]["rank_time_us"] == 30.0


def test_a_broken_sequence_number_does_not_stretch_the_run(store_run: StoreRun) -> None:
    events = [record for sn in range(20) for record in pair(sn, 100.0, 0.0)]
    [row] = kernels(store_run([*events, *pair(2**63 + 7, 100.0, 0.0)]))
    assert (row["cells"], row["block_cells"]) == (20, [1] * BLOCKS)


def test_sequence_numbers_as_large_as_they_can_be_taken_for_do_not_overflow(store_run: StoreRun) -> None:
    [row] = kernels(store_run([*pair(0, 100.0, 0.0), *pair(2**62 - 1, 100.0, 0.0)]))
    assert row["block"] == [0, BLOCKS - 1]


def test_a_directory_of_two_launches_is_represented_by_the_larger(store_run: StoreRun) -> None:
    day_us = 86_400_000_000
    first = [r for sn in range(2) for r in pair(sn, 500.0, 0.0, id="0xa")]
    second = [r for sn in range(30) for r in pair(sn, 100.0, 0.0, id="0xb", pid=7)]
    for record in second:
        record["dump_timestamp_us"] += day_us
    [row] = kernels(store_run([*first, *second]))
    assert (row["records"], row["transfer_p50_us"]) == (60, 100.0)


def test_a_run_without_collectives_has_no_kernels(store_run: StoreRun) -> None:
    assert kernels(store_run([])) == []
