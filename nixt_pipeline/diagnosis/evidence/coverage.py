"""How much of a run was recorded, and what became of the rest: what every verdict rests on.

The plugin drops records silently. Ranks of a communicator count the same operations, so that a gap in the sequence
numbers shows; why it is there follows from which other ranks have the record.
"""

from dataclasses import dataclass

from nixt_pipeline.diagnosis.evidence.frontier import EarlyEnd, Reach, early_ends, read_frontier
from nixt_pipeline.diagnosis.evidence.processes import Process, process_of
from nixt_pipeline.diagnosis.evidence.queries import USABLE
from nixt_pipeline.diagnosis.evidence.recording import has_one_slot
from nixt_pipeline.diagnosis.evidence.tables import RunTables
from nixt_pipeline.diagnosis.findings import REPLAYED, RunCoverage
from nixt_pipeline.settings import Thresholds

# Causes of missing records, in words.
OVERFLOW = "ring overflow, counted by the plugin"
RING = "ring overflow"
ONE_SLOT = "one-slot sampling of NCCL 2.28 and 2.29"
SIZE_FILTER = "below the minimum size, or without GPU time on all ranks"
NO_FILE = "processes without a log"
CUT_FILE = "file cut short"
EARLY_END = "log ends before its process did"
UNKNOWN = "unknown"

# Why collectives were left out, in words.
BROKEN_NUMBER = "have no usable sequence number"
SIZES_DIFFER = "have sizes that differ between ranks"
NOT_TIMED = "lack GPU times"
ONE_RANK = "were recorded by one rank only"
TOO_MANY_RANKS = "were recorded by more ranks than there are"

# What a 2.30 plugin remembers of each communicator between two dumps (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE).
_RING_RECORDS = 1024

_SERIES = """
CREATE OR REPLACE TEMP TABLE covered_series AS
SELECT
    incarnation, comm_key, n_ranks, coll,
    count(*) FILTER (occurrence > 1) AS replays,
    max(coll_sn) - min(coll_sn) + 1 + replays AS numbers, count(*) AS cells,
    sum(ranks_seen) AS recorded
FROM cells
WHERE n_ranks > 1 AND coll_sn IS NOT NULL AND ranks_seen <= n_ranks
GROUP BY ALL
"""

# Of each communicator: records that its ranks should have, and have; numbers that no rank has; processes without any.
_LOSSES = """
WITH series AS (
    SELECT
        comm_key, n_ranks, sum(numbers) AS numbers, sum(recorded) AS recorded, sum(numbers - cells) AS by_nobody
    FROM covered_series
    GROUP BY ALL
),
members AS (
    SELECT
        comm_key, count(*) AS seen,
        bool_and((records - records_p2p) % $ring = 0) AS whole_rings
    FROM membership
    GROUP BY ALL
),
dropped AS (
    SELECT comm_key, sum(dropped) AS dropped
    FROM (
        SELECT comm_key, rank, hostname, pid, max(coll_dropped_total) AS dropped
        FROM auxiliary
        WHERE record_kind = 'dump_stats'
        GROUP BY ALL
    )
    GROUP BY ALL
)
SELECT
    s.comm_key, m.whole_rings,
    s.n_ranks * s.numbers AS expected, s.recorded,
    greatest(s.n_ranks - m.seen, 0) * (s.numbers - s.by_nobody) AS without_log,
    s.n_ranks * s.by_nobody AS by_nobody, coalesce(d.dropped, 0) AS dropped
FROM series AS s
JOIN members AS m ON m.comm_key = s.comm_key
LEFT JOIN dropped AS d ON d.comm_key = s.comm_key
"""

_PROCESSES = """
WITH series AS (SELECT comm_key, sum(numbers) AS numbers FROM covered_series GROUP BY comm_key)
SELECT
    m.hostname, m.pid, coalesce(m.process, m.hostname || '-pid' || m.pid) AS process,
    least(sum(m.records - m.records_p2p) / sum(s.numbers), 1) AS rate
FROM membership AS m
JOIN series AS s ON s.comm_key = m.comm_key
WHERE m.hostname IS NOT NULL AND m.pid IS NOT NULL
GROUP BY m.hostname, m.pid, m.process
ORDER BY rate, m.hostname, m.pid, m.process
"""

