"""A file, or a link that leads nowhere, where the store or the reports have a directory: every command names it."""

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.api import analyse_run, ingest_run, report_run
from nixt_pipeline.cli import main
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline_tests.records import collective, write_log

RUN = "job"


@pytest.fixture
def stored(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("landing", "data", "reports"):
        monkeypatch.setenv(f"NIXT_{name.upper()}_DIR", str(getattr(settings, f"{name}_dir")))
    monkeypatch.setenv("NIXT_WORKERS", "1")
    write_log(settings.landing_dir / RUN / "a-pid1.log", *(collective(sn=n) for n in range(20)))
    ingest_run(settings.landing_dir / RUN, settings)
    return settings


def invoke(*arguments: str) -> Result:
    warn_once.cache_clear()
    return CliRunner().invoke(main, [*arguments])


def put(kind: str, place: Path) -> str:
    """Put something else in the place of a directory, and return what is said of it."""
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        place.write_text("not a directory")
        return f"{place} is a file where a directory belongs; move it away, then run the command again"
    place.symlink_to(place.parent / "nowhere")
    return f"{place} is a link that leads nowhere where a directory belongs; move it away, then run the command again"


@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("below", ["", "store", "store/run=job"])
def test_what_is_in_the_place_of_a_stored_run_is_named(
    stored: Settings, kind: str, below: str, caplog: pytest.LogCaptureFixture
) -> None:
    words = put(kind, stored.data_dir / below)
    for asked in (("diagnose", RUN), ("report", RUN), ("ingest", str(stored.landing_dir / RUN))):
        result = invoke(*asked)
        assert (result.exit_code, words in result.stderr) == (2, True), (asked, result.stderr)
    # What lists all runs stops when there is nothing to list, and leaves out one.
    for command in (("runs",), ("hosts",), ("baselines",), ("sql", "SELECT count(*) FROM events")):
        caplog.clear()
        result = invoke(*command)
        said = result.stderr + caplog.text
        assert (result.exit_code, words in said) == (0 if "run=" in below else 2, True), (command, said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("below", ["results", "results/summary_histogram", "results/findings"])
def test_what_is_in_the_place_of_results_is_named(stored: Settings, kind: str, below: str) -> None:
    words = put(kind, stored.data_dir / below)
    result = invoke("report", RUN)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("below", ["", "job", "job/data"])
def test_what_is_in_the_place_of_a_report_is_named(stored: Settings, kind: str, below: str) -> None:
    words = put(kind, stored.reports_dir / below)
    result = invoke("report", RUN)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "link"])
def test_check_names_what_is_in_the_place_of_any_directory(stored: Settings, kind: str) -> None:
    analyse_run(RUN, stored)
    report_run(RUN, stored)
    data, reports = stored.data_dir, stored.reports_dir
    generation = read_manifest(RUN, stored).directory(stored)
    places = [generation / "events", generation, data / "results" / "coverage", data / "store" / "run=job"]
    places += [data / "results", data / "store", data, reports / "job" / "data", reports / "job", reports]
    for place in places:
        kept = place.with_name("kept")
        place.rename(kept)
        words = put(kind, place)
        for command in (("check",), ("check", "--repair")):
            result = invoke(*command)
            said = result.stdout + result.stderr
            assert (result.exit_code, words in said) == (2, True), (command, place, said)
            if place in (generation, generation / "events"):
                break  # these are rebuilt
        place.unlink()
        kept.rename(place)
    assert invoke("check").exit_code == 0


def test_a_store_that_may_not_be_listed_is_not_called_empty(stored: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored.data_dir / "store"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != store)
    result = invoke("runs")
    assert result.exit_code == 2
    assert f"{store} may not be listed; ask its owner for permission to read it" in result.stderr


def test_an_empty_directory_is_nothing_in_the_way(stored: Settings) -> None:
    shutil.rmtree(stored.data_dir)
    stored.data_dir.mkdir()
    assert invoke("ingest", str(stored.landing_dir / RUN)).exit_code == 0
    assert invoke("diagnose", RUN).exit_code == 0
