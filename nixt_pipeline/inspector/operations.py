"""NCCL operations: placement classes, bandwidth formulas and the oddities a record can carry."""

import math
from enum import IntFlag

# Display order of the paper. A placement class, not a transport: see `coll_type`.
COLL_TYPES = ("nic-only", "nvlink-only", "mixed", "single-rank")

# NVIDIA's exporter and the paper's data files write hca-only for what the paper's figures call nic-only.
COLL_TYPE_ALIASES = {"hca-only": "nic-only"}

# No rank can finish one of these before the last one arrives, and all finish together: the shortest time is the closest
# to the transfer itself. In Broadcast and Reduce a rank may be done early, and in an all-to-all the parts may differ:
# releases log it as Sends and Recvs, records of its name are from other builds and have no bandwidth.
_END_TOGETHER = ("AllReduce", "AllGather", "ReduceScatter")
# No rank completes one of these before all have started it, which says nothing of its time.
_WAIT_FOR_ALL = (*_END_TOGETHER, "All2All", "AlltoAll", "AllGatherV")

# Traffic that one rank's record stands for, in message sizes: the plugin's own formula (1, or the number of ranks).
_TRAFFIC_TIMES_RANKS = ("AllGather", "AllGatherV", "ReduceScatter")
_BANDWIDTH_FUNCTIONS = (*_END_TOGETHER, "AllGatherV", "Broadcast", "Reduce", "Send", "Recv", "SendRecv")


class RecordFlag(IntFlag):
    """Oddities of a record that its typed columns do not show by themselves."""

    TIME_ZERO = 1  # execution time 0: below the resolution or not measured, never "infinitely fast"
    TIME_WRAPPED = 2  # a CPU-timed subtraction below zero, written as almost 2^64
    TIME_NEGATIVE = 4
    SIZE_REPAIRED = 8  # ncclUint8 is unknown to the plugin, which writes 2^64 - count
    BANDWIDTH_INVALID = 16  # inf, nan, null, negative or no number at all was written
    BANDWIDTH_UNDEFINED = 32  # 0 by construction: one rank, an unknown function, or no usable time or size
    TIMESTAMP_IMPLAUSIBLE = 64  # no Unix time in microseconds: kept, but no use on a time axis
    UNKNOWN_FUNCTION = 128
    BANDWIDTH_ABSENT = 512  # the record has no bandwidth field
    VALUE_OUT_OF_RANGE = 256  # a value that its column cannot hold; the original is in `extra`
    SN_IMPLAUSIBLE = 1024  # more operations than a job can do; the original is in `extra`
    SIZE_IMPLAUSIBLE = 2048  # a message larger than any memory; the original is in `extra`


# A record with one of these has at least one bandwidth that the formula does not give.
BANDWIDTH_FLAGS = RecordFlag.BANDWIDTH_INVALID | RecordFlag.BANDWIDTH_UNDEFINED | RecordFlag.BANDWIDTH_ABSENT


def ends_together(coll: str) -> bool:
    """Whether no rank finishes the function `coll` before the last one arrives, and all finish together: only there do
    times split into waiting and transfer. The macro of the same name says so in SQL."""
    return coll in _END_TOGETHER


def has_bandwidth(coll: str) -> bool:
    """Whether the plugin knows a bandwidth formula for the function `coll`; for any other it writes 0."""
    return coll in _BANDWIDTH_FUNCTIONS


def coll_type(n_ranks: int, nnodes: int) -> str:
    """Placement class of a communicator, by the paper's rules in the paper's order.

    It tells where the ranks sit, not which transport carried the bytes: a multi-node NVLink rack is one "node" to NCCL,
    and a node without NVLink is still `nvlink-only`.
    """
    if n_ranks == 1:
        return "single-rank"
    if nnodes == 1:
        return "nvlink-only"
    return "nic-only" if n_ranks == nnodes else "mixed"


def algobw_gbs(coll: str, size_bytes: float, n_ranks: int, exec_time_us: float) -> float | None:
    """Algorithm bandwidth in GB/s (1e9 bytes) as the plugin computes it; None without a formula or a positive time."""
    if not has_bandwidth(coll) or exec_time_us <= 0:
        return None
    traffic_bytes = size_bytes * n_ranks if coll in _TRAFFIC_TIMES_RANKS else size_bytes
    return traffic_bytes / exec_time_us / 1000.0


