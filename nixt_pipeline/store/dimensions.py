"""Dimension tables of a run: who wrote what (membership), and from it communicators, processes and hosts."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.parallelism import Group, Shape, roles
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.catalog import connect
from nixt_pipeline.store.files import write_table
from nixt_pipeline.store.incarnations import Presence, number_incarnations
from nixt_pipeline.store.reading import read_table

_PRESENCE = """
SELECT
    id, comm_name, n_ranks, nnodes, rank, hostname, pid,
    count(*) AS records,
    count(*) FILTER (kind = 'p2p') AS records_p2p,
    min(dump_timestamp_us) FILTER (dump_timestamp_us BETWEEN $earliest AND $latest) AS first_dump_us,
    max(dump_timestamp_us) FILTER (dump_timestamp_us BETWEEN $earliest AND $latest) AS last_dump_us
FROM read_parquet($parts)
GROUP BY ALL
ORDER BY ALL
"""

_COMMUNICATORS = """
SELECT
    $run AS run, incarnation, id, comm_name, n_ranks, nnodes,
    coll_type(n_ranks, nnodes) AS coll_type,
    n_ranks / nnodes AS ranks_per_node,
    count(DISTINCT rank) AS ranks_seen,
    count(DISTINCT hostname) AS hosts_seen,
    NULL AS parallel_role, NULL AS parallel_role_source,
    sum(records) AS records, min(first_dump_us) AS first_dump_us, max(last_dump_us) AS last_dump_us,
    sum(records_p2p) = sum(records) AS only_p2p,
    list(DISTINCT {'hostname': hostname, 'pid': pid}) AS members
FROM membership
GROUP BY incarnation, id, comm_name, n_ranks, nnodes
ORDER BY ALL
"""

# A global rank is the rank in a communicator that names every process of the launch exactly once. Of several, the order
# that most of them have; then the one called world, though a child of ncclCommSplit is called like its parent; then the
# first one.
_PROCESSES = """
WITH process AS (
    SELECT
        incarnation, hostname, pid,
        count(DISTINCT (id, comm_name, n_ranks, nnodes)) AS communicators,
        sum(records) AS records, min(first_dump_us) AS first_dump_us, max(last_dump_us) AS last_dump_us
    FROM membership
    GROUP BY incarnation, hostname, pid
),
complete AS (
    SELECT
        m.incarnation, id, comm_name, n_ranks, nnodes, min(m.first_dump_us) AS since_us,
        count(*) OVER (PARTITION BY m.incarnation, hash(list((hostname, pid) ORDER BY rank))) AS of_this_order
    FROM membership AS m
    JOIN (SELECT incarnation, count(*) AS processes FROM process GROUP BY incarnation) USING (incarnation)
    GROUP BY m.incarnation, id, comm_name, n_ranks, nnodes, processes
    HAVING count(DISTINCT (hostname, pid)) = processes AND count(DISTINCT rank) = processes AND count(*) = processes
),
world AS (
    SELECT
        incarnation,
        arg_min(
            (id, comm_name, n_ranks, nnodes),
            (
                -of_this_order, NOT coalesce(regexp_matches(comm_name, 'world|default_pg', 'i'), false),
                coalesce(since_us, 9223372036854775807), id
            )
        ) AS key
    FROM complete
    GROUP BY incarnation
)
SELECT
    $run AS run, p.incarnation, p.hostname, p.pid, p.hostname || '-pid' || p.pid AS process,
    m.rank AS global_rank, p.communicators, p.records, p.first_dump_us, p.last_dump_us
FROM process AS p
LEFT JOIN world AS w USING (incarnation)
LEFT JOIN membership AS m
    ON m.incarnation = p.incarnation AND m.hostname = p.hostname AND m.pid = p.pid
    AND (m.id, m.comm_name, m.n_ranks, m.nnodes) IS NOT DISTINCT FROM w.key
