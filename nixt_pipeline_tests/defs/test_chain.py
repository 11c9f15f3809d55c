"""The whole chain of a run, from its log files to its report, in one process."""

from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.analysis import ANALYSES
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline_tests.defs.conftest import RUN, drop_job, execute
from nixt_pipeline_tests.records import collective, write_log


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (materialization,) = result.asset_materializations_for_node(asset)
    return dict(materialization.metadata)


def violated(result: dg.ExecuteInProcessResult) -> set[str]:
    return {found.check_name for found in result.get_asset_check_evaluations() if not found.passed}


@pytest.fixture
def ingested(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> dg.ExecuteInProcessResult:
    """The outcome of `ingest_run` for a job of six records."""
    drop_job(settings.landing_dir)
    return execute(definitions, instance)


def test_a_run_goes_from_its_logs_to_its_report(ingested: dg.ExecuteInProcessResult, settings: Settings) -> None:
    assert ingested.success
    assert read_manifest(settings, RUN).records["stored"] == 6
    assert all(layout.results_path(settings, analysis.name, RUN).exists() for analysis in ANALYSES)
    assert RUN in (layout.report_dir(settings, RUN) / "index.html").read_text(encoding="utf-8")


def test_a_sound_run_violates_nothing(ingested: dg.ExecuteInProcessResult) -> None:
    assert violated(ingested) == set()
    assert all(found.partition == RUN for found in ingested.get_asset_check_evaluations())


def test_row_counts_and_places_are_shown(ingested: dg.ExecuteInProcessResult) -> None:
    # Two files; six records; one communicator; three collectives.
    rows = {"raw_log_inventory": 2, "validated_records": 6, "typed_events": 1, "event_store": 6, "collective_cells": 3}
    for asset, count in rows.items():
        shown = metadata(ingested, asset)
        assert shown["dagster/partition_row_count"].value == count, asset
        assert shown["dagster/uri"].value.startswith("file:///")


def test_the_metadata_of_validation_holds_the_ingest_as_json(ingested: dg.ExecuteInProcessResult) -> None:
    assert metadata(ingested, "validated_records")["ingest"].value["records"]["stored"] == 6


def test_key_figures_are_floats_that_the_ui_can_plot(ingested: dg.ExecuteInProcessResult) -> None:
    shown = metadata(ingested, "coverage")
    assert isinstance(shown["capture rate"], dg.FloatMetadataValue)
    assert shown["capture rate"].value == 1.0


def test_the_figure_of_the_report_is_shown_beside_its_analysis(ingested: dg.ExecuteInProcessResult) -> None:
    text = metadata(ingested, "hot_kernels")["figure"].value
    assert text.startswith("![")
    assert "](data:image/svg+xml;base64," in text


def test_the_report_is_a_path_without_a_server_and_also_a_link_with_one(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_job(settings.landing_dir)
    plain = metadata(execute(definitions, instance), "run_report")
    assert plain["report"].value == str(layout.report_dir(settings, RUN) / "index.html")
    assert "open report" not in plain
    monkeypatch.setenv("NIXT_REPORT_URL", "http://reports.example/nixt/")
    served = metadata(execute(definitions, instance, job="analyse_run"), "run_report")
    assert served["open report"].value == f"http://reports.example/nixt/{RUN}/index.html"


def test_the_metadata_of_a_run_is_small(ingested: dg.ExecuteInProcessResult) -> None:
    # It is kept for ever, for every run.
    size = sum(len(dg.serialize_value(event)) for event in ingested.get_asset_materialization_events())
    assert size < 400_000


def test_the_data_version_of_the_inventory_is_the_fingerprint_of_the_files(
    ingested: dg.ExecuteInProcessResult, settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    before = metadata(ingested, "raw_log_inventory")["fingerprint"].value
    again = execute(definitions, instance)
    assert metadata(again, "raw_log_inventory")["fingerprint"].value == before
    write_log(settings.landing_dir / RUN / "node-02-pid7.log", collective(n_ranks=2, host="node-02", pid=7))
    grown = execute(definitions, instance)
    (materialization,) = grown.asset_materializations_for_node("raw_log_inventory")
    assert (materialization.tags or {})["dagster/data_version"] != before


def test_a_run_ingested_from_elsewhere_can_be_materialised_again_without_configuration(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    elsewhere = drop_job(settings.data_dir.parent / "elsewhere")
    instance.add_dynamic_partitions("run", [RUN])
    job = definitions.resolve_job_def("ingest_run")
    config = {"ops": {"raw_log_inventory": {"config": {"directory": str(elsewhere)}}}}
    assert job.execute_in_process(instance=instance, partition_key=RUN, run_config=config).success
    assert execute(definitions, instance).success
    assert read_manifest(settings, RUN).source_dir == str(elsewhere)


def test_lines_that_are_no_records_warn_and_do_not_stop_the_run(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    path = drop_job(settings.landing_dir)
    with (path / "node-01-pid100.log").open("a") as log:
        log.write('{"header":{"id":"0xabc"\n')
    result = execute(definitions, instance)
    assert result.success
    assert violated(result) == {"no_line_is_rejected"}


def test_a_directory_without_a_record_stops_before_anything_is_published(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    write_log(settings.landing_dir / RUN / "node-01-pid1.log", "no record")
    result = execute(definitions, instance)
    assert not result.success
    assert "at_least_one_record_is_readable" in violated(result)
    assert result.asset_materializations_for_node("typed_events") == []
    assert not (layout.store_dir(settings, RUN) / layout.MANIFEST).exists()


def test_a_store_that_lost_a_column_stops_before_the_analyses(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_job(settings.landing_dir)
    assert execute(definitions, instance).success
    for part in layout.table_files(read_manifest(settings, RUN).directory(settings), "events"):
        pq.write_table(pq.read_table(part).drop_columns(["coll_algo"]), part)
    result = execute(definitions, instance)
    assert not result.success
    assert "every_column_is_there_with_its_type" in violated(result)
    assert result.asset_materializations_for_node("collective_cells") == []


def test_an_unknown_run_says_where_it_was_looked_for(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    result = execute(definitions, instance, run="lost")
    (failure,) = [event for event in result.all_node_events if event.is_step_failure]
    error = failure.step_failure_data.error
    assert error is not None
    assert "NIXT_LANDING_DIR" in error.to_string()
