"""The last stage of a run: its HTML report."""

import json
from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import REPORTS, Result, result, run_asset
from nixt_pipeline.defs.metadata import report_links, table_preview
from nixt_pipeline.inspector.taxonomy import RUN
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.reports import REPORT_RULES, judge_report
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.reporting.report import render_run_report
from nixt_pipeline.settings import Settings


@run_asset(
    group=REPORTS,
    kinds={"html", "matplotlib"},
    code_version="2",
    columns=[RUN],
    deps=reads("run_report"),
)
def run_report(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**The report of a run**: a page that needs no server or network, with its tables next to it.

    It starts with the verdict and the findings, shows the result of every analysis and how much of the job was
    recorded, and offers every number as CSV and Parquet. Open the path below, or set `NIXT_REPORT_URL` to the address
    at which the reports directory is served, to turn the path into a link.
    """
    run = context.partition_key
    path = render_run_report(run, settings)
    report = json.loads((path.parent / "report.json").read_text(encoding="utf-8"))
    findings = [{**finding, **finding["effect"]} for finding in report["findings"]]
    shown = ("severity", "kind", "where", "cost_share", "lost_rank_seconds")
    numbers = {
        "size_bytes": path.stat().st_size,
        "number of findings": len(findings),
        "records": report["records"].get("stored"),
    }
    return result(
        path,
        None,
        {
            "verdict": report["in_words"],
            **report_links(settings, run),
            "findings": table_preview({name: finding[name] for name in shown} for finding in findings),
        },
        numbers,
    )


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    yield from judge_report(run, settings, reads("run_report"))


defs = dg.Definitions(assets=[run_report], asset_checks=[run_checks("run_report", REPORT_RULES, _judge)])
