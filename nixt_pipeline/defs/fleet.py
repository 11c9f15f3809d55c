"""The fleet: one row for each run, and the page that lists them all.

These assets have no partitions. Declarative automation keeps them up to date: they are cheap, and few, which matters
because the cost of evaluating conditions grows with the number of runs.
"""

from collections.abc import Callable, Sequence

import dagster as dg

from nixt_pipeline.defs.checks import fleet_checks
from nixt_pipeline.defs.common import FLEET, OWNERS, Result, fleet_result
from nixt_pipeline.defs.metadata import arrow_preview, column_schema, path_links
from nixt_pipeline.fleet import catalog as fleet_catalog
from nixt_pipeline.fleet.catalog import RUN_CATALOG, update_run_catalog
from nixt_pipeline.inspector.taxonomy import Column
from nixt_pipeline.quality.fleet import CATALOG_RULES, INDEX_RULES, judge_catalog, judge_index
from nixt_pipeline.reporting.fleet_page import render_fleet_page
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.catalog import publish_catalog

# Whenever a dependency was updated for any run, unless this asset is being made just now. Dagster's own `eager()` would
# - wait for ever for a run whose ingest failed, because one of the dependency's partitions is missing;
# - wait until no run is being ingested, which on a busy cluster is never;
# - forget an update that arrives while the run it requested before is going on: its reset wins over the news. Here a
#   request clears only what was known when it was made.
_NEWS = dg.AutomationCondition.any_deps_updated()
WHEN_ANY_RUN_IS_READY = (
    _NEWS.since(dg.AutomationCondition.newly_requested() & ~_NEWS) & ~dg.AutomationCondition.in_progress()
).with_label("when the results of any run are new")

# The next run would bring it up to date anyway, but that can be hours away.
TRY_AGAIN = dg.RetryPolicy(max_retries=2, delay=10)

_PREVIEW = (
    "run", "name", "hosts", "processes", "records", "rejected_lines", "capture_rate", "complete_share", "incarnations",
    "analysed",
)  # fmt: skip


def all_runs(asset: str) -> dg.AssetDep:
    """A dependency on an asset of every run."""
    return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())


def fleet_asset(
    *, kinds: set[str], code_version: str, columns: Sequence[Column], deps: Sequence[dg.AssetDep]
) -> Callable[[Callable[..., Result]], dg.AssetsDefinition]:
    """An asset of the fleet, described by its docstring, that is kept up to date by itself."""
    return dg.asset(
        group_name=FLEET,
        kinds=kinds,
        code_version=code_version,
        owners=list(OWNERS),
        deps=list(deps),
        automation_condition=WHEN_ANY_RUN_IS_READY,
        retry_policy=TRY_AGAIN,
        metadata={"dagster/column_schema": column_schema(columns)},
    )


@fleet_asset(
    kinds={"duckdb", "parquet"},
    code_version=fleet_catalog.VERSION,
    columns=RUN_CATALOG.columns,
    deps=[all_runs("summary_histogram"), all_runs("coverage"), all_runs("findings")],
)
def run_catalog(settings: dg.ResourceParam[Settings]) -> Result:
    """**One row per run**: when, where, how large, and how much of it was recorded.

    Only runs that are new or have changed are read again. It refreshes automatically when any run has new results.
    """
    catalog = update_run_catalog(settings)
    publish_catalog(settings)
    newest = catalog.table.sort_by([("last_dump_us", "descending")])
    numbers = {"runs": catalog.table.num_rows, "runs_renewed": len(catalog.renewed)}
    shown = {"newest runs": arrow_preview(newest, _PREVIEW)}
    return fleet_result(RUN_CATALOG.path(settings), catalog.table.num_rows, shown, numbers)


@fleet_asset(
    kinds={"html"},
    code_version="1",
    columns=RUN_CATALOG.columns,
    deps=[
        *(dg.AssetDep(name) for name in ("run_catalog", "baselines", "run_comparison", "host_health", "scaling")),
        dg.AssetDep("benchmark_variation"),
        all_runs("run_report"),
    ],
)
def fleet_report(settings: dg.ResourceParam[Settings]) -> Result:
    """**The page that lists every run** and links to its report, `reports/index.html`, and the fleet's page,
    `reports/fleet.html`: hosts to drain, runs that became slower, baselines, scaling, nccl-tests.

    They refresh automatically when a run has a new report.
    """
    together = render_fleet_page(settings)
    path = render_index(settings)
    links = {**path_links(settings, path, "overview"), **path_links(settings, together, "all runs together")}
    return fleet_result(path, None, links, {"size_bytes": path.stat().st_size})


defs = dg.Definitions(
    assets=[run_catalog, fleet_report],
    asset_checks=[
        fleet_checks("run_catalog", CATALOG_RULES, judge_catalog),
        fleet_checks("fleet_report", INDEX_RULES, judge_index),
    ],
)
