"""Views over the store: in memory for programs, in `catalog.duckdb` for people and notebooks.

DuckDB allows one writer or many readers of a file. Nothing here ever opens a DuckDB file that another process needs:
the data are Parquet, connections are in memory, and the catalog file is written aside and renamed.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from nixt_pipeline.errors import is_full, storage_error
from nixt_pipeline.inspector import taxonomy, views
from nixt_pipeline.inspector.operations import BANDWIDTH_FLAGS, COLL_TYPE_ALIASES, SQL_MACROS
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import LARGE_TABLES, dropped
from nixt_pipeline.store.files import explained, file_lock, replacing
from nixt_pipeline.store.integrity import is_readable, list_runs, require_files, require_readable
from nixt_pipeline.store.kernel_times import kernel_times_sql
from nixt_pipeline.store.manifest import Manifest, read_manifest
from nixt_pipeline.store.reading import of_readable, require_for_duckdb

_ARROW_TO_SQL = {
    taxonomy.STRING: "VARCHAR",
    taxonomy.I32: "INTEGER",
    taxonomy.I64: "BIGINT",
    taxonomy.U64: "UBIGINT",
    taxonomy.F64: "DOUBLE",
    taxonomy.BOOL: "BOOLEAN",
    pa.list_(taxonomy.I32): "INTEGER[]",
    pa.list_(taxonomy.I64): "BIGINT[]",
}

# An identifier cannot be a bound parameter, so the view text is assembled from constants of this package and file
# lists; every path is quoted as an SQL string. Derived columns are computed here instead of being stored, and so are
# the written bandwidths where the formula gives them.
_EVENTS_VIEW = """
CREATE OR REPLACE VIEW events AS
SELECT
    e.run,
    {incarnation} AS incarnation,
    e.* EXCLUDE (run, process, writer, comm_key, kernel_key) REPLACE (
        coalesce(e.coll_algobw_gbs, CASE WHEN e.flags & {bandwidth_flags} = 0
            THEN to_six_decimals(algobw_gbs(e.coll, e.coll_msg_size_bytes, e.n_ranks, e.coll_exec_time_us))
        END) AS coll_algobw_gbs,
        coalesce(e.coll_busbw_gbs, CASE WHEN e.flags & {bandwidth_flags} = 0
            THEN to_six_decimals(busbw_gbs(e.coll, e.coll_msg_size_bytes, e.n_ranks, e.coll_exec_time_us))
        END) AS coll_busbw_gbs
    ),
    e.process, e.comm_key, e.kernel_key,
    coll_type(e.n_ranks, e.nnodes) AS coll_type,
    CASE coll_type(e.n_ranks, e.nnodes)
        WHEN '{canonical}' THEN '{alias}'
        ELSE coll_type(e.n_ranks, e.nnodes)
    END AS comm_type,
    e.n_ranks / e.nnodes AS ranks_per_node,
    wire_bytes(e.coll, e.coll_msg_size_bytes, e.n_ranks) AS wire_bytes,
    algobw_gbs(e.coll, e.coll_msg_size_bytes, e.n_ranks, e.coll_exec_time_us) AS algobw_recomputed_gbs,
    busbw_gbs(e.coll, e.coll_msg_size_bytes, e.n_ranks, e.coll_exec_time_us) AS busbw_recomputed_gbs
FROM stored_events AS e
{join};
"""

# What the diagnosis reads: 0 is no time, but 1970 may be that of a host, and no difference of two numbers overflows.
_PLAUSIBLE_VIEW = """
CREATE OR REPLACE VIEW plausible_events AS
SELECT
    * REPLACE (
        coll_sn::BIGINT AS coll_sn, coll_msg_size_bytes::BIGINT AS coll_msg_size_bytes,
        CASE WHEN dump_timestamp_us BETWEEN 1 AND 4611686018427387903 THEN dump_timestamp_us END AS dump_timestamp_us
    )
