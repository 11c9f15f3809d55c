"""Who hesitates: late in some blocks and not in those between, so that no stretch of time is dense with it.

The blocks in which somebody is clearly late are taken out of the job and looked at as if they were all of it. If it is
the same one in most of them, it is that one's doing; pauses that strike one after the other (everybody's garbage
collection, uneven batches) name nobody. What it costs is counted over all of the time, quiet blocks included.
"""

from dataclasses import replace

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.detectors.lateness import Late, deficits, find_late
from nixt_pipeline.diagnosis.detectors.windows import Window, chance
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds

# In an eventful block, the latest one lacks so many times what the latest one lacks in a usual block.
_UNUSUAL = 2.0


def find_hesitations(seen: Observations, known: list[Late], limits: Thresholds) -> list[Late]:
    """Everybody who is late now and then by their own doing, except the processes of `known`, who are late for longer.

    The windows are in blocks of `seen` and count as marked those in which it hesitated; `late_us` is of one of these.
    """
    late, working = deficits(seen)
    named = {process for entity in known for process in entity.processes}
    others = [row for row, process in enumerate(seen.processes) if process not in named]
    blocks = _eventful(late[others] / seen.block_us, limits) if others else []
    if len(blocks) < limits.diagnosis.min_blocks:
        return []
    found = []
    for entity in find_late(seen.only(blocks), limits):
        if entity.last_share is None or named & set(entity.processes):
            continue
        if not _always_it(seen, entity, named, blocks, limits):
            continue
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


def _always_it(seen: Observations, entity: Late, named: set[Process], blocks: list[int], limits: Thresholds) -> bool:
    """Whether it is the latest of the job in more of the eventful blocks than its turn: in the window, which may have
    begun in any of them, or in all. How late it is proves nothing here, for the blocks were chosen for it."""
    late, _ = deficits(seen)
    own = np.array([process in entity.processes for process in seen.processes])
    others = ~own & np.array([process not in named for process in seen.processes])
    latest = late[own][:, blocks].mean(axis=0) >= late[others][:, blocks].max(axis=0, initial=0)
    entities = len(set(seen.machines.of.values())) if entity.level == "host" else len(seen.processes)
    in_window = chance(replace(entity.window, marked=int(latest[entity.window.part()].sum())), 1 / entities, entities)
    in_all = float(scipy.stats.binom.sf(latest.sum() - 1, len(blocks), 1 / entities)) * entities
    return 2 * min(in_window, in_all) <= limits.diagnosis.max_chance


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
        window=window,
        cost_share=share,
        typical_share=share,
        late_us=cost_us / window.marked,
        slowdown=1 + cost_us / working_us if working_us > limits.diagnosis.p2_cost_share * elapsed_us else None,
    )
