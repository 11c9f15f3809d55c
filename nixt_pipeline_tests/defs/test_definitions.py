"""What a person finds in the UI: every asset explained, owned, grouped, and its columns described."""

import re
from pathlib import Path

import dagster as dg
import pytest

import nixt_pipeline
from nixt_pipeline.analysis import ANALYSES, REPORTED
from nixt_pipeline.definitions import defs

STAGES = ["raw_log_inventory", "validated_records", "typed_events", "event_store", "collective_cells"]
PER_RUN = [*STAGES, *(analysis.name for analysis in ANALYSES), "findings", "run_report"]
FLEET = [
    "run_catalog", "baselines", "run_comparison", "host_health", "scaling", "benchmark_variation", "fleet_report",
]  # fmt: skip
BY_NIGHT = ["retention"]
SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
CHECKS = [spec for checks in defs.asset_checks or [] for spec in checks.check_specs]


def test_the_code_location_loads() -> None:
    dg.Definitions.validate_loadable(defs)


def test_the_assets_are_those_of_the_design() -> None:
    assert sorted(SPECS) == sorted([*PER_RUN, *FLEET, *BY_NIGHT])


@pytest.mark.parametrize("name", [*PER_RUN, *FLEET, *BY_NIGHT])
def test_every_asset_says_what_it_is(name: str) -> None:
    spec = SPECS[name]
    assert len(spec.description or "") > 80
    assert spec.group_name in ("ingest", "analyses", "reports", "fleet")
    assert list(spec.owners) == ["team:nixt"]
    assert spec.kinds
    assert spec.code_version
    columns = spec.metadata["dagster/column_schema"].columns
    assert columns
    assert all(column.description and column.tags["role"] for column in columns)


def test_the_graph_runs_from_left_to_right() -> None:
    for name, upstream in zip(STAGES[1:], STAGES, strict=False):
        assert [dep.asset_key.to_user_string() for dep in SPECS[name].deps] == [upstream]
    for analysis in ANALYSES:
        assert [dep.asset_key.to_user_string() for dep in SPECS[analysis.name].deps] == ["collective_cells"]
    # A regression is told by the kernels.
    assert {dep.asset_key.to_user_string() for dep in SPECS["findings"].deps} == {"collective_cells", "run_kernels"}
    shown = {"findings", *(item.name for item in REPORTED)}
    assert {dep.asset_key.to_user_string() for dep in SPECS["run_report"].deps} == shown


def test_assets_of_a_run_have_a_partition_per_run_and_those_of_the_fleet_have_none() -> None:
    assert all(isinstance(SPECS[name].partitions_def, dg.DynamicPartitionsDefinition) for name in PER_RUN)
    assert all(SPECS[name].partitions_def is None for name in (*FLEET, *BY_NIGHT))


def test_an_analysis_takes_its_code_version_from_its_definition() -> None:
    assert {analysis.name: analysis.version for analysis in ANALYSES} == {
        analysis.name: SPECS[analysis.name].code_version for analysis in ANALYSES
    }


def test_only_assets_of_the_fleet_are_automated() -> None:
    assert {name for name, spec in SPECS.items() if spec.automation_condition} == set(FLEET)


def test_every_asset_is_checked_and_every_check_reads_as_a_sentence() -> None:
    assert {check.asset_key.to_user_string() for check in CHECKS} == set(SPECS)
    for check in CHECKS:
        assert len(check.name.split("_")) >= 4, check.name
        assert check.description and check.description.endswith("."), check.name


def test_checks_of_a_run_have_a_verdict_for_each_run() -> None:
    partitioned = {check.asset_key.to_user_string() for check in CHECKS if check.partitions_def is not None}
    assert partitioned == set(PER_RUN)


def test_what_would_make_every_result_wrong_stops_the_run() -> None:
    blocking = {check.name for check in CHECKS if check.blocking}
    assert blocking >= {
        "at_least_one_record_is_readable",
        "every_byte_is_accounted_for",
        "every_column_is_there_with_its_type",
        "stored_rows_equal_validated_records",
        "every_collective_is_one_row",
    }
    # What is odd in the data is shown, and never keeps a report from its reader.
    assert blocking.isdisjoint({"no_line_is_rejected", "values_are_in_their_domain", "all_records_have_one_schema"})


def test_the_jobs_cover_what_their_names_say() -> None:
    def nodes(job: str) -> set[str]:
        return {key.to_user_string() for key in defs.resolve_job_def(job).asset_layer.executable_asset_keys}

    assert nodes("ingest_run") == set(PER_RUN)
    assert nodes("analyse_run") == set(PER_RUN[4:])


def test_sensors_run_from_the_start() -> None:
    repository = defs.get_repository_def()
    running = {
        sensor.name for sensor in repository.sensor_defs if sensor.default_status == dg.DefaultSensorStatus.RUNNING
    }
    assert running == {"finished_runs", "fleet_automation"}


def test_nothing_but_the_shell_knows_dagster() -> None:
    package = Path(nixt_pipeline.__file__).parent
    shell = {package / "definitions.py", *(package / "defs").glob("*.py")}
    imports = re.compile(r"^\s*(?:import|from)\s+dagster", re.MULTILINE)
    importing = {path for path in package.rglob("*.py") if imports.search(path.read_text(encoding="utf-8"))}
    assert importing - shell == set()
    assert importing & shell


def test_heavy_libraries_are_not_imported_with_the_definitions() -> None:
    # Each costs seconds at the start of every process that Dagster launches.
    package = Path(nixt_pipeline.__file__).parent
    heavy = re.compile(r"^(?:import|from)\s+(?:great_expectations|matplotlib|pandas)", re.MULTILINE)
    assert [path for path in package.rglob("*.py") if heavy.search(path.read_text(encoding="utf-8"))] == []
