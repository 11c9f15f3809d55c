"""The index of all runs: one row for each, with how far its data can be trusted and a link to its report."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.diagnosis import verdict_words
from nixt_pipeline.reporting.text import NOT_AVAILABLE, count, duration, iso, percent, plain, utc
from nixt_pipeline.reporting.views import Cell, Spec, TableView
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.manifest import Manifest, list_runs

COLUMNS = (
    Spec("Run", "run"),
    Spec("Findings", "verdict"),
    Spec("First record", "first_dump_us", utc),
    Spec("Span", "span_us", duration, numeric=True),
    Spec("GPUs (processes)", "processes", count, numeric=True),
    Spec("Hosts", "hosts", count, numeric=True),
    Spec("Records", "records", count, numeric=True),
    Spec("Capture rate", "capture_rate", percent, numeric=True),
    Spec("Rejected lines", "rejected_lines", count, numeric=True),
    Spec("Launches", "incarnations", count, numeric=True),
    Spec("Ingested", "ingested_at", iso),
)

_SIZES = """
SELECT run, count(DISTINCT (hostname, pid)) AS processes, count(DISTINCT hostname) AS hosts,
       min(first_dump_us) AS first_dump_us, max(last_dump_us) - min(first_dump_us) AS span_us
FROM processes GROUP BY run
"""

# Weighted by the records that were due, as in the run's own report.
_CAPTURE = """
SELECT run, sum(capture_rate * n_ranks * sn_expected) / sum(n_ranks * sn_expected::DOUBLE) AS capture_rate
FROM coverage WHERE capture_rate IS NOT NULL GROUP BY run
"""


def render_index(settings: Settings) -> Path:
    """Write `reports/index.html` over every published run and return its path. Without runs it says how to get one."""
    path = settings.reports_dir / "index.html"
    write_text(index_html(run_rows(settings)), path)
    return path


def run_rows(settings: Settings) -> list[dict[str, Any]]:
    """One row for each published run, newest first."""
    manifests = list_runs(settings)
    if not manifests:
        return []
    with catalog.open_store(settings) as con:
        found = con.sql(_SIZES).to_arrow_table().to_pylist()
        views = {name for (name,) in con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
        captured = con.sql(_CAPTURE).to_arrow_table().to_pylist() if "coverage" in views else []
    sizes, rates = {row["run"]: row for row in found}, {row["run"]: row["capture_rate"] for row in captured}
    rows = [
        _run_row(manifest, sizes.get(manifest.run, {}), rates.get(manifest.run), settings) for manifest in manifests
    ]
    return sorted(rows, key=lambda row: (-(row.get("first_dump_us") or 0), row["run"]))


def _run_row(
    manifest: Manifest, sizes: dict[str, Any], capture_rate: float | None, settings: Settings
) -> dict[str, Any]:
    report = layout.report_dir(settings, manifest.run) / "index.html"
    link = (
        f"{quote(report.parent.relative_to(settings.reports_dir).as_posix())}/index.html" if report.exists() else None
    )
    return {
        **sizes,
        "run": manifest.run,
        "records": manifest.records.get("stored", 0),
        "capture_rate": capture_rate,
        "rejected_lines": manifest.rejected_lines,
        "incarnations": manifest.incarnations,
        "ingested_at": manifest.ingested_at,
        "verdict": verdict_words(stored_diagnosis(manifest.run, settings)),
        "link": link,
    }


def index_html(rows: list[dict[str, Any]]) -> str:
    """The page for `rows` of `run_rows`."""
    cells = tuple(tuple(_cell(spec, row) for spec in COLUMNS) for row in rows)
    return pages.render("index.html.j2", title="Runs", table=TableView("All runs", COLUMNS, cells, len(rows)))


def _cell(spec: Spec, row: dict[str, Any]) -> Cell:
    value = row.get(spec.key)
    text = NOT_AVAILABLE if value is None else spec.words(value)
    link = row["link"] if spec.key == "run" else None
    return Cell(plain(text), "" if value is None else str(value), link)
