"""The columns that the store's views have besides the stored ones: exact functions of them, computed when read."""

from nixt_pipeline.inspector.taxonomy import (
    CELL_COLUMNS,
    EVENT_COLUMNS,
    F64,
    INCARNATION,
    PLACEMENT,
    PROCESS,
    RUN,
    STRING,
    TABLES,
    U64,
    Column,
    Role,
    count,
    derived,
)

ID, COUNT, DERIVED = Role.IDENTIFIER, Role.COUNTER, Role.DERIVED

COMM_KEY = Column("comm_key", U64, ID, "", "The communicator within its run: hash of id, comm_name, n_ranks and nnodes")
KERNEL_KEY = Column(
    "kernel_key", U64, ID, "", "The NCCL kernel: hash of kind, coll, n_ranks, nnodes and coll_msg_size_bytes"
)
WRITER = Column("writer", U64, ID, "", "Hash of what identifies the GPU: of its host and process id, or its process")
# The parts of each key, in the order of the macro that computes it.
KEY_PARTS: dict[Column, tuple[str, ...]] = {
    COMM_KEY: ("id", "comm_name", "n_ranks", "nnodes"),
    KERNEL_KEY: ("kind", "coll", "n_ranks", "nnodes", "coll_msg_size_bytes"),
}
# Tables whose records name their communicator and process themselves.
WITH_HEADERS = ("events", "channels", "auxiliary")

EVENT_DERIVED_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    PROCESS,
    COMM_KEY,
    KERNEL_KEY,
    PLACEMENT,
    Column("comm_type", STRING, DERIVED, "", "coll_type as NVIDIA's exporter spells it (hca-only for nic-only)"),
    derived("ranks_per_node", "ranks", "n_ranks / nnodes"),
    derived("wire_bytes", "bytes", "Bytes a rank sends in a ring: 2S(n-1)/n, S(n-1) or S, by function"),
    derived("algobw_recomputed_gbs", "GB/s", "Algorithm bandwidth from size, ranks and time"),
    derived("busbw_recomputed_gbs", "GB/s", "Bus bandwidth from size, ranks and time"),
)

_CELL = {column.name: column for column in CELL_COLUMNS}
_COUNTED = "; repeated numbers (CUDA graph replays) count once"

SERIES_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    COMM_KEY,
    *(_CELL[name] for name in ("id", "comm_name", "n_ranks", "nnodes", "coll_type", "coll")),
    Column("first_sn", U64, COUNT, "", "Smallest sequence number"),
    Column("last_sn", U64, COUNT, "", "Largest sequence number"),
    Column("sn_expected", U64, COUNT, "collectives", "last_sn - first_sn + 1"),
    count("sn_seen", "collectives", f"Sequence numbers of which a rank left a record{_COUNTED}"),
    Column("records_expected", F64, COUNT, "records", "n_ranks * sn_expected"),
    count("records_captured", "records", f"Records of all ranks with a usable sequence number{_COUNTED}"),
    count("cells", "collectives", "Rows of cells"),
    count("complete_cells", "collectives", "Of those, rows in which every rank has a usable time"),
)

_P2P_NAMES = ("coll", *(column.name for column in EVENT_COLUMNS if column.name.startswith("coll_")))
_P2P_COLUMNS = tuple(
    Column(column.name.replace("coll", "p2p", 1), column.type, column.role, column.unit, f"The same as {column.name}")
    for column in EVENT_COLUMNS
    if column.name in _P2P_NAMES and column.name not in ("coll_algo", "coll_proto")
)

# Views that are no table's. One row of each is ..., and its columns; those of `events` come first where it selects from
# that.
VIEWS: dict[str, tuple[str, bool, tuple[Column, ...]]] = {
    "series": (
        "one collective function of one communicator, which is what has sequence numbers of its own",
        False,
        SERIES_COLUMNS,
    ),
    "collectives": ("one row of `events` whose `kind` is collective", True, ()),
    "p2p": ("one row of `events` whose `kind` is p2p", True, _P2P_COLUMNS),
}


def keys_of(table: str) -> tuple[Column, ...]:
    """The keys that the view of a table has: those of whose parts it has all. A cell's `kind` is collective."""
    names = {column.name for column in TABLES[table]} | ({"kind"} if table == "cells" else set())
    return tuple(key for key, parts in KEY_PARTS.items() if names.issuperset(parts))


def added_columns(table: str) -> tuple[Column, ...]:
    """What the view of a table has besides the table's own columns."""
    if table == "events":
        return EVENT_DERIVED_COLUMNS
    run = () if RUN in TABLES[table] else (RUN,)
    return (*run, *((PROCESS, WRITER) if table in WITH_HEADERS else ()), *keys_of(table))
