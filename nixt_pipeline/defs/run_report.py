"""The last stage of a run: its HTML report."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.analysis import ANALYSES
from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import REPORTS, Result, run_asset
from nixt_pipeline.defs.metadata import report_links
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.inspector.taxonomy import RUN
from nixt_pipeline.quality.reports import REPORT_RULES, judge_report
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.reporting.report import render_run_report
from nixt_pipeline.settings import Settings


@run_asset(
    group=REPORTS,
    kinds={"html", "matplotlib"},
    code_version="1",
    columns=[RUN],
    deps=[*(analysis.name for analysis in ANALYSES), "findings"],
)
def run_report(context: dg.AssetExecutionContext, nixt: NixtSettings) -> Result:
    """**The report of a run**: one HTML file that needs no server and no network.

    It shows what every analysis found, how much of the job the log saw, and where the data lie. Open the path below,
    or set `NIXT_REPORT_URL` to where the reports directory is served, which makes it a link.
    """
    settings, run = nixt.load(), context.partition_key
    path = render_run_report(run, settings)
    return dg.MaterializeResult(
        metadata={
            "dagster/uri": path.resolve().as_uri(),
            **report_links(settings, run),
            "size_bytes": path.stat().st_size,
        }
    )


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    yield from judge_report(run, settings, [*(analysis.name for analysis in ANALYSES), "findings"])


run_report_checks = run_checks("run_report", REPORT_RULES, _judge)
