"""Eras of a launch: stretches of time in which its communicators stay the same.

Elastic jobs replace communicators while they run: processes leave or join, and the others go on in new communicators
(ncclCommShrink, an abort followed by a smaller one). What was replaced and what took its place were never in use
together. Laid over the same progress they would seem so, and a rank that left would seem to communicate less
than the others. So times are compared within each era.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from nixt_pipeline.diagnosis.evidence.alike import Pace
from nixt_pipeline.diagnosis.evidence.era import AFTER_ALL, BEFORE_ALL, Era
from nixt_pipeline.diagnosis.evidence.frontier import REGULAR, Reach
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.passes import PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process, name_of
from nixt_pipeline.diagnosis.evidence.replacements import (
    Lives,
    changes_of,
    eras_in,
    in_use,
    lives_of,
    shifts_of,
    successions,
)  # fmt: skip
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables

# A job of more eras has no stretches to speak of, and is looked at as a whole.
_MOST_ERAS = 12
# A pause that takes so much of the time between two communicators is where the one ended: what came before it belongs
# to the step in which it did.
_PAUSE_SHARE = 0.8
# What lives on is counted to the operation where everything paused for so long, and for so many gaps between passes of
# the dump thread: elsewhere one pass has operations of both eras.
_SHARP_US, _SHARP_GAPS = 1_000_000, 2

# Where a process paused between the last record of what it used before a change and the first of what it used after it.
_PAUSES = """
SELECT
    era, name, arg_max(at_us, gap_us) AS longest_us, coalesce(max(gap_us), 0) AS gap_us,
    min(at_us) FILTER (gap_us > $pass) AS first_us
FROM (
    SELECT c.era, c.name, e.dump_timestamp_us AS at_us,
        lead(e.dump_timestamp_us) OVER (PARTITION BY c.era, c.name ORDER BY e.dump_timestamp_us)
            - e.dump_timestamp_us AS gap_us
    FROM ordered_records AS e
    JOIN diagnosed_processes AS d USING (writer)
    JOIN era_changes AS c ON c.name = d.name AND e.dump_timestamp_us BETWEEN c.last_us AND c.next_us
)
GROUP BY era, name
"""

# The usual time between two passes of the dump thread.
_USUAL_GAPS = """
SELECT name, median(gap_us) FROM (
    SELECT d.name, e.dump_timestamp_us
        - lag(e.dump_timestamp_us) OVER (PARTITION BY d.name ORDER BY e.dump_timestamp_us) AS gap_us
    FROM ordered_records AS e JOIN diagnosed_processes AS d USING (writer)
)
WHERE gap_us > $pass
GROUP BY name
"""

# How far each process got in each era, of the communicators that live on across changes.
_REACHED = """
SELECT
    c.era, e.comm_key, e.coll, c.name,
    max(e.coll_sn)::BIGINT AS last_sn, min(e.coll_sn)::BIGINT AS first_sn, count(*) AS records,
    max(e.dump_timestamp_us) AS last_us, min(e.dump_timestamp_us) AS first_us,
    CASE WHEN last_sn - first_sn >= $regular THEN regr_slope(e.coll_sn, e.dump_timestamp_us) END AS per_us