ORDER BY ALL
"""

_HOSTS = """
SELECT
    $run AS run, incarnation, hostname,
    count(DISTINCT pid) AS processes,
    count(DISTINCT (id, comm_name, n_ranks, nnodes)) AS communicators,
    sum(records) AS records, min(first_dump_us) AS first_dump_us, max(last_dump_us) AS last_dump_us
FROM membership
GROUP BY incarnation, hostname
ORDER BY ALL
"""


def write_membership(generation: Path, run: str, settings: Settings) -> int:
    """Write `membership`, one row per rank of a communicator and process, and return the number of incarnations."""
    table = _presence(generation, settings)
    columns = table.to_pydict()
    keys = list(zip(columns["id"], columns["comm_name"], columns["n_ranks"], columns["nnodes"], strict=True))
    processes = zip(columns["hostname"], columns["pid"], strict=True)
    times = zip(columns["first_dump_us"], columns["last_dump_us"], strict=True)
    presences = [Presence(key, process, *time) for key, process, time in zip(keys, processes, times, strict=True)]
    incarnation = number_incarnations(presences, settings.thresholds.incarnation_gap_us)
    table = table.append_column("incarnation", pa.array([incarnation[key] for key in keys], pa.int32()))
    table = table.append_column("run", pa.array([run] * table.num_rows, pa.string()))
    write_table(_typed(table, taxonomy.MEMBERSHIP_COLUMNS), generation / "membership.parquet")
    return max(incarnation.values(), default=1)


def write_dimensions(generation: Path, run: str, settings: Settings) -> dict[str, int]:
    """Write `communicators`, `processes` and `hosts` from `membership`. Returns the rows of each."""
    with connect(settings) as con:
        con.register("membership", read_table(generation / "membership.parquet"))
        tables = {
            "communicators": (_with_roles(_query(con, _COMMUNICATORS, run)), taxonomy.COMMUNICATOR_COLUMNS),
            "processes": (_query(con, _PROCESSES, run), taxonomy.PROCESS_COLUMNS),
            "hosts": (_query(con, _HOSTS, run), taxonomy.HOST_COLUMNS),
        }
    rows = {}
    for name, (table, columns) in tables.items():
        write_table(_typed(table, columns), generation / f"{name}.parquet")
        rows[name] = table.num_rows
    return rows


def _presence(generation: Path, settings: Settings) -> pa.Table:
    thresholds = settings.thresholds
    parts = [str(path) for path in layout.table_files(generation, "events")]
    if not parts:
        return taxonomy.schema(taxonomy.MEMBERSHIP_COLUMNS[2:]).empty_table()
    parameters = {"parts": parts, "earliest": thresholds.min_timestamp_us, "latest": thresholds.max_timestamp_us}
    with connect(settings) as con:
        return pa.table(con.sql(_PRESENCE, params=parameters).to_arrow_table())


def _query(con: duckdb.DuckDBPyConnection, sql: str, run: str) -> pa.Table:
    return pa.table(con.sql(sql, params={"run": run}).to_arrow_table())


def _with_roles(communicators: pa.Table) -> pa.Table:
    """Fill in the parallel role of each communicator where its name or its shape tells it."""
    rows = communicators.to_pylist()
    by_launch: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_launch[row["incarnation"]].append(row)
    for launch in by_launch.values():
        for row, (role, source) in zip(launch, roles([_group(row) for row in launch]), strict=True):
            row["parallel_role"], row["parallel_role_source"] = role, source
    schema = taxonomy.schema(taxonomy.COMMUNICATOR_COLUMNS)
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)


def _group(row: dict[str, Any]) -> Group:
    shape = Shape(row["n_ranks"], row["coll_type"], bool(row["only_p2p"]), row["hosts_seen"], row["ranks_seen"])
    return Group(row["comm_name"], shape, frozenset((member["hostname"], member["pid"]) for member in row["members"]))


def _typed(table: pa.Table, columns: tuple[taxonomy.Column, ...]) -> pa.Table:
    schema = taxonomy.schema(columns)
    return table.select(schema.names).cast(schema)
