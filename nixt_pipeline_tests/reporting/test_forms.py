"""Other forms of a report: PDF and Markdown."""

import shutil
import stat
from pathlib import Path

import pytest

from nixt_pipeline.reporting.markdown import report_markdown
from nixt_pipeline.reporting.pdf import PdfError, print_pdf
from nixt_pipeline_tests.reporting import examples


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "report" / "index.html"
    path.parent.mkdir()
    path.write_text("<!DOCTYPE html><title>r</title><p>Report", encoding="utf-8")
    return path


def _browser(directory: Path, script: str) -> None:
    """A program called chromium that runs `script`."""
    path = directory / "chromium"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_without_a_browser_the_error_says_what_to_do(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PdfError, match=r"needs Chromium or Chrome.*or print .*index.html from any browser"):
        print_pdf(page)


@pytest.mark.parametrize(("script", "message"), [("exit 3", "could not print"), ("exit 0", "wrote no PDF")])
def test_a_browser_that_fails_is_named(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    _browser(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PdfError, match=f"{tmp_path}/chromium {message}"):
        print_pdf(page)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")
def test_a_page_becomes_a_pdf_beside_it(page: Path) -> None:
    path = print_pdf(page)
    assert path == page.with_suffix(".pdf")
    assert path.read_bytes().startswith(b"%PDF-")


def test_the_markdown_has_the_verdict_the_findings_and_the_key_numbers() -> None:
    text = report_markdown(examples.content(diagnosis=examples.diagnosis(examples.finding())))
    assert text.startswith("# job-1\n\nSlow transfers: gpu-1, costing 22 % of the time since 2025-08-30 20:20:08 UTC.")
    assert "## P1 open a ticket: Slow transfers: gpu-1\n\n- **Where**: gpu-1 (host)\n" in text
    assert "- **Next**: Check the network card.\n" in text
    assert "- **Operations captured**: 100 %\n" in text
    assert "- **42 GB/s** median bus bandwidth" in text


def test_markup_in_a_name_is_escaped_in_the_markdown() -> None:
    name = "[x](javascript:alert(1))<img>*"
    text = report_markdown(examples.content(diagnosis=examples.diagnosis(examples.finding(hosts=[name]))))
    assert "\\[x\\](javascript:alert(1))\\<img\\>\\*" in text
    assert "[x](" not in text
