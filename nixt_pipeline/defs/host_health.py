"""The fleet's hosts."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import fleet_checks
from nixt_pipeline.defs.common import Result, fleet_result
from nixt_pipeline.defs.fleet import fleet_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.fleet import hosts
from nixt_pipeline.fleet.catalog import current_run_catalog
from nixt_pipeline.fleet.hosts import HOST_HEALTH, update_host_health
from nixt_pipeline.quality.fleet import HOST_RULES, judge_host_health
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.reading import read_table

_PREVIEW = (
    "hostname", "suspect", "named", "runs", "expected", "chance", "late", "slow", "stopped", "lost_rank_seconds",
    "trend", "last_named_run",
)  # fmt: skip


@fleet_asset(
    kinds={"parquet"},
    code_version=hosts.VERSION,
    columns=HOST_HEALTH.columns,
    deps=[dg.AssetDep("run_catalog")],
)
def host_health(settings: dg.ResourceParam[Settings]) -> Result:
    """**The hosts that findings flag repeatedly**, for what, at what cost, and whether it continues.

    A host that runs in many jobs is flagged more often for that reason alone. A suspect is flagged more often than the
    rate of all other hosts would explain, in more than one run, and in a recent one. `nixt hosts` prints the list.
    """
    table = update_host_health(settings, current_run_catalog(settings).table.to_pylist())
    shown = {"suspects first": arrow_preview(table, _PREVIEW)}
    return fleet_result(
        HOST_HEALTH.path(settings), table.num_rows, shown, {"suspects": sum(table["suspect"].to_pylist())}
    )


def _judge(settings: Settings) -> Iterator[Verdict]:
    yield from judge_host_health(read_table(HOST_HEALTH.path(settings)))


defs = dg.Definitions(assets=[host_health], asset_checks=[fleet_checks("host_health", HOST_RULES, _judge)])
