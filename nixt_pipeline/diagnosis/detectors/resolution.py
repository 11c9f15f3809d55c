"""How late a rank must have been to stand out: what "no rank is late" is worth.

The test for late ones is turned round: the deficits of a run vary from block to block, more so when records are
missing, and a rank that lacks less than that variation explains is not found.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nixt_pipeline.diagnosis.detectors.deficits import deficits
from nixt_pipeline.diagnosis.detectors.transfer import paths_of
from nixt_pipeline.diagnosis.detectors.windows import noise_of
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.parts import waiting_together
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.stages import operations_of
from nixt_pipeline.settings import Thresholds

# Communicators of one process whose numbers of operations differ by less do the same work, except for what was lost.
_EQUALLY_BUSY = 1.1

# Why nothing can be concluded from times, and what could not be judged although other things could.
Obstacle = Literal["several GPUs", "nobody compared"]
Unjudged = Literal["late process", "late host"]


@dataclass(frozen=True)
class Resolution:
    """What "nothing found" is worth in one launch: the `least_cost_share`; the `obstacle` that leaves nothing to
    conclude from times; and the part that could not be judged (`unjudged`)."""

    least_cost_share: float | None
    obstacle: Obstacle | None = None
    unjudged: Unjudged | None = None


def resolution_of(seen: Observations, limits: Thresholds) -> Resolution:
    """What could have been found in the launch, had it been there."""
    if _several_gpus(seen) or _one_process_id(seen):
        return Resolution(None, "several GPUs")
    stages = [stage for stage in seen.stages() if len(stage) > 1]
    if sum(map(len, stages)) * 2 < len(seen.processes) - len(unordered(seen, limits)) or not stages:
        transfers = any(len(path.members) > 1 for path in paths_of(seen, limits))
        return Resolution(None, unjudged="late process") if transfers else Resolution(None, "nobody compared")
    machine_of = seen.machines.of
    one_host_each = len(set(machine_of.values())) > 1 and all(
        len({machine_of[process] for process in stage}) == 1 for stage in seen.stages()
    )
    return Resolution(least_cost_share(seen, limits), unjudged="late host" if one_host_each else None)


def unordered(seen: Observations, limits: Thresholds) -> frozenset[Process]:
    """The processes of parts of the launch that wait for one another, but of whose collectives so many were left out
    that nothing can be said of them. Other parts (replicas side by side) do not depend on them."""
    part_of = waiting_together(seen)
    cells: dict[frozenset[Process], list[tuple[float, float]]] = defaultdict(list)
    for comm in seen.communicators:
        if comm.members and comm.number in seen.looked_at:
            cells[part_of[comm.members[0]]].append(seen.looked_at[comm.number])
    without = []
    for part, counts in cells.items():
        recorded, used = map(sum, zip(*counts, strict=True))
        if recorded - used > limits.diagnosis.max_unordered_share * recorded:
            without.append(part)
    return frozenset().union(*without)


@dataclass(frozen=True)
class Judged:
    """What can be said of the times of some launches: how many `processes` can be judged, which cannot because their
    collectives were left out, and how many functions and sizes were not compared, with their share of the bytes."""

    processes: int = 0
    left_out: frozenset[Process] = frozenset()
    not_compared: tuple[int, float] = (0, 0.0)

    def with_launch(self, seen: Observations, limits: Thresholds) -> "Judged":
        """The same with one launch more."""
        left_out = unordered(seen, limits)
        judged = self.processes + len(seen.processes) - len(left_out)
        not_compared = self.not_compared if self.not_compared[0] else seen.not_compared
        return Judged(judged, self.left_out | left_out, not_compared)

    @property
    def partly(self) -> bool:
        """Whether some of the processes can be judged, and others not."""
        return self.processes > 0 and bool(self.left_out)


def _one_process_id(seen: Observations) -> bool:
    """Whether only ranks of one process id could be compared, of which the log does not say which is in which
    communicator: what they spend is shared out among them, so that none can differ."""
    unsure = {member for comm in seen.communicators if not comm.certain for member in comm.members}
    compared = [stage for stage in seen.stages() if len(stage) > 1]
    return bool(compared) and all(len({process[:2] for process in stage}) == 1 and stage & unsure for stage in compared)


def _several_gpus(seen: Observations) -> bool:
    """Whether processes share several communicators that do the same at the same time. A GPU is in one such group; a
    process in which each GPU has groups of its own, and none of them two of its GPUs, is in as many as it has GPUs."""
    operations = operations_of(seen)
    kinds: dict[int, set[tuple[object, ...]]] = defaultdict(set)
    for transfer in seen.transfers:
        if transfer.path[0] == "collective":
            kinds[transfer.comm].add(transfer.alike)
    groups: dict[tuple[frozenset[Process], frozenset[tuple[object, ...]]], list[tuple[Span, int]]] = defaultdict(list)
    for comm in seen.communicators:
        if len(set(comm.members)) > 1 and kinds[comm.number] and comm.span is not None:
            groups[frozenset(comm.members), frozenset(kinds[comm.number])].append((comm.span, comm.number))
    for group in groups.values():
        for (span, one), (other_span, other) in pairwise(sorted(group)):
            busy = operations[one], operations[other]
            if max(busy) <= _EQUALLY_BUSY * min(busy) and _together(span, other_span):
                return True
    return False


def _together(one: Span, other: Span) -> bool:
    """Whether two communicators were in use at the same time, for most of the time in which either was."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    return common > 0 and 2 * common >= max(one[1], other[1]) - min(one[0], other[0])


def least_cost_share(seen: Observations, limits: Thresholds) -> float | None:
    """The share of the time from which on a process that is late in half of the job is told, in the pipeline stage
    where least can be told. None when no two processes do the same work."""
    late, _ = deficits(seen, limits)
    index = {process: row for row, process in enumerate(seen.processes)}
    shares = []
    for stage in seen.stages():
        rows = sorted(index[process] for process in stage)
        if len(rows) > 1:
            noise = noise_of([(late[row] / seen.block_us, None) for row in rows])
            length = max(limits.diagnosis.min_blocks, seen.blocks // 2)
            # Half of the chance, for there are two tests of which one must exclude it.
            shares.append(
                noise.least(limits.diagnosis.max_chance / 2, length, seen.blocks, len(rows))
                + limits.diagnosis.min_cost_share
            )
    return max(*shares, limits.diagnosis.p2_cost_share) if shares else None
