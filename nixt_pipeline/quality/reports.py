"""Rules for reports: they are there, can be read alone, show every analysis, and have their tables beside them."""

import json
from collections.abc import Iterator, Sequence

from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import read_manifest

STANDS_ALONE = Rule(
    "the_report_needs_no_network",
    "Images, styles and scripts are inside the page, so that it can be sent and opened anywhere.",
)
COMPLETE = Rule(
    "the_report_shows_every_analysis",
    "Each analysis has a result at least as new as the events it was computed from; a report never computes what is "
    "missing.",
)
TRACEABLE = Rule(
    "every_table_of_the_report_can_be_downloaded",
    "Each table listed in report.json is next to the page as CSV and Parquet, so that every number can be traced.",
)
REPORT_RULES = (STANDS_ALONE, COMPLETE, TRACEABLE)

# How a page would fetch something when it is opened. Plain links to other pages are not fetched.
_FETCHES = ('src="http', "src='http", '<link rel="stylesheet"', "@import", "url(http")


def judge_report(run: str, settings: Settings, analyses: Sequence[str]) -> Iterator[Verdict]:
    """Apply `REPORT_RULES` to the report of `run`. Raises `FileNotFoundError` when there is none."""
    directory = layout.report_dir(run, settings)
    page = (directory / "index.html").read_text(encoding="utf-8")
    found = [text for text in _FETCHES if text in page]
    fetched = f"the page would fetch: {', '.join(found)}" if found else "the page fetches nothing"
    yield STANDS_ALONE.verdict(not found, fetched, size_bytes=len(page.encode("utf-8")))
    published = (layout.store_dir(run, settings) / layout.MANIFEST).stat().st_mtime_ns
    problems = [problem for name in analyses if (problem := _problem(name, run, settings, published))]
    yield COMPLETE.verdict(
        not problems,
        "; ".join(problems)
        or f"all {len(analyses)} analyses were computed from generation {read_manifest(run, settings).generation}",
        analyses=len(analyses),
        missing=len(problems),
    )
    tables = json.loads((directory / "report.json").read_text(encoding="utf-8"))["tables"]
    files = [table[form] for table in tables.values() for form in ("csv", "parquet")]
    absent = [name for name in files if not (directory / name).exists()]
    traced = f"missing next to the page: {', '.join(absent)}" if absent else f"all {len(tables)} tables are in place"
    yield TRACEABLE.verdict(not absent, traced, tables=len(tables), files_missing=len(absent))


def _problem(analysis: str, run: str, settings: Settings, published_ns: int) -> str | None:
    """What is wrong with the result of an analysis, if anything."""
    path = layout.results_path(analysis, run, settings)
    if not path.exists():
        return f"{analysis} was not computed"
    return f"{analysis} is older than the events" if path.stat().st_mtime_ns < published_ns else None
