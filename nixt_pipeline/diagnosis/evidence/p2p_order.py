"""Which Send meets which Recv when records are missing.

`p2p_sn` counts the Sends and Recvs of one rank on one communicator together, so that it differs at the two ends of an
edge, and a gap does not say which edge lost an operation. But a training job repeats its steps: when the order of
operations is periodic in `p2p_sn`, it is known for the numbers that were lost as well.
Where a step begins, which `steps` tells, does not matter to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.evidence.steps import LONGEST_STEP

# So many records must agree with an order that other records gave; fewer agree by chance.
_AGREEING = 20


@dataclass(frozen=True)
class Order:
    """The operations of one rank repeat after `period` numbers: `codes[(sn - 1) % period]` says which (-1: unseen)."""

    period: int
    codes: tuple[int, ...]

    def positions(self) -> list[tuple[int, int, int]]:
        """Of each seen residue: itself, how many like it come before it in a period, how many a period has."""
        return [
            (residue, self.codes[:residue].count(code), self.codes.count(code))
            for residue, code in enumerate(self.codes)
            if code >= 0
        ]


def find_order(numbers: Ints, codes: Ints, likely: Iterable[int] = ()) -> Order | None:
    """The shortest period in which every residue of `numbers` (from 1) has one code only; `likely` periods are tried
    first, and a multiple of the shortest one serves as well. None when there is none."""
    tried = (*likely, *range(1, LONGEST_STEP + 1))
    return next((order for period in tried if (order := _with_period(numbers, codes, period)) is not None), None)


def _with_period(numbers: Ints, codes: Ints, period: int) -> Order | None:
    residues = (numbers - 1) % period
    table = np.full(period, -1)
    table[residues] = codes
    if not np.array_equal(table[residues], codes) or len(numbers) - int((table >= 0).sum()) < _AGREEING:
        return None
    return Order(period, tuple(table.tolist()))