_TOTALS = """
WITH ranks AS (
    SELECT incarnation, sum(n_ranks) AS expected, sum(ranks_seen) AS seen,
        -- A size that only one rank gives may be broken.
        coalesce(max(n_ranks) FILTER (ranks_seen > 1), 0) AS largest
    FROM communicators
    GROUP BY incarnation
),
synchronising AS (
    SELECT
        count(*) AS cells, count(*) FILTER (complete) AS complete,
        sum(ranks_gpu_timed) / nullif(sum(ranks_timed), 0) AS gpu_timed,
        count(coll_msg_size_bytes) / nullif(count(*), 0) AS sized
    FROM cells WHERE n_ranks > 1 AND ends_together(coll)
)
SELECT
    (SELECT count(*) FROM processes) AS ranks_seen,
    -- Who never wrote a record is known from the sizes of the communicators only, of which one may be the whole job.
    (SELECT greatest(
        ceil(count(*) * coalesce((SELECT sum(expected) / nullif(sum(seen), 0) FROM ranks), 1)),
        (SELECT sum(largest) FROM ranks)
    )::BIGINT FROM processes) AS ranks_expected,
    (SELECT count(*) FROM events) AS records,
    s.cells, s.complete / nullif(s.cells, 0) AS complete_cells, s.gpu_timed, s.sized
FROM synchronising AS s
"""

_NAMELESS = """
SELECT count(*) AS nameless, any_value(n_ranks) AS n_ranks
FROM membership
WHERE n_ranks > 1 AND (hostname IS NULL OR pid IS NULL)
GROUP BY id, comm_name, n_ranks, nnodes, incarnation
ORDER BY nameless DESC, n_ranks DESC
LIMIT 1
"""

_BY_LAUNCH = "SELECT count(*) FROM processes GROUP BY incarnation ORDER BY incarnation"

# The diagnosis compares the ranks of what is `usable`; everything else is no evidence, and counted by its reason.
_LOOKED_AT = f"""
SELECT
    CASE
        WHEN c.coll_sn IS NULL THEN '{BROKEN_NUMBER}'
        WHEN c.ranks_seen > 1 AND {USABLE} THEN 'usable'
        WHEN c.size_mismatch THEN '{SIZES_DIFFER}'
        WHEN c.ranks_gpu_timed < c.ranks_seen THEN '{NOT_TIMED}'
        WHEN c.ranks_seen = 1 THEN '{ONE_RANK}'
        ELSE '{TOO_MANY_RANKS}'
    END AS outcome,
    count(*) AS cells
FROM ordered_cells AS c
WHERE c.n_ranks > 1 AND ends_together(c.coll)
GROUP BY outcome
"""

# A file that was cut ends within a record, within its compression, or where a block of its file system does.
_CUT_FILES = """
WITH ends AS (
    SELECT file_id, max(byte_offset + bytes) AS cut_at
    FROM rejects
    WHERE reason = 'record cut short or malformed'
    GROUP BY file_id
)
SELECT
    f.file_id, f.problem IS NOT NULL OR coalesce(e.cut_at >= f.bytes_read - 1, false) AS damaged,
    damaged OR f.size_bytes % 4096 = 0 AS perhaps_cut
FROM files AS f LEFT JOIN ends AS e ON e.file_id = f.file_id
WHERE f.size_bytes > 0 AND f.status NOT IN ('foreign', 'ignored')
"""
# By their content: containers and machines can share a name.
_WRITERS = """
SELECT DISTINCT hostname, pid, process FROM stored_events
WHERE file_id IN (SELECT unnest($files)) AND hostname IS NOT NULL AND pid IS NOT NULL
"""


@dataclass(frozen=True)
class Capture:
    """The share of its collectives that one process recorded."""

    process: Process
    rate: float


