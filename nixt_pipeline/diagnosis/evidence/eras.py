"""Eras of a launch: stretches of time in which its communicators stay the same.

Elastic jobs replace communicators while they run: processes leave or join, and the others go on in new communicators
(ncclCommShrink, an abort followed by a smaller one). What was replaced and what took its place were never in use
together. Laid over the same stretch of progress they would seem so, and whoever left would seem to communicate less
than the others. So times are compared within each era.

A communicator is replaced by the next one that its processes use, if they did hardly anything in between: one that is
made anew for each evaluation replaces nobody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.processes import Process, name_of

if TYPE_CHECKING:
    from nixt_pipeline.diagnosis.evidence.observations import Communicator

# A communicator of the start-up has fewer collectives, and its end changes nothing.
_REGULAR = 20
# What replaces a communicator may be written in one pass of the dump thread with it: so much of the shorter life may
# overlap, and changes that are no further apart are one.
_OVERLAP_SHARE = 0.02
# In between, a process has at most this share of the records that it has during either life. One that stops within a
# step leaves less than one of at least 20.
_BETWEEN_SHARE = 0.1
# What ends and begins more often tells no eras; of each change, some communicators are looked at.
_MOST_CHANGES, _LOOKED_AT = 32, 4
_MOST_ERAS = 12

# How many records a process has during the life of a communicator, between it and the next one, and during that.
_RECORDS = """
SELECT
    p.pair, count(*) FILTER (e.dump_timestamp_us BETWEEN p.first_us AND p.last_us) AS before,
    count(*) FILTER (e.dump_timestamp_us > p.last_us AND e.dump_timestamp_us < p.next_us) AS between_them,
    count(*) FILTER (e.dump_timestamp_us BETWEEN p.next_us AND p.until_us) AS after
