"""When communicators of a launch were replaced.

A communicator is replaced by the next one that its processes use, if they did hardly anything in between: one that is
made anew for each evaluation replaces none. No clock of one host is compared with that of another without its shift.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from nixt_pipeline.diagnosis.evidence.frontier import REGULAR, Reach
from nixt_pipeline.diagnosis.evidence.processes import Process, name_of
from nixt_pipeline.diagnosis.evidence.span import Span

if TYPE_CHECKING:
    from nixt_pipeline.diagnosis.evidence.observations import Communicator

# What replaces a communicator may be written in one pass of the dump thread with it: so much of the shorter life may
# overlap, and changes that are no further apart are one.
_OVERLAP_SHARE = 0.02
# In between, a process has at most this share of the records that it has during either life. One that stops within a
# step leaves less than one of at least 20.
_BETWEEN_SHARE = 0.1
# What ends and begins more often tells no eras; of each change, some communicators are looked at.
_MOST_CHANGES, _LOOKED_AT = 32, 4

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

# By the hash of a communicator and the process: when its first and its last collective were written.
Lives = Mapping[int, Mapping[Process, Span]]
# A communicator that ended before another began, and a process that used both.
Succession = tuple[int, int, Process]


def lives_of(reaches: Iterable[Reach], numbered: Mapping[int, Communicator]) -> tuple[Lives, set[int]]:
    """When each process used each communicator, and which of these did enough to tell anything."""
    lives: dict[int, dict[Process, Span]] = defaultdict(dict)
    regular: set[int] = set()
    for reach in reaches:
        if reach.communicator not in numbered or reach.first_us is None or reach.last_us is None:
            continue
        life = lives[reach.communicator]
        first, last = life.get(reach.process, (reach.first_us, reach.last_us))
        life[reach.process] = min(first, reach.first_us), max(last, reach.last_us)
        # What was written in one moment was not in use before or after anything.
        if reach.last - reach.first + 1 >= REGULAR and reach.last_us > reach.first_us:
            regular.add(reach.communicator)
    return lives, regular


def shifts_of(lives: Lives) -> dict[str, float]:
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


def in_use(life: Mapping[Process, Span], shifts: Mapping[str, float]) -> Span:
    """When a communicator was in use, as most of its processes have it."""
    begins = [first - shifts[process[0]] for process, (first, _) in life.items()]
    ends = [last - shifts[process[0]] for process, (_, last) in life.items()]
    return round(median(begins)), round(median(ends))


def successions(lives: Lives) -> dict[tuple[int, int], Process]:
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
            before = [comm for _, _, comm in own[max(place - 2, 0) : place] if comm != later]
            earlier = before[-1] if before else None
            if earlier is not None and (earlier, later) not in found and _never_together(lives[earlier], lives[later]):
                found[earlier, later] = process
    return found


def _never_together(earlier: Mapping[Process, Span], later: Mapping[Process, Span]) -> bool:
    """Whether every process that used both used the one after the other."""
    return all(
        later[process][0] - last >= -slack_of((first, last), later[process])
        for process, (first, last) in earlier.items()
        if process in later
    )


def slack_of(*lives: Span) -> float:
    """By how much, in microseconds, the shortest of these lives may overlap with what comes before or after it."""
    return _OVERLAP_SHARE * min(end - begin for begin, end in lives)


def changes_of(
    con: duckdb.DuckDBPyConnection,
    successions: Mapping[tuple[int, int], Process],
    lives: Lives,
    used: Mapping[int, Span],
) -> list[float]:
    """The moments at which communicators were replaced: those that lie between most of what ended and of what began, if
    processes did hardly anything in between."""
    gaps: list[tuple[float, float, Succession]] = []
    for (earlier, later), process in successions.items():
        slack = slack_of(used[earlier], used[later])
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
    return sorted(pairs, key=lambda pair: -slack_of(used[pair[0]], used[pair[1]]))[:_LOOKED_AT]


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


def eras_in(span: Span, changes: Sequence[float]) -> range:
    """The eras in which something was in use."""
    begin, end = span
    slack = slack_of(span)
    first = sum(change <= begin + slack for change in changes)
    return range(first, max(first, sum(change < end - slack for change in changes)) + 1)
