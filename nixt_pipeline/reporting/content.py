"""Everything a run's report is made of, read from the store. Nothing is computed here that an analysis computes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.manifest import Manifest, read_manifest

SHOWN_REJECTS = 20


@dataclass(frozen=True)
class Reading:
    """How an analysis introduces itself."""

    title: str
    question: str
    reading: str


@dataclass(frozen=True)
class Glossed:
    """One column for the glossary."""

    name: str
    role: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class RunContent:
    """The report's input.

    `tables` holds the small tables of `STORE_QUERIES` and every computed result by the analysis' name; a result that is
    absent was not computed. `paths` says where each table lies as Parquet. `diagnosis` is the findings' JSON, None for
    a run that was not diagnosed.
    """

    manifest: Manifest
    tables: Mapping[str, pa.Table]
    readings: Mapping[str, Reading] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    glossary: tuple[Glossed, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    diagnosis: dict[str, Any] | None = None

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table; empty when it was not computed."""
        found = self.tables.get(table)
        return [] if found is None else found.to_pylist()


# What the report needs beside the analyses. Each is small whatever the size of the run, or cut with the total kept.
STORE_QUERIES = {
    "files": "SELECT * FROM files ORDER BY path",
    "rejects": f"SELECT * FROM rejects ORDER BY outcome DESC, path, byte_offset LIMIT {SHOWN_REJECTS}",
    "reject_reasons": """
        SELECT outcome, reason, count(*) AS lines, sum(bytes)::BIGINT AS bytes, count(DISTINCT file_id) AS files
        FROM rejects GROUP BY ALL ORDER BY outcome DESC, lines DESC, reason
    """,
    "communicators": "SELECT * FROM communicators ORDER BY incarnation, n_ranks DESC, comm_name, id",
    "processes": "SELECT * FROM processes ORDER BY incarnation, hostname, pid",
    "hosts": "SELECT * FROM hosts ORDER BY incarnation, hostname",
    "writers": """
        SELECT inspector_output_format_version, git_rev, rec_mechanism,
               count(*) AS records,
               count(DISTINCT hash(hostname, pid)) FILTER (hostname IS NOT NULL AND pid IS NOT NULL) AS processes,
               count(*) FILTER (kind = 'p2p') AS p2p_records, count(comm_name) AS named_records,
               count(coll_algo) AS algo_records
        FROM stored_events GROUP BY ALL ORDER BY records DESC, inspector_output_format_version, git_rev, rec_mechanism
    """,
    "timing": """
        SELECT kind, coll_timing_source, sum(records)::BIGINT AS records,
               coalesce(sum(records) FILTER (coll_exec_time_us IS NULL), 0)::BIGINT AS unusable_times
        FROM kernel_times GROUP BY ALL ORDER BY kind, records DESC, coll_timing_source
    """,
}


def load_content(run: str, settings: Settings) -> RunContent:
    """Read what the report of `run` shows. Raises `UnknownRunError` for a run that is not in the store."""
    from nixt_pipeline.analysis import ANALYSES

    manifest = read_manifest(settings, run)
    computed = [name for name in (item.name for item in ANALYSES) if layout.results_path(settings, name, run).exists()]
    with catalog.open_run(settings, run) as con:
        con.execute(
            "SET preserve_insertion_order = true"
        )  # the results' own order, so that equal input gives equal pages
        tables = {name: con.sql(query).to_arrow_table() for name, query in STORE_QUERIES.items()}
        for name in computed:
            # The name is one of the package's own analyses, and an identifier cannot be a bound parameter.
            tables[name] = con.sql(f'SELECT * FROM "{name}"').to_arrow_table()
    paths = {item.name: str(layout.results_path(settings, item.name, run)) for item in ANALYSES}
    paths["findings"] = str(layout.results_path(settings, "findings", run))
    paths |= {name: str(manifest.directory(settings) / f"{name}.parquet") for name in _STORED}
    readings = {item.name: Reading(item.title, item.question, item.reading) for item in ANALYSES}
    thresholds = settings.thresholds
    return RunContent(manifest, tables, readings, paths, _glossary(), thresholds, stored_diagnosis(run, settings))


_STORED = ("files", "rejects", "communicators", "processes", "hosts")


def _glossary() -> tuple[Glossed, ...]:
    """Every column of every table and result, first meaning first, each name and meaning once."""
    from nixt_pipeline.analysis import ANALYSES
    from nixt_pipeline.inspector import taxonomy

    groups = [taxonomy.EVENT_DERIVED_COLUMNS, *taxonomy.TABLES.values(), *(analysis.columns for analysis in ANALYSES)]
    glossed = {(c.name, c.meaning): Glossed(c.name, c.role.value, c.unit, c.meaning) for group in groups for c in group}
    return tuple(sorted(glossed.values(), key=lambda entry: entry.name))
