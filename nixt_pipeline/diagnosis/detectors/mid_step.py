"""A communicator that stopped in the middle of a step, told from the order in which it repeats its own operations.

A job runs whole steps. When the last operations of a communicator begin one and do not end it, the operation that comes
next in a step was never completed, whoever waits in it. This needs no alike communicator that got further.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.evidence.operations import Log, Operation

# The longest step looked for. One that has more operations mostly repeats some of them, as layers do.
_LONGEST_STEP = 512
# Fewer whole steps show no order.
_STEPS = 6
# So much of the operations is in whole steps, and the rest in evaluations between them.
_IN_STEPS = 0.85
# What is done now and then beside the steps (a loss, a flag) is smaller than what makes them.
_LARGE = 8
# Framework prefetching adds so many gathers of the backward pass to the run of them that begins a step.
_PREFETCHED = 2


class _Steps(NamedTuple):
    """Where the first step begins, how many operations it has, where each whole one ends, what is between them, and the
    beginning of a step that is last of all."""

    begin: int
    length: int
    ends: list[int]
    others: list[list[int]]
    tail: list[int]


@dataclass(frozen=True)
class MidStep:
    """A communicator (the hash of its identity) that did `done` of the operations of a `step`, after `steps` whole ones
    and nothing since. `by_pauses`: how many operations a step has is told from the pauses between steps."""

    communicator: int
    step: tuple[Operation, ...]
    done: int
    steps: int
    by_pauses: bool = False


def stopped_in_step(logs: Mapping[int, Log]) -> list[MidStep]:
    """Which communicators stopped in the middle of a step, by the log of the busiest process, of those of which it
    recorded all that anybody did. For a log that reaches to the end in which nothing got less far than its alike."""
    stops = [mid_step(communicator, log.operations) for communicator, log in logs.items()]
    begun = [stop for stop in stops if stop is not None]
    last = None if begun else one_less(logs)
    return begun if last is None else [last]


def mid_step(communicator: int, operations: Sequence[Operation]) -> MidStep | None:
    """Whether a communicator that completed these `operations` stopped in the middle of a step; None when it did not,
    or when its last operations may be something else: an evaluation, or what it did before the first step as well."""
    found = _whole_steps(_codes(operations))
    if found is None:
        return None
    begin, length, ends, others, tail = found
    step = tuple(operations[begin : begin + length])
    if {operation.coll for operation in operations[:begin]} & {operation.coll for operation in step}:
        return None  # the first step may have begun before: what is at its end would be taken for a beginning
    begun = any(other[: len(tail)] == tail for other in others)
    if not tail or begun or _may_be_evaluation(step, len(tail)) or _may_be_whole(step, len(tail)):
        return None
    return MidStep(communicator, step, len(tail), len(ends))


def one_less(logs: Mapping[int, Log]) -> MidStep | None:
    """The communicator that does one operation in a step, and did it once less than all others ended a step, though
    they were even between steps before. None when there is none."""
    counts = {communicator: len(log.operations) for communicator, log in logs.items()}
    slowest: tuple[int, Ints] | None = None
    for communicator, log in logs.items():
        found = _whole_steps(_codes(log.operations))
        if found is not None:
            counts[communicator] = len(found.ends)
            if slowest is None or len(found.ends) < len(slowest[1]):
                slowest = communicator, log.passes[found.ends]
    if slowest is None or len(slowest[1]) < 2 * _STEPS:
        return None
    steps = len(slowest[1])
    behind = [communicator for communicator, count in counts.items() if count == steps - 1]
    others = [count for communicator, count in counts.items() if communicator not in behind]
    if len(behind) != 1 or any(count % steps for count in others) or len(set(logs[behind[0]].operations)) > 1:
        return None
    ended, done = slowest[1], logs[behind[0]].passes
    before = np.arange(done[len(done) // 2], ended[-1])  # passes of the second half
    ahead = np.searchsorted(done, before, "right") - np.searchsorted(ended, before, "right")
    if len(before) == 0 or ahead.max() != 0:
        return None
    return MidStep(behind[0], tuple(logs[behind[0]].operations[:1]), 0, steps - 1)


def length_of_step(operations: Sequence[Operation]) -> int:
    """How many operations the shortest step has that these repeat; 1 when they repeat none, or are all alike."""
    found = _whole_steps(_codes(operations))
    return found.length if found else 1


def _codes(operations: Sequence[Operation]) -> Ints:
    numbers: dict[Operation, int] = {}
    return np.array([numbers.setdefault(operation, len(numbers)) for operation in operations], dtype=np.int64)


def _may_be_evaluation(step: tuple[Operation, ...], done: int) -> bool:
    """Whether the first operations of a step are all of a forward pass, or as small as what is not part of a step."""
    large = max(operation.size_bytes for operation in step)
    if all(operation.size_bytes * _LARGE < large for operation in step[:done]):
        return True
    gathers = next((n for n, operation in enumerate(step) if operation.coll != "AllGather"), len(step))
    return gathers - _PREFETCHED <= done <= gathers


def _may_be_whole(step: tuple[Operation, ...], done: int) -> bool:
    """Whether the operations done are whole steps, of which the `step` that was found is many and an evaluation."""
    large = max(operation.size_bytes for operation in step)
    for length in range(1, done // 2 + 1):
        again = next((n for n in range(length, len(step)) if step[n] != step[n - length]), len(step))
        rest = step[again // length * length :]
        small = all(operation.size_bytes * _LARGE < large for operation in rest)
        if done % length == 0 and done <= again and (len(set(step[:length])) > 1 or small):
            return True
    return False


def _whole_steps(codes: Ints) -> _Steps | None:
    """The shortest step of which nearly everything consists; None when nothing repeats."""
    for length in range(2, min(_LONGEST_STEP, len(codes) // _STEPS) + 1):
        repeats = codes[:-length] == codes[length:]
        if repeats.mean() < _IN_STEPS / 2:
            continue
        windows = np.convolve(repeats, np.ones(length, dtype=np.int64), "valid") == length
        begin = int(windows.argmax())
        step = codes[begin : begin + length]
        if not windows[begin] or any(np.array_equal(step, np.roll(step, n)) for n in range(1, length // 2 + 1)):
            continue  # nothing repeats, or a step that is shorter
        found = _parsed(codes.tolist(), begin, length)
        if len(found.ends) >= max(_STEPS, _IN_STEPS * (len(codes) - begin) / length):
            return found
    return None


def _parsed(codes: list[int], begin: int, length: int) -> _Steps:
    step, position = codes[begin : begin + length], begin
    ends: list[int] = []
    others: list[list[int]] = []
    between: list[int] = []
    while position + length <= len(codes):
        if codes[position : position + length] == step:
            others += [between] if between else []
            position, between = position + length, []
            ends.append(position - 1)
        else:
            between.append(codes[position])
            position += 1
    rest = between + codes[position:]
    return _Steps(begin, length, ends, others, rest if rest == step[: len(rest)] else [])
