"""How much less a process spends in communication than those that do the same work, and what of that the job felt."""

import numpy as np

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.detectors.lengthening import lengthened_us
from nixt_pipeline.diagnosis.detectors.roles import without_roles
from nixt_pipeline.diagnosis.detectors.windows import Window
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.stages import UNHINDERED_QUANTILE
from nixt_pipeline.settings import Thresholds


def deficits(seen: Observations, limits: Thresholds) -> tuple[Floats, Floats]:
    """Microseconds by process and block: how much less a process spends in communication than those of its stage, but
    for what its role makes it spend elsewhere; and what those spend outside of communication.

    It must spend less in both accounts, with and without the waiting that is carried over from one collective to the
    next: without it, those who wait where it is carried over seem late, and with it, those who wait where it is not.
    """
    late, reference = _deficits(seen, seen.communicating)
    if seen.carried.any():
        late = np.minimum(late, _deficits(seen, seen.communicating + seen.carried)[0])
    return without_roles(seen, late, limits), seen.block_us - reference


def deficits_with_carried(seen: Observations, limits: Thresholds) -> Floats:
    """The deficits in microseconds by process and block, with all that is carried over in each collective again."""
    return without_roles(seen, _deficits(seen, seen.communicating + seen.carried)[0], limits)


def _deficits(seen: Observations, occupied: Floats) -> tuple[Floats, Floats]:
    """Against what most of the stage are occupied at most, and that reference."""
    index = {process: row for row, process in enumerate(seen.processes)}
    reference = np.zeros_like(occupied)
    for stage in seen.stages():
        rows = [index[process] for process in stage]
        reference[rows] = np.quantile(occupied[rows], UNHINDERED_QUANTILE, axis=0, method="nearest")
    return reference - occupied, reference


def felt_us(seen: Observations, rows: list[int], window: Window, limits: Thresholds) -> float | None:
    """What the lateness of some processes (rows) cost the job in a window, in microseconds: by how much its blocks are
    longer, but no more than what most of them lack in communication. What is carried over from one collective to the
    next is in what they lack many times, or without it too little of a lag that is larger than what overlaps. None
    where the length of the blocks does not tell."""
    lengthened = lengthened_us(seen.block_us, window, limits)
    if lengthened is None:
        return None
    lacking = deficits_with_carried(seen, limits)[rows][:, window.part()]
    common = np.quantile(lacking, 1 - limits.diagnosis.host_share, axis=0, method="lower")
    return min(lengthened, float(np.clip(common, 0, None).sum()))
