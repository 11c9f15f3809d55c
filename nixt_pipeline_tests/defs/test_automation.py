"""Cross-run assets follow the runs by themselves, and one run that failed does not hold them up."""

import dagster as dg

from nixt_pipeline.settings import Settings
from nixt_pipeline.store.run_catalog import run_catalog_path
from nixt_pipeline_tests.defs.conftest import RUN, drop_job, execute
from nixt_pipeline_tests.records import write_log

CATALOG, REPORT = dg.AssetKey("run_catalog"), dg.AssetKey("fleet_report")


def test_one_finished_run_is_enough_even_if_another_failed(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir)
    write_log(settings.landing_dir / "broken" / "node-01-pid1.log", "no record")
    before = dg.evaluate_automation_conditions(definitions, instance)
    assert not execute(definitions, instance, run="broken").success
    assert execute(definitions, instance).success
    after = dg.evaluate_automation_conditions(definitions, instance, cursor=before.cursor)
    assert after.get_num_requested(CATALOG) == 1
    assert after.get_num_requested(REPORT) == 1


def test_without_news_nothing_is_requested(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir)
    execute(definitions, instance)
    first = dg.evaluate_automation_conditions(definitions, instance)
    materialise_fleet(definitions, instance)
    second = dg.evaluate_automation_conditions(definitions, instance, cursor=first.cursor)
    third = dg.evaluate_automation_conditions(definitions, instance, cursor=second.cursor)
    assert third.total_requested == 0


def test_a_second_run_brings_the_overview_up_to_date(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir)
    execute(definitions, instance)
    materialise_fleet(definitions, instance)
    settled = dg.evaluate_automation_conditions(definitions, instance)
    settled = dg.evaluate_automation_conditions(definitions, instance, cursor=settled.cursor)
    drop_job(settings.landing_dir, "second")
    execute(definitions, instance, run="second")
    assert (
        dg.evaluate_automation_conditions(definitions, instance, cursor=settled.cursor).get_num_requested(CATALOG) == 1
    )


def test_the_overview_names_every_run(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir)
    execute(definitions, instance)
    result = materialise_fleet(definitions, instance)
    assert result.success
    assert [found.check_name for found in result.get_asset_check_evaluations() if not found.passed] == []
    assert run_catalog_path(settings).exists()
    assert settings.catalog_path.exists()
    assert RUN in (settings.reports_dir / "index.html").read_text(encoding="utf-8")


def test_the_overview_can_be_made_before_the_first_run(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    assert materialise_fleet(definitions, instance).success


def materialise_fleet(definitions: dg.Definitions, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=[CATALOG, REPORT])
