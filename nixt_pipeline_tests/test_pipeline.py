"""The steps of a run are the same, in the same order and with the same outcome, with Dagster and without."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.api import analyse_run, ingest_run, report_run
from nixt_pipeline.definitions import build_definitions, defs
from nixt_pipeline.defs.partitions import PARTITION_NAME
from nixt_pipeline.pipeline import ANALYSE, INGEST, REPORT
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import ingest, layout
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline_tests.defs.conftest import RUN, drop_job, execute, resource

STEPS = (*INGEST, *ANALYSE, *REPORT)


def test_every_step_reads_what_earlier_ones_made() -> None:
    names = [step.name for step in STEPS]
    assert all(set(step.reads) <= set(names[:position]) for position, step in enumerate(STEPS))


def test_the_assets_of_a_run_are_the_steps_and_depend_on_what_they_read() -> None:
    assets = {
        spec.key.to_user_string(): {dep.asset_key.to_user_string() for dep in spec.deps}
        for spec in defs.resolve_all_asset_specs()
        if spec.partitions_def is not None
    }
    assert assets == {step.name: {*step.reads} for step in STEPS}


def test_an_ingest_takes_the_steps_in_their_order(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    by_function = dict(zip(("take_inventory", "validate_records", "type_events", "publish_run"), INGEST, strict=True))
    for function, step in by_function.items():
        original = getattr(ingest, function)

        def noted(*arguments: Any, original: Any = original, name: str = step.name) -> Any:
            taken.append(name)
            return original(*arguments)

        monkeypatch.setattr(ingest, function, noted)
    ingest_run(drop_job(settings.landing_dir), settings)
    assert taken == [step.name for step in INGEST]


def test_progress_names_the_steps_of_an_analysis(settings: Settings) -> None:
    ingest_run(drop_job(settings.landing_dir), settings)
    told: list[tuple[int, int, str]] = []
    analyse_run(RUN, settings, lambda done, steps, name: told.append((done, steps, name)))
    names = [*(step.name for step in ANALYSE), "done"]
    assert told == [(done, len(ANALYSE), name) for done, name in enumerate(names)]


@pytest.mark.slow
def test_a_run_ends_in_the_same_files_with_dagster_and_without(tmp_path: Path) -> None:
    def settings(name: str) -> Settings:
        folders = {key: tmp_path / name / key.removesuffix("_dir") for key in ("data_dir", "reports_dir")}
        return load_settings(landing_dir=tmp_path / "landing", workers=1, **folders)

    alone, with_dagster = settings("alone"), settings("with_dagster")
    directory = drop_job(tmp_path / "landing")
    ingest_run(directory, alone)
    analyse_run(RUN, alone)
    report_run(RUN, alone)
    with dg.DagsterInstance.ephemeral() as instance:
        assert execute(build_definitions(resource(with_dagster)), instance).success

    def files(of: Settings) -> set[str]:
        roots = (read_manifest(RUN, of).directory(of), layout.report_dir(RUN, of))
        return {path.relative_to(root).as_posix() for root in roots for path in root.rglob("*") if path.is_file()}

    assert files(alone) == files(with_dagster)
    for step in ANALYSE[1:]:
        a, b = (pq.read_table(layout.results_path(step.name, RUN, of)) for of in (alone, with_dagster))
        assert a.equals(b), step.name
    diagnoses = [
        json.loads(layout.results_path("findings", RUN, of).with_suffix(".json").read_text())
        for of in (alone, with_dagster)
    ]
    assert diagnoses[0] == diagnoses[1]


@pytest.mark.slow
def test_dagster_reuses_what_was_computed_without_it(tmp_path: Path) -> None:
    folders = {f"{name}_dir": tmp_path / name for name in ("landing", "data", "reports")}
    settings = load_settings(workers=1, quiet_period_s=0, **folders)
    ingest_run(drop_job(settings.landing_dir), settings)
    analyse_run(RUN, settings)
    report_run(RUN, settings)

    def written() -> dict[Path, int]:
        generation = read_manifest(RUN, settings).directory(settings)
        roots = (generation, layout.report_dir(RUN, settings), settings.data_dir / "results")
        return {path: path.stat().st_mtime_ns for root in roots for path in root.rglob("*") if RUN in str(path)}

    before = written()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(PARTITION_NAME, [RUN])
        job = build_definitions(resource(settings)).resolve_job_def("analyse_run")
        assert job.execute_in_process(instance=instance, partition_key=RUN).success
    assert written() == before
