import json
import os

import pyarrow as pa
import pytest

from nixt_pipeline.quality.reports import judge_report
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_table, write_text
from nixt_pipeline.store.manifest import write_manifest
from nixt_pipeline_tests.quality.examples import MANIFEST


@pytest.fixture
def published(settings: Settings) -> Settings:
    """A published run with one result and a report that stands alone."""
    write_manifest(MANIFEST, settings)
    write_table(pa.table({"run": ["job"]}), layout.results_path("coverage", "job", settings))
    write_text(
        '<p>fine, see <a href="https://example.org">there</a></p>', layout.report_dir("job", settings) / "index.html"
    )
    table = {"csv": "data/coverage.csv", "parquet": "data/coverage.parquet"}
    write_text(json.dumps({"tables": {"coverage": table}}), layout.report_dir("job", settings) / "report.json")
    for path in table.values():
        write_text("", layout.report_dir("job", settings) / path)
    return settings


def failing(settings: Settings, *analyses: str) -> set[str]:
    return {verdict.rule for verdict in judge_report("job", settings, analyses) if not verdict.passed}


def test_a_report_with_every_result_passes(published: Settings) -> None:
    assert failing(published, "coverage") == set()


def test_an_analysis_that_was_not_computed_is_named(published: Settings) -> None:
    assert failing(published, "coverage", "hot_kernels") == {"the_report_shows_every_analysis"}


def test_a_result_older_than_the_events_is_found(published: Settings) -> None:
    os.utime(layout.results_path("coverage", "job", published), ns=(0, 0))
    assert failing(published, "coverage") == {"the_report_shows_every_analysis"}


def test_a_page_that_fetches_something_is_found(published: Settings) -> None:
    page = layout.report_dir("job", published) / "index.html"
    write_text('<script src="https://example.org/plot.js"></script>', page)
    assert failing(published, "coverage") == {"the_report_needs_no_network"}


def test_a_table_that_is_not_beside_the_page_is_found(published: Settings) -> None:
    (layout.report_dir("job", published) / "data" / "coverage.csv").unlink()
    assert failing(published, "coverage") == {"every_table_of_the_report_can_be_downloaded"}
