"""How far everybody got: the last sequence number of each process in each series, and whose log ends early.

A process whose peers completed later collectives took part in them, for none of these completes without it: it is its
log that ended, whether the file was cut, the disk was full, or the dump thread stopped.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nixt_pipeline.diagnosis.evidence.alike import UNKNOWN, Pace
from nixt_pipeline.diagnosis.evidence.processes import Process, process_of
from nixt_pipeline.diagnosis.evidence.tables import RunTables
from nixt_pipeline.settings import Thresholds

_FRONTIER = """
WITH reached AS (
    SELECT
        comm_key, coll, writer,
        max(coll_sn)::BIGINT AS last_sn, min(coll_sn)::BIGINT AS first_sn, count(*) AS records,
        max(dump_timestamp_us) AS last_us, min(dump_timestamp_us) AS first_us,
        -- The slope of few numbers, written in a pass or two, is that of the passes.
        CASE WHEN last_sn - first_sn >= $regular THEN regr_slope(coll_sn, dump_timestamp_us) END AS per_us,
        exp(avg(ln(greatest(coll_msg_size_bytes, 1)))) AS size_bytes
    FROM eager_records  -- a number that repeats does not say how far a process got
    WHERE waits_for_all(coll) AND coll_sn IS NOT NULL
        AND n_ranks > 1 AND hostname IS NOT NULL AND pid IS NOT NULL
    GROUP BY ALL
),
writers AS (SELECT DISTINCT writer_of(process, hostname, pid) AS writer, hostname, pid, process FROM processes)
SELECT
    comm_key, coll, hostname, pid, process, last_sn, first_sn, records, last_us, first_us, per_us, size_bytes
FROM reached JOIN writers USING (writer)
ORDER BY ALL
"""

# A communicator of the start-up has fewer collectives; its end changes nothing, and says nothing of the job's.
REGULAR = 20


@dataclass(frozen=True)
class Reach:
    """What one process recorded of one series, a collective function of one communicator (by the hash of its
    identity): its first and last sequence number, how many records it has, and when the last and the first one were
    written, and its pace. Numbers count from the one that was reached `before` the era that is looked at."""

    communicator: int
    coll: str
    process: Process
    last: int
    first: int
    records: int
    last_us: int | None
    first_us: int | None = None
    pace: Pace = UNKNOWN
    before: int = 0


@dataclass(frozen=True)
class EarlyEnd:
    """A log that ends before those of its process's peers: how many records it lacks, by communicator; whether it is
    `long` before (more than what a process had not written yet when the job ended); when its last one was written."""

    missing: dict[int, int]
    long: bool
    last_us: int | None


def read_frontier(run: RunTables) -> list[Reach]:
    """The reach of every process of the run."""
    rows = run.con.sql(_FRONTIER, params={"regular": REGULAR}).fetchall()
    return [
        Reach(
            comm, coll, process_of(host, pid, name), last, first, records, last_us, first_us, Pace(per_us, size_bytes)
        )
        for comm, coll, host, pid, name, last, first, records, last_us, first_us, per_us, size_bytes in rows
    ]


def newest_functions(frontier: Iterable[Reach]) -> dict[int, str]:
    """Which function each communicator completed last, by the time at which it was written."""
    newest: dict[int, tuple[int, str]] = {}
    for reach in frontier:
        newest[reach.communicator] = max((reach.last_us or 0, reach.coll), newest.get(reach.communicator, (0, "")))
    return {communicator: coll for communicator, (_, coll) in newest.items()}


def early_ends(frontier: Sequence[Reach], one_slot: bool, limits: Thresholds) -> dict[Process, EarlyEnd]:
    """The processes whose log ends before those of their peers by more than losses at random explain.

    A plugin with one slot does not lose at random, but it keeps the last operation of each communicator: only that
    counts. Of whose records hardly any are there, the end is not known.
    """
    if one_slot:
        newest = newest_functions(frontier)
        frontier = [reach for reach in frontier if newest[reach.communicator] == reach.coll]
    of_process: dict[Process, list[Reach]] = defaultdict(list)
    furthest: dict[tuple[int, str], int] = defaultdict(int)
    for reach in frontier:
        of_process[reach.process].append(reach)
        series = (reach.communicator, reach.coll)
        furthest[series] = max(furthest[series], reach.last)
    chance = limits.diagnosis.early_end_chance
    lost_anywhere = _lost(reach for reaches in of_process.values() for reach in reaches)
    found = {}
    for process, reaches in sorted(of_process.items()):
        lag = sum(furthest[reach.communicator, reach.coll] - reach.last for reach in reaches)
        lost = max(_lost(reaches), lost_anywhere)
        if lost <= 1 - limits.diagnosis.min_assessable_share and lost**lag * len(of_process) <= chance:
            missing: dict[int, int] = defaultdict(int)
            for reach in reaches:
                missing[reach.communicator] += furthest[reach.communicator, reach.coll] - reach.last
            times = [reach.last_us for reach in reaches if reach.last_us is not None]
            found[process] = EarlyEnd(dict(missing), _long_before(reaches, furthest, limits), max(times, default=None))
    return found


def _lost(reaches: Iterable[Reach]) -> float:
    """The share of records lost before the last one; what lost none so far may lose the next."""
    spans, records = 1, 0
    for reach in reaches:
        spans += reach.last - reach.first + 1
        records += reach.records
    return max(0.0, 1 - records / spans)


def _long_before(reaches: list[Reach], furthest: Mapping[tuple[int, str], int], limits: Thresholds) -> bool:
    """Whether the others went on in all series."""
    ends = [(reach, furthest[reach.communicator, reach.coll]) for reach in reaches]
    regular = [(reach, end) for reach, end in ends if end >= REGULAR] or ends
    return all(
        # In step with the series' own length: a rare collective cannot be far behind.
        end - reach.last >= min(limits.diagnosis.silent_after_operations, max(2, (end + 1) // 10))
        for reach, end in regular
    )
