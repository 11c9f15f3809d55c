"""The keys of communicators and kernels, and what was captured of each series: the same for every analysis."""

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_a_series_counts_the_records_that_its_numbers_tell_of_and_those_that_are_there(store_run: StoreRun) -> None:
    # Numbers 4 to 7 on two ranks are 8 records; rank 1 lacks number 6, and reports number 7 a second time.
    records = [
        event(rank=rank, n_ranks=2, coll_sn=sn) for rank in (0, 1) for sn in (4, 5, 6, 7) if (rank, sn) != (1, 6)
    ]
    run = store_run([*records, event(rank=1, n_ranks=2, coll_sn=7, coll_exec_time_us=9.0)])
    rows = run.con.sql(
        "SELECT coll, first_sn, last_sn, sn_expected, sn_seen, records_expected, records_captured FROM series"
    ).fetchall()
    assert rows == [("AllReduce", 4, 7, 4, 4, 8.0, 7)]


def test_no_more_is_captured_than_is_expected(store_run: StoreRun) -> None:
    # Number 4 of both ranks; a record of each whose number was broken, and one of a third rank, of which there is none.
    records = [event(rank=rank, n_ranks=2, coll_sn=sn) for rank in (0, 1) for sn in (4, None)]
    run = store_run([*records, event(rank=2, n_ranks=2, coll_sn=4)])
    assert run.con.sql("SELECT records_expected, records_captured FROM series").fetchall() == [(2.0, 2)]
    [coverage] = run.result("coverage")
    [kernel] = run.result("hot_kernels")
    assert (coverage["records"], coverage["capture_rate"], kernel["capture_rate"]) == (5, 1.0, 1.0)


def test_a_series_without_any_usable_number_has_no_capture_rate(store_run: StoreRun) -> None:
    [coverage] = store_run([event(rank=rank, n_ranks=2, coll_sn=None) for rank in (0, 1)]).result("coverage")
    assert (coverage["records"], coverage["sn_expected"], coverage["capture_rate"]) == (2, None, None)


def test_the_keys_of_all_tables_agree_and_an_absent_name_is_a_name(store_run: StoreRun) -> None:
    run = store_run([event(comm_name=name, rank=rank, n_ranks=2) for name in (None, "DP") for rank in (0, 1)])
    joined = run.con.sql(
        """
        SELECT c.comm_name, count(*) AS records, count(DISTINCT e.kernel_key) AS kernels
        FROM communicators AS c
        JOIN events AS e USING (comm_key)
        JOIN cells AS x ON x.comm_key = c.comm_key AND x.kernel_key = e.kernel_key
        GROUP BY ALL ORDER BY ALL
        """
    ).fetchall()
    assert joined == [("DP", 2, 1), (None, 2, 1)]