FROM stored_events;
"""

# The stored columns with the launch and the placement: what `events` computes besides costs a scan more.
_LAUNCHED_VIEW = """
CREATE OR REPLACE VIEW launched_events AS
SELECT e.*, {incarnation} AS incarnation, coll_type(e.n_ranks, e.nnodes) AS coll_type
FROM stored_events AS e
{join};
"""

# `writer` is what finds the GPU of a record quickly: the hash of its process.
_AS_WRITTEN = "SELECT *, hostname || '-pid' || pid AS process, hash(hostname, pid) AS writer FROM {source}"
_TOLD_APART = """
SELECT
    s.* REPLACE (
        CASE WHEN i.record IS NULL THEN s.comm_name ELSE i.common_name END AS comm_name,
        CASE WHEN i.record IS NULL THEN s.nnodes ELSE i.common_nnodes END AS nnodes,
        coalesce(i.machine, s.hostname) AS hostname
    ),
    coalesce(i.process, s.hostname || '-pid' || s.pid) AS process,
    hash(coalesce(i.process, s.hostname || '-pid' || s.pid)) AS writer
FROM {source} AS s
LEFT JOIN (
    SELECT
        hash(run, id, comm_name, n_ranks, nnodes, rank, hostname, pid) AS record, common_name, common_nnodes, process,
        machine
    FROM identities
) AS i ON i.record = hash(s.run, s.id, s.comm_name, s.n_ranks, s.nnodes, s.rank, s.hostname, s.pid)
"""
_WRITER = "CREATE OR REPLACE MACRO writer_of(process, hostname, pid) AS {writer}"

# A communicator belongs to exactly one incarnation, so this join never multiplies rows; it is left out for the usual
# run of one launch.
_INCARNATION_JOIN = "LEFT JOIN communicators AS c ON c.run = e.run AND c.comm_key = e.comm_key"

# A series is what has sequence numbers of its own: a collective function of a communicator. Repeated numbers (replays
# of CUDA graphs), records without a usable number, and more ranks than the communicator has are none of what is
# expected, and not counted as captured. Sequence numbers of a broken log span more than an integer holds.
_SERIES_VIEW = """
CREATE OR REPLACE VIEW series AS
SELECT
    run, incarnation, comm_key, id, comm_name, n_ranks, nnodes, coll_type, coll,
    min(coll_sn) AS first_sn, max(coll_sn) AS last_sn, max(coll_sn) - min(coll_sn) + 1 AS sn_expected,
    count(coll_sn) FILTER (occurrence = 1) AS sn_seen,
    n_ranks * (max(coll_sn)::DOUBLE - min(coll_sn)::DOUBLE + 1) AS records_expected,
    sum(least(ranks_seen, n_ranks)) FILTER (coll_sn IS NOT NULL AND occurrence = 1)::BIGINT AS records_captured,
    count(*) AS cells, count(*) FILTER (complete) AS complete_cells
FROM cells
GROUP BY run, incarnation, comm_key, id, comm_name, n_ranks, nnodes, coll_type, coll;
"""

_KIND_VIEWS = """
CREATE OR REPLACE VIEW collectives AS SELECT * FROM events WHERE kind = 'collective';
CREATE OR REPLACE VIEW p2p AS
SELECT
    *, coll AS p2p, coll_sn AS p2p_sn, coll_msg_size_bytes AS p2p_msg_size_bytes, coll_exec_time_us AS p2p_exec_time_us,
    coll_timing_source AS p2p_timing_source, coll_algobw_gbs AS p2p_algobw_gbs, coll_busbw_gbs AS p2p_busbw_gbs
FROM events WHERE kind = 'p2p';
"""


def connect(settings: Settings, database: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the configured limits and the project's macros; in memory unless `database` is given."""
    spill = settings.data_dir / "tmp" if os.access(settings.data_dir, os.W_OK) else Path(tempfile.gettempdir())
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{settings.query_memory_bytes}B",
        "threads": settings.workers,
        "temp_directory": str(spill),
    }
    con = duckdb.connect(str(database) if database else ":memory:", config=config)
    con.execute("SET preserve_insertion_order = false; SET TimeZone = 'UTC'")
    con.execute(SQL_MACROS)
    return con


