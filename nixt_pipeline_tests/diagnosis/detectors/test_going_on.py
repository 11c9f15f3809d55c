"""A tensor-parallel job: in each step two AllReduces in each pair, then one among the same places of the pairs."""

import numpy as np

from nixt_pipeline.diagnosis.detectors.going_on import comes_next, states_of, waits_for_nobody
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.operations import Log, Operation
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline_tests.diagnosis.examples import communicator

A: Process = ("a", 1)
B: Process = ("a", 2)
C: Process = ("b", 1)
D: Process = ("b", 2)
PAIR_A, PAIR_B, FIRST, SECOND = 10, 11, 12, 13
COMMS = {
    PAIR_A: communicator(0, A, B),
    PAIR_B: communicator(1, C, D),
    FIRST: communicator(2, A, C),
    SECOND: communicator(3, B, D),
}
STEP_US = 100_000


def logs(pairs: int, data: int) -> dict[int, Log]:
    """What process A did: so many AllReduces in its pair, at 20 and 40 ms of a step, and among the first of the pairs,
    at 80 ms."""
    in_pair = np.array([number // 2 * STEP_US + (20_000, 40_000)[number % 2] for number in range(pairs)])
    among = np.array([number * STEP_US + 80_000 for number in range(data)])
    return {
        PAIR_A: Log([Operation("AllReduce", 4_000_000)] * pairs, np.arange(pairs), in_pair),
        FIRST: Log([Operation("AllReduce", 9_000_000)] * data, np.arange(data), among),
    }


def waits(ends: dict[Process, tuple[int, int]], suspects: frozenset[Process], unseen: bool = False) -> bool:
    """Whether A waits for nobody, where each process got so far in its pair and among the places of the pairs."""
    reaches = []
    for process, (pair, data) in ends.items():
        in_pair, among = (PAIR_A if process in (A, B) else PAIR_B), (FIRST if process in (A, C) else SECOND)
        reaches.append(Reach(in_pair, "AllReduce", process, pair - 1, 0, pair, 0))
        reaches.append(Reach(among, "AllReduce", process, data - 1, 0, data, 0))
    states = states_of(reaches, COMMS)
    return waits_for_nobody(A, logs(*ends[A]), states, COMMS, suspects, unseen)


def test_what_comes_next_is_what_came_next_some_steps_ago() -> None:
    assert comes_next(logs(40, 20)) == PAIR_A
    assert comes_next(logs(41, 20)) == PAIR_A
    assert comes_next(logs(42, 20)) == FIRST


def test_nothing_comes_next_where_the_past_is_short_or_has_no_order() -> None:
    assert comes_next(logs(8, 4)) is None
    assert comes_next({PAIR_A: logs(40, 20)[PAIR_A]}) is None
    # One pass of the dump thread writes all of two steps: by then, either may have come first.
    seldom = {
        key: Log(log.operations, log.passes, log.written_us // (2 * STEP_US) * 2 * STEP_US)
        for key, log in logs(41, 20).items()
    }
    assert comes_next(seldom) is None


def test_who_had_work_with_its_equals_did_not_wait() -> None:
    # Pair b is one operation behind; pair a has another one to do before it needs pair b.
    assert waits({A: (41, 20), B: (41, 20), C: (40, 20), D: (40, 20)}, frozenset({C, D}))


def test_who_needs_those_who_are_behind_waits() -> None:
    assert not waits({A: (42, 20), B: (42, 20), C: (41, 20), D: (41, 20)}, frozenset({C, D}))
    # Its equal is further, or waits elsewhere.
    assert not waits({A: (41, 20), B: (41, 21), C: (40, 20), D: (40, 20)}, frozenset({C, D}))
    assert not waits({A: (41, 20), B: (41, 20), C: (41, 20), D: (41, 20)}, frozenset({B}))


def test_something_too_small_to_be_recorded_may_come_before_another_communicator_only() -> None:
    ends = {A: (41, 20), B: (41, 20), C: (40, 20), D: (40, 20)}
    assert waits(ends, frozenset({C, D}), unseen=True)
    # It did the last one among the pairs: the norm of the gradients may come before the next step.
    ends = {A: (40, 20), B: (40, 20), C: (39, 20), D: (39, 20)}
    assert waits(ends, frozenset({C, D})) and not waits(ends, frozenset({C, D}), unseen=True)
