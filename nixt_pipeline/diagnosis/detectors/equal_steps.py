"""How many operations a step has when all are equal, told from the pauses between steps.

Gradient buckets of one size do not show where a step ends. But a job computes between its steps, and completes the
operations of a step in quick succession: for most of the time, what it has completed are whole steps.
"""

from collections.abc import Sequence

import numpy as np

from nixt_pipeline.arrays import Ints
from nixt_pipeline.diagnosis.detectors.mid_step import MidStep
from nixt_pipeline.diagnosis.evidence.operations import Operation

# Steps of DDP have a few buckets, and fewer whole steps show no rhythm.
_MOST_IN_STEP = 64
_STEPS = 12
# For so much of the time whole steps must be completed, and for so much more than numbers without a rhythm would be.
_WHOLE_SHARE, _BEYOND_CHANCE = 0.5, 0.25


def stopped_between_pauses(communicator: int, operations: Sequence[Operation], written_us: Ints) -> MidStep | None:
    """Whether a communicator that did nothing but one operation stopped in the middle of a step, by when each was
    written (Unix microseconds, in order). None when it did not, or when its steps do not show."""
    if len(set(operations)) != 1:
        return None
    lasted = np.diff(written_us).clip(min=0)
    total = float(lasted.sum())
    best: tuple[float, int, int] = (_BEYOND_CHANCE, 0, 0)
    for length in range(2, min(_MOST_IN_STEP, len(operations) // _STEPS) + 1):
        shares = np.bincount(np.arange(1, len(operations)) % length, lasted, length) / max(total, 1.0)
        whole = int(shares.argmax())
        if shares[whole] >= _WHOLE_SHARE:
            best = max(best, (float(shares[whole]) - 1 / length, length, whole))
    _, length, whole = best
    done = (len(operations) - whole) % length if length else 0
    if not done:
        return None
    return MidStep(communicator, (operations[0],) * length, done, len(operations) // length, by_pauses=True)
