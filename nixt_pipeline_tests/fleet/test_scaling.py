from typing import Any

import pytest

from nixt_pipeline.fleet.scaling import scale
from nixt_pipeline.settings import Thresholds

LIMITS = Thresholds()


def catalog_row(run: str, gpus: int, **values: Any) -> dict[str, Any]:
    return {"run": run, "gpus": gpus, "model": "7B", "worst_severity": None} | values


def kernel(coll: str = "AllGather", n_ranks: int = 8, nnodes: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "coll": coll,
        "coll_type": "nvlink-only" if nnodes == 1 else "nic-only",
        "parallel_role": "tensor" if nnodes == 1 else "data",
        "n_ranks": n_ranks,
        "nnodes": nnodes,
        "coll_msg_size_bytes": 50_000_000,
        "cells": 1000,
        "payload_bytes": 1e9,
        "transfer_busbw_gbs": 100.0,
        "busbw_cv": 0.1,
        "transfer_cv": 0.05,
        "capture_rate": 1.0,
    } | values


def test_a_kernel_that_is_the_same_at_every_size_has_a_trend() -> None:
    sizes = {16: 300.0, 32: 290.0, 64: 280.0, 128: 270.0}
    kernels = {
        f"r{gpus}": [kernel(transfer_busbw_gbs=busbw, busbw_cv=0.1), kernel("ReduceScatter", gpus // 8, gpus // 8)]
        for gpus, busbw in sizes.items()
    }
    found = scale([catalog_row(f"r{gpus}", gpus) for gpus in sizes], kernels, LIMITS)
    rows = found.kernels.to_pylist()
    same = [row for row in rows if row["same_kernel"]]
    assert [(row["gpus"], row["busbw_gbs"]) for row in same] == list(sizes.items())
    assert {row["busbw_trend"] for row in same} == {-1.0}
    # Two of the 24 orders of four are as clear: up, and down.
    assert [row["busbw_trend_p"] for row in same] == pytest.approx([2 / 24] * 4)
    assert {row["series"] for row in same} == {"AllGather nvlink-only 8r/1n 50 MB (tensor)"}
    assert {row["cv_trend"] for row in same} == {None}  # it does not change at all
    # The data-parallel groups are another kernel at every size: side by side, without a trend.
    other = [row for row in rows if not row["same_kernel"]]
    assert [(row["gpus"], row["n_ranks"]) for row in other] == [(16, 2), (32, 4), (64, 8), (128, 16)]
    assert {row["busbw_trend"] for row in other} == {None}
    assert {row["same_kernel_share"] for row in found.totals.to_pylist()} == {0.5}


def test_mix_and_rate_add_up_to_the_change() -> None:
    # 16 GPUs: half of the bytes at 300, half at 100 GB/s: 200. 32 GPUs: a quarter at 280, three at 100: 145.
    small = [kernel(transfer_busbw_gbs=300.0), kernel("ReduceScatter")]
    large = [kernel(transfer_busbw_gbs=280.0), kernel("ReduceScatter", payload_bytes=3e9)]
    found = scale([catalog_row("a", 16), catalog_row("b", 32)], {"a": small, "b": large}, LIMITS)
    first, second = found.totals.to_pylist()
    assert (first["busbw_gbs"], first["change_gbs"]) == (200.0, 0.0)
    assert second["busbw_gbs"] == pytest.approx(145.0)
    # By rate: -20 GB/s at a share of 3/8. By mix: -1/4 at (300 + 280) / 2, +1/4 at 100.
    assert second["change_by_rate_gbs"] == pytest.approx(-7.5)
    assert second["change_by_mix_gbs"] == pytest.approx(-0.25 * 290 + 0.25 * 100)
    assert second["change_by_rate_gbs"] + second["change_by_mix_gbs"] == pytest.approx(second["change_gbs"])


def test_volumes_are_withheld_when_records_are_missing() -> None:
    rows = [catalog_row("a", 16), catalog_row("b", 32)]
    full = scale(rows, {"a": [kernel()], "b": [kernel()]}, LIMITS).totals.to_pylist()
    assert [row["bytes_per_gpu"] for row in full] == [1e9 / 16, 1e9 / 32]
    cut = scale(rows, {"a": [kernel()], "b": [kernel(capture_rate=0.4)]}, LIMITS).totals.to_pylist()
    assert [row["bytes_per_gpu"] for row in cut] == [None, None]
    assert cut[0]["volume_note"] == "withheld: between 40% and 100% of the records were captured"


def test_several_runs_of_a_size_give_an_interval() -> None:
    rows = [catalog_row(f"a{n}", 16) for n in range(4)] + [catalog_row("b", 32)]
    kernels = {f"a{n}": [kernel(transfer_busbw_gbs=100.0 + n)] for n in range(4)} | {"b": [kernel()]}
    first, second = scale(rows, kernels, LIMITS).kernels.to_pylist()
    assert (first["runs"], first["busbw_gbs"]) == (4, 101.5)
    assert 100.0 <= first["busbw_low_gbs"] < 101.5 < first["busbw_high_gbs"] <= 103.0
    assert (second["runs"], second["busbw_low_gbs"]) == (1, None)


def test_one_size_stragglers_and_small_messages_say_nothing_about_scaling() -> None:
    assert scale([catalog_row("a", 16)], {"a": [kernel()]}, LIMITS).kernels.num_rows == 0
    rows = [catalog_row("a", 16), catalog_row("b", 32, worst_severity="P1")]
    assert scale(rows, {"a": [kernel()], "b": [kernel()]}, LIMITS).totals.num_rows == 0
    rows = [catalog_row("a", 16), catalog_row("b", 32)]
    tiny = {"a": [kernel(coll_msg_size_bytes=1000)], "b": [kernel(coll_msg_size_bytes=1000)]}
    assert scale(rows, tiny, LIMITS).kernels.num_rows == 0


def test_models_are_not_mixed() -> None:
    rows = [catalog_row("a", 16), catalog_row("b", 32, model="13B")]
    assert scale(rows, {"a": [kernel()], "b": [kernel()]}, LIMITS).kernels.num_rows == 0


def test_runs_without_a_model_do_not_scale() -> None:
    rows = [catalog_row("a", 16, model=None), catalog_row("b", 32, model=None)]
    found = scale(rows, {"a": [kernel()], "b": [kernel()]}, LIMITS)
    assert (found.kernels.num_rows, found.totals.num_rows) == (0, 0)
