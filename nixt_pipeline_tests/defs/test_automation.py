"""The fleet's assets follow the runs by themselves, and one run that failed does not hold them up."""

import dagster as dg
import pytest

from nixt_pipeline.api import analyse_run, report_run
from nixt_pipeline.defs.partitions import PARTITION_NAME
from nixt_pipeline.fleet.catalog import RUN_CATALOG
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline_tests.defs.conftest import RUN, drop_job

CATALOG, REPORT = dg.AssetKey("run_catalog"), dg.AssetKey("fleet_report")
# In the order in which they depend on one another.
BETWEEN = ("baselines", "run_comparison", "host_health", "scaling", "benchmark_variation")
FLEET = (CATALOG, *map(dg.AssetKey, BETWEEN), REPORT)


def materialised(instance: dg.DagsterInstance, run: str) -> None:
    """Record that the assets of a run were materialised, without computing anything."""
    instance.add_dynamic_partitions(PARTITION_NAME, [run])
    for asset in ("summary_histogram", "coverage", "run_kernels", "findings", "run_report"):
        instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=run))


def settle(definitions: dg.Definitions, instance: dg.DagsterInstance) -> dg.EvaluateAutomationConditionsResult:
    """Evaluate until everything requested so far has been materialised."""
    before = dg.evaluate_automation_conditions(definitions, instance)
    for asset in FLEET:
        instance.report_runless_asset_event(dg.AssetMaterialization(asset))
    return dg.evaluate_automation_conditions(definitions, instance, cursor=before.cursor)


def test_one_finished_run_is_enough_even_if_another_failed(
    definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    settled = settle(definitions, instance)
    # Nothing of `broken` was ever materialised but its inventory.
    instance.add_dynamic_partitions(PARTITION_NAME, ["broken"])
    instance.report_runless_asset_event(dg.AssetMaterialization("raw_log_inventory", partition="broken"))
    materialised(instance, RUN)
    after = dg.evaluate_automation_conditions(definitions, instance, cursor=settled.cursor)
    assert after.get_num_requested(CATALOG) == 1
    assert after.get_num_requested(REPORT) == 1


def test_plain_eagerness_would_wait_for_the_failed_run_for_ever(instance: dg.DagsterInstance) -> None:
    # What the condition is for: this is how Dagster's own `eager` behaves.
    runs = dg.DynamicPartitionsDefinition(name=PARTITION_NAME)

    @dg.asset(partitions_def=runs)
    def coverage() -> None: ...

    @dg.asset(deps=[coverage], automation_condition=dg.AutomationCondition.eager())
    def overview() -> None: ...

    instance.add_dynamic_partitions(PARTITION_NAME, ["broken", RUN])
    plain = dg.Definitions([coverage, overview])
    before = dg.evaluate_automation_conditions(plain, instance)
    instance.report_runless_asset_event(dg.AssetMaterialization("coverage", partition=RUN))
    after = dg.evaluate_automation_conditions(plain, instance, cursor=before.cursor)
    assert after.get_num_requested(dg.AssetKey("overview")) == 0


def test_without_news_nothing_is_requested(definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
    materialised(instance, RUN)
    settled = settle(definitions, instance)
    assert dg.evaluate_automation_conditions(definitions, instance, cursor=settled.cursor).total_requested == 0


def test_a_second_run_brings_the_overview_up_to_date(definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
    materialised(instance, RUN)
    settled = settle(definitions, instance)
    materialised(instance, "second")
    after = dg.evaluate_automation_conditions(definitions, instance, cursor=settled.cursor)
    assert after.get_num_requested(CATALOG) == 1


def test_a_run_that_is_ready_while_the_overview_is_being_made_is_not_forgotten(
    definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    settled = settle(definitions, instance)
    materialised(instance, RUN)
    requested = dg.evaluate_automation_conditions(definitions, instance, cursor=settled.cursor)
    assert requested.get_num_requested(CATALOG) == 1
    # The second run is ready after the request and before its outcome: the overview may have missed it.
    materialised(instance, "second")
    for asset in FLEET:
        instance.report_runless_asset_event(dg.AssetMaterialization(asset))
    again = dg.evaluate_automation_conditions(definitions, instance, cursor=requested.cursor)
    assert again.get_num_requested(CATALOG) == 1
    assert again.get_num_requested(REPORT) == 1
    quiet = dg.evaluate_automation_conditions(definitions, instance, cursor=again.cursor)
    assert quiet.total_requested == 0


def materialise_fleet(definitions: dg.Definitions, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=[*FLEET])


@pytest.mark.slow
def test_the_overview_names_every_run(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    ingest(drop_job(settings.landing_dir), RUN, settings)
    analyse_run(RUN, settings)
    report_run(RUN, settings)
    result = materialise_fleet(definitions, instance)
    assert result.success
    assert [found.check_name for found in result.get_asset_check_evaluations() if not found.passed] == []
    assert RUN_CATALOG.path(settings).exists()
    assert settings.catalog_path.exists()
    assert RUN in (settings.reports_dir / "index.html").read_text(encoding="utf-8")


def test_the_overview_can_be_made_before_the_first_run(
    definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    assert materialise_fleet(definitions, instance).success
