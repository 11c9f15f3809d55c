"""Time ECDF: exact quantiles of the kernels with most records."""

import numpy as np
import pytest

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_the_curves_are_the_exact_quantiles_of_all_times_and_of_the_transfers(store_run: StoreRun) -> None:
    waiting, transfer = [150.0, 200.0, 300.0], [100.0, 110.0, 120.0]
    run = store_run(
        [event(rank=0, coll_sn=sn, coll_exec_time_us=time) for sn, time in enumerate(waiting)]
        + [event(rank=1, coll_sn=sn, coll_exec_time_us=time) for sn, time in enumerate(transfer)]
    )
    rows = run.result("time_ecdf")
    values = {
        measure: [row["value"] for row in rows if row["measure"] == measure]
        for measure in ("exec_time_us", "transfer_time_us")
    }
    steps = np.arange(101) / 100
    assert values["exec_time_us"] == pytest.approx(np.quantile(waiting + transfer, steps).tolist())
    assert values["transfer_time_us"] == pytest.approx(np.quantile(transfer, steps).tolist())
    assert {(row["measure"], row["samples"]) for row in rows} == {("exec_time_us", 6), ("transfer_time_us", 3)}


def test_kernels_are_ranked_by_records_and_small_messages_are_not_left_out(store_run: StoreRun) -> None:
    small = [event(coll_sn=sn, coll_msg_size_bytes=672) for sn in range(3)]
    run = store_run([*small, event(coll_sn=9, coll_msg_size_bytes=50_000_000)])
    ranks = {row["rank_by_records"]: row["coll_msg_size_bytes"] for row in run.result("time_ecdf")}
    assert ranks == {1: 672, 2: 50_000_000}


def test_only_the_ten_kernels_with_most_records_are_shown(store_run: StoreRun) -> None:
    run = store_run([event(coll_sn=sn, coll_msg_size_bytes=1000 + sn) for sn in range(12)])
    # All have one record; among equals the larger messages come first.
    assert {row["coll_msg_size_bytes"] for row in run.result("time_ecdf")} == {1002 + k for k in range(10)}
