from typing import Any

import pyarrow as pa

from nixt_pipeline.inspector.taxonomy import schema
from nixt_pipeline.quality.fleet import judge_catalog, judge_index
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_table, write_text
from nixt_pipeline.store.manifest import write_manifest
from nixt_pipeline.store.run_catalog import RUN_CATALOG_COLUMNS, run_catalog_path
from nixt_pipeline_tests.quality.test_reports import MANIFEST

RUN: dict[str, Any] = {
    "run": "job",
    "source_dir": "/logs/job",
    "ingested_at": "2026-01-01T00:00:00+00:00",
    "incarnations": 1,
    "baseline": False,
    "gpus": 1,
    "hosts": 1,
    "processes": 1,
    "communicators": 1,
    "records": 1,
    "bytes_read": 1,
    "rejected_lines": 0,
    "analysed": True,
    "state": "s",
}


def failing_catalog(settings: Settings, *rows: dict[str, Any]) -> set[str]:
    write_table(pa.Table.from_pylist(list(rows), schema=schema(RUN_CATALOG_COLUMNS)), run_catalog_path(settings))
    return {verdict.rule for verdict in judge_catalog(settings) if not verdict.passed}


def failing_index(settings: Settings, page: str) -> set[str]:
    write_text(page, settings.reports_dir / "index.html")
    return {verdict.rule for verdict in judge_index(settings) if not verdict.passed}


def test_a_sound_catalog_passes(settings: Settings) -> None:
    assert failing_catalog(settings, RUN, RUN | {"run": "other", "source_dir": "/logs/other"}) == set()


def test_a_run_without_results_is_found(settings: Settings) -> None:
    assert failing_catalog(settings, RUN | {"analysed": False}) == {"every_run_is_analysed"}


def test_one_directory_under_two_names_is_found(settings: Settings) -> None:
    assert failing_catalog(settings, RUN, RUN | {"run": "copy"}) == {"no_directory_is_ingested_twice"}


def test_an_overview_with_every_run_and_its_report_passes(settings: Settings) -> None:
    write_manifest(MANIFEST, settings)
    write_text("", layout.report_dir(settings, "job") / "index.html")
    assert failing_index(settings, "<td>job</td>") == set()


def test_a_run_missing_from_the_overview_is_found(settings: Settings) -> None:
    write_manifest(MANIFEST, settings)
    write_text("", layout.report_dir(settings, "job") / "index.html")
    assert failing_index(settings, "<td></td>") == {"the_overview_lists_every_run"}


def test_a_run_without_a_report_is_found(settings: Settings) -> None:
    write_manifest(MANIFEST, settings)
    assert failing_index(settings, "<td>job</td>") == {"the_overview_lists_every_run"}
