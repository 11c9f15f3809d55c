"""What processes lack because of their role: in a mixture of experts, that of those who hold the same expert.

Routing drifts, so that now this expert has more tokens and now that one. Groups of experts are copies of one another:
those with the same place in each of them hold the same expert, and are late together. That is no fault
of any of them.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping

import numpy as np

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds


def without_roles(seen: Observations, late: Floats, limits: Thresholds) -> Floats:
    """Deficits by process and block without what nearly all with the same role have in common."""
    row_of = {process: row for row, process in enumerate(seen.processes)}
    own = late.copy()
    for alike in _same_experts(seen):
        rows = [row_of[process] for process in alike]
        common = np.quantile(late[rows], 1 - limits.diagnosis.host_share, axis=0, method="lower")
        own[rows] -= np.clip(common, 0, None)
    return own


def _same_experts(seen: Observations) -> list[tuple[Process, ...]]:
    """The processes at the same place of all groups that exchange tokens, if they are on more than one machine: of one,
    it may be the machine that is late."""
    stage_of = {process: number for number, stage in enumerate(seen.stages()) for process in stage}
    by_shape: dict[Hashable, list[Communicator]] = defaultdict(list)
    for comm in seen.communicators:
        if _exchanges_tokens(seen, comm, stage_of):
            by_shape[comm.shape, stage_of[comm.members[0]]].append(comm)
    roles = [role for groups in by_shape.values() for role in zip(*(group.members for group in groups), strict=True)]
    return [role for role in roles if len({seen.machines.of[process] for process in role}) > 1]


def _exchanges_tokens(seen: Observations, comm: Communicator, stage_of: Mapping[Process, int]) -> bool:
    """Whether a communicator only does what is no collective in which ranks wait for one another, among processes that
    do the same work: those of a pipeline do not."""
    return (
        1 < len(comm.members) == comm.n_ranks
        and comm.number not in seen.synchronised_bytes
        and len({stage_of.get(process) for process in comm.members}) == 1
    )
