"""Waiting by progress: stretches of sequence numbers, whatever the clocks say."""

from nixt_pipeline_tests.analysis.conftest import START_US, StoreRun, event


def test_stretches_are_fortieths_of_the_sequence_numbers_and_ignore_the_clock(store_run: StoreRun) -> None:
    # Numbers 0 to 79: two in each stretch. From number 40 on, rank 0 waits 300 us; its clock runs backwards.
    run = store_run(
        [
            event(
                rank=rank,
                coll_sn=sn,
                coll_exec_time_us=400.0 if rank == 0 and sn >= 40 else 100.0,
                dump_timestamp_us=START_US - sn * 1000,
            )
            for sn in range(80)
            for rank in (0, 1)
        ]
    )
    rows = run.result("waiting_by_progress")
    assert [row["stretch"] for row in rows] == list(range(40))
    assert [(row["first_sn"], row["last_sn"], row["cells"]) for row in rows[:2]] == [(0, 1, 2), (2, 3, 2)]
    assert {row["transfer_time_p50_us"] for row in rows} == {100.0}
    # 300 us over two ranks.
    assert [row["wait_p50_us"] for row in rows] == [0.0] * 20 + [150.0] * 20


def test_a_number_near_the_largest_that_there_is_breaks_nothing(store_run: StoreRun) -> None:
    run = store_run([event(rank=rank, coll_sn=sn) for rank in (0, 1) for sn in (0, 2**62 - 1)])
    rows = run.result("waiting_by_progress")
    assert [(row["stretch"], row["cells"]) for row in rows] == [(0, 1), (39, 1)]


def test_incomplete_collectives_are_left_out(store_run: StoreRun) -> None:
    assert store_run([event(rank=0)]).result("waiting_by_progress") == []
