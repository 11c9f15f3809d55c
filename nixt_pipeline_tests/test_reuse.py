"""A result that would come out the same is not computed again; what changed is, and only that."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.analysis import ANALYSES
from nixt_pipeline.diagnosis.findings import Finding, ranked
from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import layout
from nixt_pipeline_tests.records import collective, write_log

RUN = "job"
NAMES = [analysis.name for analysis in ANALYSES]
EVERYTHING = Counter(["cells", *NAMES, "findings", "comparison", "report"])
NOTHING = Counter(["comparison"])  # With other runs, which may have changed.


def job(settings: Settings, records: int = 39) -> None:
    """The logs of two of four ranks, of which the second lost a record."""
    for rank in range(2):
        numbers = [n for n in range(records) if (rank, n) != (1, 7)]
        lines = [collective(sn=n, rank=rank, pid=rank + 1, time_us=100 + n % 3) for n in numbers]
        write_log(settings.landing_dir / RUN / f"node-01-pid{rank + 1}.log", *lines)
    nixt.ingest_run(settings.landing_dir / RUN, settings)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landing directory, store and reports with the job, as the directory of the `settings` of a test."""
    root = tmp_path_factory.mktemp("stored")
    folders = {f"{name}_dir": root / name for name in ("landing", "data", "reports")}
    settings = load_settings(**folders, workers=1)
    job(settings)
    nixt.analyse_run(RUN, settings)
    nixt.report_run(RUN, settings)
    return root


@pytest.fixture
def computed(stored: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Counter[str]]:
    """Reports on a stored run and tells what that took."""
    counts: Counter[str] = Counter()
    # What takes longest of a page is not what this is about.
    monkeypatch.setattr("nixt_pipeline.reporting.report.report_sections", lambda _content: ())

    def count(module: str, function: str, name: Callable[..., str]) -> None:
        original = getattr(import_module(f"nixt_pipeline.{module}"), function)

        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name(*arguments)] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(f"nixt_pipeline.{module}.{function}", counted)

    count("pipeline", "build_cells", lambda *_: "cells")
    count("analysis.failures", "materialise", lambda analysis, *_: analysis.name)
    count("diagnosis.results", "diagnose", lambda *_: "findings")
    count("pipeline", "with_regression", lambda *_: "comparison")
    count("reporting.report", "report_html", lambda *_: "report")

    def report(settings: Settings, again: bool = False) -> Counter[str]:
        counts.clear()
        nixt.analyse_run(RUN, settings, again=again)
        nixt.report_run(RUN, settings, again=again)
        return counts.copy()

    shutil.copytree(stored, settings.data_dir.parent, dirs_exist_ok=True)
    return partial(report, settings)


def with_limits(settings: Settings, package: str, **limits: Any) -> Settings:
    return settings.model_copy(update={"thresholds": settings.thresholds.changed(package, **limits)})


def test_nothing_is_computed_twice(computed: Callable[..., Counter[str]]) -> None:
    assert computed() == NOTHING
    assert computed(again=True) == EVERYTHING


def test_one_more_record_makes_everything_again(computed: Callable[..., Counter[str]], settings: Settings) -> None:
    job(settings, records=40)
    assert computed() == EVERYTHING