FROM ordered_records AS e
JOIN diagnosed_processes AS d USING (writer)
JOIN era_spans AS c ON c.name = d.name AND e.dump_timestamp_us > c.since AND e.dump_timestamp_us <= c.up_to
WHERE e.comm_key IN (SELECT unnest($kept)) AND e.coll_sn IS NOT NULL
GROUP BY ALL
ORDER BY ALL
"""


def find_eras(tables: LaunchTables, seen: Observations, reaches: Sequence[Reach]) -> tuple[Era, ...]:
    """The eras of the whole launch that `seen` shows, in the order of time; none where no communicator was replaced, as
    in most jobs. `reaches` are those of the run."""
    con, numbered = tables.con, {comm.key: comm for comm in seen.communicators}
    lives, regular = lives_of(reaches, numbered)
    shifts = shifts_of(lives)
    used = {comm: in_use(life, shifts) for comm, life in lives.items()}
    changes = changes_of(con, successions({comm: lives[comm] for comm in regular}), lives, used)
    if not 0 < len(changes) < _MOST_ERAS:
        return ()
    # Of what has no collectives that all wait in, it is only known when it was written.
    used |= {key: comm.span for key, comm in numbered.items() if key not in used and comm.span is not None}
    eras_of = {comm: eras_in(span, changes) for comm, span in used.items()}
    if frozenset().union(*eras_of.values()) != frozenset(range(len(changes) + 1)):
        return ()  # times by which nothing was in use say nothing
    members = {comm: frozenset(lives.get(comm) or numbered[comm].members) for comm in used}
    kept = [comm for comm in lives if len(eras_of[comm]) > 1]
    cuts, sharp = _cuts(con, changes, lives, eras_of, members, shifts, kept)
    records = [
        {
            process: (
                cuts[era - 1][process] if era else BEFORE_ALL,
                cut[process] if era < len(changes) else AFTER_ALL,
            )
            for process in cut
        }
        for era, cut in enumerate([*cuts, cuts[-1]])
    ]
    whole = {_key(reach): reach for reach in reaches if reach.communicator in lives}
    reached = _reached(con, records, kept, whole)
    sharp = [True, *sharp, True]
    eras = [
        replace(_era(era, eras_of, used, members, of_era, reached), sharp=(sharp[era], sharp[era + 1]))
        for era, of_era in enumerate(records)
    ]
    # What is in no reach (the numbers of graphs, which repeat) does not say how far any rank got.
    return tuple(
        replace(era, reaches=tuple(_counted(reach, era) for reach in era.reaches if _key(reach) in whole))
        for era in eras
    )


def _cuts(
    con: duckdb.DuckDBPyConnection,
    changes: Sequence[float],
    lives: Lives,
    eras_of: Mapping[int, range],
    members: Mapping[int, frozenset[Process]],
    shifts: Mapping[str, float],
    kept: Sequence[int],
) -> tuple[list[dict[Process, int]], list[bool]]:
    """When each era but the last ended by the clock of each process: with what it used for the last time, before what
    it used then for the first time, or at the change as others have it; and whether what lives on can be counted to the
    operation there."""
    cuts: list[dict[Process, int]] = []
    both: list[dict[str, object]] = []
    for era, change in enumerate(changes):
        ends: dict[Process, int] = {}
        begins: dict[Process, int] = {}
        for comm, life in lives.items():
            for process, (first, last) in life.items():
                if eras_of[comm][-1] == era:
                    ends[process] = max(last, ends.get(process, last))
                elif eras_of[comm][0] == era + 1:
                    begins[process] = min(first, begins.get(process, first))
        others = {process: round(change + shifts.get(process[0], 0.0)) for own in members.values() for process in own}
        cuts.append(others | {process: begin - 1 for process, begin in begins.items()} | ends)
        both += [
            {"era": era, "name": name_of(process), "last_us": ends[process], "next_us": begins[process]}
            for process in ends.keys() & begins.keys()
        ]
    return cuts, _up_to_pauses(con, cuts, both) if kept and both else [False] * len(cuts)


def _up_to_pauses(
    con: duckdb.DuckDBPyConnection, cuts: Sequence[dict[Process, int]], both: Sequence[dict[str, object]]
) -> list[bool]:
    """Move the `cuts` to the pauses of the processes that used one communicator before and another after a change;
    returns of which changes these pauses were long."""
    between = {(row["era"], row["name"]): int(str(row["next_us"])) - int(str(row["last_us"])) for row in both}
    con.register("era_changes", pa.Table.from_pylist(list(both)))
    rows = con.sql(_PAUSES, params={"pass": PASS_US}).fetchall()
    con.unregister("era_changes")
    usual = dict(con.sql(_USUAL_GAPS, params={"pass": PASS_US}).fetchall())
    found: dict[tuple[int, str], int] = {}
    long: dict[int, list[bool]] = defaultdict(list)
    for era, name, longest, gap, first in rows:
        found[era, name] = longest if gap >= _PAUSE_SHARE * between[era, name] else first
        long[era].append(gap >= max(_SHARP_US, _SHARP_GAPS * usual.get(name, 0.0)))
    for era, cut in enumerate(cuts):
        for process in cut:
            cut[process] = found.get((era, name_of(process))) or cut[process]
    return [bool(long[era]) and all(long[era]) for era in range(len(cuts))]


def _key(reach: Reach) -> tuple[int, str, Process]:
    return reach.communicator, reach.coll, reach.process


def _reached(
    con: duckdb.DuckDBPyConnection,
    records: Sequence[Mapping[Process, Span]],
    kept: Sequence[int],
    whole: Mapping[tuple[int, str, Process], Reach],
) -> list[list[Reach]]:
    """How far each process got in each era in what lives on across changes; in the last list, the `whole` reaches of
    everything else."""
    found: list[list[Reach]] = [[] for _ in records]
    others = [reach for key, reach in whole.items() if key[0] not in kept]
    if not kept:
        return [*found, others]
    processes = {name_of(process): process for of_era in records for process in of_era}
    rows = [
        {"era": era, "name": name_of(process), "since": since, "up_to": up_to}
        for era, of_era in enumerate(records)
        for process, (since, up_to) in of_era.items()
    ]
    con.register("era_spans", pa.Table.from_pylist(rows))
    counted = con.sql(_REACHED, params={"kept": list(kept), "regular": REGULAR}).fetchall()
    con.unregister("era_spans")
    for era, communicator, coll, name, last, first, number, last_us, first_us, per_us in counted:
        process = processes[name]
        known = whole.get((communicator, coll, process))
        pace = Pace(per_us, known.pace.size_bytes if known else None)
        found[era].append(Reach(communicator, coll, process, last, first, number, last_us, first_us, pace))
    return [*found, others]


def _era(
    era: int,
    eras_of: Mapping[int, range],
    used: Mapping[int, Span],
    members: Mapping[int, frozenset[Process]],
    records: Mapping[Process, Span],
    reached: Sequence[Sequence[Reach]],
) -> Era:
    """One era, of what was in use in it."""
    own = {comm: eras for comm, eras in eras_of.items() if era in eras}
    processes = frozenset(process for comm in own for process in members[comm])
    ends: dict[tuple[int, str], int] = {}
    begins: dict[tuple[int, str], int] = {}
    for number, reaches in enumerate(reached[:-1]):
        for reach in reaches:
            key = (reach.communicator, reach.coll)
            begins[key] = max(begins.get(key, BEFORE_ALL), reach.last if number < era else BEFORE_ALL)
            ends[key] = max(ends.get(key, BEFORE_ALL), reach.last if number <= era else BEFORE_ALL)
    go_on = frozenset(comm for comm, eras in own.items() if era + 1 in eras)
    numbers = {key: (begins[key], end if key[0] in go_on else AFTER_ALL) for key, end in ends.items() if key[0] in own}
    since = [used[comm][0] for comm, eras in own.items() if eras[0] == era] or [used[comm][0] for comm in own]
    until = [used[comm][1] for comm, eras in own.items() if eras[-1] == era] or [used[comm][1] for comm in own]
    return Era(
        communicators=frozenset(own),
        processes=processes,
        before=frozenset(comm for comm, eras in own.items() if era - 1 in eras),
        go_on=go_on,
        begin_us=min(since),
        end_us=max(until),
        records={process: records[process] for process in processes},
        numbers=numbers,
        reaches=tuple(reach for reach in (*reached[era], *reached[-1]) if reach.communicator in own),
    )


def _counted(reach: Reach, era: Era) -> Reach:
    """The same counted from the beginning of its era, where that is known to the operation."""
    before = era.numbers.get((reach.communicator, reach.coll), (BEFORE_ALL, AFTER_ALL))[0] + 1
    if not era.sharp[0]:
        return reach
    return replace(reach, last=reach.last - before, first=max(reach.first - before, 0), before=before)
