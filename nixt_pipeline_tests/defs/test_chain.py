"""The whole chain of a run, from its log files to its report, in one process."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.analysis import ANALYSES
from nixt_pipeline.api import analyse_run, report_run
from nixt_pipeline.definitions import build_definitions
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.defs.conftest import RUN, drop_job, execute, resource
from nixt_pipeline_tests.records import collective, write_log


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (materialization,) = result.asset_materializations_for_node(asset)
    return dict(materialization.metadata)


def violated(result: dg.ExecuteInProcessResult) -> set[str]:
    return {found.check_name for found in result.get_asset_check_evaluations() if not found.passed}


class Ingested:
    """A job of six records that went through `ingest_run` once, for the tests that only look at the outcome."""

    def __init__(self, folder: Path) -> None:
        self.settings = load_settings(
            landing_dir=folder / "landing", data_dir=folder / "data", reports_dir=folder / "reports", workers=1
        )
        drop_job(self.settings.landing_dir)
        with dg.DagsterInstance.ephemeral() as instance:
            self.result = execute(build_definitions(resource(self.settings)), instance)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    """One ingestion for all tests of this module that change nothing."""
    return Ingested(tmp_path_factory.mktemp("ingested"))


def test_a_run_goes_from_its_logs_to_its_report(ingested: Ingested) -> None:
    settings = ingested.settings
    assert ingested.result.success
    assert read_manifest(RUN, settings).records["stored"] == 6
    assert all(layout.results_path(analysis.name, RUN, settings).exists() for analysis in ANALYSES)
    assert RUN in (layout.report_dir(RUN, settings) / "index.html").read_text(encoding="utf-8")


def test_a_sound_run_violates_nothing(ingested: Ingested) -> None:
    assert violated(ingested.result) == set()
    assert {found.partition for found in ingested.result.get_asset_check_evaluations()} == {RUN}


def test_row_counts_and_places_are_shown(ingested: Ingested) -> None:
    # Two files; six records; one communicator; three collectives.
    rows = {"raw_log_inventory": 2, "validated_records": 6, "typed_events": 1, "event_store": 6, "collective_cells": 3}
    for asset, count in rows.items():
        shown = metadata(ingested.result, asset)
        assert shown["dagster/partition_row_count"].value == count, asset
        assert shown["dagster/uri"].value.startswith("file:///")


def test_the_metadata_of_validation_holds_the_ingest_as_json(ingested: Ingested) -> None:
    assert metadata(ingested.result, "validated_records")["ingest"].value["records"]["stored"] == 6


def test_key_figures_are_floats_that_the_ui_can_plot(ingested: Ingested) -> None:
    shown = metadata(ingested.result, "coverage")
    assert isinstance(shown["capture rate"], dg.FloatMetadataValue)
    assert shown["capture rate"].value == 1.0


def test_the_figure_of_the_report_is_shown_beside_its_analysis(ingested: Ingested) -> None:
    text = metadata(ingested.result, "hot_kernels")["figure"].value
    assert text.startswith("![")
    assert "](data:image/svg+xml;base64," in text


def test_the_report_is_a_path_without_a_server_and_also_a_link_with_one(
    ingested: Ingested, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ingested.settings
    plain = metadata(ingested.result, "run_report")
    assert plain["report"].value == str(layout.report_dir(RUN, settings) / "index.html")
    assert "open report" not in plain
    monkeypatch.setenv("NIXT_REPORT_URL", "http://reports.example/nixt/")
    again = execute(build_definitions(resource(settings)), instance, only=["run_report"])
    assert metadata(again, "run_report")["open report"].value == f"http://reports.example/nixt/{RUN}/index.html"


def test_the_metadata_of_a_run_is_small(ingested: Ingested) -> None:
    # It is kept forever, for every run.
    size = sum(len(dg.serialize_value(event)) for event in ingested.result.get_asset_materialization_events())
    assert size < 400_000


def test_the_data_version_of_the_inventory_changes_with_the_files(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    path = drop_job(settings.landing_dir)
    first, again = (inventory_version(definitions, instance) for _ in range(2))
    assert first == again
    write_log(path / "node-02-pid7.log", collective(n_ranks=2, host="node-02", pid=7))
    assert inventory_version(definitions, instance) != first


def inventory_version(definitions: dg.Definitions, instance: dg.DagsterInstance) -> str:
    """Take the inventory alone, and return its data version."""
    result = execute(definitions, instance, only=["raw_log_inventory"])
    (materialization,) = result.asset_materializations_for_node("raw_log_inventory")
    return (materialization.tags or {})["dagster/data_version"]


def test_a_run_ingested_from_elsewhere_is_found_again_without_configuration(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    elsewhere = drop_job(settings.data_dir.parent / "elsewhere")
    ingest(elsewhere, RUN, settings)
    result = execute(definitions, instance, only=["raw_log_inventory"])
    assert metadata(result, "raw_log_inventory")["directory"].value == str(elsewhere)


def test_the_directory_in_the_configuration_wins(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    drop_job(settings.landing_dir)
    elsewhere = drop_job(settings.data_dir.parent / "elsewhere")
    config = {"ops": {"raw_log_inventory": {"config": {"directory": str(elsewhere)}}}}
    result = execute(definitions, instance, only=["raw_log_inventory"], config=config)
    assert metadata(result, "raw_log_inventory")["directory"].value == str(elsewhere)


def test_lines_that_are_no_records_warn_and_do_not_stop_the_run(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    path = drop_job(settings.landing_dir)
    with (path / "node-01-pid100.log").open("a") as log:
        log.write('{"header":{"id":"0xabc"\n')
    result = execute(definitions, instance, only=["raw_log_inventory", "validated_records", "typed_events"])
    assert violated(result) == {"no_line_is_rejected"}
    assert result.asset_materializations_for_node("typed_events")


def test_unrelated_files_beside_the_logs_violate_nothing(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    path = drop_job(settings.landing_dir)
    (path / "core.4711").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
    (path / "step-100.distcp").write_bytes(random.Random(1).randbytes(10_000))
    (path / "train.log").write_text("step 1 loss 2.5\nstep 2 loss 2.4\n")
    result = execute(definitions, instance)
    assert result.success
    assert violated(result) == set()


def test_a_directory_without_a_record_stops_before_anything_is_published(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    write_log(settings.landing_dir / RUN / "node-01-pid1.log", "no record")
    result = execute(definitions, instance)
    assert not result.success
    assert "at_least_one_record_is_readable" in violated(result)
    assert result.asset_materializations_for_node("typed_events") == []
    assert not (layout.store_dir(RUN, settings) / layout.MANIFEST).exists()


def test_a_store_that_lost_a_column_stops_before_the_analyses(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    ingest(drop_job(settings.landing_dir), RUN, settings)
    generation = read_manifest(RUN, settings).directory(settings)
    for part in layout.table_files(generation, "events"):
        pq.write_table(pq.read_table(part).drop_columns(["coll_algo"]), part)
    # As an earlier version left it, without hashes: otherwise the run would be rebuilt from its logs.
    validated = json.loads((generation / "validated.json").read_text())
    del validated["seals"]
    (generation / "validated.json").write_text(json.dumps(validated))
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


# Fixtures whose records are odd in different ways, and the rule by which the checks tell: colliding ids, infinite
# bandwidth, wrapped times, sequence numbers beyond 64 bits, unknown functions, impossible timestamps, graph replays and
# loss counters.
ODD = {
    "12_comm_id_collision": "written_bandwidth_follows_from_size_and_time",
    "13_nonfinite_bandwidth": "bandwidth_is_physically_possible",
    "14_exec_time_odd": "execution_times_are_usable",
    "16_sn_beyond_int64": "required_values_are_present",
    "17_unknown_names": "values_are_in_their_domain",
    "21_timestamps": "write_times_are_plausible",
    "36_repeated_sn_graph": "written_bandwidth_follows_from_size_and_time",
    "38_stateful_v43": "the_plugin_lost_no_records",
}


@pytest.mark.slow
def test_odd_records_warn_and_still_end_in_a_report(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    for case in ODD:
        shutil.copytree(FIXTURES / "cases" / case, settings.landing_dir / RUN / case)
    result = execute(definitions, instance)
    assert result.success
    assert set(ODD.values()) <= violated(result)
    assert (layout.report_dir(RUN, settings) / "index.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("case", ODD)
def test_records_that_are_all_odd_in_one_way_end_in_a_report_that_lacks_nothing(case: str, settings: Settings) -> None:
    """Alone, they leave columns and results without any value."""
    ingest(FIXTURES / "cases" / case, RUN, settings)
    analyse_run(RUN, settings)
    page = report_run(RUN, settings).read_text(encoding="utf-8")
    assert RUN in page
    assert [text for text in ("could not be drawn", "could not be assessed") if text in page.lower()] == []


@pytest.mark.slow
def test_the_plugins_own_extremes_warn_and_still_end_in_a_report(
    settings: Settings, definitions: dg.Definitions, instance: dg.DagsterInstance
) -> None:
    config = {"ops": {"raw_log_inventory": {"config": {"directory": str(FIXTURES / "cases" / "edge")}}}}
    result = execute(definitions, instance, config=config)
    assert result.success
    assert {"bandwidth_is_physically_possible", "no_line_is_rejected", "no_log_file_is_empty"} <= violated(result)
    assert (layout.report_dir(RUN, settings) / "index.html").exists()
