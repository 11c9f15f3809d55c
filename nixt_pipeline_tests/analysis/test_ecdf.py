"""Distributions: exact quantiles of the hottest kernels, and of those with most records."""

import numpy as np
import pytest

from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_the_curves_of_a_kernel_are_the_exact_quantiles_of_its_records_and_transfers(store_run: StoreRun) -> None:
    # Rank 0 waits for rank 1 by more and more; rank 1's times are the transfers.
    waiting = [150.0, 200.0, 300.0, 300.0]
    transfer = [100.0, 100.0, 110.0, 120.0]
    run = store_run(
        [event(rank=0, coll_sn=sn, coll_exec_time_us=time) for sn, time in enumerate(waiting)]
        + [event(rank=1, coll_sn=sn, coll_exec_time_us=time) for sn, time in enumerate(transfer)]
    )
    rows = run.result("bandwidth_ecdf")
    by_measure = {
        measure: [row["value"] for row in rows if row["measure"] == measure]
        for measure in ("busbw_gbs", "transfer_busbw_gbs")
    }
    steps = np.arange(101) / 100
    # 1 MB over two ranks: 1000 GB/s divided by the microseconds.
    assert by_measure["busbw_gbs"] == pytest.approx(np.quantile([1000 / t for t in waiting + transfer], steps).tolist())
    assert by_measure["transfer_busbw_gbs"] == pytest.approx(np.quantile([1000 / t for t in transfer], steps).tolist())
    assert {(row["measure"], row["samples"]) for row in rows} == {("busbw_gbs", 8), ("transfer_busbw_gbs", 4)}
    assert [row["quantile"] for row in rows[:101]] == pytest.approx(steps.tolist())


def test_only_the_ten_kernels_with_most_bytes_are_shown(store_run: StoreRun) -> None:
    run = store_run([event(coll_sn=sn, coll_msg_size_bytes=1_000_000 + sn) for sn in range(12)])
    sizes = {row["coll_msg_size_bytes"] for row in run.result("bandwidth_ecdf")}
    assert sizes == {1_000_002 + k for k in range(10)}


def test_small_messages_are_left_out_when_there_are_large_ones(store_run: StoreRun) -> None:
    run = store_run([event(coll_sn=0), *[event(coll_sn=sn, coll_msg_size_bytes=900_000) for sn in range(1, 9)]])
    assert {row["label"] for row in run.result("bandwidth_ecdf")} == {"AllReduce nvlink-only 2r/1n 1 MB"}


def test_a_run_of_small_messages_is_shown_with_them(store_run: StoreRun) -> None:
    run = store_run([event(coll_msg_size_bytes=672)])
    assert {row["label"] for row in run.result("bandwidth_ecdf")} == {"AllReduce nvlink-only 2r/1n 672 B"}


def test_a_kernel_without_bandwidths_has_no_curve(store_run: StoreRun) -> None:
    assert store_run([event(n_ranks=1)]).result("bandwidth_ecdf") == []


def test_labels_are_those_of_the_hot_kernels(store_run: StoreRun) -> None:
    run = store_run([event(coll_sn=sn, coll_msg_size_bytes=1_540_000 + sn) for sn in range(3)])
    kernels = {row["rank_by_bytes"]: row["label"] for row in run.result("hot_kernels")}
    assert {row["rank_by_bytes"]: row["label"] for row in run.result("bandwidth_ecdf")} == kernels


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
