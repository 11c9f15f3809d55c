"""By how much a job's blocks are longer in a stretch than in the rest of it: what anything in that stretch can cost."""

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.detectors.windows import Window
from nixt_pipeline.settings import Thresholds

# Checkpoints and stalls at the one end, and blocks that seem short because their neighbour was written late.
_UNUSUAL_SHARE = 0.2


def lengthened_us(block_us: Floats, window: Window, limits: Thresholds) -> float | None:
    """The time by which the blocks of a window are longer than all others, in microseconds; not less than 0. None where
    too few are inside or outside of it to tell. The first block is warm-up."""
    inside = np.zeros(len(block_us), dtype=bool)
    inside[window.part()] = True
    within, others = block_us[inside], block_us[1:][~inside[1:]]
    if min(len(within), len(others)) < limits.diagnosis.min_blocks:
        return None
    # No medians: dump passes cut the same time into blocks of a few lengths only.
    longer_us = scipy.stats.trim_mean(within, _UNUSUAL_SHARE) - scipy.stats.trim_mean(others, _UNUSUAL_SHARE)
    return max(0.0, float(longer_us)) * len(within)
