"""The fleet: its results over all runs, and what keeps them up to date.

These assets have no partitions. Declarative automation updates them: they are cheap, and few, which matters because the
cost of evaluating conditions grows with the number of runs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import get_args

import dagster as dg
import pyarrow as pa

from nixt_pipeline.defs.checks import fleet_checks
from nixt_pipeline.defs.common import FLEET, OWNERS, Result, fleet_result
from nixt_pipeline.defs.metadata import arrow_preview, column_schema
from nixt_pipeline.fleet import against, catalog, hosts
from nixt_pipeline.fleet import baselines as fitness
from nixt_pipeline.fleet import scaling as sizes
from nixt_pipeline.fleet.compare.robust_stats import Change
from nixt_pipeline.fleet.nccl_tests import variation
from nixt_pipeline.fleet.tables import FleetTable
from nixt_pipeline.quality import fleet as rules
from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.reporting.comparison_page import render_run_comparison
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.catalog import publish_catalog
from nixt_pipeline.store.reading import read_table

# Whenever a dependency was updated for any run, unless this asset is being made just now. Dagster's own `eager()` would
# - wait forever for a run whose ingest failed, because one of the dependency's partitions is missing;
# - wait until no run is being ingested, which on a busy cluster is never;
# - forget an update that arrives while the run it requested before is going on: its reset wins over the news. Here a
#   request clears only what was known when it was made.
_NEWS = dg.AutomationCondition.any_deps_updated()
WHEN_ANY_RUN_IS_READY = (
    _NEWS.since(dg.AutomationCondition.newly_requested() & ~_NEWS) & ~dg.AutomationCondition.in_progress()
).with_label("when the results of any run are new")

# The next run would bring it up to date anyway, but that can be hours away.
TRY_AGAIN = dg.RetryPolicy(max_retries=2, delay=10)

# Pages of older runs are rendered on request: drawing thousands would take longer than comparing them.
MAX_PAGES = 20

_RUNS = (
    "run", "name", "hosts", "processes", "records", "rejected_lines", "capture_rate", "complete_share", "incarnations",
    "analysed",
)  # fmt: skip
_BASELINES = ("run", "workload", "fit", "reason", "decision", "level", "established")
_COMPARISONS = (
    "run", "verdict", "suspected", "reason", "reference", "transfer_change", "waiting_change", "explained_by",
)  # fmt: skip
_HOSTS = (
    "hostname", "suspect", "named", "runs", "expected", "chance", "late", "slow", "stopped", "lost_rank_seconds",
    "trend", "last_named_run",
)  # fmt: skip
_KERNELS = ("model", "series", "same_kernel", "gpus", "runs", "busbw_gbs", "busbw_cv", "capture_rate", "busbw_trend")
_VARIATION = (
    "run", "coll", "n_ranks", "nnodes", "coll_msg_size_bytes", "exec_time_cv", "benchmark", "cv_ratio", "note",
)  # fmt: skip


def fleet_asset(
    shown: FleetTable,
    *,
    code_version: str,
    deps: Sequence[str] = (),
    of_runs: Sequence[str] = (),
    kinds: Iterable[str] = ("parquet",),
    automated: bool = True,
) -> Callable[[Callable[..., Result]], dg.AssetsDefinition]:
    """An asset of the fleet, described by its docstring and the columns of `shown`. It depends on the fleet's assets
    `deps` and on the assets `of_runs` of every run, and is kept up to date by itself if it is `automated`."""
    each_run = dg.AllPartitionMapping()
    return dg.asset(
        group_name=FLEET,
        kinds={*kinds},
        code_version=code_version,
        owners=list(OWNERS),
        deps=[*map(dg.AssetDep, deps), *(dg.AssetDep(name, partition_mapping=each_run) for name in of_runs)],
        automation_condition=WHEN_ANY_RUN_IS_READY if automated else None,
        retry_policy=TRY_AGAIN if automated else None,
        metadata={"dagster/column_schema": column_schema(shown.columns)},
    )


@fleet_asset(
    catalog.RUN_CATALOG,
    code_version=catalog.VERSION,
    of_runs=("summary_histogram", "coverage", "findings"),
    kinds=("duckdb", "parquet"),
)
def run_catalog(settings: dg.ResourceParam[Settings]) -> Result:
    """**One row per run**: when, where, how large, and how much of it was recorded.

    Only runs that are new or have changed are read again. It refreshes automatically when any run has new results.
    """
    found = catalog.update_run_catalog(settings)
    publish_catalog(settings)
    newest = found.table.sort_by([("last_dump_us", "descending")])
    numbers = {"runs": found.table.num_rows, "runs_renewed": len(found.renewed)}
    path = catalog.RUN_CATALOG.path(settings)
    return fleet_result(path, found.table.num_rows, {"newest runs": arrow_preview(newest, _RUNS)}, numbers)


@fleet_asset(fitness.BASELINES, code_version=fitness.VERSION, deps=("run_catalog",), of_runs=("run_kernels",))
def baselines(settings: dg.ResourceParam[Settings]) -> Result:
    """**The runs that new ones are compared with**, per workload, and why others are not used.

    Runs of the same workload have the same number of GPUs and the same kernels. A baseline is complete, has no P0 or P1
    finding and is similar to the others; pin or reject a run with `nixt baselines`.
    """
    table = fitness.update_baselines(catalog.catalog_rows(settings), settings)
    numbers = {"fit": sum(table["fit"].to_pylist()), "workloads": len(set(table["workload"].to_pylist()))}
    newest = arrow_preview(table.sort_by([("first_dump_us", "descending")]), _BASELINES)
    return fleet_result(fitness.BASELINES.path(settings), table.num_rows, {"newest runs": newest}, numbers)


@fleet_asset(against.COMPARISONS, code_version=against.VERSION, deps=("baselines",), kinds=("parquet", "html"))
def run_comparison(settings: dg.ResourceParam[Settings]) -> Result:
    """**Each run against the baseline of its workload**, or against an earlier run of the same work; never against one
    with a P0 or P1 finding.

    Kernels are matched by structure; transfer and waiting are compared separately; the unit is the run, never the
    operation. Only runs that are new, or whose reference changed, are compared again. For any others, use `nixt
    compare`.
    """
    table, made = against.update_comparisons(catalog.catalog_rows(settings), settings)
    for comparison in sorted(made, key=lambda made: made.b.runs[0].facts["first_dump_us"] or 0)[-MAX_PAGES:]:
        render_run_comparison(comparison, settings)
    verdicts = table["verdict"].to_pylist()
    numbers = {"compared": len(made), **{name: verdicts.count(name) for name in get_args(Change)}}
    newest = arrow_preview(table.sort_by([("first_dump_us", "descending")]), _COMPARISONS)
    return fleet_result(against.COMPARISONS.path(settings), table.num_rows, {"newest runs": newest}, numbers)


@fleet_asset(hosts.HOST_HEALTH, code_version=hosts.VERSION, deps=("run_catalog",))
def host_health(settings: dg.ResourceParam[Settings]) -> Result:
    """**The hosts that findings flag repeatedly**, for what, at what cost, and whether it continues.

    A host that runs in many jobs is flagged more often for that reason alone. A suspect is flagged more often than the
    rate of all other hosts would explain, in more than one run, and in a recent one. `nixt hosts` prints the list.
    """
    table = hosts.update_host_health(catalog.catalog_rows(settings), settings)
    shown, numbers = {"suspects first": arrow_preview(table, _HOSTS)}, {"suspects": sum(table["suspect"].to_pylist())}
    return fleet_result(hosts.HOST_HEALTH.path(settings), table.num_rows, shown, numbers)


@fleet_asset(sizes.SCALING, code_version=sizes.VERSION, deps=("run_catalog",), of_runs=("run_kernels",))
def scaling(settings: dg.ResourceParam[Settings]) -> Result:
    """**Bandwidth and its variation against the number of GPUs**, for each model.

    A kernel that is the same at several sizes has a trend. Kernels whose ranks grow with the job are shown side by side
    by role, without a trend. The change of the mean is split into different shares of the bytes and different
    bandwidths; volumes are withheld if records are missing.
    """
    found = sizes.update_scaling(catalog.catalog_rows(settings), settings)
    shown = {
        "kernels": arrow_preview(found.kernels, _KERNELS),
        "totals": arrow_preview(found.totals, found.totals.column_names),
    }
    return fleet_result(sizes.SCALING.path(settings), found.kernels.num_rows, shown)


@fleet_asset(
    variation.BENCHMARK_VARIATION, code_version=variation.VERSION, deps=("run_catalog",), of_runs=("run_kernels",)
)
def benchmark_variation(settings: dg.ResourceParam[Settings]) -> Result:
    """**How much times vary in training, compared with nccl-tests.**

    Benchmarks are nccl-tests' own output in `NIXT_NCCL_TESTS_DIR`, and runs of nccl-tests under Inspector with the tag
    `nccl-tests` in their `run.json`. A ratio is given only if function, size, ranks, nodes and NCCL match;
    the variation in training is split into waiting, transfers over time, and differences between communicators.
    """
    table, problems = variation.update_benchmark_variation(catalog.catalog_rows(settings), settings)
    shown, numbers = {"first rows": arrow_preview(table, _VARIATION)}, {"files_unreadable": len(problems)}
    return fleet_result(variation.BENCHMARK_VARIATION.path(settings), table.num_rows, shown, numbers)


def table_checks(
    asset: str, of: Sequence[Rule], judge: Callable[[pa.Table], Iterable[Verdict]], judged: FleetTable
) -> dg.AssetChecksDefinition:
    """The checks of an asset by the table `judged` that it wrote."""
    return fleet_checks(asset, of, lambda settings: judge(read_table(judged.path(settings))))


defs = dg.Definitions(
    assets=[run_catalog, baselines, run_comparison, host_health, scaling, benchmark_variation],
    asset_checks=[
        fleet_checks("run_catalog", rules.CATALOG_RULES, rules.judge_catalog),
        fleet_checks(
            "baselines",
            rules.BASELINE_RULES,
            lambda settings: rules.judge_baselines(fitness.read_baselines(settings)),
        ),
        table_checks("run_comparison", rules.COMPARISON_RULES, rules.judge_comparisons, against.COMPARISONS),
        table_checks("host_health", rules.HOST_RULES, rules.judge_host_health, hosts.HOST_HEALTH),
        table_checks("scaling", rules.SCALING_RULES, rules.judge_scaling, sizes.SCALING_TOTALS),
        fleet_checks(
            "benchmark_variation",
            rules.BENCHMARK_RULES,
            lambda settings: rules.judge_benchmarks(variation.benchmark_files(settings)[1]),
        ),
    ],
    sensors=[
        dg.AutomationConditionSensorDefinition(
            "fleet_automation",
            target=dg.AssetSelection.groups(FLEET),
            default_status=dg.DefaultSensorStatus.RUNNING,
            description="Updates the fleet assets whenever any run has new results, even if other runs failed.",
        )
    ],
)
