"""From marked blocks to a stretch of time: when something began, when it ended, and whether chance explains it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """Blocks `first` to `last`, both included, of which `marked` are marked, of `blocks` in the whole job."""

    first: int
    last: int
    marked: int
    blocks: int

    @property
    def length(self) -> int:
        """How many blocks it spans."""
        return self.last - self.first + 1

    @property
    def density(self) -> float:
        """The share of its blocks that are marked."""
        return self.marked / self.length

    def part(self) -> slice:
        """Its blocks, for indexing."""
        return slice(self.first, self.last + 1)

    def overlap(self, other: "Window") -> int:
        """How many blocks both span."""
        return max(0, min(self.last, other.last) - max(self.first, other.first) + 1)

    def onset_us(self, ends_us: Sequence[int | None]) -> int | None:
        """When it began: the end of the block before; None when it began with the log."""
        return None if self.first == 0 else ends_us[self.first - 1]

    def until_us(self, ends_us: Sequence[int | None]) -> int | None:
        """When it ended; None when it lasted to the end of the log."""
        return None if self.last == self.blocks - 1 else ends_us[self.last]


def densest_window(marks: Marks) -> Window | None:
    """The stretch with the largest surplus of marked over unmarked blocks (a maximum subarray); None without a mark.

    It is the maximum-likelihood change-point pair for a mark that is likely inside and unlikely outside.
    """
    best, best_range, surplus, start = 0, (0, -1), 0, 0
    for block, marked in enumerate(marks.tolist()):
        if surplus <= 0:
            surplus, start = 0, block
        surplus += 1 if marked else -1
        if surplus > best:
            best, best_range = surplus, (start, block)
    if best == 0:
        return None
    first, last = best_range
    return Window(first, last, int(marks[first : last + 1].sum()), len(marks))


def chance(window: Window, rate: float, tested: int) -> float:
    """How likely one of `tested` entities would be marked so often by chance (an upper bound, at most 1).

    By chance, a block is marked with probability `rate`. The unit is the block, not the collective: collectives of one
    step are not independent. The window was chosen by looking, so the probability is multiplied by the number of places
    where it could have begun.
    """
    n = window.length
    tail = sum(comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(window.marked, n + 1))
    return min(1.0, tail * tested * window.blocks)