FROM ordered_records AS e
JOIN diagnosed_processes AS d USING (writer)
JOIN era_pairs AS p ON p.name = d.name
GROUP BY p.pair
"""

# How far the communicators that live on were at the end of an era, by the clock of each process.
_REACHED = """
SELECT c.era, hash(e.id, e.comm_name, e.n_ranks, e.nnodes) AS communicator, e.coll, max(e.coll_sn)::BIGINT AS reached
FROM ordered_records AS e
JOIN diagnosed_processes AS d USING (writer)
JOIN era_cuts AS c ON c.name = d.name AND e.dump_timestamp_us <= c.until_us
WHERE hash(e.id, e.comm_name, e.n_ranks, e.nnodes) IN (SELECT unnest($kept)) AND e.coll_sn IS NOT NULL
GROUP BY ALL
"""

_BEFORE_ALL, _AFTER_ALL = -1, 2**62
_BOUNDS = {"since": pa.int64(), "up_to": pa.int64()}

Span = tuple[int, int]
# By the hash of a communicator and the process: when its first and its last collective were written.
Lives = Mapping[int, Mapping[Process, Span]]
# A communicator that ended before another began, and a process that used both.
Succession = tuple[int, int, Process]


@dataclass(frozen=True)
class Era:
    """A stretch of a launch. Its communicators (the hashes of their identities) and processes; when it began and ended,
    in Unix microseconds. `records`: by process, after and up to which time on its own clock it lasted; `numbers`: by
    communicator and function, the same in sequence numbers, where a communicator was in use before or after it."""

    communicators: frozenset[int]
    processes: frozenset[Process]
    begin_us: int
    end_us: int
    records: Mapping[Process, Span]
    numbers: Mapping[tuple[int, str], Span]


def find_eras(
    con: duckdb.DuckDBPyConnection,
    reaches: Iterable[Reach],
    numbered: Mapping[int, Communicator],
    spans: Mapping[int, Span],
) -> list[Era]:
    """The eras of a launch in the order of time; none where no communicator was replaced, as in most jobs.

    `reaches` are those of the run, `numbered` the communicators of the launch by the hash of their identity, `spans`
    when each was in use, by its number. Call it after `observe`.
    """
    lives, regular = _lives(reaches, numbered)
    shifts = _shifts(lives)
    used = {comm: _middle(life, shifts) for comm, life in lives.items()}
    changes = _changes(con, _successions({comm: lives[comm] for comm in regular}), lives, used)
    if not 0 < len(changes) < _MOST_ERAS:
        return []
    # Of what has no collectives that all wait in, it is only known when it was written.
    used |= {key: spans[comm.number] for key, comm in numbered.items() if key not in used and comm.number in spans}
    eras_of = {comm: _eras_of(span, changes) for comm, span in used.items()}
    members = {comm: frozenset(lives.get(comm) or numbered[comm].members) for comm in used}
    cuts = [_cut(era, change, lives, eras_of, members, shifts) for era, change in enumerate(changes)]
    reached = _reached(con, cuts, [comm for comm in lives if len(eras_of[comm]) > 1])
    return [
        _era(era, {comm: eras for comm, eras in eras_of.items() if era in eras}, used, members, cuts, reached)
        for era in range(len(changes) + 1)
    ]


def restrict(con: duckdb.DuckDBPyConnection, era: Era | None) -> None:
    """Create the views from which a launch is observed, of one of its eras only unless that is None."""
    if era is None:
        con.execute(queries.WHOLE_LAUNCH)
        return
    numbers = [(*series, *span) for series, span in sorted(era.numbers.items())]
    records = [(name_of(process), *span) for process, span in sorted(era.records.items())]
    communicators = [(number,) for number in sorted(era.communicators)]
    for table, columns, rows in (
        ("era_communicators", {"communicator": pa.uint64()}, communicators),
        ("era_numbers", {"communicator": pa.uint64(), "coll": pa.string(), **_BOUNDS}, numbers),
        ("era_records", {"name": pa.string(), **_BOUNDS}, records),
    ):
        schema = pa.schema(list(columns.items()))
        con.register("era_rows", pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema))
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM era_rows")
        con.unregister("era_rows")
    con.execute(queries.ONE_ERA)


def _lives(reaches: Iterable[Reach], numbered: Mapping[int, Communicator]) -> tuple[Lives, set[int]]:
    """When each process used each communicator, and which of these did enough to tell anything."""
    lives: dict[int, dict[Process, Span]] = defaultdict(dict)
    regular: set[int] = set()
    for reach in reaches:
        if reach.communicator not in numbered or reach.first_us is None or reach.last_us is None:
            continue
        life = lives[reach.communicator]
        first, last = life.get(reach.process, (reach.first_us, reach.last_us))
        life[reach.process] = min(first, reach.first_us), max(last, reach.last_us)
        if reach.last - reach.first + 1 >= _REGULAR:
            regular.add(reach.communicator)
    return lives, regular


def _shifts(lives: Lives) -> dict[str, float]:
    """By how much the clock of each host seems to be ahead: all members begin to use a communicator together. 0 for
    hosts that share none with others."""
    ahead: dict[str, list[float]] = defaultdict(list)
    for life in lives.values():
        of_host: dict[str, list[int]] = defaultdict(list)
        for process, (first, _) in life.items():
            of_host[process[0]].append(first)
        usual = median(first for first, _ in life.values())
        for host, firsts in of_host.items():
            ahead[host] += [median(firsts) - usual] if len(of_host) > 1 else []
    return {host: median(shifts) if shifts else 0.0 for host, shifts in ahead.items()}


def _middle(life: Mapping[Process, Span], shifts: Mapping[str, float]) -> Span:
    """When a communicator was in use, as most of its processes have it."""
    begins = [first - shifts[process[0]] for process, (first, _) in life.items()]
    ends = [last - shifts[process[0]] for process, (_, last) in life.items()]
    return round(median(begins)), round(median(ends))


def _successions(lives: Lives) -> dict[tuple[int, int], Process]:
    """Which communicators ended before which others began, the last one before each, with a process that used both."""
    of_process: dict[Process, list[tuple[int, int, int]]] = defaultdict(list)
    for comm, life in lives.items():
        for process, (first, last) in life.items():
            of_process[process].append((last, first, comm))
    found: dict[tuple[int, int], Process] = {}
    for process, own in of_process.items():
        own.sort()
        ends = [last for last, _, _ in own]
        for last, first, later in own:
            place = bisect_right(ends, first + round(_OVERLAP_SHARE * (last - first)))
            earlier = next((comm for _, _, comm in reversed(own[:place]) if comm != later), None)
            if earlier is not None and (earlier, later) not in found and _never_together(lives[earlier], lives[later]):
                found[earlier, later] = process
    return found


def _never_together(earlier: Mapping[Process, Span], later: Mapping[Process, Span]) -> bool:
    """Whether every process that used both used the one after the other."""
    return all(
        later[process][0] - last >= -_slack((first, last), later[process])
        for process, (first, last) in earlier.items()
        if process in later
    )


def _slack(*lives: Span) -> float:
    return _OVERLAP_SHARE * min(end - begin for begin, end in lives)


def _changes(
    con: duckdb.DuckDBPyConnection,
    successions: Mapping[tuple[int, int], Process],
    lives: Lives,
    used: Mapping[int, Span],
) -> list[float]:
    """The moments at which communicators were replaced: those that lie between most of what ended and of what began, if
    processes did hardly anything in between."""
    gaps: list[tuple[float, float, Succession]] = []
    for (earlier, later), process in successions.items():
        slack = _slack(used[earlier], used[later])
        begin, end = sorted((used[earlier][1], used[later][0]))
        gaps.append((end + slack, begin - slack, (earlier, later, process)))
    changes: list[tuple[float, float]] = []
    of_change: list[list[Succession]] = []
    for until, since, succession in sorted(gaps):
        if not changes or since > changes[-1][1]:
            changes.append((since, until))
            of_change.append([])
        changes[-1] = max(changes[-1][0], since), changes[-1][1]
        of_change[-1].append(succession)
    if not changes or len(changes) > _MOST_CHANGES:
        return []
    replaced = _replaced(con, [_longest(pairs, used) for pairs in of_change], lives)
    return [(since + until) / 2 for number, (since, until) in enumerate(changes) if number in replaced]


def _longest(pairs: Iterable[Succession], used: Mapping[int, Span]) -> list[Succession]:
    return sorted(pairs, key=lambda pair: -_slack(used[pair[0]], used[pair[1]]))[:_LOOKED_AT]


def _replaced(con: duckdb.DuckDBPyConnection, of_change: Sequence[Sequence[Succession]], lives: Lives) -> set[int]:
    """The changes, by place, of which a communicator replaces another."""
    rows = [
        {
            "change": number, "name": name_of(process), "first_us": lives[earlier][process][0],
            "last_us": lives[earlier][process][1], "next_us": lives[later][process][0],
            "until_us": lives[later][process][1],
        }
        for number, pairs in enumerate(of_change)
        for earlier, later, process in pairs
    ]  # fmt: skip
    con.register("era_pairs", pa.Table.from_pylist([row | {"pair": place} for place, row in enumerate(rows)]))
    counts = con.sql(_RECORDS).fetchall()
    con.unregister("era_pairs")
    return {
        int(str(rows[pair]["change"]))
        for pair, before, between, after in counts
        if between <= _BETWEEN_SHARE * min(before, after)
    }


def _eras_of(span: Span, changes: Sequence[float]) -> range:
    """The eras in which something was in use."""
    begin, end = span
    slack = _slack(span)
    first = sum(change <= begin + slack for change in changes)
    return range(first, max(first, sum(change < end - slack for change in changes)) + 1)


def _cut(
    era: int,
    change: float,
    lives: Lives,
    eras_of: Mapping[int, range],
    members: Mapping[int, frozenset[Process]],
    shifts: Mapping[str, float],
) -> dict[Process, int]:
    """When an era ended by the clock of each process: with what it used for the last time, or before what it used then
    for the first time."""
    ends: dict[Process, int] = {}
    begins: dict[Process, int] = {}
    for comm, life in lives.items():
        for process, (first, last) in life.items():
            if eras_of[comm][-1] == era:
                ends[process] = max(last, ends.get(process, last))
            elif eras_of[comm][0] == era + 1:
                begins[process] = min(first, begins.get(process, first))
    others = {process: round(change + shifts.get(process[0], 0.0)) for own in members.values() for process in own}
    return others | {process: begin - 1 for process, begin in begins.items()} | ends


def _reached(
    con: duckdb.DuckDBPyConnection, cuts: Sequence[Mapping[Process, int]], kept: Sequence[int]
) -> dict[tuple[int, int, str], int]:
    """The last number of each function of the communicators that are kept, at the end of each era."""
    if not kept:
        return {}
    rows = [
        {"era": era, "name": name_of(process), "until_us": until}
        for era, cut in enumerate(cuts)
        for process, until in cut.items()
    ]
    con.register("era_cuts", pa.Table.from_pylist(rows))
    found = con.sql(_REACHED, params={"kept": list(kept)}).fetchall()
    con.unregister("era_cuts")
    return {(era, communicator, coll): last for era, communicator, coll, last in found}


def _era(
    era: int,
    eras_of: Mapping[int, range],
    used: Mapping[int, Span],
    members: Mapping[int, frozenset[Process]],
    cuts: Sequence[Mapping[Process, int]],
    reached: Mapping[tuple[int, int, str], int],
) -> Era:
    """One era, of the communicators that were in use in it."""
    since, until = min(used[comm][0] for comm in eras_of), max(used[comm][1] for comm in eras_of)
    processes = frozenset(process for comm in eras_of for process in members[comm])
    records = {
        process: (
            cuts[era - 1][process] if era > 0 else _BEFORE_ALL,
            cuts[era][process] if era < len(cuts) else _AFTER_ALL,
        )
        for process in processes
    }
    numbers = {
        (comm, coll): (
            reached.get((era - 1, comm, coll), _BEFORE_ALL) if era - 1 in eras_of[comm] else _BEFORE_ALL,
            reached.get((era, comm, coll), _BEFORE_ALL) if era + 1 in eras_of[comm] else _AFTER_ALL,
        )
        for comm, coll in {key[1:] for key in reached if key[1] in eras_of}
    }
    begins = [used[comm][0] for comm, eras in eras_of.items() if eras[0] == era]
    ends = [used[comm][1] for comm, eras in eras_of.items() if eras[-1] == era]
    return Era(frozenset(eras_of), processes, min(begins, default=since), max(ends, default=until), records, numbers)
