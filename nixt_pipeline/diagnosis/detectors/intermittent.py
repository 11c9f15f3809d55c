"""Who hesitates: late in some blocks and not in those between, so that no stretch of time is dense with it.

The blocks in which a rank is clearly late are taken out of the job and examined as if they were all of it. If it is
the same one in most of them, it is that one's doing; pauses that strike one after the other (garbage collection on
each rank, uneven batches) name no rank. What it costs is counted over all of the time, quiet blocks included.
"""

from dataclasses import replace

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.detectors.deficits import deficits
from nixt_pipeline.diagnosis.detectors.lateness import Late, find_late
from nixt_pipeline.diagnosis.detectors.windows import Window, chance
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds

# In an eventful block, the latest one lacks this many times what the latest one lacks in a usual block.
_UNUSUAL = 2.0
# In single blocks, and in pairs that begin with the first or with the second one.
_TRIES = 3


def find_hesitations(seen: Observations, known: list[Late], limits: Thresholds) -> list[Late]:
    """What is late intermittently by its own doing, except the processes of `known`, which are late for longer.

    The windows are in blocks of `seen` and count as marked those in which it hesitated; `late_us` is of one of these.
    Where none is found, pairs of blocks are examined, because one stall may be in two.
    """
    found = _hesitations(seen, known, limits)
    for first in (0, 1):
        if not found:
            pairs = seen.in_pairs(first)
            late = [entity for entity in find_late(pairs, limits) if entity.last_share is not None and not known]
            found = [_in_single(entity, first, seen) for entity in late or _hesitations(pairs, known, limits)]
            found = [entity for entity in found if entity.probability <= limits.diagnosis.noted_chance]
    return found


def _in_single(late: Late, first: int, seen: Observations) -> Late:
    """What was found in pairs of blocks, with its window in single ones; they are the second and third try."""
    begin, end = max(0, 2 * late.window.first - first), min(2 * late.window.last - first + 1, seen.blocks - 1)
    window = replace(late.window, first=begin, last=end, blocks=seen.blocks)
    every = late.every and 2 * late.every
    return replace(late, window=window, intermittent=True, every=every, probability=min(1.0, _TRIES * late.probability))


def _hesitations(seen: Observations, known: list[Late], limits: Thresholds) -> list[Late]:
    late, working = deficits(seen, limits)
    named = {process for entity in known for process in entity.processes}
    others = [row for row, process in enumerate(seen.processes) if process not in named]
    blocks = _eventful(late[others] / seen.block_us, limits) if others else []
    if len(blocks) < limits.diagnosis.min_blocks:
        return []
    found = []
    for entity in find_late(seen.only(blocks), limits):
        if entity.last_share is None or named & set(entity.processes):
            continue
        turn = _chance_of_its_turn(seen, entity, named, blocks, limits)
        if turn > limits.diagnosis.noted_chance:
            continue
        entity = replace(entity, probability=max(entity.probability, turn))
        hesitating = _in_whole_job(seen, entity, blocks, working, limits)
        slow = (
            hesitating.slowdown or 1.0
        ) >= limits.diagnosis.min_slowdown and hesitating.cost_share >= limits.diagnosis.min_cost_share
        found += [hesitating] if slow or hesitating.cost_share >= limits.diagnosis.p2_cost_share else []
    return found


def _eventful(shares: Floats, limits: Thresholds) -> list[int]:
    """The blocks in which the latest one is later than usual, and late enough for a note. `shares`: deficits by process
    and block, as shares of the block. The first block is warm-up."""
    latest = shares.max(axis=0)
    least = max(limits.diagnosis.p2_cost_share, _UNUSUAL * float(np.median(latest)))
    return [block for block in range(1, len(latest)) if latest[block] > least]


def _chance_of_its_turn(
    seen: Observations, entity: Late, named: set[Process], blocks: list[int], limits: Thresholds
) -> float:
    """How likely it would be the latest of the job in that many eventful blocks by turns: in the window, which may have
    begun in any of them, or in all in which any is at least half as late. How late it is proves nothing here,
    for the blocks were chosen for it."""
    late, _ = deficits(seen, limits)
    own = np.array([process in entity.processes for process in seen.processes])
    others = ~own & np.array([process not in named for process in seen.processes])
    its = late[own][:, blocks].mean(axis=0)
    of_others = late[others][:, blocks].max(axis=0, initial=0)
    latest, part = its >= of_others, entity.window.part()
    alike = np.maximum(its, of_others) >= float(np.median(its[part])) / 2
    entities = len(set(seen.machines.of.values())) if entity.level == "host" else len(seen.processes)
    in_window = chance(replace(entity.window, marked=int(latest[part].sum())), 1 / entities, entities)
    in_all = float(scipy.stats.binom.sf(latest[alike].sum() - 1, alike.sum(), 1 / entities)) * entities
    return 2 * min(in_window, in_all)


def _in_whole_job(seen: Observations, entity: Late, blocks: list[int], working: Floats, limits: Thresholds) -> Late:
    """What was found in `blocks` alone, with its window and its costs among all blocks."""
    first, last = blocks[entity.window.first], blocks[entity.window.last]
    if seen.blocks - 1 - last <= 2 * (last - first) / max(entity.window.marked - 1, 1):
        last = seen.blocks - 1  # the next hesitation is not overdue
    window = Window(first, last, entity.window.marked, seen.blocks)
    part = window.part()
    cost_us, elapsed_us = entity.late_us * entity.window.length, float(seen.block_us[part].sum())
    rows = [row for row, process in enumerate(seen.processes) if process in entity.processes]
    working_us = float(working[rows][:, part].mean(axis=0).sum())
    share = cost_us / elapsed_us
    return replace(
        entity,
        intermittent=True,
        every=_spacing(blocks[entity.window.part()]),
        window=window,
        cost_share=share,
        typical_share=share,
        late_us=cost_us / window.marked,
        slowdown=1 + cost_us / working_us if working_us > limits.diagnosis.p2_cost_share * elapsed_us else None,
    )


def _spacing(blocks: list[int]) -> float | None:
    """After how many blocks one of these comes again; neighbours are one, in two parts."""
    single = [block for number, block in enumerate(blocks) if number == 0 or block - blocks[number - 1] > 1]
    return (single[-1] - single[0]) / (len(single) - 1) if len(single) > 1 else None