def test_a_new_version_of_an_analysis_makes_its_result_again(
    computed: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tuple(
        replace(analysis, version="new") if analysis.name == "coverage" else analysis for analysis in ANALYSES
    )
    monkeypatch.setattr("nixt_pipeline.pipeline.ANALYSES", changed)
    assert computed() == NOTHING + Counter(["coverage", "report"])
    assert computed() == NOTHING


def test_other_limits_make_the_findings_again(settings: Settings, computed: Callable[..., Counter[str]]) -> None:
    report: Any = computed
    other = with_limits(settings, "diagnosis", min_cost_share=settings.thresholds.diagnosis.min_cost_share * 2)
    assert report.func(other) == NOTHING + Counter(["findings", "report"])
    assert report.func(settings) == NOTHING + Counter(["findings", "report"])


def test_another_count_of_how_often_findings_are_right_makes_them_again(
    computed: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert computed() == NOTHING
    monkeypatch.setattr(
        "nixt_pipeline.diagnosis.results.delivered_counts", lambda: "kind,severity,ambiguous,right,seen"
    )
    assert computed()["findings"] == 1
    assert computed() == NOTHING


def test_a_limit_of_what_the_views_show_concerns_everything(
    settings: Settings, computed: Callable[..., Counter[str]]
) -> None:
    report: Any = computed
    assert report.func(with_limits(settings, "ingest", max_message_bytes=1)) == EVERYTHING


@pytest.mark.parametrize("damaged", ["coverage", "findings"])
def test_a_damaged_result_is_made_again(
    settings: Settings, computed: Callable[..., Counter[str]], damaged: str
) -> None:
    path = layout.results_path(damaged, RUN, settings)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    # It comes out as it was, so the report stays.
    assert computed() == NOTHING + Counter([damaged])


@pytest.mark.parametrize("name", ["index.html", "report.json", "data/coverage.csv"])
@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_report_that_is_damaged_is_drawn_again(
    settings: Settings, computed: Callable[..., Counter[str]], name: str, damage: str
) -> None:
    path = layout.report_dir(RUN, settings) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[:-9] if damage == "cut" else content[:-9] + b"123456789")
    assert computed() == NOTHING + Counter(["report"])
    assert path.stat().st_size > 0 and computed() == NOTHING


def test_what_another_ingest_publishes_meanwhile_is_not_taken_for_what_was_read(
    settings: Settings, computed: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    materialise = import_module("nixt_pipeline.analysis.failures").materialise

    def after_another_ingest(analysis: Any, *arguments: Any) -> None:
        if analysis.name == "coverage":
            job(settings, records=45)
        materialise(analysis, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr("nixt_pipeline.analysis.failures.materialise", after_another_ingest)
        computed(again=True)
    made = computed()
    assert made["cells"] == 1 and all(made[name] == 1 for name in NAMES)
    assert computed() == NOTHING


def test_a_regression_comes_and_goes_with_the_baseline(
    settings: Settings, computed: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the comparison adds is no part of what is reused."""
    alone = stored_diagnosis(RUN, settings)
    assert alone is not None
    finding = Finding(
        kind="regression", severity="P1", level="run", evidence="It is slower.", counter_evidence="It is newer.",
        next_step="Compare them.",
    )  # fmt: skip

    def slower(diagnosis: Any, _settings: Settings) -> Any:
        findings = (*diagnosis.findings, finding)
        return replace(diagnosis, verdict="findings", findings=findings, verdict_alone=diagnosis.verdict)

    with monkeypatch.context() as patched:
        patched.setattr("nixt_pipeline.pipeline.with_regression", slower)
        assert computed() == Counter(["report"])
        stored = stored_diagnosis(RUN, settings)
        assert stored is not None and stored.findings == ranked([*alone.findings, finding])
        assert computed() == Counter()
    assert computed() == NOTHING + Counter(["report"])
    assert stored_diagnosis(RUN, settings) == alone


def test_a_diagnosis_is_read_where_it_is_stored(
    settings: Settings, computed: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise AssertionError("diagnosed again")

    # 77 records of 4 x 39, for two ranks left no log: the first answer has the digits that are stored.
    first = nixt.diagnose_run(RUN, settings, again=True)
    assert (first, first.coverage.capture_rate) == (stored_diagnosis(RUN, settings), 0.4936)
    monkeypatch.setattr("nixt_pipeline.diagnosis.results.diagnose", fails)
    assert nixt.diagnose_run(RUN, settings) == stored_diagnosis(RUN, settings)
    with pytest.raises(AssertionError):
        nixt.diagnose_run(RUN, settings, again=True)
