"""The report of one run: store -> `RunContent` -> views -> HTML."""

from pathlib import Path

from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.content import RunContent, load_content
from nixt_pipeline.reporting.diagnosis import findings_section
from nixt_pipeline.reporting.quality import facts_section, quality_section
from nixt_pipeline.reporting.sections import ANALYSIS_SECTIONS, COVERAGE, analysis_section, communicators_section
from nixt_pipeline.reporting.summary import tiles
from nixt_pipeline.reporting.text import iso
from nixt_pipeline.reporting.views import SectionView
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.layout import report_dir


def render_run_report(run: str, settings: Settings) -> Path:
    """Write the HTML report of `run` and return its path.

    Reads materialised results only: one that does not exist is shown as not computed. Raises `UnknownRunError` for a
    run that is not in the store.
    """
    path = report_dir(settings, run) / "index.html"
    write_text(report_html(load_content(run, settings)), path)
    return path


def report_html(content: RunContent) -> str:
    """The page for `content`. Equal content gives equal pages."""
    return pages.render(
        "run.html.j2",
        title=content.manifest.run,
        ingested_at=iso(content.manifest.ingested_at),
        tiles=tiles(content),
        sections=report_sections(content),
        glossary=content.glossary,
    )


def report_sections(content: RunContent) -> tuple[SectionView, ...]:
    """The sections in the order of the page: first what the run is, what was found, and how far that can be trusted."""
    return (
        facts_section(content),
        findings_section(content),
        quality_section(content),
        analysis_section(content, COVERAGE),
        *(analysis_section(content, section) for section in ANALYSIS_SECTIONS),
        communicators_section(content),
    )
