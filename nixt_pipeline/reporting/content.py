"""Everything a run's report is made of, read from the store. Nothing is computed here that an analysis computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.analysis import REPORTED
from nixt_pipeline.analysis.failures import noted_error
from nixt_pipeline.diagnosis.findings import Diagnosis
from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.inspector import taxonomy, views
from nixt_pipeline.inspector.taxonomy import Column
from nixt_pipeline.reporting.coverage import Coverage, coverage_of
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.manifest import Manifest, read_manifest

# Rejected lines that a report carries; the store has all.
KEPT_REJECTS = 1000


@dataclass(frozen=True)
class Reading:
    """How an analysis introduces itself."""

    title: str
    question: str
    reading: str


@dataclass(frozen=True)
class Source:
    """How a table of the report was made: the SQL text, the values bound to its `$names`, and what else there is to
    say. `path` is where it lies in the store."""

    name: str
    title: str
    sql: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    path: str = ""
    note: str = ""


@dataclass(frozen=True)
class RunContent:
    """The report's input.

    `tables` holds the small tables of `STORE_QUERIES` and every computed result by the analysis' name; a result that is
    absent was not computed. `sources` says how each was made, in the order of the appendix. `diagnosis` is None for a
    run that was not diagnosed.
    """

    manifest: Manifest
    tables: Mapping[str, pa.Table]
    readings: Mapping[str, Reading] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    glossary: tuple[Column, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    diagnosis: Diagnosis | None = None
    errors: Mapping[str, str] = field(default_factory=dict)  # of analyses that failed

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table; empty when it was not computed."""
        found = self.tables.get(table)
        return [] if found is None else found.to_pylist()

    def values(self, table: str, column: str) -> list[Any]:
        """The distinct values of a column, without null; empty when the table was not computed."""
        found = self.tables.get(table)
        return [] if found is None else pc.unique(found[column].drop_null()).to_pylist()

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the job the records cover."""
        return coverage_of(self.tables)

    def onsets_us(self) -> list[int]:
        """When the findings began, for marks in figures over time."""
        findings = self.diagnosis.findings if self.diagnosis else ()
        return sorted({finding.onset_us for finding in findings if finding.onset_us is not None})


# What the report needs beside the analyses: title and SQL. Each is small whatever the size of the run, or cut with the
# total kept.
STORE_QUERIES = {
    "files": ("Files of the dump directory", "SELECT * FROM files ORDER BY path"),
    "rejects": (
        "The first lines that are not records",
        "SELECT * FROM rejects ORDER BY outcome DESC, path, byte_offset LIMIT $kept_rejects",
    ),
    "reject_reasons": (
        "Why lines are not records",
        """
        SELECT outcome, reason, count(*) AS lines, sum(bytes)::BIGINT AS bytes, count(DISTINCT file_id) AS files
        FROM rejects GROUP BY ALL ORDER BY outcome DESC, lines DESC, reason
        """,
    ),
    "communicators": (
        "Communicators",
        "SELECT * FROM communicators ORDER BY incarnation, n_ranks DESC, comm_name, id",
    ),
    "processes": ("Processes", "SELECT * FROM processes ORDER BY incarnation, hostname, pid, global_rank"),
    "hosts": ("Hosts", "SELECT * FROM hosts ORDER BY incarnation, hostname"),
    "writers": (
        "Who wrote the records",
        """
        SELECT inspector_output_format_version, git_rev, rec_mechanism,
               count(*) AS records,
               count(DISTINCT hash(hostname, pid)) FILTER (hostname IS NOT NULL AND pid IS NOT NULL) AS processes,
               count(*) FILTER (kind = 'p2p') AS p2p_records, count(comm_name) AS named_records,
               count(coll_algo) AS algo_records
        FROM stored_events GROUP BY ALL ORDER BY records DESC, inspector_output_format_version, git_rev, rec_mechanism
        """,
    ),
    "timing": (
        "How times were measured",
        """
        SELECT kind, coll_timing_source, sum(records)::BIGINT AS records,
               coalesce(sum(records) FILTER (coll_exec_time_us IS NULL), 0)::BIGINT AS unusable_times
        FROM kernel_times GROUP BY ALL ORDER BY kind, records DESC, coll_timing_source
        """,
    ),
}
_PARAMETERS: dict[str, dict[str, object]] = {"rejects": {"kept_rejects": KEPT_REJECTS}}
_STORED = ("files", "rejects", "communicators", "processes", "hosts")


def load_content(run: str, settings: Settings) -> RunContent:
    """Read what the report of `run` shows. Raises `UnknownRunError` for a run that is not in the store."""
    manifest = read_manifest(run, settings)
    results = [*(analysis.name for analysis in REPORTED), "findings"]
    computed = [name for name in results if layout.results_path(name, run, settings).exists()]
    with catalog.open_run(run, settings) as con:
        # The results' own order, so that equal input gives equal pages.
        con.execute("SET preserve_insertion_order = true")
        tables = {
            name: con.sql(query, params=_PARAMETERS.get(name)).to_arrow_table()
            for name, (_, query) in STORE_QUERIES.items()
        }
        for name in computed:
            # The name is one of the package's own analyses, and an identifier cannot be a bound parameter.
            tables[name] = con.sql(f'SELECT * FROM "{name}"').to_arrow_table()
    readings = {item.name: Reading(item.title, item.question, item.reading) for item in REPORTED}
    return RunContent(
        manifest,
        tables,
        readings,
        _sources(manifest, computed, settings),
        _glossary(),
        settings.thresholds,
        stored_diagnosis(run, settings),
        {item.name: error for item in REPORTED if (error := noted_error(item.name, run, settings)) is not None},
    )


def _sources(manifest: Manifest, computed: Sequence[str], settings: Settings) -> tuple[Source, ...]:
    """How every table of the report was made: the findings, the analyses, and what is read from the store itself."""
    found = []
    if "findings" in computed:
        path = str(layout.results_path("findings", manifest.run, settings))
        note = "Made by the rules in `docs/diagnosis.md`, from the collective cells and the events."
        found.append(Source("findings", "Findings", path=path, note=note))
    for item in REPORTED:
        if item.name in computed:
            sql = "\n".join((item.shares.parameters, item.shares.sql, item.sql)) if item.shares else item.sql
            note = "In three steps: the shares of the work, the SQL of a share, and their union." if item.shares else ""
            path = str(layout.results_path(item.name, manifest.run, settings))
            found.append(Source(item.name, item.title, sql, item.parameters(settings), path, note))
    for name, (title, query) in STORE_QUERIES.items():
        path = str(manifest.directory(settings) / f"{name}.parquet") if name in _STORED else ""
        found.append(Source(name, title, query, _PARAMETERS.get(name, {}), path))
    return tuple(found)


def _glossary() -> tuple[Column, ...]:
    """Every column of every table and result, first meaning first, each name and meaning once."""
    groups = [views.EVENT_DERIVED_COLUMNS, *taxonomy.TABLES.values(), *(analysis.columns for analysis in REPORTED)]
    glossed = {(column.name, column.meaning): column for group in groups for column in group}
    return tuple(sorted(glossed.values(), key=lambda column: column.name))
