"""Which runs are fit to be compared with."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import fleet_checks
from nixt_pipeline.defs.common import Result, fleet_result
from nixt_pipeline.defs.fleet import all_runs, fleet_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.fleet import baselines as fitness
from nixt_pipeline.fleet.baselines import BASELINES, read_baselines, update_baselines
from nixt_pipeline.fleet.catalog import current_run_catalog
from nixt_pipeline.quality.fleet import BASELINE_RULES, judge_baselines
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings

_PREVIEW = ("run", "workload", "fit", "reason", "decision", "level", "established")


@fleet_asset(
    kinds={"parquet"},
    code_version=fitness.VERSION,
    columns=BASELINES.columns,
    deps=[dg.AssetDep("run_catalog"), all_runs("run_kernels")],
)
def baselines(settings: dg.ResourceParam[Settings]) -> Result:
    """**The runs that new ones are compared with**, per workload, and why others are not used.

    Runs of the same workload have the same number of GPUs and the same kernels. A baseline is complete, has no P0 or P1
    finding and is similar to the others; pin or reject a run with `nixt baselines`.
    """
    table = update_baselines(settings, current_run_catalog(settings).table.to_pylist())
    numbers = {"fit": sum(table["fit"].to_pylist()), "workloads": len(set(table["workload"].to_pylist()))}
    newest = arrow_preview(table.sort_by([("first_dump_us", "descending")]), _PREVIEW)
    return fleet_result(BASELINES.path(settings), table.num_rows, {"newest runs": newest}, numbers)


def _judge(settings: Settings) -> Iterator[Verdict]:
    yield from judge_baselines(read_baselines(settings))


defs = dg.Definitions(assets=[baselines], asset_checks=[fleet_checks("baselines", BASELINE_RULES, _judge)])
