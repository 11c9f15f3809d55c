"""From marked blocks to a stretch of time: when something began, when it ended, and whether chance explains it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.arrays import Floats, Marks

# Incidents (a warm-up, a checkpoint) are no noise either: the most unusual blocks of each are cut to what others reach.
_USUAL_SHARE = 0.9


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
    tail = float(scipy.stats.binom.sf(window.marked - 1, window.length, rate))
    return min(1.0, tail * tested * window.blocks)


def chance_among(values: Floats, others: Floats, window: Window, tested: int) -> float:
    """How likely one of `tested` entities would be so late in a `window` chosen by looking, by its `values` there, if
    it were so as often as all `others` are (rows, by block): half as late, in as many blocks. It needs no normal
    distribution: pauses that strike now this one and now that one have none."""
    level = min(float(values.mean()), float(np.median(values))) / 2
    if level <= 0:
        return 1.0
    rate = float((others >= level).mean()) if others.size else 0.0
    return chance(replace(window, marked=int((values >= level).sum())), rate, tested)


@dataclass(frozen=True)
class Noise:
    """How values of healthy entities vary from block to block: standard deviation, and correlation of neighbours."""

    deviation: float
    correlation: float

    def chance(self, values: Floats, window: Window, tested: int) -> float:
        """How likely the middle of `values`, those of a window chosen by looking, is above zero by chance, for one of
        `tested` entities (an upper bound, at most 1). Blocks that resemble their neighbours count for less, and one
        that is far above the others (a checkpoint) makes no condition of them."""
        middle = min(float(values.mean()), float(np.median(values)))
        tail = float(scipy.special.ndtr(-middle / self._of_mean(len(values))))
        return min(1.0, tail * tested * _windows(window.blocks))

    def least(self, chance: float, length: int, blocks: int, tested: int) -> float:
        """The middle value from which on chance is excluded at that level, over `length` of `blocks` blocks."""
        return -float(scipy.special.ndtri(chance / tested / _windows(blocks))) * self._of_mean(length)

    def _of_mean(self, length: int) -> float:
        effective = max(1.0, length * (1 - self.correlation) / (1 + self.correlation))
        return max(self.deviation, 1e-12) / sqrt(effective)


def _windows(blocks: int) -> float:
    """How many stretches there are."""
    return blocks * (blocks + 1) / 2


def noise_of(entities: Sequence[tuple[Floats, Window | None]]) -> Noise:
    """The noise of entities whose values by block are given, around their level inside and outside of a window.

    What begins and ends is not noise; with few entities, a faulty one would otherwise hide behind its own change.
    """
    if not entities:
        return Noise(0.0, 0.0)
    centred = np.array([_levelled(values, window) for values, window in entities])
    usual = np.quantile(np.abs(centred), _USUAL_SHARE, axis=1, keepdims=True)
    centred = np.clip(centred, -usual, usual)
    variance = float((centred**2).mean())
    if variance == 0:
        return Noise(0.0, 0.0)
    neighbours = float((centred[:, 1:] * centred[:, :-1]).mean()) / variance
    return Noise(sqrt(variance), min(max(neighbours, 0.0), 0.9))


def _levelled(values: Floats, window: Window | None) -> Floats:
    result = values - np.median(values)
    if window is not None and window.length < len(values):
        outside = np.ones(len(values), dtype=bool)
        outside[window.part()] = False
        result[outside] = values[outside] - np.median(values[outside])
        result[window.part()] = values[window.part()] - np.median(values[window.part()])
    return result
