"""The report of one run: store -> `RunContent` -> views -> HTML, with the tables and a JSON for programs beside it."""

from pathlib import Path

from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.content import RunContent, load_content
from nixt_pipeline.reporting.diagnosis import (
    SHOWN_CARDS,
    all_findings_section,
    cards,
    verdict_class,
    verdict_sentence,
)
from nixt_pipeline.reporting.downloads import downloads, report_json, write_downloads
from nixt_pipeline.reporting.index import LINE_FILE, run_line
from nixt_pipeline.reporting.quality import facts_section, quality_section
from nixt_pipeline.reporting.sections import ANALYSIS_SECTIONS, COVERAGE, analysis_section, communicators_section
from nixt_pipeline.reporting.summary import key_facts, meters, raw_data, tiles
from nixt_pipeline.reporting.text import iso
from nixt_pipeline.reporting.views import SectionView
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.layout import report_dir


def render_run_report(run: str, settings: Settings) -> Path:
    """Write the HTML report of `run`, its tables and `report.json`, and return the path of the page.

    Reads materialised results only: one that does not exist is shown as not computed. Raises `UnknownRunError` for a
    run that is not in the store.
    """
    content, directory = load_content(run, settings), report_dir(settings, run)
    write_downloads(content, directory / "data")
    write_text(report_json(content), directory / "report.json")
    write_text(run_line(content), directory / LINE_FILE)
    write_text(report_html(content), directory / "index.html")
    return directory / "index.html"


def report_html(content: RunContent) -> str:
    """The page for `content`. Equal content gives equal pages."""
    diagnosis = content.diagnosis
    found = diagnosis["findings"] if diagnosis else []
    calm_title, calm_words = _calm(content)
    return pages.render(
        "run.html.j2",
        title=content.manifest.run,
        ingested_at=iso(content.manifest.ingested_at),
        verdict=verdict_sentence(diagnosis),
        verdict_class=verdict_class(diagnosis),
        cards=cards(content),
        more_findings=max(0, len(found) - SHOWN_CARDS),
        calm_title=calm_title,
        calm_words=calm_words,
        meters=meters(content),
        key_facts=key_facts(content),
        raw_data=raw_data(content),
        tiles=tiles(content),
        sections=report_sections(content),
        downloads=downloads(content),
        thresholds=sorted(content.thresholds.model_dump().items()),
        glossary=content.glossary,
    )


def _calm(content: RunContent) -> tuple[str, str]:
    """Title and words of the first card of a run without findings that call for anything; empty when there are."""
    diagnosis = content.diagnosis
    if diagnosis is not None and diagnosis["verdict"] == "findings":
        return "", ""
    if diagnosis is None:
        return "Not diagnosed", f"Run: nixt diagnose {content.manifest.run}"
    if diagnosis["verdict"] == "not-assessable":
        return (
            "Too little was recorded to judge",
            "Nobody is cleared and nobody is blamed. The meters say what is missing.",
        )
    return (
        "Nothing to do",
        f"{diagnosis['coverage']['usable_collectives']:,} collectives were compared: no late rank, no slow transfer, "
        "no hang stands out. Faults below the thresholds, and what the log did not see, remain possible.",
    )


def report_sections(content: RunContent) -> tuple[SectionView, ...]:
    """The sections in the order of the page, after the first screen."""
    everything = all_findings_section(content)
    return (
        *(() if everything is None else (everything,)),
        *(analysis_section(content, section) for section in ANALYSIS_SECTIONS),
        quality_section(content),
        analysis_section(content, COVERAGE),
        communicators_section(content),
        facts_section(content),
    )
