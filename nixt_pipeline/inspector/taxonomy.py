"""Every column of every table, described once.

The role (the NIXT paper's taxonomy), the unit and the meaning of a column live here and nowhere else: Parquet field
metadata, the column schema in the Dagster UI, `docs/columns.md` and the report's glossary are generated from these
tables.
"""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class Role(StrEnum):
    """What a column is for, after the NIXT paper's taxonomy of Inspector fields."""

    IDENTIFIER = "Identifier"
    CONFIGURATION = "Configuration"
    WORKLOAD = "Workload"
    MEASUREMENT = "Measurement"
    COUNTER = "Counter"
    DERIVED = "Derived"


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, role, unit ("" for none) and meaning."""

    name: str
    type: pa.DataType
    role: Role
    unit: str
    meaning: str
    nullable: bool = True

    def field(self) -> pa.Field:
        """The Arrow field, carrying role, unit and meaning as metadata."""
        metadata = {"role": self.role.value, "unit": self.unit, "meaning": self.meaning}
        return pa.field(self.name, self.type, nullable=self.nullable, metadata=metadata)


def schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of a table described by `columns`."""
    return pa.schema([column.field() for column in columns])


def stored_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The schema of a large table on disk: strings, of which there are few different ones, as dictionaries."""
    plain = schema(columns)
    return pa.schema([field.with_type(_DICTIONARY) if field.type == STRING else field for field in plain])


_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
STRING = pa.string()
I32, I64, U64, F64, BOOL = pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.bool_()
ID, CONF, WORK = Role.IDENTIFIER, Role.CONFIGURATION, Role.WORKLOAD
MEAS, COUNT, DERIVED = Role.MEASUREMENT, Role.COUNTER, Role.DERIVED


def count(name: str, unit: str, meaning: str, *, nullable: bool = True) -> Column:
    """A whole number that counts or orders something."""
    return Column(name, I64, COUNT, unit, meaning, nullable)


def derived(name: str, unit: str, meaning: str) -> Column:
    """A real number computed from others."""
    return Column(name, F64, DERIVED, unit, meaning)


RUN = Column("run", STRING, ID, "", "Run: id of the dump directory, safe to use as a name", nullable=False)

_COMMUNICATOR_KEY = (
    Column("id", STRING, ID, "", "Communicator hash as written (at most 14 hex digits; new each time it is created)"),
    Column("comm_name", STRING, ID, "", "Name given by the framework; null if absent or 'unknown'"),
    Column("n_ranks", I32, CONF, "ranks", "Ranks in the communicator"),
    Column("nnodes", I32, CONF, "nodes", "NCCL's node count: NVLink domains, not necessarily hosts"),
)
_PROCESS_KEY = (
    Column("hostname", STRING, ID, "", "Host that wrote the record"),
    Column("pid", I64, ID, "", "Process id on that host; a process is normally one GPU, see `process`"),
)
_RANK = Column("rank", I32, ID, "", "Rank in this communicator, not the global rank")
# Who wrote a record, in the order in which large tables have it.
_WRITER = (*_COMMUNICATOR_KEY[:2], _RANK, *_COMMUNICATOR_KEY[2:], *_PROCESS_KEY)
PROCESS = Column(
    "process", STRING, DERIVED, "", "<hostname>-pid<pid>, with its rank if the process drives several GPUs"
)
INCARNATION = Column(
    "incarnation", I32, ID, "", "Launch: 1, 2, ... if a directory holds several (disjoint processes or times)"
)
PLACEMENT = Column("coll_type", STRING, DERIVED, "", "Placement: single-rank, nvlink-only, nic-only or mixed")
ROLE = Column("parallel_role", STRING, DERIVED, "", "tensor, data, pipeline, expert, context or world; null if unknown")

# What a worker writes for each record. The plugin's own names are kept, so that a query against NVIDIA's exporter runs
# here; P2P records use the same columns (coll is then Send or Recv) and carry a peer.
EVENT_COLUMNS: tuple[Column, ...] = (
    Column("kind", STRING, WORK, "", "collective or p2p", nullable=False),
    *_WRITER,
    Column(
        "inspector_output_format_version", STRING, ID, "", "Version the record claims; nixt goes by the keys instead"
    ),
    Column("git_rev", STRING, CONF, "", "git describe of the plugin's build; often empty"),
    Column("rec_mechanism", STRING, CONF, "", "How the plugin was attached"),
    count("dump_timestamp_us", "us", "Unix time at which the record was written, after the operation ended"),
    Column("coll", STRING, WORK, "", "NCCL function as written; Send or Recv for P2P"),
    Column("coll_algo", STRING, CONF, "", "NCCL algorithm (v4.2 and later)"),
    Column("coll_proto", STRING, CONF, "", "NCCL protocol (v4.2 and later)"),
    Column(
        "coll_sn", U64, COUNT, "", "Sequence number per communicator and function (P2P: the plugin's own, per rank)"
    ),
    Column("p2p_peer", I32, ID, "", "Peer's rank in the communicator; null for collectives"),
    Column(
        "coll_msg_size_bytes",
        U64,
        WORK,
        "bytes",
        "Per-rank count times type size (AllGather: send, ReduceScatter: receive)",
    ),
    Column(
        "coll_exec_time_us", F64, MEAS, "us", "GPU time with the wait for other ranks; null if unusable (see flags)"
    ),
    Column("coll_timing_source", STRING, MEAS, "", "kernel_gpu, kernel_cpu or collective_cpu; null if not written"),
    Column(
        "coll_algobw_gbs",
        F64,
        MEAS,
        "GB/s",
        "Algorithm bandwidth as written (in files: only if it differs from the formula)",
    ),
    Column(
        "coll_busbw_gbs",
        F64,
        MEAS,
        "GB/s",
        "Bus bandwidth as written (in files: only if it differs from the formula)",
    ),
    Column("flags", I32, DERIVED, "", "Bit mask of anomalies, see RecordFlag"),
    Column("extra", STRING, ID, "", "JSON of fields and values that have no typed column; null if none"),
    Column("file_id", I32, ID, "", "File that contained the record, see files", nullable=False),
    Column(
        "record_bytes", I32, COUNT, "bytes", "Length of the record in the log, including the line end", nullable=False
    ),
)

CHANNEL_COLUMNS: tuple[Column, ...] = (
    Column("file_id", I32, ID, "", "File that contained the record", nullable=False),
    Column("kind", STRING, WORK, "", "collective or p2p", nullable=False),
    *_WRITER,
    count("dump_timestamp_us", "us", "Write time of the record"),
    Column("coll", STRING, WORK, "", "NCCL function"),
    Column("coll_sn", U64, COUNT, "", "Sequence number of the operation"),
    count("start_ts", "us", "Host time at which NCCL prepared the operation; null if not observed"),
    count("stop_ts", "us", "Host time at which the launch call returned (not the end of the operation)"),
    count("start_sn", "", "Event order counter at the start of the operation"),
    count("stop_sn", "", "Event order counter at the end of the launch call"),
    Column("channel_id", pa.list_(I32), ID, "", "Channels in use; the following lists have one entry per channel"),
    Column(
        "kernel_start_ts", pa.list_(I64), COUNT, "us", "Host time at which the channel's kernel was observed to start"
    ),
    Column("kernel_stop_ts", pa.list_(I64), COUNT, "us", "Host time at which it was observed to stop"),
    Column("kernel_record_ts", pa.list_(I64), COUNT, "us", "Host time at which the GPU stop stamp was stored"),
    Column("kernel_start_sn", pa.list_(I64), COUNT, "", "Event order counters of the same events"),
    Column("kernel_stop_sn", pa.list_(I64), COUNT, "", "Event order counters of the same events"),
    Column("kernel_record_sn", pa.list_(I64), COUNT, "", "Event order counters of the same events"),
)

# Lines that are the plugin's but describe no operation: loss counters (dump_stats) and proxy traces.
AUXILIARY_COLUMNS: tuple[Column, ...] = (
    Column("file_id", I32, ID, "", "File that contained the line", nullable=False),
    count("byte_offset", "bytes", "Position in the decompressed file", nullable=False),
    Column("record_kind", STRING, WORK, "", "dump_stats or proxy_trace", nullable=False),
    *_WRITER,
    count("dump_timestamp_us", "us", "Write time"),
    Column("coll_dropped_total", U64, COUNT, "records", "Collectives dropped so far, as counted by the plugin"),
    Column("p2p_dropped_total", U64, COUNT, "records", "P2P operations dropped so far, as counted by the plugin"),
    Column("body", STRING, ID, "", "The record's own part as JSON", nullable=False),
)

REJECT_COLUMNS: tuple[Column, ...] = (
    Column("file_id", I32, ID, "", "File that contained the line", nullable=False),
    Column("path", STRING, ID, "", "Path below the run's directory", nullable=False),
    count("byte_offset", "bytes", "Position in the decompressed file", nullable=False),
    count("line", "", "Line number, from 1", nullable=False),
    count("bytes", "bytes", "Length of the rejected text", nullable=False),
    Column("outcome", STRING, DERIVED, "", "rejected or foreign", nullable=False),
    Column("reason", STRING, DERIVED, "", "Why it is not a record", nullable=False),
    Column("sample", STRING, ID, "", "First characters of the text", nullable=False),
)

FILE_COLUMNS: tuple[Column, ...] = (
    Column("file_id", I32, ID, "", "Stable number of the file within the run", nullable=False),
    Column("path", STRING, ID, "", "Path below the run's directory", nullable=False),
    count("size_bytes", "bytes", "Size on disk", nullable=False),
    count("mtime_ns", "ns", "Modification time", nullable=False),
    Column("fingerprint", STRING, ID, "", "Hash of size, head and tail of the file", nullable=False),
    Column(
        "compression", STRING, CONF, "", "Detected by magic bytes: none, gzip, bzip2, xz, zstd or lz4", nullable=False
    ),
    Column(
        "status",
        STRING,
        DERIVED,
        "",
        "read, empty, foreign, ignored (a leftover, an archive), duplicate, unreadable, vanished, or superseded",
        nullable=False,
    ),
    Column("problem", STRING, DERIVED, "", "What is wrong with the file, or why it was not read; null if nothing"),
    Column("hostname", STRING, ID, "", "Host according to the file name; null if it has none"),
    Column("pid", I64, ID, "", "Process id according to the file name; null if it has none"),
    count("first_dump_us", "us", "Earliest plausible write time in the file"),
    count("last_dump_us", "us", "Latest plausible write time in the file"),
    count("records_collective", "records", "Stored collectives", nullable=False),
    count("records_p2p", "records", "Stored P2P operations", nullable=False),
    count("records_auxiliary", "records", "Stored dump_stats and proxy_trace lines", nullable=False),
    count("records_duplicate", "records", "Records that were already stored", nullable=False),
    count("lines_rejected", "lines", "Lines that are not records", nullable=False),
    count("lines_foreign", "lines", "Lines recognised as another program's", nullable=False),
    count("bytes_read", "bytes", "After decompression and decoding to UTF-8", nullable=False),
    count("bytes_stored", "bytes", "Bytes of stored records", nullable=False),
    count("bytes_duplicate", "bytes", "Bytes of duplicates", nullable=False),
    count("bytes_rejected", "bytes", "Bytes of rejected lines", nullable=False),
    count(
        "bytes_foreign",
        "bytes",
        "Bytes of foreign files and lines, and of other programs' text on a line with a record",
        nullable=False,
    ),
    count("bytes_blank", "bytes", "Blank lines, byte order marks, padding", nullable=False),
    Column("content_digest", STRING, ID, "", "Hash of the decompressed content; files with equal digests are copies"),
)

_SPAN = (
    count("records", "records", "Stored records", nullable=False),
    count("first_dump_us", "us", "Earliest plausible write time"),
    count("last_dump_us", "us", "Latest plausible write time"),
)

MEMBERSHIP_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    *_COMMUNICATOR_KEY,
    _RANK,
    *_PROCESS_KEY,
    PROCESS,
    *_SPAN,
    count("records_p2p", "records", "P2P operations among the records", nullable=False),
)

# Only where records of one communicator differ in its name, or a process holds several of its ranks.
IDENTITY_COLUMNS: tuple[Column, ...] = (
    RUN,
    *_COMMUNICATOR_KEY,
    _RANK,
    *_PROCESS_KEY,
    Column("common_name", STRING, DERIVED, "", "Name of the communicator in all other tables"),
    Column("common_nnodes", I32, DERIVED, "", "Its node count in all other tables"),
    Column("machine", STRING, DERIVED, "", "Host in all other tables, with a suffix for machines that share a name"),
    PROCESS,
    Column("certain", BOOL, DERIVED, "", "Whether the rank can be no other rank of the process", nullable=False),
)

COMMUNICATOR_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    *_COMMUNICATOR_KEY,
    PLACEMENT,
    derived("ranks_per_node", "ranks", "n_ranks / nnodes"),
    Column("ranks_seen", I32, COUNT, "ranks", "Distinct ranks with records"),
    Column("hosts_seen", I32, COUNT, "hosts", "Distinct hosts with records"),
    ROLE,
    Column("parallel_role_source", STRING, DERIVED, "", "name or shape: what the role was derived from"),
    *_SPAN,
)

PROCESS_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    *_PROCESS_KEY,
    PROCESS,
    Column("global_rank", I32, DERIVED, "", "Rank in the largest communicator of all processes; null if there is none"),
    Column("communicators", I32, COUNT, "", "Distinct communicators"),
    *_SPAN,
)

HOST_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    Column("hostname", STRING, ID, "", "Host name as written"),
    Column("processes", I32, COUNT, "", "Distinct processes"),
    Column("communicators", I32, COUNT, "", "Distinct communicators"),
    *_SPAN,
)

CELL_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    *_COMMUNICATOR_KEY,
    PLACEMENT,
    Column("coll", STRING, WORK, "", "NCCL function"),
    Column("coll_sn", U64, COUNT, "", "Sequence number of the collective"),
    Column("occurrence", I32, DERIVED, "", "1, 2, ... if a rank repeats a sequence number (CUDA graph replays)"),
    Column("coll_msg_size_bytes", U64, WORK, "bytes", "Message size; the largest if ranks disagree"),
    Column("size_mismatch", BOOL, DERIVED, "", "Whether ranks reported different sizes"),
    Column("ranks_seen", I32, COUNT, "ranks", "Ranks with a record of this collective"),
    Column("ranks_timed", I32, COUNT, "ranks", "Of those, ranks with a usable execution time"),
    Column("ranks_gpu_timed", I32, COUNT, "ranks", "Of those, ranks timed by the GPU"),
    Column("complete", BOOL, DERIVED, "", "Whether every rank of the communicator has a usable time"),
    Column("min_exec_time_us", F64, MEAS, "us", "Shortest time: of the last rank to arrive, closest to the transfer"),
    Column("min_rank", I32, ID, "", "Rank with the shortest time"),
    Column("min_hostname", STRING, ID, "", "Its host"),
    Column("min_pid", I64, ID, "", "Its process id"),
    Column("second_min_exec_time_us", F64, MEAS, "us", "Second shortest time"),
    Column("second_min_rank", I32, ID, "", "Rank with the second shortest time"),
    Column("second_min_hostname", STRING, ID, "", "Its host"),
    Column("second_min_pid", I64, ID, "", "Its process id"),
    Column("max_exec_time_us", F64, MEAS, "us", "Longest time: that of the first rank to arrive"),
    Column("sum_exec_time_us", F64, MEAS, "us", "Sum over ranks"),
    derived("wait_us", "us", "Time beyond the shortest, summed over ranks: rank-time spent waiting"),
    derived("transfer_busbw_gbs", "GB/s", "Bus bandwidth from the shortest time; null unless complete"),
    count("first_dump_us", "us", "Earliest write time among the ranks"),
    count("last_dump_us", "us", "Latest write time among the ranks"),
)

_EVENT = {column.name: column for column in EVENT_COLUMNS}

KERNEL_TIME_COLUMNS: tuple[Column, ...] = (
    RUN,
    INCARNATION,
    *(_EVENT[name] for name in ("kind", "coll")),
    PLACEMENT,
    *(_EVENT[name] for name in ("n_ranks", "nnodes", "coll_msg_size_bytes", "inspector_output_format_version")),
    *(_EVENT[name] for name in ("git_rev", "rec_mechanism", "coll_timing_source")),
    Column("parallel_role", STRING, DERIVED, "", "Role of the communicator, as in communicators"),
    _EVENT["coll_exec_time_us"],
    Column("coll_busbw_gbs", F64, MEAS, "GB/s", "Bus bandwidth as written"),
    count("records", "records", "Number of stored records with these values", nullable=False),
)

# The physical tables of a run, in the order in which the store lists them.
TABLES: dict[str, tuple[Column, ...]] = {
    "events": EVENT_COLUMNS,
    "channels": CHANNEL_COLUMNS,
    "auxiliary": AUXILIARY_COLUMNS,
    "rejects": REJECT_COLUMNS,
    "files": FILE_COLUMNS,
    "membership": MEMBERSHIP_COLUMNS,
    "identities": IDENTITY_COLUMNS,
    "communicators": COMMUNICATOR_COLUMNS,
    "processes": PROCESS_COLUMNS,
    "hosts": HOST_COLUMNS,
    "cells": CELL_COLUMNS,
    "kernel_times": KERNEL_TIME_COLUMNS,
}
