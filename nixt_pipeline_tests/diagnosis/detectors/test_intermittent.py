"""Two hosts or four, two processes each; a block lasts one second, of which some blocks hold a hesitation."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nixt_pipeline.diagnosis.detectors.intermittent import find_hesitations
from nixt_pipeline.diagnosis.detectors.lateness import find_late
from nixt_pipeline.diagnosis.evidence.observations import Arrival, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import communicator, late_findings, observations

LIMITS = Thresholds()
PROCESSES = tuple((host, number) for host in "abcd" for number in (1, 2))
FIFTH = range(5, 40, 5)


def hesitating(who: Sequence[Process], when: Sequence[int], late_us: float = 400_000.0) -> Observations:
    """In the n-th block of `when`, all others wait for the n-th of `who`."""
    waits = {process: [0.0] * 40 for process in PROCESSES}
    arrivals = []
    for process, block in zip(who, when, strict=True):
        for other in PROCESSES:
            waits[other][block] = 0.0 if other == process else late_us
        arrivals.append(Arrival(0, block, process, 5, late_us))
    return observations([communicator(0, *PROCESSES)], wait_us=waits, arrivals=arrivals, blocks=40)


def test_one_that_hesitates_in_every_fifth_block_is_named_though_no_stretch_is_dense_with_it() -> None:
    seen = hesitating([("b", 1)] * 7, FIFTH)
    assert find_late(seen, LIMITS) == []
    [late] = find_hesitations(seen, [], LIMITS)
    assert (late.level, late.processes, late.intermittent) == ("rank", (("b", 1),), True)
    # The next hesitation is not overdue at the end.
    assert (late.window.first, late.window.last, late.window.marked) == (5, 39, 7)
    # 0.4 s in 7 of the 35 seconds; it works for one second of each.
    assert late.cost_share == pytest.approx(7 * 0.4 / 35)
    # In the hesitating blocks its peers work for 0.6 s only, for they wait.
    assert late.slowdown == pytest.approx(1 + 7 * 0.4 / (28 + 7 * 0.6))
    assert late.late_us == pytest.approx(400_000)


def test_it_has_ended_when_the_next_hesitation_is_long_overdue() -> None:
    [late] = find_hesitations(hesitating([("b", 1)] * 5, range(3, 13, 2)), [], LIMITS)
    assert (late.window.first, late.window.last) == (3, 11)


def test_pauses_that_strike_one_after_the_other_name_nobody() -> None:
    assert find_hesitations(hesitating(PROCESSES[:7], FIFTH), [], LIMITS) == []


def test_hesitations_that_cost_little_are_not_told() -> None:
    assert find_hesitations(hesitating([("b", 1)] * 3, [10, 20, 30], late_us=100_000.0), [], LIMITS) == []


def test_who_is_late_all_the_time_is_not_told_twice() -> None:
    seen = hesitating([("b", 1)] * 39, range(1, 40))
    known = find_late(seen, LIMITS)
    assert [late.processes for late in known] == [(("b", 1),)]
    assert find_hesitations(seen, known, LIMITS) == []


def test_a_hesitation_is_told_with_how_often_it_comes() -> None:
    seen = hesitating([("b", 1)] * 7, FIFTH)
    [finding] = late_findings(seen, find_hesitations(seen, [], LIMITS))
    assert (finding.kind, finding.severity, finding.level) == ("late-arrival", "P2", "rank")
    assert "400 ms less in communication than its peers in 7 of 35 time blocks, intermittently" in finding.evidence
    assert finding.onset_us == 5_000_000


def test_rank_zero_may_be_writing_checkpoints_and_raises_no_alarm() -> None:
    seen = hesitating([("a", 1)] * 7, FIFTH)
    [finding] = late_findings(seen, find_hesitations(seen, [], LIMITS))
    assert finding.severity == "info"
    assert "checkpoints" in finding.next_step


def test_some_blocks_of_a_job_keep_the_stages_of_the_whole() -> None:
    seen = hesitating([("b", 1)] * 7, FIFTH)
    part = seen.only([5])
    assert part.stages() == seen.stages()
    assert (part.blocks, part.block_end_us, part.communicating.shape) == (1, (6_000_000,), (8, 1))
    assert [(arrival.block, arrival.process) for arrival in part.arrivals] == [(0, ("b", 1))]


@pytest.mark.parametrize(("late", "severity"), [("a", "info"), ("b", "P2")])
def test_the_first_replica_may_be_writing_checkpoints_and_raises_no_alarm(late: str, severity: str) -> None:
    # Of four replicas, each a tensor-parallel group of four on a host, all processes of one are late in every fifth
    # block.
    replicas = [[(host, slot) for slot in range(4)] for host in "abcd"]
    groups = [communicator(number, *replica) for number, replica in enumerate(replicas)]
    rings = [communicator(4 + slot, *members) for slot, members in enumerate(zip(*replicas, strict=True))]
    waits_us = {
        process: [0.0 if process[0] == late and block in FIFTH else 400_000.0 * (block in FIFTH) for block in range(40)]
        for replica in replicas
        for process in replica
    }
    arrivals = [
        Arrival(ring.number, block, (late, slot), 10, 400_000.0) for slot, ring in enumerate(rings) for block in FIFTH
    ]
    seen = observations([*groups, *rings], wait_us=waits_us, arrivals=arrivals, blocks=40)
    [finding] = late_findings(seen, find_hesitations(seen, [], LIMITS))
    assert (finding.severity, finding.hosts) == (severity, (late,))
    assert ("first replica" in finding.next_step) == (severity == "info")


@pytest.mark.parametrize(("late", "role"), [("a", True), ("b", False)])
def test_the_first_machine_may_be_writing_for_the_others_and_is_a_note(late: str, role: bool) -> None:
    # Eight processes of one communicator; all of one host are late by 400 ms of a second in every fifth block.
    waits_us = {
        process: [0.0 if process[0] == late else 400_000.0 * (block in FIFTH) for block in range(40)]
        for process in PROCESSES
    }
    arrivals = [Arrival(0, block, (late, 1), 10, 400_000.0) for block in FIFTH]
    seen = observations([communicator(0, *PROCESSES)], wait_us=waits_us, arrivals=arrivals, blocks=40)
    entities = [replace(entity, typical_share=0.2) for entity in find_hesitations(seen, [], LIMITS)]
    [finding] = late_findings(seen, entities)
    assert (finding.hosts, finding.severity) == ((late,), "P2" if role else "P1")
    assert ("first ranks" in finding.next_step) == role


def stalling(host: str, when: Sequence[int]) -> Observations:
    """Of two hosts, both processes of one are late by 400 ms of a second in some blocks."""
    processes = [process for process in PROCESSES if process[0] in "ab"]
    waits_us = {
        process: [400_000.0 * (process[0] != host and block in when) for block in range(40)] for process in processes
    }
    arrivals = [Arrival(0, block, (host, 1), 10, 400_000.0) for block in when]
    return observations([communicator(0, *processes)], wait_us=waits_us, arrivals=arrivals, blocks=40)


@pytest.mark.parametrize(("stalls", "severity"), [(12, "P1"), (6, "P2")])
def test_few_stalls_of_one_of_two_hosts_are_a_note(stalls: int, severity: str) -> None:
    # Twice 2^-12 is 0.0005, and twice 2^-6 is 0.03; both times two, for two tests.
    seen = stalling("b", range(2, 2 + 3 * stalls, 3))
    entities = [replace(entity, typical_share=0.2) for entity in find_hesitations(seen, [], LIMITS)]
    [finding] = late_findings(seen, entities)
    assert (finding.hosts, finding.severity) == (("b",), severity)


def test_a_small_delay_of_somebody_else_is_no_turn() -> None:
    # Twelve stalls of b, and one of a, that is a quarter as long.
    seen = stalling("b", range(2, 38, 3))
    rows = [seen.processes.index(("b", slot)) for slot in (1, 2)]
    seen.communicating[rows, 39] = 100_000.0
    [late] = find_hesitations(seen, [], LIMITS)
    assert late.probability == pytest.approx(2 * 2 * 2**-12)


@pytest.mark.parametrize(("steps", "severity"), [(400, "info"), (60, "P2")])
def test_nobody_writes_checkpoints_every_few_steps(steps: int, severity: str) -> None:
    # Rank 0 in every fifth of 40 blocks: every fiftieth step, or every seventh or eighth.
    seen = replace(hesitating([("a", 1)] * 7, FIFTH), pulse=float(steps))
    [finding] = late_findings(seen, find_hesitations(seen, [], LIMITS))
    assert finding.severity == severity
    assert "checkpoints" in finding.next_step


def test_a_checkpoint_in_two_blocks_is_one() -> None:
    # Every tenth of 40 blocks and 40 steps, and the one after it.
    when = [block for ten in (5, 15, 25, 35) for block in (ten, ten + 1)]
    seen = replace(hesitating([("a", 1)] * 8, when), pulse=40.0)
    [late] = find_hesitations(seen, [], LIMITS)
    assert late.every == 10
    [finding] = late_findings(seen, [late])
    assert finding.severity == "info"


def test_a_hesitation_that_two_communicators_have_in_different_blocks_is_of_one() -> None:
    # Of four processes on each of two hosts, everybody waits 400 ms for b1: those of its host in one block, the others
    # in the next one. In single blocks, first all of a are as late as b1, and then all of b.
    hosts = [[(host, slot) for slot in range(1, 5)] for host in "ab"]
    processes = [process for host in hosts for process in host]
    hesitations = (6, 12, 18, 24, 30, 36)
    waits = {
        process: [
            400_000.0 * (process != ("b", 1) and block - (process[0] == "a") in hesitations) for block in range(40)
        ]
        for process in processes
    }
    arrivals = [Arrival(0, block + 1, ("b", 1), 5, 400_000.0) for block in hesitations]
    comms = [communicator(0, *processes), *(communicator(number, *host) for number, host in enumerate(hosts, 1))]
    seen = observations(comms, wait_us=waits, arrivals=arrivals, blocks=40)
    [late] = find_hesitations(seen, [], LIMITS)
    assert (late.processes, late.intermittent) == ((("b", 1),), True)
    assert (late.window.first, late.window.blocks) == (6, 40)


def test_pairs_of_blocks_have_what_both_had() -> None:
    seen = hesitating([("b", 1)] * 2, [4, 5])
    pairs = seen.in_pairs(1)
    # Block 0 alone, then 1 and 2, and so on: 39 alone again.
    assert (pairs.blocks, pairs.block_us[0], pairs.block_us[1], pairs.block_us[20]) == (21, 1e6, 2e6, 1e6)
    assert pairs.block_end_us[:3] == (1_000_000, 3_000_000, 5_000_000)
    row = seen.processes.index(("a", 1))
    assert pairs.communicating[row, 2:4].tolist() == [400_000.0, 400_000.0]
    assert [arrival.block for arrival in pairs.arrivals] == [2, 3]
    assert pairs.stages() == seen.stages()
