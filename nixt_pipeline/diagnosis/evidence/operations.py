"""What one process completed, communicator by communicator, in order."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.evidence.passes import PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process, name_of
from nixt_pipeline.diagnosis.evidence.tables import RunTables

# A process of which all communicators have long steps has thousands of different operations.
MOST_OPERATIONS = 50_000

# The rows keep the order of its log, in which a communicator has its operations as they were completed; what was
# written at once has one time.
_COMPLETED = """
SELECT comm_key, hash(coll, coalesce(coll_msg_size_bytes, 0)) AS operation, hash(comm_key, coll) AS series,
    coll_sn::BIGINT AS sn, coalesce(dump_timestamp_us, 0) AS written_us
FROM plausible_events
WHERE hostname = $hostname AND pid = $pid AND writer = writer_of($process, $hostname, $pid)
    AND kind = 'collective' AND n_ranks > 1 AND coll_sn IS NOT NULL
"""

# Its different operations, by hash.
_OPERATIONS = """
SELECT DISTINCT hash(coll, coalesce(coll_msg_size_bytes, 0)) AS operation, coll,
    coalesce(coll_msg_size_bytes, 0) AS size_bytes
FROM plausible_events
WHERE hostname = $hostname AND pid = $pid AND writer = writer_of($process, $hostname, $pid)
    AND kind = 'collective' AND n_ranks > 1 AND coll_sn IS NOT NULL
ORDER BY operation
LIMIT $most + 1
"""

# How many collectives of each communicator anybody recorded; those of CUDA graphs are no steps.
_KNOWN = """
SELECT comm_key, count(*)
FROM cells
WHERE incarnation = $incarnation AND n_ranks > 1 AND coll_sn IS NOT NULL AND ranks_seen <= n_ranks
    AND occurrence = 1
GROUP BY comm_key
"""


@dataclass(frozen=True)
class Operation:
    """A collective function and the size of its message in bytes."""

    coll: str
    size_bytes: int


@dataclass(frozen=True)
class Log:
    """What one process completed in one communicator, in which pass of the dump thread it wrote each of that, and when
    (Unix microseconds; empty where that is not known)."""

    operations: list[Operation]
    passes: Ints
    written_us: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def read_logs(
    run: RunTables, incarnation: int, process: Process, communicators: Collection[int], most_operations: int
) -> dict[int, Log]:
    """What one process of a launch wrote in those of the `communicators` (hashes) of which it recorded all that anybody
    did; nothing when it has more different operations than `most_operations`."""
    con = run.con
    known = dict(con.sql(_KNOWN, params={"incarnation": incarnation}).fetchall())
    own_records = {"hostname": process[0], "pid": process[1], "process": name_of(process)}
    distinct = con.sql(_OPERATIONS, params=own_records | {"most": most_operations}).fetchall()
    if len(distinct) > most_operations:
        return {}  # what hardly ever repeats has no steps
    operations = {number: Operation(coll, size) for number, coll, size in distinct}
    con.execute("SET preserve_insertion_order = true")
    rows = con.sql(_COMPLETED, params=own_records).fetchnumpy()
    con.execute("SET preserve_insertion_order = false")
    times = np.sort(rows["written_us"])
    begins = times[np.diff(times, prepend=times[:1]) > PASS_US]
    by_time = np.lexsort((rows["written_us"], rows["comm_key"]))  # stable
    order = by_number(by_time, rows["series"], rows["sn"])
    found, firsts = np.unique(rows["comm_key"][by_time], return_index=True)
    logs = {}
    places = (np.split(in_turn, firsts[1:]) for in_turn in (order, by_time))
    for communicator, own, in_time in zip(found.tolist(), *places, strict=True):
        done = [operations[number] for number in rows["operation"][own].tolist()]
        written_us = rows["written_us"][in_time]
        log = Log(done, np.searchsorted(begins, written_us, "right"), written_us)
        if communicator in communicators and len(own) == known.get(communicator):
            logs[communicator] = log
    return logs


def by_number(order: Ints, series: Ints, numbers: Ints) -> Ints:
    """The records in `order`, but those of one series among themselves by their sequence numbers: times within a pass
    of the dump thread, and of logs that were merged, need not rise."""
    places = np.argsort(series[order], kind="stable")
    sorted_by_number: Ints = np.empty_like(order)
    sorted_by_number[places] = np.lexsort((numbers, series))
    return sorted_by_number
