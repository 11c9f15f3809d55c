"""Four groups of two experts, two groups on each of two hosts, and the gradients of all; ten blocks of a second."""

from collections.abc import Mapping, Sequence

import pytest

from nixt_pipeline.diagnosis.detectors.deficits import deficits
from nixt_pipeline.diagnosis.detectors.lateness import find_late
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import collective, communicator, observations

LIMITS = Thresholds()
GROUPS = [(("a", 1), ("a", 2)), (("a", 3), ("a", 4)), (("b", 1), ("b", 2)), (("b", 3), ("b", 4))]
PROCESSES = tuple(process for group in GROUPS for process in group)
# In the second half of the job, the second expert of each group has more tokens, and the first one waits for it.
BUSY: dict[Process, list[float]] = {process: [100_000.0] * 10 for process in PROCESSES}
BUSY.update((process, [100_000.0] * 5 + [300_000.0] * 5) for process, _ in GROUPS)


def seen(wait_us: Mapping[Process, Sequence[float]]) -> Observations:
    world = communicator(9, *PROCESSES)
    groups = [communicator(number, *group, role=None) for number, group in enumerate(GROUPS)]
    return observations([*groups, world], wait_us=wait_us, transfers=collective(world, [1_000.0] * 10))


def test_experts_with_more_tokens_in_all_groups_are_not_late() -> None:
    observed = seen(BUSY)
    late, _ = deficits(observed, LIMITS)
    assert late.max() == 0
    assert find_late(observed, LIMITS) == []


def test_one_that_is_later_than_those_with_the_same_expert_is_late_by_the_difference() -> None:
    observed = seen(BUSY | {("b", 4): [100_000.0] * 5 + [0.0] * 5})
    late, _ = deficits(observed, LIMITS)
    assert late[observed.processes.index(("b", 4))].tolist() == pytest.approx([0.0] * 5 + [100_000.0] * 5)


def test_experts_that_are_all_on_one_machine_may_be_late_with_it() -> None:
    # Groups across the hosts: the second half of each is on b.
    groups = [(("a", slot), ("b", slot)) for slot in (1, 2, 3, 4)]
    world = communicator(9, *PROCESSES)
    comms = [communicator(number, *group, role=None) for number, group in enumerate(groups)]
    waits = {process: [300_000.0 * (process[0] == "a")] * 10 for process in PROCESSES}
    observed = observations([*comms, world], wait_us=waits, transfers=collective(world, [1_000.0] * 10))
    late, _ = deficits(observed, LIMITS)
    assert late[observed.processes.index(("b", 1))].tolist() == [300_000.0] * 10
