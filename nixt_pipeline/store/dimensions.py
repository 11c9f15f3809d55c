"""Dimension tables of a run: who wrote what (membership), and from it communicators, processes and hosts."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.parallelism import Group, Shape, roles
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.catalog import connect
from nixt_pipeline.store.communicator_names import Seat, one_identity
from nixt_pipeline.store.files import write_table
from nixt_pipeline.store.incarnations import Communicator, Presence, Process, number_incarnations
from nixt_pipeline.store.machines import machine_names, too_few_names
from nixt_pipeline.store.ranks import Held, Place, crowded
from nixt_pipeline.store.ranks import Seat as SeatOfProcess
from nixt_pipeline.store.ranks import places as find_places
from nixt_pipeline.store.reading import read_table

_KEY = ("id", "comm_name", "n_ranks", "nnodes")

_PRESENCE = """
SELECT
    id, comm_name, n_ranks, nnodes, rank, hostname, pid,
    count(*) AS records,
    count(*) FILTER (kind = 'p2p') AS records_p2p,
    min(dump_timestamp_us) FILTER (dump_timestamp_us BETWEEN $earliest AND $latest) AS first_dump_us,
    max(dump_timestamp_us) FILTER (dump_timestamp_us BETWEEN $earliest AND $latest) AS last_dump_us,
    list(DISTINCT file_id) AS files