@dataclass(frozen=True)
class Recorded:
    """What is known of the recording of a run: its coverage; the share that each process recorded, worst first;
    whether the plugin remembered one operation only; how far each rank got; whose log ends early; and of the
    communicator that lacks most of them, how many ranks say neither host nor process, and how many it has."""

    coverage: RunCoverage
    captures: list[Capture]
    one_slot: bool
    frontier: list[Reach]
    early: dict[Process, EarlyEnd]
    cut: frozenset[Process]
    nameless: tuple[int, int] | None = None


def measure(run: RunTables, limits: Thresholds) -> Recorded:
    """How a run was recorded."""
    con = run.con
    seen, expected, records, cells, complete, gpu_timed, sized = con.sql(_TOTALS).fetchall()[0]
    left_out = dict(con.sql(_LOOKED_AT).fetchall())
    left_out[REPLAYED] = int(cells) - sum(left_out.values())
    usable = left_out.pop("usable", 0)
    con.execute(_SERIES)
    captures = [
        Capture(process_of(host, pid, name), float(rate)) for host, pid, name, rate in con.sql(_PROCESSES).fetchall()
    ]
    one_slot, frontier = has_one_slot(run), read_frontier(run)
    early = early_ends(frontier, one_slot, limits)
    files = con.sql(_CUT_FILES).fetchall()
    perhaps_cut = [file_id for file_id, _, perhaps_cut in files if perhaps_cut]
    writers = con.sql(_WRITERS, params={"files": perhaps_cut}).fetchall() if early and perhaps_cut else []
    cut = frozenset(early).intersection(process_of(*writer) for writer in writers)
    losses: dict[str, int] = {}
    all_expected, all_recorded = 0, 0
    for comm, whole_rings, of_all, recorded, without_log, by_nobody, dropped in con.sql(
        _LOSSES, params={"ring": _RING_RECORDS}
    ).fetchall():
        all_expected += int(of_all)
        all_recorded += int(recorded)
        known = [
            (NO_FILE, int(without_log)),
            (CUT_FILE, sum(end.missing.get(comm, 0) for process, end in early.items() if process in cut)),
            (EARLY_END, sum(end.missing.get(comm, 0) for process, end in early.items() if process not in cut)),
            (OVERFLOW, int(dropped)),
        ]
        for cause, lost in _attributed(int(of_all - recorded), known, one_slot, whole_rings, int(by_nobody)):
            losses[cause] = losses.get(cause, 0) + lost
    coverage = RunCoverage(
        ranks_seen=int(seen),
        ranks_expected=int(expected),
        records=int(records),
        complete_cells=complete,
        usable_collectives=int(usable),
        capture_rate=min(1.0, all_recorded / all_expected) if all_expected else None,
        lowest_capture_rate=captures[0].rate if captures else None,
        gpu_timed=gpu_timed,
        sized=sized,
        losses={cause: lost for cause, lost in sorted(losses.items()) if lost > 0},
        left_out={reason: cells for reason, cells in sorted(left_out.items()) if cells > 0},
        ranks_by_launch=tuple(ranks for (ranks,) in con.sql(_BY_LAUNCH).fetchall()),
        cut_files=sum(damaged for _, damaged, _ in files),
    )
    return Recorded(coverage, captures, one_slot, frontier, early, cut, next(iter(con.sql(_NAMELESS).fetchall()), None))


def _attributed(
    missing: int, known: list[tuple[str, int]], one_slot: bool, whole_rings: bool, by_nobody: int
) -> list[tuple[str, int]]:
    """The missing records of one communicator by cause: what is `known`, and then what the rest looks like."""
    parts = []
    for cause, lost in known:
        parts.append((cause, min(missing, lost)))
        missing -= min(missing, lost)
    if one_slot:
        return [*parts, (ONE_SLOT, missing)]
    if whole_rings:
        return [*parts, (RING, missing)]
    # A ring forgets at each rank something else; what all lack was never to be recorded.
    filtered = min(missing, by_nobody)
    return [*parts, (SIZE_FILTER, filtered), (UNKNOWN, missing - filtered)]
