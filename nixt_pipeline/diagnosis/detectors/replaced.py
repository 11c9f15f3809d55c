"""Communicators that stopped in the middle of a step and were replaced, while others of their processes lived on.

Frameworks abort the communicator that a fault broke and make it anew or smaller (ncclCommShrink); those within a host
are kept. What is kept gets as far as the job, and says how far what was replaced should have got: what goes in step
with it had begun one more step when everything stood still. When communicators are replaced on purpose, between two
steps, it had not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.parts import Span
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES

# Shorter pauses, or ones of no more steps than this, may be a checkpoint or a slow step.
_PAUSE_US = 1_000_000
_PAUSE_STEPS = 10
# Fewer operations on either side of a pause show no step.
_STEPS = 6
# Of a job that replaces communicators all the time, so many pauses are looked at, the longest first.
_MOST_PAUSES = 8

# The longest pauses in what some communicators wrote.
_PAUSES = """
WITH times AS (
    SELECT DISTINCT e.dump_timestamp_us AS at_us
    FROM eager_records AS e
    JOIN diagnosed_communicators AS k ON k.comm_key = e.comm_key
    WHERE k.comm IN (SELECT unnest($comms)) AND e.dump_timestamp_us BETWEEN $begin AND $end
)
SELECT lag(at_us) OVER (ORDER BY at_us) AS since_us, at_us AS until_us
FROM times
QUALIFY until_us - since_us > $least
ORDER BY until_us - since_us DESC, until_us
LIMIT $most
"""

# How many operations of each function were done before a pause and after it. A number that anybody recorded was
# completed by all.
_DONE = """
SELECT comm, coll, coalesce(before + 1 - first, 0) AS before, CASE WHEN after IS NULL THEN 0
    ELSE after - coalesce(before, first - 1) END AS after
FROM (
    SELECT
        k.comm, e.coll, min(e.coll_sn)::BIGINT AS first,
        max(e.coll_sn::BIGINT) FILTER (e.dump_timestamp_us <= $since) AS before,
        max(e.coll_sn::BIGINT) FILTER (e.dump_timestamp_us > $since) AS after
    FROM eager_records AS e
    JOIN diagnosed_communicators AS k ON k.comm_key = e.comm_key
    WHERE k.comm IN (SELECT unnest($comms)) AND e.coll IN (SELECT unnest($sync)) AND e.coll_sn IS NOT NULL
        AND e.dump_timestamp_us IS NOT NULL
    GROUP BY ALL
)
ORDER BY ALL
"""

# By communicator and function: how many were done before a pause, and after it.
Done = Mapping[tuple[Communicator, str], tuple[int, int]]


@dataclass(frozen=True)
class Interruption:
    """Everything stood still from `since_us` to `until_us` (write times): how many of which operation each communicator
    had completed that `stopped` then in the middle of a step, those that were `kept`, and the successors of those that
    stopped."""

    since_us: int
    until_us: int
    stopped: Mapping[Communicator, tuple[str, int]]
    kept: tuple[Communicator, ...]
    successors: tuple[Communicator, ...]


def interruptions(
    con: duckdb.DuckDBPyConnection, communicators: Iterable[Communicator], spans: Mapping[int, Span]
) -> list[Interruption]:
    """The pauses of `communicators`, in use together, in which some that stopped in the middle of a step were replaced
    and others kept. For communicators that lost no record at their end; call it after `observe`."""
    timed = [comm for comm in communicators if comm.number in spans]
    ends, begins = [spans[comm.number][1] for comm in timed], [spans[comm.number][0] for comm in timed]
    if not timed or max(begins) - min(ends) <= _PAUSE_US:
        return []  # nothing was replaced
    bounds = {"begin": min(ends), "end": max(begins), "least": _PAUSE_US, "most": _MOST_PAUSES}
    numbers = [comm.number for comm in timed]
    pauses = con.sql(_PAUSES, params={"comms": numbers} | bounds).fetchall()
    found = [_interruption(con, timed, spans, pause) for pause in sorted(pauses)]
    return [interruption for interruption in found if interruption is not None]


def _interruption(
    con: duckdb.DuckDBPyConnection, comms: Sequence[Communicator], spans: Mapping[int, Span], pause: Span
) -> Interruption | None:
    since, until = pause
    kept = tuple(comm for comm in comms if spans[comm.number][0] <= since and spans[comm.number][1] >= until)
    anew = sorted((comm for comm in comms if spans[comm.number][0] > since), key=lambda comm: spans[comm.number])
    ended = [comm for comm in comms if spans[comm.number][1] <= since]
    if not (kept and anew and ended):
        return None
    by_number = {comm.number: comm for comm in comms}
    rows = con.sql(_DONE, params={"comms": list(by_number), "since": since, "sync": list(SYNC_COLLECTIVES)}).fetchall()
    done = {(by_number[number], coll): (before, after) for number, coll, before, after in rows}
    stopped: dict[Communicator, tuple[str, int]] = {}
    successors: dict[Communicator, None] = {}
    beside: dict[Communicator, None] = {}
    for (old, coll), (before, _) in done.items():
        new = _successor(old, coll, anew, done) if old in ended else None
        in_step = _ahead(before, done[new, coll][1], old, kept, done) if new else []
        steps_us = (spans[old.number][1] - spans[old.number][0]) / max(before, 1) * _PAUSE_STEPS
        if new and in_step and until - since > steps_us:
            stopped[old] = (coll, before)
            successors[new] = None
            beside |= dict.fromkeys(in_step)
    return Interruption(since, until, stopped, tuple(beside), tuple(successors)) if stopped else None


def _successor(old: Communicator, coll: str, anew: Iterable[Communicator], done: Done) -> Communicator | None:
    """What took the place of a communicator: the first that does the same for some of its processes, by its name or
    else for most of them."""
    own = frozenset(old.members)
    heirs = [new for new in anew if (new, coll) in done and not own.isdisjoint(new.members)]
    return min(heirs, key=lambda new: (new.name != old.name, -len(own.intersection(new.members))), default=None)


def _ahead(before: int, after: int, old: Communicator, kept: Iterable[Communicator], done: Done) -> list[Communicator]:
    """Those of the communicators kept that go in step with one that was replaced, when all of them had begun one more
    step than it: it did `before` operations, and its successor `after`."""
    if min(before, after) < _STEPS:
        return []
    members = frozenset(old.members)
    ahead: dict[Communicator, None] = {}
    for (comm, _), (own_before, own_after) in done.items():
        to_each = round(own_after / after)
        if comm not in kept or members.isdisjoint(comm.members) or not to_each:
            continue
        if not 0 <= own_after - to_each * after <= to_each:
            continue  # it does not go in step
        if not 0 < own_before - to_each * before <= to_each:
            return []
        ahead[comm] = None
    return list(ahead)
