"""Kernels against the size of the job, and against nccl-tests."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import fleet_checks
from nixt_pipeline.defs.common import Result, fleet_result
from nixt_pipeline.defs.fleet import all_runs, fleet_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.fleet import scaling as sizes
from nixt_pipeline.fleet.catalog import current_run_catalog
from nixt_pipeline.fleet.nccl_tests import variation
from nixt_pipeline.fleet.nccl_tests.variation import BENCHMARK_VARIATION, benchmark_files, update_benchmark_variation
from nixt_pipeline.fleet.scaling import SCALING, SCALING_TOTALS, update_scaling
from nixt_pipeline.quality.fleet import BENCHMARK_RULES, SCALING_RULES, judge_benchmarks, judge_scaling
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.reading import read_table

_KERNELS = ("model", "series", "same_kernel", "gpus", "runs", "busbw_gbs", "busbw_cv", "capture_rate", "busbw_trend")
_VARIATION = (
    "run",
    "coll",
    "n_ranks",
    "nnodes",
    "coll_msg_size_bytes",
    "exec_time_cv",
    "benchmark",
    "cv_ratio",
    "note",
)


@fleet_asset(
    kinds={"parquet"},
    code_version=sizes.VERSION,
    columns=SCALING.columns,
    deps=[dg.AssetDep("run_catalog"), all_runs("run_kernels")],
)
def scaling(settings: dg.ResourceParam[Settings]) -> Result:
    """**Bandwidth and its variation against the number of GPUs**, for each model.

    A kernel that is the same at several sizes has a trend. Kernels whose ranks grow with the job are shown side by side
    by role, without a trend. The change of the mean is split into different shares of the bytes and different
    bandwidths; volumes are withheld if records are missing.
    """
    found = update_scaling(settings, current_run_catalog(settings).table.to_pylist())
    shown = {
        "kernels": arrow_preview(found.kernels, _KERNELS),
        "totals": arrow_preview(found.totals, found.totals.column_names),
    }
    return fleet_result(SCALING.path(settings), found.kernels.num_rows, shown)


def _judge_scaling(settings: Settings) -> Iterator[Verdict]:
    yield from judge_scaling(read_table(SCALING_TOTALS.path(settings)))


@fleet_asset(
    kinds={"parquet"},
    code_version=variation.VERSION,
    columns=BENCHMARK_VARIATION.columns,
    deps=[dg.AssetDep("run_catalog"), all_runs("run_kernels")],
)
def benchmark_variation(settings: dg.ResourceParam[Settings]) -> Result:
    """**How much times vary in training, compared with nccl-tests.**

    Benchmarks are nccl-tests' own output in `NIXT_NCCL_TESTS_DIR`, and runs of nccl-tests under Inspector with the tag
    `nccl-tests` in their `run.json`. A ratio is given only if function, size, ranks, nodes and NCCL match;
    the variation in training is split into waiting, transfers over time, and differences between communicators.
    """
    table, problems = update_benchmark_variation(settings, current_run_catalog(settings).table.to_pylist())
    shown = {"first rows": arrow_preview(table, _VARIATION)}
    return fleet_result(BENCHMARK_VARIATION.path(settings), table.num_rows, shown, {"files_unreadable": len(problems)})


def _judge_benchmarks(settings: Settings) -> Iterator[Verdict]:
    yield from judge_benchmarks(benchmark_files(settings)[1])


defs = dg.Definitions(
    assets=[scaling, benchmark_variation],
    asset_checks=[
        fleet_checks("scaling", SCALING_RULES, _judge_scaling),
        fleet_checks("benchmark_variation", BENCHMARK_RULES, _judge_benchmarks),
    ],
)
