"""What a step of a communicator is: operations that it repeats, how often it did them all, and how far it got since.

Where operations differ, their order shows the steps (`steps_in_order`). Where all are equal, as gradient buckets of one
size are, the pauses between steps do (`steps_between_pauses`): a job computes between its steps, and completes the
operations of a step in quick succession, so that what it has completed are whole steps for most of the time.

Other questions are answered elsewhere. Which operation had a number that was lost: the order of `p2p_order`, of which
any multiple of a step is a period. How often the rarest regular collective of a launch came: its pulse (`blocks`), the
number of its steps or a multiple of that, which needs no order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from nixt_pipeline.diagnosis.evidence.operations import Log, Operation

# The longest step looked for. One that has more operations mostly repeats some of them, as layers do; a rank in 16
# pipeline stages with 64 microbatches in both directions has 4 x 64 Sends and Recvs.
LONGEST_STEP = 512
# Fewer whole steps show no order.
FEWEST_STEPS = 6
# So much of the operations is in whole steps, and the rest in evaluations between them.
_IN_STEPS = 0.85
# Steps of DDP have a few buckets, and fewer whole steps show no rhythm.
_MOST_BUCKETS, _FEWEST_IN_RHYTHM = 64, 12
# For so much of the time whole steps must be completed, and for so much more than numbers without a rhythm would be.
_WHOLE_SHARE, _BEYOND_CHANCE = 0.5, 0.25


@dataclass(frozen=True)
class Steps:
    """A communicator repeats the `operations` of a step. In the list of all that it completed, whole steps end at the
    indexes `ends`, and after the last one it did the first `begun` operations of one more: 0 if it did anything else.
    `by_pauses`: how many operations a step has is told from the pauses between steps."""

    operations: tuple[Operation, ...]
    ends: tuple[int, ...]
    begun: int
    by_pauses: bool = False

    @property
    def first(self) -> int:
        """The index of the first operation of the first whole step."""
        return self.ends[0] + 1 - len(self.operations)

    @property
    def between(self) -> list[slice]:
        """Where, between whole steps, something else was done."""
        length = len(self.operations)
        return [slice(end + 1, after + 1 - length) for end, after in pairwise(self.ends) if after - end > length]


def steps_in_order(operations: Sequence[Operation]) -> Steps | None:
    """The shortest steps of which nearly all `operations` consist; None when nothing repeats, or all are equal."""
    numbers: dict[Operation, int] = {}
    codes = np.array([numbers.setdefault(operation, len(numbers)) for operation in operations], dtype=np.int64)
    for length in range(2, min(LONGEST_STEP, len(codes) // FEWEST_STEPS) + 1):
        repeats = codes[:-length] == codes[length:]
        if repeats.mean() < _IN_STEPS / 2:
            continue
        windows = np.convolve(repeats, np.ones(length, dtype=np.int64), "valid") == length
        first = int(windows.argmax())
        step = codes[first : first + length]
        if not windows[first] or any(np.array_equal(step, np.roll(step, n)) for n in range(1, length // 2 + 1)):
            continue  # nothing repeats, or a step that is shorter
        # Something done after it now and then does not make the first of all steps another.
        ends = _ends(codes.tolist(), 0 if np.array_equal(codes[:length], step) else first, step.tolist())
        if len(ends) >= max(FEWEST_STEPS, _IN_STEPS * (len(codes) - first) / length):
            steps = Steps(tuple(operations[first : first + length]), tuple(ends), 0)
            return replace(steps, begun=_begun(operations[ends[-1] + 1 :], operations, steps))
    return None


def _begun(rest: Sequence[Operation], operations: Sequence[Operation], steps: Steps) -> int:
    """How many operations of one more step the `rest` has; it may first have what was done between steps before."""
    for other in [[], *(operations[between] for between in steps.between)]:
        after = rest[len(other) :]
        if list(rest[: len(other)]) == list(other) and tuple(after) == steps.operations[: len(after)]:
            return len(after)
    return 0


def _ends(codes: list[int], first: int, step: list[int]) -> list[int]:
    """Where the steps end that are equal to `step`, from `first` on."""
    position = first
    ends: list[int] = []
    while position + len(step) <= len(codes):
        whole = codes[position : position + len(step)] == step
        position += len(step) if whole else 1
        if whole:
            ends.append(position - 1)
    return ends


def steps_between_pauses(log: Log) -> Steps | None:
    """The steps of a communicator that did nothing but one operation, by when each was written; None when it did
    something else, or there is no rhythm."""
    operations = log.operations
    if len(set(operations)) != 1:
        return None
    lasted_us = np.diff(log.written_us).clip(min=0)
    total_us = max(float(lasted_us.sum()), 1.0)
    best: tuple[float, int, int] = (_BEYOND_CHANCE, 0, 0)
    for length in range(2, min(_MOST_BUCKETS, len(operations) // _FEWEST_IN_RHYTHM) + 1):
        shares = np.bincount(np.arange(1, len(operations)) % length, lasted_us, length) / total_us
        before = int(shares.argmax())
        if shares[before] >= _WHOLE_SHARE:
            best = max(best, (float(shares[before]) - 1 / length, length, before))
    _, length, before = best
    if length == 0:
        return None
    ends = tuple(range(before + length - 1, len(operations), length))
    return Steps((operations[0],) * length, ends, (len(operations) - before) % length, by_pauses=True)