FROM read_parquet($parts)
GROUP BY ALL
ORDER BY ALL
"""

# To which files some processes wrote what.
_HELD = """
SELECT e.id, e.comm_name, e.n_ranks, e.nnodes, e.rank, e.hostname, e.pid, f.path
FROM read_parquet($parts) AS e
SEMI JOIN wanted AS c ON c.hostname = e.hostname AND c.pid = e.pid
JOIN read_parquet($files) AS f ON f.file_id = e.file_id
WHERE e.rank IS NOT NULL
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
    list(DISTINCT process) AS members
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
        incarnation, hostname, pid, process,
        count(DISTINCT (id, comm_name, n_ranks, nnodes)) AS communicators,
        sum(records) AS records, min(first_dump_us) AS first_dump_us, max(last_dump_us) AS last_dump_us
    FROM membership
    GROUP BY incarnation, hostname, pid, process
),
complete AS (
    SELECT
        m.incarnation, id, comm_name, n_ranks, nnodes, min(m.first_dump_us) AS since_us,
        count(*) OVER (PARTITION BY m.incarnation, hash(list(process ORDER BY rank))) AS of_this_order
    FROM membership AS m
    JOIN (SELECT incarnation, count(*) AS processes FROM process GROUP BY incarnation) USING (incarnation)
    GROUP BY m.incarnation, id, comm_name, n_ranks, nnodes, processes
    HAVING count(DISTINCT process) = processes AND count(DISTINCT rank) = processes AND count(*) = processes
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
    $run AS run, p.incarnation, p.hostname, p.pid, p.process,
    m.rank AS global_rank, p.communicators, p.records, p.first_dump_us, p.last_dump_us
FROM process AS p
LEFT JOIN world AS w USING (incarnation)
LEFT JOIN membership AS m
    ON m.incarnation = p.incarnation AND m.process = p.process
    AND (m.id, m.comm_name, m.n_ranks, m.nnodes) IS NOT DISTINCT FROM w.key
ORDER BY ALL
"""

_HOSTS = """
SELECT
    $run AS run, incarnation, hostname,
    count(DISTINCT process) AS processes,
    count(DISTINCT (id, comm_name, n_ranks, nnodes)) AS communicators,
    sum(records) AS records, min(first_dump_us) AS first_dump_us, max(last_dump_us) AS last_dump_us
FROM membership
GROUP BY incarnation, hostname
ORDER BY ALL
"""


def write_membership(generation: Path, run: str, settings: Settings) -> int:
    """Write `membership`, one row per rank of a communicator and process, and `identities`, where records of one
    communicator differ in its name, processes hold several of its ranks, or machines share a name. Returns the number
    of incarnations."""
    written = _presence(generation, settings)
    columns = written.to_pydict()
    directories = _directories(columns.pop("files", []), generation)
    as_written = list(zip(*(columns[name] for name in _KEY), strict=True))
    common = one_identity(map(Seat, as_written, columns["rank"]))
    keys = [common.get(key, key) for key in as_written]
    named = list(zip(columns["hostname"], columns["pid"], strict=True))
    seats = list(zip(named, keys, columns["rank"], strict=True))
    machines = _machines(generation, seats, common, settings)
    processes = [(machines.get(seat, process[0]), process[1]) for seat, process in zip(seats, named, strict=True)]
    times = zip(columns["first_dump_us"], columns["last_dump_us"], strict=True)
    presences = [
        Presence(key, process, *time, held)
        for key, process, time, held in zip(keys, processes, times, directories, strict=True)
    ]
    incarnation = number_incarnations(presences, settings.thresholds.ingest.incarnation_gap_us)
    places = _places(generation, seats, processes, common, incarnation, settings)
    names = [process_name(*process, place) for process, place in zip(processes, places, strict=True)]
    table = pa.table(
        {
            **columns,
            **{name: list(values) for name, values in zip(_KEY, zip(*keys, strict=True), strict=False)},
            "hostname": [hostname for hostname, _ in processes],
            "incarnation": [incarnation[key] for key in keys],
            "process": names,
            "run": [run] * len(keys),
        },
        schema=taxonomy.schema(taxonomy.MEMBERSHIP_COLUMNS),
    )
    write_table(table, generation / "membership.parquet")
    if common or machines or any(places):
        _write_identities(generation, written, table, [place is None or place.certain for place in places])
    return max(incarnation.values(), default=1)


def _directories(files: list[list[int]], generation: Path) -> list[frozenset[str]]:
    """The directories of some lists of files."""
    table = read_table(generation / "files.parquet").select(["file_id", "path"]).to_pydict()
    of_file = {number: str(Path(path).parent) for number, path in zip(table["file_id"], table["path"], strict=True)}
    return [frozenset(of_file[number] for number in own) for own in files]


def process_name(hostname: str | None, pid: int | None, place: Place | None = None) -> str | None:
    """What people read: the process, and the rank where it holds several; None without a host or process id."""
    return None if hostname is None or pid is None else f"{hostname}-pid{pid}{place.suffix if place else ''}"


def _machines(
    generation: Path, seats: list[SeatOfProcess], common: dict[Communicator, Communicator], settings: Settings
) -> dict[SeatOfProcess, str]:
    """The machine of each seat whose host name is that of several; usually there is none."""
    for communicator in too_few_names(seats):
        hostnames = {process[0] for process, key, _ in seats if key == communicator}
        processes = {process for process, _, _ in seats if process[0] in hostnames and None not in process}
        held = _held(generation, processes, common, settings)
        names = machine_names(held, communicator)
        if names:
            return names
    return {}


def _places(
    generation: Path,
    seats: list[SeatOfProcess],
    processes: list[Process],
    common: dict[Communicator, Communicator],
    incarnation: dict[Communicator, int],
    settings: Settings,
) -> list[Place | None]:
    """The place of each seat in its process if that holds several ranks of a communicator; usually there is none.
    `processes` are those of the `seats` on the machine on which they ran."""
    on_machine = dict(zip(seats, processes, strict=True))
    several = crowded((on_machine[seat], *seat[1:]) for seat in seats)
    wrote = {seat[0] for seat in seats if on_machine[seat] in several and None not in seat[0]}
    found = find_places(
        seat._replace(incarnation=incarnation[seat.communicator], process=process)
        for seat in _held(generation, wrote, common, settings)
        if (process := on_machine[seat.process, seat.communicator, seat.rank]) in several
    )
    # A broken record without a rank goes with the first of its process.
    first: dict[Process, Place] = {}
    for (process, _, _), place in found.items():
        first.setdefault(process, place)
    return [
        first.get(on_machine[seat]) if seat[2] is None else found.get((on_machine[seat], *seat[1:])) for seat in seats
    ]


def _held(
    generation: Path, processes: set[Process], common: dict[Communicator, Communicator], settings: Settings
) -> list[Held]:
    """What these processes wrote, by file. The incarnations are not known yet."""
    if not processes:
        return []
    hostnames, pids = zip(*sorted(processes), strict=True)
    parts = [str(path) for path in layout.table_files(generation, "events")]
    with connect(settings) as con:
        con.register("wanted", pa.table({"hostname": list(hostnames), "pid": pa.array(pids, pa.int64())}))
        rows = con.sql(_HELD, params={"parts": parts, "files": str(generation / "files.parquet")}).fetchall()
    return [
        Held(0, (hostname, pid), common.get(tuple(key), tuple(key)), rank, path)
        for *key, rank, hostname, pid, path in rows
    ]


def _write_identities(generation: Path, written: pa.Table, membership: pa.Table, certain: list[bool]) -> None:
    """What the records of each row of `membership` have in their headers, and what they are."""
    table = written.select([*_KEY, "rank", "hostname", "pid"])
    for name, source in (
        ("common_name", "comm_name"), ("common_nnodes", "nnodes"), ("machine", "hostname"),
        ("process", "process"),
    ):  # fmt: skip
        table = table.append_column(name, membership.column(source))
    table = table.append_column("certain", pa.array(certain)).append_column("run", membership.column("run"))
    write_table(_typed(table, taxonomy.IDENTITY_COLUMNS), generation / "identities.parquet")


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
    limits = settings.thresholds.ingest
    parts = [str(path) for path in layout.table_files(generation, "events")]
    if not parts:
        columns = [column for column in taxonomy.MEMBERSHIP_COLUMNS[2:] if column.name != "process"]
        return taxonomy.schema(tuple(columns)).empty_table()
    parameters = {"parts": parts, "earliest": limits.min_timestamp_us, "latest": limits.max_timestamp_us}
    with connect(settings) as con:
        return pa.table(con.sql(_PRESENCE, params=parameters).to_arrow_table())


def _query(con: duckdb.DuckDBPyConnection, sql: str, run: str) -> pa.Table:
    return pa.table(con.sql(sql, params={"run": run}).to_arrow_table())


def _with_roles(communicators: pa.Table) -> pa.Table:
    """Fill in the parallel role of each communicator where its name or its shape tells it."""
    rows = communicators.to_pylist()
    for launch in grouped(rows, lambda row: row["incarnation"]).values():
        for row, (role, source) in zip(launch, roles([_group(row) for row in launch]), strict=True):
            row["parallel_role"], row["parallel_role_source"] = role, source
    schema = taxonomy.schema(taxonomy.COMMUNICATOR_COLUMNS)
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)


def _group(row: dict[str, Any]) -> Group:
    shape = Shape(row["n_ranks"], row["coll_type"], bool(row["only_p2p"]), row["hosts_seen"], row["ranks_seen"])
    return Group(row["comm_name"], shape, frozenset(row["members"]))


def _typed(table: pa.Table, columns: tuple[taxonomy.Column, ...]) -> pa.Table:
    schema = taxonomy.schema(columns)
    return table.select(schema.names).cast(schema)