def busbw_gbs(coll: str, size_bytes: float, n_ranks: int, exec_time_us: float) -> float | None:
    """Bus bandwidth in GB/s: algorithm bandwidth times nccl-tests' factor. None for a single rank, which has no bus."""
    algobw = algobw_gbs(coll, size_bytes, n_ranks, exec_time_us)
    if algobw is None or n_ranks <= 1:
        return None
    if coll == "AllReduce":
        return algobw * 2 * (n_ranks - 1) / n_ranks
    return algobw * (n_ranks - 1) / n_ranks if coll in _TRAFFIC_TIMES_RANKS else algobw


def to_six_decimals(value: float) -> float:
    """A bandwidth as the plugin prints it. The same operations as in SQL and in the scanner, so that all agree
    exactly."""
    millionths = value * 1e6 + 0.5
    return math.floor(millionths) / 1e6 if math.isfinite(millionths) else millionths


# The same formulas for DuckDB, each written out: a macro within a macro is computed once for each mention. `wire_bytes`
# is what a rank sends in a ring: 2S(n-1)/n, S(n-1), or S.
SQL_MACROS = f"""
CREATE OR REPLACE MACRO ends_together(coll) AS coll IN {_END_TOGETHER};
CREATE OR REPLACE MACRO waits_for_all(coll) AS coll IN {_WAIT_FOR_ALL};
CREATE OR REPLACE MACRO coll_type(n_ranks, nnodes) AS CASE
    WHEN n_ranks = 1 THEN 'single-rank'
    WHEN nnodes = 1 THEN 'nvlink-only'
    WHEN n_ranks = nnodes THEN 'nic-only'
    WHEN n_ranks IS NOT NULL AND nnodes IS NOT NULL THEN 'mixed'
END;
CREATE OR REPLACE MACRO algobw_gbs(coll, size_bytes, n_ranks, exec_time_us) AS CASE
    WHEN exec_time_us <= 0 THEN NULL
    WHEN coll IN ('AllGather', 'AllGatherV', 'ReduceScatter') THEN size_bytes::DOUBLE * n_ranks / exec_time_us / 1000
    WHEN coll IN ('AllReduce', 'Broadcast', 'Reduce', 'Send', 'Recv', 'SendRecv')
        THEN size_bytes::DOUBLE / exec_time_us / 1000
END;
CREATE OR REPLACE MACRO busbw_gbs(coll, size_bytes, n_ranks, exec_time_us) AS CASE
    WHEN n_ranks <= 1 OR exec_time_us <= 0 THEN NULL
    WHEN coll IN ('AllGather', 'AllGatherV', 'ReduceScatter')
        THEN size_bytes::DOUBLE * n_ranks / exec_time_us / 1000 * (n_ranks - 1) / n_ranks
    WHEN coll = 'AllReduce' THEN size_bytes::DOUBLE / exec_time_us / 1000 * 2 * (n_ranks - 1) / n_ranks
    WHEN coll IN ('Broadcast', 'Reduce', 'Send', 'Recv', 'SendRecv') THEN size_bytes::DOUBLE / exec_time_us / 1000
END;
CREATE OR REPLACE MACRO bin_start(time_us, start_us, bin_width_us) AS
    start_us + (time_us - start_us) // bin_width_us * bin_width_us;
CREATE OR REPLACE MACRO to_six_decimals(x) AS floor(x * 1e6 + 0.5) / 1e6;
CREATE OR REPLACE MACRO wire_bytes(coll, size_bytes, n_ranks) AS CASE
    WHEN coll = 'AllReduce' THEN size_bytes::DOUBLE * 2 * (n_ranks - 1) / n_ranks
    WHEN coll IN ('AllGather', 'AllGatherV', 'ReduceScatter') THEN size_bytes::DOUBLE * (n_ranks - 1)
    WHEN coll IN ('Broadcast', 'Reduce', 'Send', 'Recv', 'SendRecv') THEN size_bytes::DOUBLE
END;
-- Joining and grouping by four or five strings and numbers costs several times as much as by their hash.
CREATE OR REPLACE MACRO comm_key(id, comm_name, n_ranks, nnodes) AS hash(id, comm_name, n_ranks, nnodes);
CREATE OR REPLACE MACRO kernel_key(kind, coll, n_ranks, nnodes, size_bytes) AS
    hash(kind, coll, n_ranks, nnodes, size_bytes);
"""


def format_bytes(size_bytes: float) -> str:
    """A size for people, to three digits in decimal units as in the paper: `13.5 MB`, `672 B`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # From here on three digits round up to the next unit: 999,600 bytes are 1 MB, not 1000 kB.
        if size_bytes >= 0.9995 * scale:
            return f"{size_bytes / scale:.3g} {unit}"
    return f"{size_bytes:.0f} B"
