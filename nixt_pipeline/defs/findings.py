"""The diagnosis of a run: who was late, whose transfers were slow, who hung."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import ANALYSES, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.diagnosis import VERSION
from nixt_pipeline.diagnosis.results import (
    FINDING_COLUMNS,
    NAME,
    findings_table,
    json_path,
    materialise_findings,
)
from nixt_pipeline.diagnosis.wording.text import as_markdown
from nixt_pipeline.fleet.regression import with_regression
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.findings import FINDING_RULES, judge_findings
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.reading import read_json

_PREVIEW = ("severity", "kind", "level", "hosts", "ambiguous", "onset_us", "cost_share", "lost_rank_seconds")


@run_asset(
    name=NAME,
    group=ANALYSES,
    kinds={"duckdb", "parquet"},
    code_version=VERSION,
    columns=FINDING_COLUMNS,
    deps=reads(NAME),
)
def findings(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**Stragglers, slow links and hangs**, with evidence and a severity for each.

    The rank that all others wait for has the shortest time and the highest bandwidth, so low bandwidth alone names no
    culprit. A finding comes with its effect, its evidence and the counter-evidence. If the log cannot tell, it names
    all candidates, or none. "Not assessable" does not mean healthy. If the run's workload has a baseline, being slower
    than it is a finding as well.
    """
    run = context.partition_key
    diagnosis = materialise_findings(run, settings, with_regression)
    table = findings_table(diagnosis)
    coverage = {name: value for name, value in diagnosis.to_json()["coverage"].items() if value is not None}
    return result(
        layout.results_path(settings, NAME, run),
        table.num_rows,
        {
            "verdict": diagnosis.verdict,
            "in words": dg.MetadataValue.md(as_markdown(diagnosis)),
            "json": dg.MetadataValue.path(str(json_path(settings, run).resolve())),
            "first rows": arrow_preview(table, _PREVIEW),
        },
        {"urgent": len(diagnosis.at_least("P1")), **coverage},
    )


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    path = json_path(settings, run)
    content = read_json(path, dict, f"materialise {NAME} again")
    if content is None:
        raise FileNotFoundError(f"run {run} has no {path}; rematerialise {NAME}")
    yield from judge_findings(content)


defs = dg.Definitions(assets=[findings], asset_checks=[run_checks(NAME, FINDING_RULES, _judge)])