def open_run(run: str, settings: Settings) -> duckdb.DuckDBPyConnection:
    """An in-memory connection whose views show one run. Raises `UnknownRunError`, and `DamagedError` when a file of the
    run cannot be used."""
    manifest = read_manifest(run, settings)
    require_files(manifest, settings)
    con = connect(settings)
    try:
        create_views(con, [manifest], settings)
    except duckdb.Error:
        con.close()
        require_readable(manifest, settings)
        raise
    return con


def open_store(settings: Settings) -> duckdb.DuckDBPyConnection:
    """An in-memory connection whose views show every published run that is not damaged."""
    con = connect(settings)
    _create_views_of_all(con, settings)
    return con


def _create_views_of_all(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    """Views over all runs. When a file cannot be read, once more over the runs there are then: one may have been
    replaced meanwhile, and others are damaged."""
    try:
        create_views(con, list_runs(settings), settings)
    except duckdb.Error as error:
        if is_full(error):
            raise
        create_views(con, [m for m in list_runs(settings) if is_readable(m, settings)], settings)


def create_views(con: duckdb.DuckDBPyConnection, manifests: list[Manifest], settings: Settings) -> None:
    """Create a view for each table and each materialised analysis, over the given runs. Raises `duckdb.Error` when a
    file of a run cannot be read; results that cannot be read are left out."""
    generations = [manifest.directory(settings) for manifest in manifests]
    whole = [generation for generation in generations if not dropped(generation)]
    told_apart = any(layout.table_files(generation, "identities") for generation in generations)
    con.execute(_WRITER.format(writer="hash(process)" if told_apart else "hash(hostname, pid)"))
    for table in sorted(taxonomy.TABLES, key=views.WITH_HEADERS.__contains__):
        source = _table(whole if table in LARGE_TABLES else generations, table, told_apart)
        # `events` adds columns that are computed from every row; what needs none of them reads `stored_events`.
        view = "stored_events" if table == "events" else table
        rows = f"SELECT {_plausible(table, settings)} FROM ({source})"
        con.execute(f"CREATE OR REPLACE VIEW {view} AS {with_keys(table, f'({rows})')}")
    _add_missing_kernel_times(con, generations, whole, told_apart)
    several = any(manifest.incarnations > 1 for manifest in manifests)
    [(alias, canonical)] = COLL_TYPE_ALIASES.items()
    launch = {
        "incarnation": "coalesce(c.incarnation, 1)" if several else "1",
        "join": _INCARNATION_JOIN if several else "",
    }
    con.execute(_LAUNCHED_VIEW.format(**launch))
    flags = int(BANDWIDTH_FLAGS)
    con.execute(_EVENTS_VIEW.format(**launch, bandwidth_flags=flags, canonical=canonical, alias=alias))
    con.execute(_KIND_VIEWS)
    con.execute(_PLAUSIBLE_VIEW)
    con.execute(_SERIES_VIEW)
    for directory in sorted((settings.data_dir / "results").glob("*/")):
        paths = [layout.results_path(directory.name, manifest.run, settings) for manifest in manifests]
        _create_result_view(con, directory.name, [path for path in paths if path.exists()])


def _plausible(table: str, settings: Settings) -> str:
    """The columns of a table's view, with null where a store of an earlier version holds a sequence number or a size
    that is none."""
    limits = {
        "coll_sn": settings.thresholds.ingest.max_sequence_number,
        "coll_msg_size_bytes": settings.thresholds.ingest.max_message_bytes,
    }
    names = [column.name for column in taxonomy.TABLES[table] if column.name in limits]
    replaced = ", ".join(f"CASE WHEN {n} <= {limits[n]:d} THEN {n} END AS {n}" for n in names)
    return f"* REPLACE ({replaced})" if names else "*"


def with_keys(table: str, source: str) -> str:
    """A SELECT over `source`, which has the columns of `table`, with the keys that its view has besides them."""
    kind = "'collective'" if table == "cells" else "kind"
    keys = "".join(
        f", {key.name}({', '.join(kind if part == 'kind' else part for part in views.KEY_PARTS[key])}) AS {key.name}"
        for key in views.keys_of(table)
    )
    return f"SELECT *{keys} FROM {source}"


def _create_result_view(con: duckdb.DuckDBPyConnection, name: str, files: list[Path]) -> None:
    """A view over the results of an analysis; those that cannot be read are left out."""

    def create(readable: Sequence[Path]) -> None:
        if readable:
            con.execute(f'CREATE OR REPLACE VIEW "{name}" AS FROM {_read_parquet(readable)}')

    of_readable(create, files, "nixt report RUN makes it again")


def _table(generations: list[Path], table: str, told_apart: bool) -> str:
    """A SELECT over one table of these generations; with `told_apart`, some of them have `identities`."""
    columns = taxonomy.TABLES[table]
    source = _parquet([path for generation in generations for path in layout.table_files(generation, table)], columns)
    if table in views.WITH_HEADERS:
        return (_TOLD_APART if told_apart else _AS_WRITTEN).format(source=f"({source})")
    if table == "membership":  # has no process in stores of earlier versions
        return f"FROM ({_parquet([], columns)}) UNION ALL BY NAME {source}"
    return source


def _add_missing_kernel_times(
    con: duckdb.DuckDBPyConnection, generations: list[Path], whole: list[Path], told_apart: bool
) -> None:
    """Let `kernel_times` be computed when it is read for runs that were analysed before it existed, or not at all;
    `whole` are the generations whose events are there."""
    without = [generation for generation in whole if not layout.table_files(generation, "kernel_times")]
    if any(layout.table_files(generation, "events") for generation in without):
        events = _table(without, "events", told_apart)
        stored = _table(generations, "kernel_times", told_apart)
        rows = f"{stored} UNION ALL BY NAME FROM ({kernel_times_sql(f'({events})')})"
        con.execute(f"CREATE OR REPLACE VIEW kernel_times AS {with_keys('kernel_times', f'({rows})')}")


def publish_catalog(settings: Settings) -> None:
    """Rebuild `catalog.duckdb` aside and rename it, so that whoever has the old one open keeps reading it. Damaged runs
    are left out.

    Raises `StorageError` when it cannot be written; the old one then stays.
    """
    path = settings.catalog_path
    with explained(path), file_lock(settings.data_dir / ".catalog.lock"), replacing(path) as temporary:
        log = temporary.with_name(f"{temporary.name}.wal")
        try:
            with connect(settings, temporary) as con:
                _create_views_of_all(con, settings)
                # Closing would do the same, but leave the rest in the log without a word when the disk is full.
                con.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise storage_error(error, path) or OSError(f"cannot write {path}: {error}; the runs are stored") from error
        finally:
            log.unlink(missing_ok=True)


def _parquet(files: list[Path], columns: tuple[taxonomy.Column, ...]) -> str:
    """A SELECT over `files`, or an empty table of the right types when there are none."""
    if files and taxonomy.RUN in columns:
        return f"SELECT * FROM {_read_parquet(files)}"
    if files:
        # The layout's own folder is the last of its name in a path; those above it may be called anything.
        run = "regexp_extract(filename, '.*/run=([^/]*)/', 1) AS run"
        return f"SELECT * EXCLUDE (filename), {run} FROM {_read_parquet(files, 'filename = true')}"
    named = {"run": "VARCHAR"} | {column.name: _ARROW_TO_SQL[column.type] for column in columns}
    nulls = ", ".join(f"CAST(NULL AS {sql_type}) AS {name}" for name, sql_type in named.items())
    return f"SELECT {nulls} WHERE false"


def _read_parquet(files: Sequence[Path], *options: str) -> str:
    """`read_parquet` over absolute paths, so that the catalog works from any directory; a run that is removed later
    leaves its views without an error. Names of folders mean nothing: those above the store are the user's."""
    require_for_duckdb(files)
    paths = ", ".join("'" + str(path.resolve()).replace("'", "''") + "'" for path in files)
    settings = ("hive_partitioning = false", "union_by_name = true", "allow_empty = true", *options)
    return f"read_parquet([{paths}], {', '.join(settings)})"
