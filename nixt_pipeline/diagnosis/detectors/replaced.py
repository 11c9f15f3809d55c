"""Communicators that stopped in the middle of a step and were replaced, while others of their processes lived on.

Frameworks abort the communicator that a fault broke and make it anew or smaller (ncclCommShrink); those within a host
are kept. What is kept gets as far as the job, and says how far what was replaced should have got: what goes in step
with it had begun one more step when everything stood still. When communicators are replaced on purpose, between two
steps, it had not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nixt_pipeline.diagnosis.evidence.history import History
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.span import Span

# Shorter pauses, or ones of no more steps than this, may be a checkpoint or a slow step.
_PAUSE_US = 1_000_000
_PAUSE_STEPS = 10
# Fewer operations on either side of a pause show no step.
_STEPS = 6
# Of a job that replaces communicators all the time, so many pauses are looked at, the longest first.
_MOST_PAUSES = 8

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


def interruptions(history: History, communicators: Iterable[Communicator]) -> list[Interruption]:
    """The pauses of `communicators`, in use together, in which some that stopped in the middle of a step were replaced
    and others kept. For communicators that lost no record at their end."""
    spans = {comm: comm.span for comm in communicators if comm.span is not None}
    ends, begins = [end for _, end in spans.values()], [begin for begin, _ in spans.values()]
    if not spans or max(begins) - min(ends) <= _PAUSE_US:
        return []  # nothing was replaced
    keys = [comm.key for comm in spans]
    pauses = history.pauses(keys, (min(ends), max(begins)), _PAUSE_US, _MOST_PAUSES)
    found = [_interruption(history, spans, pause) for pause in pauses]
    return [interruption for interruption in found if interruption is not None]


def _interruption(history: History, spans: Mapping[Communicator, Span], pause: Span) -> Interruption | None:
    since, until = pause
    kept = tuple(comm for comm, (begin, end) in spans.items() if begin <= since and end >= until)
    anew = sorted((comm for comm, (begin, _) in spans.items() if begin > since), key=lambda comm: spans[comm])
    ended = [comm for comm, (_, end) in spans.items() if end <= since]
    if not (kept and anew and ended):
        return None
    by_key = {comm.key: comm for comm in spans}
    done = {(by_key[key], coll): (before, after) for key, coll, before, after in history.done(list(by_key), since)}
    stopped: dict[Communicator, tuple[str, int]] = {}
    successors: dict[Communicator, None] = {}
    beside: dict[Communicator, None] = {}
    for (old, coll), (before, _) in done.items():
        new = _successor(old, coll, anew, done) if old in ended else None
        in_step = _ahead(before, done[new, coll][1], old, kept, done) if new else []
        steps_us = (spans[old][1] - spans[old][0]) / max(before, 1) * _PAUSE_STEPS
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
