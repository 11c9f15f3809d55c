"""Variation: the variance of times by place and by cause."""

from pytest import approx

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_the_variance_is_split_between_ranks_and_over_time(store_run: StoreRun) -> None:
    # Rank 0: 300 and 500 us, rank 1: 100 and 100 us. Mean 250; means of the ranks 400 and 100.
    # Between ranks: 150^2 = 22500. Within: (100^2 + 0) / 2 = 5000. Together 27500, which is the variance of the four.
    run = store_run(
        [event(rank=0, coll_sn=sn, coll_exec_time_us=time) for sn, time in enumerate((300.0, 500.0))]
        + [event(rank=1, coll_sn=sn, coll_exec_time_us=100.0) for sn in (0, 1)]
    )
    [row] = run.result("variation")
    assert (row["samples"], row["ranks"], row["cells"], row["exec_time_mean_us"]) == (4, 2, 2, 250.0)
    assert row["exec_time_cv"] == approx(27500**0.5 / 250, abs=1e-6)
    assert row["between_ranks_cv"] == approx(22500**0.5 / 250, abs=1e-6)
    assert row["within_ranks_cv"] == approx(5000**0.5 / 250, abs=1e-6)
    assert row["share_between_ranks"] == approx(22500 / 27500, abs=1e-6)


def test_the_transfers_explain_a_part_of_the_variance(store_run: StoreRun) -> None:
    # Both ranks take 100, then 200 us: the transfers vary as much as the times, and nobody waits.
    run = store_run(
        [event(rank=rank, coll_sn=sn, coll_exec_time_us=100.0 * (sn + 1)) for rank in (0, 1) for sn in (0, 1)]
    )
    [row] = run.result("variation")
    assert (row["transfer_mean_us"], row["wait_mean_us"], row["share_of_transfer"]) == (150.0, 0.0, 1.0)
    assert row["transfer_cv"] == row["exec_time_cv"] == approx(50 / 150, abs=1e-6)


def test_without_complete_collectives_the_cause_is_not_told(store_run: StoreRun) -> None:
    [row] = store_run([event(coll_sn=sn, coll_exec_time_us=100.0 + sn) for sn in (0, 1)]).result("variation")
    assert (row["cells"], row["transfer_cv"], row["wait_mean_us"], row["share_of_transfer"]) == (None,) * 4


def test_times_that_do_not_vary_have_no_shares(store_run: StoreRun) -> None:
    [row] = store_run([event(rank=rank) for rank in (0, 1)]).result("variation")
    assert (row["exec_time_cv"], row["share_between_ranks"], row["share_of_transfer"]) == (0.0, None, None)
