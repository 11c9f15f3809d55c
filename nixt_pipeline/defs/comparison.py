"""Each run against those that did the same work before."""

from collections.abc import Iterator
from typing import get_args

import dagster as dg

from nixt_pipeline.defs.checks import fleet_checks
from nixt_pipeline.defs.common import Result, fleet_result
from nixt_pipeline.defs.fleet import fleet_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.fleet import against
from nixt_pipeline.fleet.against import COMPARISONS, update_comparisons
from nixt_pipeline.fleet.catalog import current_run_catalog
from nixt_pipeline.fleet.compare.robust_stats import Change
from nixt_pipeline.quality.fleet import COMPARISON_RULES, judge_comparisons
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.reporting.comparison_page import render_run_comparison
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.reading import read_table

_PREVIEW = (
    "run",
    "verdict",
    "suspected",
    "reason",
    "reference",
    "transfer_change",
    "waiting_change",
    "explained_by",
)
# Pages of older runs are made when somebody asks: drawing thousands would take longer than comparing them.
MAX_PAGES = 20
_VERDICTS = get_args(Change)


@fleet_asset(
    kinds={"parquet", "html"},
    code_version=against.VERSION,
    columns=COMPARISONS.columns,
    deps=[dg.AssetDep("baselines")],
)
def run_comparison(settings: dg.ResourceParam[Settings]) -> Result:
    """**Each run against the baseline of its workload**, or against an earlier run of the same work; never against one
    with a P0 or P1 finding.

    Kernels are matched by structure; transfer and waiting are compared separately; the unit is the run, never the
    operation. Only runs that are new, or whose reference changed, are compared again. For any others, use `nixt
    compare`.
    """
    table, made = update_comparisons(settings, current_run_catalog(settings).table.to_pylist())
    newest_made = sorted(made, key=lambda comparison: comparison.b.runs[0].facts["first_dump_us"] or 0)[-MAX_PAGES:]
    for comparison in newest_made:
        render_run_comparison(comparison, settings)
    newest = table.sort_by([("first_dump_us", "descending")])
    verdicts = table["verdict"].to_pylist()
    numbers = {"compared": len(made), **{name: verdicts.count(name) for name in _VERDICTS}}
    shown = {"newest runs": arrow_preview(newest, _PREVIEW)}
    return fleet_result(COMPARISONS.path(settings), table.num_rows, shown, numbers)


def _judge(settings: Settings) -> Iterator[Verdict]:
    yield from judge_comparisons(read_table(COMPARISONS.path(settings)))


defs = dg.Definitions(assets=[run_comparison], asset_checks=[fleet_checks("run_comparison", COMPARISON_RULES, _judge)])
