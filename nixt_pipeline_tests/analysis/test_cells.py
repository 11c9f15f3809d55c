"""Cells: which records belong to one collective, and who was last."""

from typing import Any

import pytest

from nixt_pipeline.analysis.cells import cell_batches
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.taxonomy import CELL_COLUMNS
from nixt_pipeline_tests.analysis.conftest import START_US, StoredRun, StoreRun, event


def cells(run: StoredRun) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        run.con.sql("SELECT * EXCLUDE (comm_key, kernel_key) FROM cells").to_arrow_table().to_pylist()
    )
    return sorted(rows, key=lambda row: (row["coll"], row["coll_sn"], row["occurrence"]))


def test_the_rank_with_the_shortest_time_was_last_and_the_others_waited_for_it(store_run: StoreRun) -> None:
    # Rank 1 arrives last: the transfer takes 100 us, ranks 0 and 2 spend 150 us and 20 us waiting.
    [cell] = cells(
        store_run(
            [
                event(rank=0, n_ranks=3, coll_exec_time_us=250.0, hostname="a", pid=7, dump_timestamp_us=START_US + 5),
                event(rank=1, n_ranks=3, coll_exec_time_us=100.0, hostname="b", pid=8, dump_timestamp_us=START_US + 9),
                event(rank=2, n_ranks=3, coll_exec_time_us=120.0, hostname="c", pid=9, dump_timestamp_us=START_US),
            ]
        )
    )
    assert cell == {
        "run": "job",
        "incarnation": 1,
        "id": "0xa",
        "comm_name": None,
        "n_ranks": 3,
        "nnodes": 1,
        "coll_type": "nvlink-only",
        "coll": "AllReduce",
        "coll_sn": 0,
        "occurrence": 1,
        "coll_msg_size_bytes": 1_000_000,
        "size_mismatch": False,
        "ranks_seen": 3,
        "ranks_timed": 3,
        "ranks_gpu_timed": 3,
        "complete": True,
        "min_exec_time_us": 100.0,
        "min_rank": 1,
        "min_hostname": "b",
        "min_pid": 8,
        "second_min_exec_time_us": 120.0,
        "second_min_rank": 2,
        "second_min_hostname": "c",
        "second_min_pid": 9,
        "max_exec_time_us": 250.0,
        "sum_exec_time_us": 470.0,
        "wait_us": 170.0,
        # 1 MB in 100 us is 10 GB/s; an AllReduce over 3 ranks moves 2 * 2/3 of it over the bus.
        "transfer_busbw_gbs": pytest.approx(10 * 4 / 3),
        "first_dump_us": START_US,
        "last_dump_us": START_US + 9,
    }


def test_cells_have_the_columns_and_types_of_the_taxonomy(store_run: StoreRun) -> None:
    relation = store_run([event()]).con.sql("SELECT * EXCLUDE (comm_key, kernel_key) FROM cells")
    table = relation.to_arrow_table().select([column.name for column in CELL_COLUMNS])
    assert [str(field.type) for field in table.schema] == [str(column.type) for column in CELL_COLUMNS]


def test_equal_shortest_times_go_to_the_lowest_ranks(store_run: StoreRun) -> None:
    times = {3: 100.0, 2: 100.0, 1: 100.0, 0: 300.0}
    [cell] = cells(store_run([event(rank=rank, n_ranks=4, coll_exec_time_us=time) for rank, time in times.items()]))
    assert (cell["min_rank"], cell["second_min_rank"]) == (1, 2)
    assert (cell["min_pid"], cell["second_min_pid"]) == (101, 102)


def test_a_cell_with_a_missing_rank_is_incomplete_and_has_no_transfer_bandwidth(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(rank=0)]))
    assert (cell["ranks_seen"], cell["complete"], cell["transfer_busbw_gbs"]) == (1, False, None)
    assert (cell["second_min_rank"], cell["second_min_exec_time_us"]) == (None, None)


