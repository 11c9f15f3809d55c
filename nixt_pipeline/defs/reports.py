"""The pages: the report of each run, and those of the fleet."""

import json

import dagster as dg

from nixt_pipeline.defs.checks import fleet_checks, run_checks
from nixt_pipeline.defs.common import REPORTS, Result, fleet_result, result, run_asset
from nixt_pipeline.defs.fleet import fleet_asset
from nixt_pipeline.defs.metadata import path_links, table_preview
from nixt_pipeline.fleet.catalog import RUN_CATALOG
from nixt_pipeline.inspector.taxonomy import RUN
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.fleet import INDEX_RULES, judge_index
from nixt_pipeline.quality.reports import REPORT_RULES, judge_report
from nixt_pipeline.reporting.fleet_page import render_fleet_page
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.reporting.report import current_report
from nixt_pipeline.settings import Settings

_FINDINGS = ("severity", "kind", "where", "cost_share", "lost_rank_seconds")


@run_asset(group=REPORTS, kinds={"html", "matplotlib"}, code_version="2", columns=[RUN])
def run_report(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**The report of a run**: a page that needs no server or network, with its tables next to it.

    It starts with the verdict and the findings, shows the result of every analysis and how much of the job was
    recorded, and offers every number as CSV and Parquet. Open the path below, or set `NIXT_REPORT_URL` to the address
    at which the reports directory is served, to turn the path into a link.
    """
    path = current_report(context.partition_key, settings)
    report = json.loads((path.parent / "report.json").read_text(encoding="utf-8"))
    findings = [{**finding, **finding["effect"]} for finding in report["findings"]]
    numbers = {
        "size_bytes": path.stat().st_size,
        "number of findings": len(findings),
        "records": report["records"].get("stored"),
    }
    shown = {
        "verdict": report["in_words"],
        **path_links(path, "report", settings),
        "findings": table_preview({name: finding[name] for name in _FINDINGS} for finding in findings),
    }
    return result(path, None, shown, numbers)


@fleet_asset(
    RUN_CATALOG,
    code_version="1",
    deps=("run_catalog", "baselines", "run_comparison", "host_health", "scaling", "benchmark_variation"),
    of_runs=("run_report",),
    kinds=("html",),
)
def fleet_report(settings: dg.ResourceParam[Settings]) -> Result:
    """**The page that lists every run** and links to its report, `reports/index.html`, and the fleet's page,
    `reports/fleet.html`: hosts to drain, runs that became slower, baselines, scaling, nccl-tests.

    They refresh automatically when a run has a new report.
    """
    together = render_fleet_page(settings)
    path = render_index(settings)
    links = {**path_links(path, "overview", settings), **path_links(together, "fleet", settings)}
    return fleet_result(path, None, links, {"size_bytes": path.stat().st_size})


defs = dg.Definitions(
    assets=[run_report, fleet_report],
    asset_checks=[
        run_checks("run_report", REPORT_RULES, lambda run, settings: judge_report(run, settings, reads("run_report"))),
        fleet_checks("fleet_report", INDEX_RULES, judge_index),
    ],
)
