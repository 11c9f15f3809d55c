"""The run catalog: one small row for each published run, from which cross-run views are made.

    <data>/results/run_catalog.parquet

Only runs that are new or have changed are looked at again, so that a new run costs what that run costs, not what the
archive costs.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nixt_pipeline.inspector.taxonomy import BOOL, F64, I32, I64, RUN, STRING, Column, Role, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.files import write_table
from nixt_pipeline.store.manifest import Manifest, list_runs

# Part of a row's state: raise it when a row would come out differently, and every row is made anew.
VERSION = "1"

# Results that a row is made of beside the store.
_RESULTS = ("summary_histogram", "coverage")

RUN_CATALOG_COLUMNS: tuple[Column, ...] = (
    RUN,
    Column("name", STRING, Role.IDENTIFIER, "", "Name of the run from run.json; null without one"),
    Column("model", STRING, Role.CONFIGURATION, "", "Model from run.json; null without one"),
    Column("source_dir", STRING, Role.IDENTIFIER, "", "Directory the logs came from", nullable=False),
    Column("ingested_at", STRING, Role.COUNTER, "", "ISO time (UTC) of the ingest", nullable=False),
    Column("first_dump_us", I64, Role.COUNTER, "us", "Earliest plausible write time"),
    Column("last_dump_us", I64, Role.COUNTER, "us", "Latest plausible write time"),
    Column("incarnations", I32, Role.COUNTER, "", "Launches in the directory", nullable=False),
    Column("hosts", I32, Role.COUNTER, "hosts", "Distinct hosts", nullable=False),
    Column("processes", I32, Role.COUNTER, "processes", "Distinct processes", nullable=False),
    Column("communicators", I32, Role.COUNTER, "", "Distinct communicators", nullable=False),
    Column("records", I64, Role.COUNTER, "records", "Stored records", nullable=False),
    Column("bytes_read", I64, Role.COUNTER, "bytes", "Log bytes after decompression", nullable=False),
    Column("rejected_lines", I64, Role.COUNTER, "lines", "Lines that are no record", nullable=False),
    Column("payload_bytes", F64, Role.DERIVED, "bytes", "Sum of the observed message sizes; null before the analysis"),
    Column("rank_time_us", F64, Role.DERIVED, "us", "Sum of the observed execution times; null before the analysis"),
    Column(
        "capture_rate",
        F64,
        Role.DERIVED,
        "",
        "Share of the expected collective records that were captured; null if unknown",
    ),
    Column("complete_share", F64, Role.DERIVED, "", "Share of the collectives that every rank logged; null if unknown"),
    Column("analysed", BOOL, Role.DERIVED, "", "Whether the results that this row is made of exist", nullable=False),
    Column(
        "state", STRING, Role.IDENTIFIER, "", "Which store generation and results the row was made from", nullable=False
    ),
)

_SIZES = """
SELECT
    count(DISTINCT hostname) AS hosts,
    count(DISTINCT (hostname, pid)) AS processes,
    min(first_dump_us) AS first_dump_us,
    max(last_dump_us) AS last_dump_us,
    (SELECT count(*) FROM communicators) AS communicators
FROM processes
"""

_SUMMARY = "SELECT sum(payload_bytes) AS payload_bytes, sum(exec_time_us) AS rank_time_us FROM summary_histogram"

_COVERAGE = """
SELECT
    -- In floating point: a broken record can give a sequence number near 2^63.
    sum(capture_rate * n_ranks * sn_expected::DOUBLE) / sum(n_ranks * sn_expected::DOUBLE) AS capture_rate,
    sum(complete_cells) / nullif(sum(cells), 0) AS complete_share
FROM coverage
"""


@dataclass(frozen=True)
class RunCatalog:
    """The catalog, and which of its runs were looked at anew."""

    table: pa.Table
    renewed: tuple[str, ...]


def run_catalog_path(settings: Settings) -> Path:
    """The file of the run catalog."""
    return settings.data_dir / "results" / "run_catalog.parquet"


def update_run_catalog(settings: Settings) -> RunCatalog:
    """Bring the run catalog up to date with the published runs, and write it. Runs that are gone are dropped."""
    path = run_catalog_path(settings)
    known = {row["run"]: row for row in pq.read_table(path).to_pylist()} if path.exists() else {}
    rows, renewed = [], []
    for manifest in list_runs(settings):
        state = _state(manifest, settings)
        row = known.get(manifest.run)
        if row is None or row["state"] != state:
            row = _row(manifest, settings, state)
            renewed.append(manifest.run)
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=schema(RUN_CATALOG_COLUMNS))
    write_table(table, path)
    return RunCatalog(table, tuple(renewed))


def _state(manifest: Manifest, settings: Settings) -> str:
    """Changes when the run was ingested or analysed again."""
    paths = [layout.results_path(settings, name, manifest.run) for name in _RESULTS]
    times = [str(path.stat().st_mtime_ns) if path.exists() else "-" for path in paths]
    return " ".join((VERSION, manifest.generation, manifest.ingested_at, *times))


def _row(manifest: Manifest, settings: Settings, state: str) -> dict[str, Any]:
    """Look at one run. Its results are absent when its analysis has not run, or failed."""
    with closing(catalog.open_run(settings, manifest.run)) as con:
        found: dict[str, Any] = {}
        for name, sql in (("", _SIZES), ("summary_histogram", _SUMMARY), ("coverage", _COVERAGE)):
            if not name or layout.results_path(settings, name, manifest.run).exists():
                found |= con.sql(sql).to_arrow_table().to_pylist()[0]
    return {
        **found,
        "run": manifest.run,
        "name": manifest.run_info.get("name"),
        "model": manifest.run_info.get("model"),
        "source_dir": manifest.source_dir,
        "ingested_at": manifest.ingested_at,
        "incarnations": manifest.incarnations,
        "records": manifest.records["stored"],
        "bytes_read": manifest.bytes["read"],
        "rejected_lines": manifest.rejected_lines,
        "analysed": all(layout.results_path(settings, name, manifest.run).exists() for name in _RESULTS),
        "state": state,
    }
