"""A detector, an analysis or a section that fails is told, and takes nothing else with it."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.registry import DETECTORS, LATE
from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.diagnosis.wording.text import as_text
from nixt_pipeline.quality.findings import judge_findings
from nixt_pipeline.reporting.content import load_content
from nixt_pipeline.reporting.report import report_html
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

# The package exports functions with the names of these modules.
DIAGNOSE = import_module("nixt_pipeline.diagnosis.diagnose")
PIPELINE = import_module("nixt_pipeline.pipeline")
FAILURES = import_module("nixt_pipeline.analysis.failures")
RUN = "job_2.30.7_8ranks"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The fixture job, in which rank 5 is late, with its cells."""
    folder = tmp_path_factory.mktemp("attempts")
    settings = load_settings(data_dir=folder / "data", reports_dir=folder / "reports", workers=1)
    nixt.ingest_run(FIXTURES / RUN, settings)
    nixt.diagnose_run(RUN, settings)
    return settings


def fails(*args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("'>=' not supported\nbetween instances")


def instead(monkeypatch: pytest.MonkeyPatch, looks_for: str, find: Any) -> None:
    """Let a detector find this."""
    changed = (replace(detector, find=find) if detector.looks_for == looks_for else detector for detector in DETECTORS)
    monkeypatch.setattr(DIAGNOSE, "DETECTORS", tuple(changed))


OTHERS = [detector.looks_for for detector in DETECTORS if not detector.unless and detector.looks_for != LATE]


@pytest.mark.parametrize("part", [*OTHERS, "capture_findings", "resolution_of", "read_launch_lags", "read_write_times"])
def test_a_detector_that_fails_is_a_finding_and_the_late_rank_is_still_named(
    part: str, stored: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if part in OTHERS:
        instead(monkeypatch, part, fails)
    else:
        monkeypatch.setattr(DIAGNOSE, part, fails)
    found = DIAGNOSE.diagnose(RUN, stored)
    late, failed = found.findings
    assert (late.kind, late.processes) == ("late-arrival", ("gpu-node-02-pid32820",))
    assert (failed.kind, failed.severity, found.verdict) == ("not-assessed", "info", "findings")
    assert failed.evidence.startswith("could not be assessed: ")
    assert failed.evidence.endswith(": TypeError: '>=' not supported")
    assert "Traceback" in caplog.text
    assert "could not be assessed" in as_text(found)
    assert all(verdict.passed for verdict in judge_findings(found.to_json()))


@pytest.mark.parametrize("part", ["measure", "observe", LATE])
def test_without_what_could_have_raised_an_alarm_a_run_is_not_assessable(
    part: str, stored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if part == LATE:
        instead(monkeypatch, part, fails)
    else:
        monkeypatch.setattr(DIAGNOSE, part, fails)
    found = DIAGNOSE.diagnose(RUN, stored)
    assert found.verdict == "not-assessable"
    assert found.reason.startswith("a defect of nixt kept it from looking for: ")
    assert [finding.kind for finding in found.findings] == ["not-assessed"]


def test_what_only_informs_leaves_a_run_without_alarm_healthy(
    stored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds: dict[str, Any] = {LATE: lambda *_: [], "work in turns": lambda *_: [], "uneven work": fails}
    changed = (replace(detector, find=finds.get(detector.looks_for, detector.find)) for detector in DETECTORS)
    monkeypatch.setattr(DIAGNOSE, "DETECTORS", tuple(changed))
    monkeypatch.setattr(DIAGNOSE, "not_resolvable", lambda *_: "")
    assert DIAGNOSE.diagnose(RUN, stored).verdict == "none-found"


def test_errors_about_files_are_no_finding(stored: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_is_full(*args: Any) -> NoReturn:
        raise OSError("no space left on device")

    instead(monkeypatch, "hangs", disk_is_full)
    with pytest.raises(OSError, match="no space left"):
        DIAGNOSE.diagnose(RUN, stored)


@pytest.mark.slow
def test_an_analysis_a_comparison_and_a_section_that_fail_are_told_and_the_page_is_written(
    stored: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    materialise = FAILURES.materialise

    def fails_for_one(analysis: Any, *arguments: Any) -> Any:
        return fails() if analysis.name == "hot_kernels" else materialise(analysis, *arguments)

    nixt.analyse_run(RUN, stored)
    results = Path(stored.data_dir / "results" / "hot_kernels")
    assert list(results.glob("*.parquet"))
    monkeypatch.setattr(FAILURES, "materialise", fails_for_one)
    monkeypatch.setattr(PIPELINE, "with_regression", fails)
    nixt.analyse_run(RUN, stored, again=True)
    assert not list(results.glob("*.parquet"))
    diagnosis = stored_diagnosis(RUN, stored)
    assert diagnosis is not None
    assert [finding.kind for finding in diagnosis.findings] == ["late-arrival", "not-assessed", "not-assessed"]

    sizes = import_module("nixt_pipeline.reporting.sections.sizes")
    report = import_module("nixt_pipeline.reporting.report")
    monkeypatch.setattr(sizes, "draw_heat_map", fails)
    monkeypatch.setattr(report, "tiles", fails)
    monkeypatch.setattr(report, "facts_section", fails)
    html = report_html(load_content(RUN, stored))
    assert "could not be assessed: comparison with earlier runs: TypeError" in html
    assert "could not be assessed: the analysis hot_kernels: TypeError" in html
    assert html.count("<strong>Could not be drawn</strong>") == 2
    assert html.count("<strong>Not computed.</strong>") == 1
    assert "It failed: TypeError" in html
    assert "<strong>could not be drawn</strong> <span>key numbers</span>" in html

    monkeypatch.setattr(FAILURES, "materialise", materialise)
    nixt.analyse_run(RUN, stored)
    assert "Not computed." not in report_html(load_content(RUN, stored))


def test_of_many_launches_the_last_and_the_largest_are_diagnosed_and_the_others_counted(
    tmp_path: Path, settings: Settings
) -> None:
    # Five launches eleven minutes apart, of 2, 4, 2, 2 and 2 records.
    for launch, records in enumerate((2, 4, 2, 2, 2)):
        stamp = EPOCH_US + launch * 660_000_000
        lines = [collective(sn=n, comm=f"0x{launch}", pid=100 + launch, at_us=stamp + n) for n in range(records)]
        write_log(tmp_path / "job" / f"node-01-pid{100 + launch}.log", *lines)
    limits = settings.thresholds.changed("diagnosis", max_diagnosed_launches=2)
    few = settings.model_copy(update={"thresholds": limits})
    run = nixt.ingest_run(tmp_path / "job", few).run
    told = [finding.evidence for finding in nixt.diagnose_run(run, few).findings if finding.kind == "not-assessed"]
    assert told == [
        "3 further launches of at most 2 records each were not diagnosed: the 2 that were are the last one and those"
        " with most records."
    ]


def test_of_many_groups_without_a_common_process_the_largest_are_examined_for_hangs_and_the_others_counted(
    tmp_path: Path, settings: Settings
) -> None:
    # Three pairs of processes that share nothing.
    lines = [
        collective(sn=n, comm=f"0x{pair}", rank=rank, host=f"node-{pair}{rank}", at_us=EPOCH_US + n)
        for pair in range(3)
        for n in range(2)
        for rank in range(2)
    ]
    write_log(tmp_path / "job" / "all.log", *lines)
    limits = settings.thresholds.changed("diagnosis", max_diagnosed_parts=2)
    few = settings.model_copy(update={"thresholds": limits})
    run = nixt.ingest_run(tmp_path / "job", few).run
    told = [finding.evidence for finding in nixt.diagnose_run(run, few).findings if finding.kind == "not-assessed"]
    assert told == [
        "1 further groups of communicators that share no process, of at most 2 processes each, were not examined for"
        " hangs: the 2 that were are those with most processes."
    ]
