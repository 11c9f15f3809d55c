"""The report of one run: store -> `RunContent` -> views -> HTML, with the tables and a JSON for programs beside it."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar

from pydantic import TypeAdapter
from xxhash import xxh3_128_hexdigest

import nixt_pipeline
from nixt_pipeline.analysis import REPORTED
from nixt_pipeline.analysis.failures import noted_error
from nixt_pipeline.diagnosis.wording.text import verdict_sentence
from nixt_pipeline.isolation import Failure, attempt
from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.content import RunContent, load_content
from nixt_pipeline.reporting.downloads import downloads, report_json, write_downloads
from nixt_pipeline.reporting.index import LINE_FILE, run_line
from nixt_pipeline.reporting.sections import ANALYSIS_SECTIONS, COVERAGE, analysis_section
from nixt_pipeline.reporting.sections.findings import SHOWN_CARDS, URGENCY, all_findings_section, cards, verdict_class
from nixt_pipeline.reporting.sections.quality import quality_section
from nixt_pipeline.reporting.sections.run import communicators_section, facts_section
from nixt_pipeline.reporting.summary import key_facts, meters, raw_data, tiles
from nixt_pipeline.reporting.text import iso
from nixt_pipeline.reporting.views import Card, Fact, Meter, SectionView, Tile
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import unread
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.layout import report_dir
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.origins import origin
from nixt_pipeline.store.reading import read_json
from nixt_pipeline.store.seals import Seal, damage, derived_notes, seal_files

P = ParamSpec("P")
T = TypeVar("T")

_FAILED = "could not be drawn"
_PACKAGE = Path(nixt_pipeline.__file__).parent
# What the report was made from, and the seals of its files.
_SEALS = "seals.json"


@dataclass(frozen=True)
class _Note:
    made_from: str
    files: dict[str, Seal]


_NOTE = TypeAdapter(_Note)


def render_run_report(run: str, settings: Settings) -> Path:
    """Write the HTML report of `run`, its tables and `report.json`, and return the path of the page.

    Reads materialised results only: one that does not exist is shown as not computed. Raises `UnknownRunError` for a
    run that is not in the store.
    """
    made_from = _made_from(run, settings)
    content, directory = load_content(run, settings), report_dir(run, settings)
    write_downloads(content, directory / "data")
    write_text(report_json(content), directory / "report.json")
    write_text(run_line(content), directory / LINE_FILE)
    write_text(report_html(content), directory / "index.html")
    written = (directory / name for name in ("index.html", "report.json", LINE_FILE))
    files = seal_files(directory, (*written, *(directory / "data").iterdir()))
    write_text(json.dumps(asdict(_Note(made_from, files)), indent=1) + "\n", directory / _SEALS)
    return directory / "index.html"


def current_report(run: str, settings: Settings, again: bool = False) -> Path:
    """The page of `run` as `render_run_report` draws it, which is called unless it would come out the same, or
    `again`."""
    if again or not _is_current(run, settings):
        return render_run_report(run, settings)
    return report_dir(run, settings) / "index.html"


def _is_current(run: str, settings: Settings) -> bool:
    directory = report_dir(run, settings)
    noted = read_json(directory / _SEALS, _NOTE.validate_python, "the next report makes it again")
    if noted is None or noted.made_from != _made_from(run, settings):
        return False
    return not any(damage(directory / name, [sealed], content=True) for name, sealed in noted.files.items())


def _made_from(run: str, settings: Settings) -> str:
    """The fingerprint of what the report shows: the manifest, every result, and the code that draws it."""
    errors = [noted_error(analysis.name, run, settings) for analysis in REPORTED]
    limits = settings.thresholds.model_dump(mode="json")
    return origin(_code(), asdict(read_manifest(run, settings)), derived_notes(run, settings), errors, limits)


@cache
def _code() -> str:
    """The fingerprint of this package: it has no version that changes with each of its words and pictures."""
    files = sorted(path for path in _PACKAGE.rglob("*") if path.suffix in (".py", ".j2", ".css", ".js"))
    return origin([(path.relative_to(_PACKAGE).as_posix(), xxh3_128_hexdigest(path.read_bytes())) for path in files])


def report_html(content: RunContent) -> str:
    """The page for `content`. Equal content gives equal pages."""
    diagnosis = content.diagnosis
    found = diagnosis.findings if diagnosis else ()
    calm_title, calm_words = _calm(content)
    return pages.render(
        "run.html.j2",
        title=content.manifest.run,
        ingested_at=iso(content.manifest.ingested_at),
        verdict=verdict_sentence(diagnosis),
        verdict_class=verdict_class(diagnosis),
        cards=_part(cards, content, Card("failed", "info", URGENCY["info"], f"Findings {_FAILED}", ())),
        more_findings=max(0, len(found) - SHOWN_CARDS),
        calm_title=calm_title,
        calm_words=calm_words,
        meters=_part(meters, content, Meter("Coverage", None, _FAILED)),
        key_facts=_part(key_facts, content, Fact("Key facts", _FAILED)),
        raw_data=raw_data(content),
        tiles=_part(tiles, content, Tile(_FAILED, "key numbers")),
        sections=report_sections(content),
        downloads=downloads(content),
        thresholds=content.thresholds.by_name(),
        glossary=content.glossary,
    )


def _calm(content: RunContent) -> tuple[str, str]:
    """Title and words of the first card of a run without findings that call for anything; empty when there are."""
    diagnosis = content.diagnosis
    if diagnosis is not None and diagnosis.verdict == "findings":
        return "", ""
    if diagnosis is None:
        return "Not diagnosed", f"Run: nixt diagnose {content.manifest.run}"
    if not content.manifest.records.get("stored"):
        words = unread.first_words(content.manifest)
        return "No record was found", f"{words[0].upper()}{words[1:]}."
    if diagnosis.verdict == "not-assessable":
        return (
            "Too little was recorded to judge",
            "No rank is cleared and none is blamed. The meters show what is missing.",
        )
    return (
        "Nothing to do",
        f"{diagnosis.coverage.usable_collectives:,} collectives were compared: no late rank, no slow transfer, "
        "no hang stands out. Faults below the thresholds, and what was not recorded, remain possible.",
    )


def report_sections(content: RunContent) -> tuple[SectionView, ...]:
    """The sections in the order of the page, after the first screen; one that fails says so in its place."""
    sections = (
        _section("all-findings", "All findings", all_findings_section, content),
        *(_section(item.anchor, item.title, analysis_section, content, item) for item in ANALYSIS_SECTIONS),
        _section("quality", "Data quality", quality_section, content),
        _section(COVERAGE.anchor, COVERAGE.title, analysis_section, content, COVERAGE),
        _section("communicators", "Communicators", communicators_section, content),
        _section("run", "The run", facts_section, content),
    )
    return tuple(section for section in sections if section is not None)


def _section(
    anchor: str, title: str, build: Callable[P, SectionView | None], *args: P.args, **kwargs: P.kwargs
) -> SectionView | None:
    built = attempt(f"the section {title!r} of the report", build, *args, **kwargs)
    if isinstance(built, Failure):
        return SectionView(anchor, title, state="failed", notes=(built.error,))
    return built


def _part(build: Callable[[RunContent], tuple[T, ...]], content: RunContent, instead: T) -> tuple[T, ...]:
    """A part of the first screen, or what stands in its place when it fails."""
    built = attempt(f"the part {build.__name__} of the report", build, content)
    return (instead,) if isinstance(built, Failure) else built
