"""From rules to asset checks: one step per stage, whose checks have a verdict for each run.

Partitioned checks are marked as preview by Dagster 1.13; `pyproject.toml` pins the version with which they were tried.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import dagster as dg

from nixt_pipeline.defs.metadata import flat_numbers, table_preview
from nixt_pipeline.defs.partitions import runs
from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Settings

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

# Applies the rules of a stage to a run: (run, settings) -> one verdict for each rule.
RunJudge = Callable[[str, Settings], Iterable[Verdict]]
# The same for an asset that covers all runs.
FleetJudge = Callable[[Settings], Iterable[Verdict]]


def run_checks(asset: str, rules: Sequence[Rule], judge: RunJudge) -> dg.AssetChecksDefinition:
    """The checks of one asset, with a partition per run. One step after the asset applies all of its rules."""

    @dg.multi_asset_check(name=f"{asset}_checks", specs=_specs(asset, rules, runs))
    def checks(
        context: dg.AssetCheckExecutionContext, settings: dg.ResourceParam[Settings]
    ) -> Iterator[dg.AssetCheckResult]:
        yield from check_results(asset, rules, judge(context.partition_key, settings))

    return checks


def fleet_checks(asset: str, rules: Sequence[Rule], judge: FleetJudge) -> dg.AssetChecksDefinition:
    """The checks of an asset that covers all runs."""

    @dg.multi_asset_check(name=f"{asset}_checks", specs=_specs(asset, rules, None))
    def checks(settings: dg.ResourceParam[Settings]) -> Iterator[dg.AssetCheckResult]:
        yield from check_results(asset, rules, judge(settings))

    return checks


def check_results(asset: str, rules: Sequence[Rule], verdicts: Iterable[Verdict]) -> Iterator[dg.AssetCheckResult]:
    """Verdicts as Dagster shows them: errors, or warnings."""
    by_name = {rule.name: rule for rule in rules}
    for verdict in verdicts:
        rule = by_name[verdict.rule]
        yield dg.AssetCheckResult(
            asset_key=dg.AssetKey(asset),
            check_name=verdict.rule,
            passed=verdict.passed,
            severity=dg.AssetCheckSeverity.ERROR if rule.blocking or rule.error else dg.AssetCheckSeverity.WARN,
            description=verdict.summary,
            metadata={
                **{name: value for name, value in verdict.facts.items() if isinstance(value, str)},
                **flat_numbers(verdict.facts),
                **({"details": table_preview(verdict.rows)} if verdict.rows else {}),
            },
        )


def _specs(
    asset: str, rules: Sequence[Rule], partitions: dg.DynamicPartitionsDefinition | None
) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(
            rule.name, asset=asset, description=rule.meaning, blocking=rule.blocking, partitions_def=partitions
        )
        for rule in rules
    ]
