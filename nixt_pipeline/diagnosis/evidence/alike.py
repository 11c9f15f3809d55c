"""Which communicators do the same work: only among those does one that got less far say anything.

The same function of communicators of the same size may serve different purposes: gradients and the loss, tensor
parallelism and gradient norms, stages with and without an embedding. What does the same work does it at the same pace
from the start, with messages of one class of sizes; who stopped had the same pace until then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import median
from typing import TypeGuard

# The slopes of communicators in lockstep were within 2 % of each other in simulated jobs of 13 steps and more, whose
# stages start one after the other. Seven and eight operations per step differ by 14 %.
_SAME_PACE = 1.05
# Messages of a stage with the embedding are two or three times as long as those of another; a loss has 4 bytes.
_SAME_SIZE = 8.0
# Who stops in a hang is a step or two behind; what does something else has done many times as much, or as little.
_AS_MUCH = 1.5


@dataclass(frozen=True)
class Pace:
    """How fast something repeats: operations per microsecond, from the slope of their numbers over the time at which
    they were written, which no offset of a clock changes; and the geometric mean of their sizes. None: not known."""

    per_us: float | None = None
    size_bytes: float | None = None


UNKNOWN = Pace()


def middle(paces: Iterable[Pace]) -> Pace:
    """The pace of a communicator, of those that its ranks recorded."""
    paces = list(paces)
    speeds = [pace.per_us for pace in paces if _known(pace.per_us)]
    sizes = [pace.size_bytes for pace in paces if _known(pace.size_bytes)]
    return Pace(median(speeds) if speeds else None, median(sizes) if sizes else None)


def alike(paces: Sequence[Pace], done: Sequence[int] = ()) -> list[int]:
    """A number for each of them, equal for those that may do the same work. What is not known is like what is not, and
    like the only ones that had `done` about as much: who stops just before a pace can be told has none."""
    sizes = _with_unknown(classes([pace.size_bytes for pace in paces], _SAME_SIZE), done)
    speeds = _with_unknown(classes([pace.per_us for pace in paces], _SAME_PACE), done)
    numbers: dict[tuple[int, int], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in zip(sizes, speeds, strict=True)]


def _with_unknown(classes: list[int], done: Sequence[int]) -> list[int]:
    """The same with those that are in no class in the only one of which some have done about as much."""
    known = [(count, number) for count, number in zip(done, classes, strict=False) if number >= 0]

    def class_of(count: int) -> int:
        near = {number for other, number in known if max(count, other) <= _AS_MUCH * min(count, other)}
        return near.pop() if len(near) == 1 else -1

    return [class_of(done[place]) if number < 0 and done else number for place, number in enumerate(classes)]


def classes(values: Sequence[float | None], ratio: float) -> list[int]:
    """Numbers of classes between which there is no value for a factor of `ratio`; -1 where it is not known."""
    order = sorted((value, place) for place, value in enumerate(values) if _known(value))
    classes = [-1] * len(values)
    for _, place in order[:1]:
        classes[place] = 0
    for (before, previous), (value, place) in pairwise(order):
        classes[place] = classes[previous] + (log(value) - log(before) > log(ratio))
    return classes


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and value > 0  # no slope of numbers written at once is a number
