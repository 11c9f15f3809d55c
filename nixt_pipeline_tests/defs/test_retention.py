"""The nightly job drops what the limits say, and a dry run drops nothing."""

import dagster as dg
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.definitions import build_definitions
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.fleet.retention_policy import RETENTION
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import Dropped, dropped, mark_dropped
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline_tests.defs.conftest import RUN, drop_job, resource


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Without readers to wait for."""
    return settings.model_copy(update={"unlink_grace_s": 0})


def run_job(nixt: NixtSettings, instance: dg.DagsterInstance, dry_run: bool) -> list[dict[str, object]]:
    job = build_definitions(nixt).resolve_job_def("drop_old_events")
    config = {"ops": {"retention": {"config": {"dry_run": dry_run}}}}
    assert job.execute_in_process(instance=instance, run_config=config).success
    rows: list[dict[str, object]] = pq.read_table(RETENTION.path(load_settings(**nixt.overrides))).to_pylist()
    return rows


def test_a_dry_run_says_what_the_job_would_drop(settings: Settings, instance: dg.DagsterInstance) -> None:
    ingest(drop_job(settings.landing_dir), RUN, settings)
    limited = resource(settings)
    limited = NixtSettings(overrides={**limited.overrides, "retention_days": 1})
    generation = read_manifest(RUN, settings).directory(settings)
    # As after a kill in the middle: marked, and still there. Nothing else of a run that was not analysed would go.
    mark_dropped(generation, Dropped("2026-01-01T00:00:00+00:00", "test", 1))
    assert [row["action"] for row in run_job(limited, instance, dry_run=True)] == ["drop"]
    assert layout.table_files(generation, "events")
    assert [row["action"] for row in run_job(limited, instance, dry_run=False)] == ["dropped"]
    assert layout.table_files(generation, "events") == []
    assert dropped(generation) is not None


def test_without_limits_nothing_is_dropped(
    settings: Settings, nixt: NixtSettings, instance: dg.DagsterInstance
) -> None:
    ingest(drop_job(settings.landing_dir), RUN, settings)
    assert [row["action"] for row in run_job(nixt, instance, dry_run=False)] == ["keep"]