def test_a_rank_without_a_usable_time_is_seen_but_makes_the_cell_incomplete(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(rank=0), event(rank=1, coll_exec_time_us=None, flags=int(RecordFlag.TIME_ZERO))]))
    assert (cell["ranks_seen"], cell["ranks_timed"], cell["complete"]) == (2, 1, False)
    assert (cell["min_rank"], cell["wait_us"]) == (0, 0.0)


def test_a_cell_without_any_usable_time_has_no_times(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(rank=rank, coll_exec_time_us=None) for rank in range(2)]))
    assert cell["ranks_timed"] == 0
    assert [cell[name] for name in ("min_exec_time_us", "min_rank", "sum_exec_time_us", "wait_us")] == [None] * 4


def test_times_taken_by_the_cpu_count_as_times_but_not_as_gpu_times(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(rank=0), event(rank=1, coll_timing_source="collective_cpu")]))
    assert (cell["ranks_timed"], cell["ranks_gpu_timed"], cell["complete"]) == (2, 1, True)


def test_replays_of_one_sequence_number_are_matched_in_the_order_of_their_dump_times(store_run: StoreRun) -> None:
    # Each rank reports sequence number 0 twice; stored in an order that is not the order of time.
    first, second = START_US, START_US + 1000
    result = cells(
        store_run(
            [
                event(rank=0, dump_timestamp_us=second, coll_exec_time_us=40.0),
                event(rank=0, dump_timestamp_us=first, coll_exec_time_us=10.0),
                event(rank=1, dump_timestamp_us=first, coll_exec_time_us=20.0),
                event(rank=1, dump_timestamp_us=second, coll_exec_time_us=30.0),
            ]
        )
    )
    facts = [(c["occurrence"], c["complete"], c["min_rank"], c["min_exec_time_us"], c["wait_us"]) for c in result]
    assert facts == [(1, True, 0, 10.0, 10.0), (2, True, 1, 30.0, 10.0)]


def test_a_replay_that_one_rank_lost_leaves_its_last_occurrence_incomplete(store_run: StoreRun) -> None:
    result = cells(store_run([event(rank=0), event(rank=0, dump_timestamp_us=START_US + 1), event(rank=1, coll_sn=0)]))
    assert [(cell["occurrence"], cell["ranks_seen"], cell["complete"]) for cell in result] == [
        (1, 2, True),
        (2, 1, False),
    ]


def test_ranks_that_give_different_sizes_share_a_cell_of_the_largest_size(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(rank=0, coll_msg_size_bytes=1000), event(rank=1, coll_msg_size_bytes=2000)]))
    assert (cell["size_mismatch"], cell["coll_msg_size_bytes"]) == (True, 2000)


def test_one_sequence_number_of_two_functions_is_two_collectives(store_run: StoreRun) -> None:
    result = cells(store_run([event(rank=0), event(rank=1, coll="AllGather")]))
    assert [(cell["coll"], cell["ranks_seen"]) for cell in result] == [("AllGather", 1), ("AllReduce", 1)]


@pytest.mark.parametrize("difference", [{"comm_name": "TP"}, {"nnodes": 2}])
def test_ranks_that_describe_their_communicator_differently_share_a_cell(
    difference: dict[str, Any], store_run: StoreRun
) -> None:
    [cell] = cells(store_run([event(rank=0), event(rank=1, **difference)]))
    assert cell["complete"]


@pytest.mark.parametrize("difference", [{"id": "0xb"}, {"n_ranks": 4}])
def test_whatever_tells_communicators_apart_tells_collectives_apart(
    difference: dict[str, Any], store_run: StoreRun
) -> None:
    assert len(cells(store_run([event(rank=0), event(rank=1, **difference)]))) == 2


def test_two_launches_in_one_directory_do_not_share_cells(store_run: StoreRun) -> None:
    # The second launch, a day later, has communicators of its own; nothing but the sequence number is equal.
    later = START_US + 86_400_000_000
    result = store_run(
        [event(rank=r) for r in range(2)] + [event(rank=r, id="0xb", dump_timestamp_us=later) for r in range(2)]
    )
    assert sorted((cell["incarnation"], cell["id"]) for cell in cells(result)) == [(1, "0xa"), (2, "0xb")]


