"""The run catalog: one small row for each published run, from which the fleet is seen.

    <data>/results/run_catalog.parquet

Only runs that are new or have changed are looked at again, so that a new run costs what that run costs, not what the
archive costs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.fleet.tables import FleetTable
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I32, I64, RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.integrity import is_readable, list_runs, require_readable
from nixt_pipeline.store.manifest import Manifest
from nixt_pipeline.store.reading import query, query_readable

# Part of a row's state: raise it when a row would come out differently, and every row is made anew.
VERSION = "4"

# Results that a row is made of, next to the store.
_RESULTS = ("summary_histogram", "coverage", "findings")
# What people call the axes of a job's parallelism, by the role of its communicators.
_AXES = {"tensor": "tp", "context": "cp", "expert": "ep", "pipeline": "pp", "data": "dp"}
_STRINGS = pa.list_(pa.string())

RUN_CATALOG = FleetTable(
    "run_catalog",
    RUN,
    Column("name", STRING, Role.IDENTIFIER, "", "Name of the run from run.json; null without one"),
    Column("model", STRING, Role.CONFIGURATION, "", "Model from run.json; null without one"),
    Column("tags", _STRINGS, Role.IDENTIFIER, "", "Tags from run.json"),
    Column("baseline", BOOL, Role.CONFIGURATION, "", "Whether run.json marks the run as a baseline", nullable=False),
    Column("gpus", I32, Role.CONFIGURATION, "", "GPUs from run.json, or the number of processes", nullable=False),
    Column("parallelism", STRING, Role.CONFIGURATION, "", "Such as tp=4 pp=2 dp=4; null if unknown"),
    Column("parallelism_source", STRING, Role.DERIVED, "", "run.json, or inferred from the communicators"),
    Column("nccl_version", STRING, Role.CONFIGURATION, "", "NCCL version from run.json; null without one"),
    Column("git_revs", STRING, Role.CONFIGURATION, "", "Builds of the plugin, separated by spaces"),
    Column("format_versions", STRING, Role.CONFIGURATION, "", "Versions of the log format, separated by spaces"),
    Column("timing_sources", STRING, Role.CONFIGURATION, "", "Where execution times come from, separated by spaces"),
    Column("source_dir", STRING, Role.IDENTIFIER, "", "Directory the logs came from", nullable=False),
    Column("ingested_at", STRING, Role.COUNTER, "", "ISO time (UTC) of the ingest", nullable=False),
    Column("first_dump_us", I64, Role.COUNTER, "us", "Earliest plausible write time"),
    Column("last_dump_us", I64, Role.COUNTER, "us", "Latest plausible write time"),
    Column("duration_us", I64, Role.DERIVED, "us", "From the earliest to the latest plausible write time"),
    Column("incarnations", I32, Role.COUNTER, "", "Launches in the directory", nullable=False),
    Column("hosts", I32, Role.COUNTER, "hosts", "Distinct hosts", nullable=False),
    Column("host_names", _STRINGS, Role.IDENTIFIER, "", "The hosts' names, sorted", nullable=False),
    Column("lowest_pids", pa.list_(I64), Role.IDENTIFIER, "", "Lowest process id on each, in the order of host_names"),
    Column("node_names", _STRINGS, Role.IDENTIFIER, "", "Machine behind each, from run.json or a folder node=<name>"),
    Column("processes", I32, Role.COUNTER, "processes", "Distinct processes", nullable=False),
    Column("communicators", I32, Role.COUNTER, "", "Distinct communicators", nullable=False),
    Column("records", I64, Role.COUNTER, "records", "Stored records", nullable=False),
    Column("bytes_read", I64, Role.COUNTER, "bytes", "Log bytes after decompression", nullable=False),
    Column("rejected_lines", I64, Role.COUNTER, "lines", "Lines that are not records", nullable=False),
    Column("payload_bytes", F64, Role.DERIVED, "bytes", "Sum of the observed message sizes; null before the analysis"),
    Column("rank_time_us", F64, Role.DERIVED, "us", "Sum of the observed execution times; null before the analysis"),
    Column("capture_rate", F64, Role.DERIVED, "", "Share of the expected collective records that were captured"),
    Column("complete_share", F64, Role.DERIVED, "", "Share of the collectives logged by every rank; null if unknown"),
    Column("verdict", STRING, Role.DERIVED, "", "findings, none-found or not-assessable; null before the diagnosis"),
    Column("worst_severity", STRING, Role.DERIVED, "", "Highest severity among the findings; null without any"),
    Column("findings", I32, Role.COUNTER, "", "Number of findings; null before the diagnosis"),
    Column("regressed", BOOL, Role.DERIVED, "", "Whether a finding says that it is slower than its baseline"),
    Column("analysed", BOOL, Role.DERIVED, "", "Whether the results that this row is made of exist", nullable=False),
    Column("state", STRING, Role.IDENTIFIER, "", "Store generation and results behind the row", nullable=False),
)

# Each text reads one small table of all runs at once: opening a run's views takes longer than reading its rows.
_SIZES = """
SELECT
    run,
    count(DISTINCT hostname) AS hosts,
    coalesce(list(DISTINCT hostname ORDER BY hostname) FILTER (WHERE hostname IS NOT NULL), []) AS host_names,
    count(DISTINCT process) AS processes,
    min(first_dump_us) AS first_dump_us,
    max(last_dump_us) AS last_dump_us,
    max(last_dump_us) - min(first_dump_us) AS duration_us
FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
GROUP BY run
"""

_VERSIONS = """
SELECT
    run,
    string_agg(DISTINCT git_rev, ' ' ORDER BY git_rev) FILTER (WHERE git_rev != '') AS git_revs,
    string_agg(DISTINCT inspector_output_format_version, ' ' ORDER BY inspector_output_format_version)
        AS format_versions,
    string_agg(DISTINCT coll_timing_source, ' ' ORDER BY coll_timing_source) AS timing_sources
FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
GROUP BY run
"""

# Of a role, the size that most communicators have. Groups of an embedding are parts of a pipeline, and often as many.
_COMMUNICATORS = """
SELECT run, sum(communicators)::BIGINT AS communicators, map_from_entries(
    list((parallel_role, n_ranks)) FILTER (WHERE parallel_role IS NOT NULL)
) AS roles
FROM (
    SELECT
        run, parallel_role, count(*) AS communicators,
        CASE WHEN parallel_role = 'pipeline' THEN max(n_ranks) FILTER (n_ranks > 1)
            ELSE mode(n_ranks ORDER BY n_ranks) FILTER (n_ranks > 1) END AS n_ranks
    FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
    GROUP BY run, parallel_role
)
GROUP BY run
"""

_SUMMARY = """
SELECT run, sum(payload_bytes) AS payload_bytes, sum(exec_time_us) AS rank_time_us
FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
GROUP BY run
"""

_COVERAGE = """
SELECT
    run,
    -- In floating point: a broken record can give a sequence number near 2^63.
    sum(capture_rate * n_ranks * sn_expected::DOUBLE) / sum(n_ranks * sn_expected::DOUBLE) AS capture_rate,
    sum(complete_cells) / nullif(sum(cells), 0) AS complete_share
FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
GROUP BY run
"""

# Kubernetes can put the node into the path: a folder node=<name> for the logs of each. A name on two nodes is on none.
# The table has no column of the run, whose folder has.
_NODES = """
SELECT run, map_from_entries(list((hostname, node))) AS nodes
FROM (
    SELECT run, hostname, min(node) AS node
    FROM (
        SELECT run, hostname, nullif(regexp_extract(path, '(?:^|/)node=([^/]+)/', 1), '') AS node
        FROM read_parquet($files, hive_partitioning = true, hive_types_autocast = false, union_by_name = true)
    )
    WHERE node IS NOT NULL AND hostname IS NOT NULL
    GROUP BY run, hostname
    HAVING count(DISTINCT node) = 1
)
GROUP BY run
"""

_PIDS = """
SELECT run, list(lowest ORDER BY hostname) AS lowest_pids
FROM (
    SELECT run, hostname, min(pid) AS lowest
    FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
    WHERE hostname IS NOT NULL
    GROUP BY run, hostname
)
GROUP BY run
"""

# What each text reads: a table of the store, or a result.
_TABLES = (
    ("processes", _SIZES), ("processes", _PIDS), ("communicators", _COMMUNICATORS), ("kernel_times", _VERSIONS),
    ("files", _NODES),
)  # fmt: skip
_SUMMARIES = (("summary_histogram", _SUMMARY), ("coverage", _COVERAGE))
_NOTHING: dict[str, Any] = {
    "hosts": 0, "host_names": [], "lowest_pids": [], "processes": 0, "communicators": 0, "roles": None, "nodes": None,
}  # fmt: skip


@dataclass(frozen=True)
class RunCatalog:
    """The catalog, and which of its runs were looked at anew."""

    table: pa.Table
    renewed: tuple[str, ...]


def update_run_catalog(settings: Settings) -> RunCatalog:
    """Bring the run catalog up to date with the published runs, and write it. Runs that are gone are dropped."""
    found = current_run_catalog(settings)
    RUN_CATALOG.write(found.table, settings)
    return found


def current_run_catalog(settings: Settings) -> RunCatalog:
    """The run catalog as `update_run_catalog` would write it: for readers of a store that they may not write to."""
    known = {row["run"]: row for row in RUN_CATALOG.rows(settings) or ()}
    manifests = {manifest.run: manifest for manifest in list_runs(settings)}
    states = {run: _state(manifest, settings) for run, manifest in manifests.items()}
    renewed = [run for run, state in states.items() if run not in known or known[run]["state"] != state]
    described = describe_runs([manifests[run] for run in renewed], settings)
    rows = [
        {**described[run], "state": states[run]} if run in described else known[run]
        for run in manifests
        if run in described or run not in renewed
    ]
    return RunCatalog(RUN_CATALOG.of(rows), tuple(renewed))


def catalog_rows(settings: Settings) -> list[dict[str, Any]]:
    """The rows of the current run catalog."""
    return list(current_run_catalog(settings).table.to_pylist())


def stored_rows(runs: Sequence[str], settings: Settings) -> dict[str, dict[str, Any]]:
    """The rows of the given runs as they were last written; those that were never written are left out."""
    stored = RUN_CATALOG.rows(settings) if runs else None
    return {row["run"]: row for row in stored or () if row["run"] in runs}


def _state(manifest: Manifest, settings: Settings) -> str:
    """Changes when the run was ingested or analysed again."""
    paths = [layout.results_path(name, manifest.run, settings) for name in _RESULTS]
    times = [str(path.stat().st_mtime_ns) if path.exists() else "-" for path in paths]
    return " ".join((VERSION, manifest.generation, manifest.ingested_at, *times))


def describe_run(manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """A run's row but for its `state`. Results are absent when the analysis has not run, or failed. Raises
    `DamagedError`."""
    require_readable(manifest, settings)
    return describe_runs([manifest], settings)[manifest.run]


def describe_runs(manifests: Sequence[Manifest], settings: Settings) -> dict[str, dict[str, Any]]:
    """The rows of many runs, by run; damaged ones are left out."""
    try:
        return _describe_runs(manifests, settings)
    except duckdb.Error:
        sound = [manifest for manifest in manifests if is_readable(manifest, settings)]
        if len(sound) == len(manifests):
            raise
    return _describe_runs(sound, settings)


def _describe_runs(manifests: Sequence[Manifest], settings: Settings) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {manifest.run: dict(_NOTHING) for manifest in manifests}
    with catalog.connect(settings) as con:
        for name, sql in (*_TABLES, *_SUMMARIES):
            files = [path for manifest in manifests for path in _files(name, manifest, settings)]
            is_result = name in dict(_SUMMARIES)
            read = (
                query_readable(con, sql, files, "nixt report RUN rebuilds it") if is_result else query(con, sql, files)
            )
            for row in read.to_pylist() if read else ():
                found[row["run"]] |= row
    return {manifest.run: _row(manifest, found[manifest.run], settings) for manifest in manifests}


def _files(name: str, manifest: Manifest, settings: Settings) -> list[Path]:
    if name in dict(_TABLES):
        return layout.table_files(manifest.directory(settings), name)
    path = layout.results_path(name, manifest.run, settings)
    return [path] if path.exists() else []


def _row(manifest: Manifest, found: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    info = manifest.run_info
    return {
        **found,
        **_parallelism(info, dict(found["roles"] or ()), found["processes"]),
        **_verdict(manifest.run, settings),
        "node_names": _node_names(info, found),
        "run": manifest.run,
        "name": info.get("name"),
        "model": info.get("model"),
        "tags": info.get("tags") or [],
        "baseline": bool(info.get("baseline")),
        "gpus": info.get("gpus") or found["processes"],
        "nccl_version": info.get("nccl_version"),
        "source_dir": manifest.source_dir,
        "ingested_at": manifest.ingested_at,
        "incarnations": manifest.incarnations,
        "records": manifest.records["stored"],
        "bytes_read": manifest.bytes["read"],
        "rejected_lines": manifest.rejected_lines,
        "analysed": all(_files(name, manifest, settings) for name, _ in _SUMMARIES),
    }


def _node_names(info: Mapping[str, Any], found: Mapping[str, Any]) -> list[str | None]:
    """The machine behind each host name; None where the run does not say."""
    said = {**dict(found["nodes"] or ()), **(info.get("host_nodes") or {})}
    return [said.get(name) for name in found["host_names"]]


def _axes(roles: Mapping[str, int | None], gpus: int | None) -> dict[str, int]:
    """The degree of each axis by the sizes of its communicators. Where gradients are reduced over data and context
    parallelism together, they would be more GPUs than there are."""
    axes = {axis: size for role, axis in _AXES.items() if (size := roles.get(role))}
    model = axes.get("tp", 1) * axes.get("pp", 1)
    data, context = axes.get("dp", 1), axes.get("cp", 1)
    if context > 1 and data % context == 0 and gpus is not None and model * data == gpus:
        axes["dp"] = data // context
    return axes


def _parallelism(info: Mapping[str, Any], roles: Mapping[str, int | None], gpus: int | None) -> dict[str, str | None]:
    """How the job was cut into ranks: as `run.json` says, or as the sizes of its communicators suggest."""
    given = info.get("parallelism") or {}
    axes = given or _axes(roles, gpus)
    order = [*_AXES.values()]
    names = sorted(axes, key=lambda axis: (order.index(axis) if axis in order else len(order), axis))
    return {
        "parallelism": " ".join(f"{name}={axes[name]}" for name in names) or None,
        "parallelism_source": ("run.json" if given else "inferred") if axes else None,
    }


def _verdict(run: str, settings: Settings) -> dict[str, Any]:
    """What the stored diagnosis says; nothing of a run without one."""
    diagnosis = stored_diagnosis(run, settings)
    if diagnosis is None:
        return {}
    return {
        "verdict": diagnosis.verdict,
        "worst_severity": diagnosis.worst,
        "findings": len(diagnosis.findings),
        "regressed": any(finding.kind == "regression" for finding in diagnosis.findings),
    }
