"""Rules across runs: everything in the store is analysed, and listed in the overview."""

from collections.abc import Iterator
from html import escape

import pyarrow.parquet as pq

from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import published_runs
from nixt_pipeline.store.run_catalog import run_catalog_path

ALL_ANALYSED = Rule(
    "every_run_is_analysed",
    "A run in the store without results: its analysis failed, or has not run yet. Materialise it with the job "
    "`analyse_run`.",
)
NO_DATA_SHARED = Rule(
    "no_directory_is_ingested_twice",
    "Two runs from one directory are one run under two names; figures over all runs count it twice.",
)
CATALOG_RULES = (ALL_ANALYSED, NO_DATA_SHARED)

ALL_LISTED = Rule(
    "the_overview_lists_every_run",
    "Every published run is on the page and every report it links to is there.",
)
INDEX_RULES = (ALL_LISTED,)

_SHOWN = 12


def judge_catalog(settings: Settings) -> Iterator[Verdict]:
    """Apply `CATALOG_RULES` to the run catalog."""
    rows = pq.read_table(run_catalog_path(settings)).to_pylist()
    waiting = [row["run"] for row in rows if not row["analysed"]]
    yield Verdict(
        ALL_ANALYSED.name,
        not waiting,
        f"{len(waiting)} of {len(rows)} runs have no results",
        {"runs": len(waiting)},
        tuple({"run": run} for run in waiting[:_SHOWN]),
    )
    by_directory: dict[str, list[str]] = {}
    for row in rows:
        by_directory.setdefault(row["source_dir"], []).append(row["run"])
    shared = {directory: runs for directory, runs in by_directory.items() if len(runs) > 1}
    yield Verdict(
        NO_DATA_SHARED.name,
        not shared,
        f"{len(shared)} directories were ingested under several names",
        {"directories": len(shared)},
        tuple({"directory": directory, "runs": ", ".join(runs)} for directory, runs in list(shared.items())[:_SHOWN]),
    )


def judge_index(settings: Settings) -> Iterator[Verdict]:
    """Apply `INDEX_RULES` to the overview page."""
    page = (settings.reports_dir / "index.html").read_text(encoding="utf-8")
    published = published_runs(settings)
    absent = [run for run in published if escape(run) not in page]
    unreported = [run for run in published if not (layout.report_dir(settings, run) / "index.html").exists()]
    yield Verdict(
        ALL_LISTED.name,
        not absent and not unreported,
        f"{len(absent)} of {len(published)} runs are missing from the page, {len(unreported)} have no report",
        {"runs_missing": len(absent), "reports_missing": len(unreported)},
        tuple({"run": run} for run in [*absent, *unreported][:_SHOWN]),
    )