def test_p2p_records_are_in_no_cell(store_run: StoreRun) -> None:
    assert cells(store_run([event(kind="p2p", coll="Send", p2p_peer=1)])) == []


def test_a_broadcast_has_no_transfer_bandwidth_because_its_root_may_leave_early(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(rank=rank, coll="Broadcast") for rank in range(2)]))
    assert (cell["complete"], cell["transfer_busbw_gbs"]) == (True, None)


def test_a_single_rank_communicator_is_complete_without_a_bandwidth(store_run: StoreRun) -> None:
    [cell] = cells(store_run([event(n_ranks=1)]))
    assert (cell["coll_type"], cell["complete"], cell["wait_us"]) == ("single-rank", True, 0.0)
    assert cell["transfer_busbw_gbs"] is None


def test_implausible_write_times_do_not_count_as_times(store_run: StoreRun) -> None:
    implausible = int(RecordFlag.TIMESTAMP_IMPLAUSIBLE)
    [cell] = cells(store_run([event(rank=0, dump_timestamp_us=5, flags=implausible), event(rank=1)]))
    assert (cell["first_dump_us"], cell["last_dump_us"]) == (START_US, START_US)


def test_large_sequence_numbers_are_kept_exactly(store_run: StoreRun) -> None:
    numbers = [2**62 - 1, 2**53, 2**53 + 1]
    assert [cell["coll_sn"] for cell in cells(store_run([event(coll_sn=sn) for sn in numbers]))] == sorted(numbers)


def test_cells_worked_through_in_many_passes_are_the_cells_of_one_pass(store_run: StoreRun) -> None:
    events = [event(rank=r, coll_sn=sn, coll_exec_time_us=10.0 + r + sn) for r in range(2) for sn in range(20)]
    con = store_run(events).con
    once, passes = (
        sorted((row for batch in cell_batches(con, **bounds) for row in batch.to_pylist()), key=str)
        for bounds in ({}, {"records_per_pass": 5})
    )
    assert passes == once
    assert len(once) == 20


def test_a_time_that_is_no_whole_number_changes_nothing_for_other_collectives(store_run: StoreRun) -> None:
    # Whole times and fractions of them are compared in different ways.
    events = [
        event(rank=r, n_ranks=4, coll_sn=sn, coll_exec_time_us=float((r * 7 + sn) % 5), hostname=f"gpu-{r}")
        for r in range(4)
        for sn in range(9)
    ] + [event(coll_sn=0, coll_exec_time_us=4.0, dump_timestamp_us=START_US + 1)]
    expected = cells(store_run(events))
    [fraction, *others] = cells(store_run([event(coll="AllGather", coll_exec_time_us=12.5), *events]))
    assert others == expected
    assert (fraction["min_exec_time_us"], fraction["min_hostname"], fraction["min_pid"]) == (12.5, "gpu-1", 100)


def test_a_rank_of_two_processes_is_named_by_the_process_that_was_last(store_run: StoreRun) -> None:
    result = cells(
        store_run([event(coll_sn=0, pid=7), event(coll_sn=1, pid=8), event(rank=1, coll_sn=1, coll_exec_time_us=500.0)])
    )
    assert [(cell["coll_sn"], cell["min_pid"]) for cell in result] == [(0, 7), (1, 8)]


def test_ranks_beyond_the_bits_of_a_number_are_not_taken_for_repetitions(store_run: StoreRun) -> None:
    # 127 bits tell the ranks of a cell apart at first sight: 0 and 127 share one.
    [cell] = cells(store_run([event(rank=rank, n_ranks=200) for rank in (0, 127, 199)]))
    assert (cell["occurrence"], cell["ranks_seen"]) == (1, 3)
    replayed = [event(rank=rank, n_ranks=200) for rank in (0, 127, 127)]
    assert [(c["occurrence"], c["ranks_seen"]) for c in cells(store_run(replayed))] == [(1, 2), (2, 1)]
