"""Two hosts a and b (and more) with two processes each; a block lasts one second."""

from dataclasses import replace

import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.late_ranks import outstanding, whole_processes, without_uneven_replicas
from nixt_pipeline.diagnosis.detectors.lateness import Late, find_late
from nixt_pipeline.diagnosis.detectors.windows import Window
from nixt_pipeline.diagnosis.evidence.observations import Arrival, Edge, Observations, Transfer
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import (
    A1,
    A2,
    B1,
    B2,
    HALF,
    collective,
    communicator,
    last,
    late_findings,
    observations,
)

LIMITS = Thresholds()


def named(seen: Observations) -> list[tuple[str, tuple[str, ...]]]:
    return [(late.level, late.hosts) for late in find_late(seen, LIMITS)]


def test_the_host_that_the_others_wait_for_is_late_from_the_block_in_which_they_begin_to_wait() -> None:
    seen = observations(
        [communicator(0, A1, A2, B1, B2)], wait_us={B1: HALF, B2: HALF}, arrivals=last(0, A1), blocks=40
    )
    (late,) = find_late(seen, LIMITS)
    assert (late.level, late.hosts, late.window.first, late.window.last) == ("host", ("a",), 20, 39)
    # 0.3 s of each second, in 20 blocks, for the two processes of the other host.
    assert late.cost_share == 0.3
    assert late.lost_us == 20 * 300_000 * 2


def test_one_process_is_late_not_its_host() -> None:
    seen = observations(
        [communicator(0, A1, A2, B1, B2)],
        wait_us={A2: HALF, B1: HALF, B2: HALF},
        arrivals=last(0, A1),
        blocks=40,
    )
    (late,) = find_late(seen, LIMITS)
    assert (late.level, late.processes) == ("rank", (A1,))


def test_who_waited_elsewhere_is_a_relay_and_not_late() -> None:
    # a is last in the collective with b because it waited as long for somebody else.
    waits = dict.fromkeys((A1, A2, B1, B2), HALF)
    seen = observations([communicator(0, A1, A2, B1, B2)], wait_us=waits, arrivals=last(0, A1), blocks=40)
    assert named(seen) == []


def test_whose_transfers_are_slow_is_not_late() -> None:
    seen = observations(
        [communicator(0, A1, A2, B1, B2)],
        wait_us={B1: HALF, B2: HALF},
        transfer_us={A1: HALF, A2: HALF},
        arrivals=last(0, A1),
        blocks=40,
    )
    assert named(seen) == []


def test_nobody_is_named_when_the_collectives_do_not_confirm_it() -> None:
    comm = communicator(0, A1, A2, B1, B2)
    waits = {B1: HALF, B2: HALF}
    assert named(observations([comm], wait_us=waits, blocks=40)) == []
    # Less than half of the waiting is for a.
    arrivals = [*last(0, A1), *last(0, B1, waited_us=310_000)]
    assert named(observations([comm], wait_us=waits, arrivals=arrivals, blocks=40)) == []


def test_waits_below_a_twentieth_of_the_time_are_nobodys_fault() -> None:
    little = [49_000.0] * 40
    seen = observations(
        [communicator(0, A1, A2, B1, B2)],
        wait_us={B1: little, B2: little},
        arrivals=last(0, A1, range(40)),
        blocks=40,
    )
    assert named(seen) == []


def test_changing_culprits_are_nobody() -> None:
    # a and b keep each other waiting in turn: no window has enough marks for either.
    odd = [300_000.0 * (block % 2) for block in range(40)]
    even = [300_000.0 * (1 - block % 2) for block in range(40)]
    seen = observations(
        [communicator(0, A1, A2, B1, B2)],
        wait_us={A1: odd, A2: odd, B1: even, B2: even},
        arrivals=[*last(0, A1, range(0, 40, 2)), *last(0, B1, range(1, 40, 2))],
        blocks=40,
    )
    assert named(seen) == []


def test_stages_are_compared_with_themselves_only() -> None:
    # The second stage computes less and waits for the first in every block: it is not the first stage's fault.
    first, second = communicator(0, A1, A2), communicator(1, B1, B2)
    world = communicator(2, A1, A2, B1, B2, role="world")
    small = [entry for comm in (first, second) for entry in _small(comm.number, comm.members)]
    seen = observations(
        [first, second, world],
        wait_us={B1: [500_000.0] * 40, B2: [500_000.0] * 40},
        arrivals=last(2, A1, range(40)),
        transfers=small,
        blocks=40,
    )
    assert {frozenset({A1, A2}), frozenset({B1, B2})} == set(seen.stages())
    assert named(seen) == []


def _small(number: int, members: tuple[Process, ...]) -> list[Transfer]:
    return collective(communicator(number, *members), [20.0] * 40, size=16_384)


def test_two_independent_late_processes_are_two_findings() -> None:
    others = [("c", n) for n in range(1, 5)] + [("d", n) for n in range(1, 5)]
    members = [("a", n) for n in range(1, 5)] + [("b", n) for n in range(1, 5)] + others
    first, second = ("a", 1), ("b", 1)
    waits = {process: [300_000.0] * 40 for process in members}
    waits |= {first: [0.0] * 40, second: [100_000.0] * 40}
    seen = observations(
        [communicator(0, *members[:4]), communicator(1, *members[4:8]), communicator(2, *members)],
        wait_us=waits,
        arrivals=[*last(0, first, range(40)), *last(1, second, range(40))],
        blocks=40,
    )
    assert [late.processes for late in find_late(seen, LIMITS)] == [(first,), (second,)]


@pytest.mark.parametrize(("collectives", "severity"), [(19, "P2"), (20, "P1")])
def test_a_second_one_at_the_same_time_needs_as_many_collectives_as_any_pattern(
    collectives: int, severity: str
) -> None:
    members = [(host, n) for host in "abcd" for n in range(1, 5)]
    waits = {process: [300_000.0] * 30 for process in members} | {A1: [0.0] * 30, B1: [100_000.0] * 30}
    # The first block is the warm-up, in which nobody is compared.
    few = [Arrival(1, block, B1, 1, 300_000.0) for block in range(1, 1 + collectives)]
    seen = observations(
        [communicator(0, *members[:4]), communicator(1, *members[4:8]), communicator(2, *members)],
        wait_us=waits,
        arrivals=[*last(0, A1, range(30)), *few],
        blocks=30,
        matched_p2p=1,
    )
    first, second = late_findings(seen, find_late(seen, LIMITS))
    assert (first.severity, first.hosts) == ("P1", ("a",))
    assert (second.severity, second.hosts) == (severity, ("b",))


def test_late_stages_whose_send_and_recv_were_not_recorded_are_one_ambiguous_finding() -> None:
    c1, c2, d1, d2 = ("c", 1), ("c", 2), ("d", 1), ("d", 2)
    first, second = communicator(0, A1, A2, B1, B2), communicator(1, c1, c2, d1, d2)
    seen = observations(
        [first, second],
        wait_us=dict.fromkeys((B1, B2, d1, d2), HALF),
        arrivals=[*last(0, A1), *last(1, c1)],
        blocks=40,
    )
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert finding.ambiguous
    assert finding.hosts == ("a", "c")
    assert "Send and Recv were not recorded" in finding.counter_evidence
    assert finding.onset_us == 20_000_000


@pytest.mark.parametrize(("matched", "severity"), [(0, "P2"), (100, "P1")])
def test_of_two_hosts_of_a_stage_either_may_have_waited_where_that_was_not_recorded(
    matched: int, severity: str
) -> None:
    c1, c2, d1, d2 = ("c", 1), ("c", 2), ("d", 1), ("d", 2)
    seen = observations(
        [communicator(0, A1, A2, B1, B2), communicator(1, c1, c2, d1, d2)],
        wait_us=dict.fromkeys((B1, B2), HALF),
        arrivals=last(0, A1),
        blocks=40,
        matched_p2p=matched,
    )
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.severity, finding.level, finding.hosts) == (severity, "host", ("a",))


def test_a_tensor_group_that_waits_for_a_late_process_of_another_stage_is_not_named() -> None:
    # Two stages of two tensor groups. A1 is late for its own group as well; c1 and c2, who wait for what it sends, are
    # late only for the other group of their stage.
    c1, c2, d1, d2 = ("c", 1), ("c", 2), ("d", 1), ("d", 2)
    tensor = [communicator(n, *pair) for n, pair in enumerate(((A1, A2), (B1, B2), (c1, c2), (d1, d2)))]
    data = [communicator(4 + n, *pair) for n, pair in enumerate(((A1, B1), (A2, B2), (c1, d1), (c2, d2)))]
    seen = observations(
        [*tensor, *data],
        wait_us=dict.fromkeys((A2, B1, B2, d1, d2), HALF),
        arrivals=[*last(0, A1), *last(4, A1), *last(6, c1), *last(7, c2)],
        blocks=40,
    )
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.severity, finding.processes, finding.ambiguous) == ("P1", ("a-pid1",), False)


def test_a_pipeline_that_is_late_in_all_of_its_stages_has_longer_sequences() -> None:
    c1, c2, d1, d2 = ("c", 1), ("c", 2), ("d", 1), ("d", 2)
    tensor = [communicator(n, *pair) for n, pair in enumerate(((A1, A2), (B1, B2), (c1, c2), (d1, d2)))]
    data = [communicator(4 + n, *pair) for n, pair in enumerate(((A1, B1), (A2, B2), (c1, d1), (c2, d2)))]
    pipeline = [communicator(8 + n, *pair) for n, pair in enumerate(((A1, c1), (A2, c2), (B1, d1), (B2, d2)))]

    def late_hosts(*waiting: tuple[str, int]) -> list[tuple[str, ...]]:
        seen = observations(
            [*tensor, *data, *pipeline],
            wait_us=dict.fromkeys(waiting, HALF),
            arrivals=[*last(4, A1), *last(5, A2), *last(6, c1), *last(7, c2)],
            transfers=[entry for comm in (*tensor, *data) for entry in _small(comm.number, comm.members)],
            edges=[Edge(comm.number, comm.members[0], comm.members[1], 40, 40, 1.0, 1.0) for comm in pipeline],
            blocks=40,
            matched_p2p=160,
        )
        late = without_uneven_replicas(seen, find_late(seen, LIMITS))
        return sorted({entity.hosts for entity in late})

    # The stages are a and b, c and d. Who waits for a slow host in the other stage waits as well.
    assert late_hosts(B1, B2, c1, c2, d1, d2) == [("a",)]
    assert late_hosts(B1, B2, d1, d2) == []


def test_who_is_late_for_others_only_is_one_of_its_tensor_group() -> None:
    # Two processes of b were not recorded waiting for one another: each is last in a ring of its own.
    c1, c2, b3, b4 = ("c", 1), ("c", 2), ("b", 3), ("b", 4)
    rings = [communicator(0, A1, B1, c1), communicator(1, A2, B2, c2)]
    groups = [communicator(2, A1, A2), communicator(3, B1, B2), communicator(4, c1, c2)]
    d = [("d", n) for n in range(1, 5)]
    world = communicator(5, A1, A2, B1, B2, b3, b4, c1, c2, *d)
    waits = dict.fromkeys((A1, A2, b3, b4, c1, c2, *d), HALF) | {B1: [0.0] * 40, B2: [0.0] * 20 + [140_000.0] * 20}
    seen = observations(
        [*rings, *groups, world], wait_us=waits, arrivals=[*last(0, B1), *last(1, B2)], blocks=40, matched_p2p=9,
        lacking=[3],
    )  # fmt: skip
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.level, finding.ambiguous, finding.hosts) == ("rank", True, ("b",))
    assert finding.processes == ("b-pid1", "b-pid2")


def test_one_that_is_always_waited_for_less_than_a_later_one_is_a_note() -> None:
    members = [(host, 1) for host in "abcdefgh"]
    waits = dict.fromkeys(members, HALF) | {A1: [0.0] * 40, B1: [0.0] * 20 + [150_000.0] * 20}
    seen = observations([communicator(0, *members)], wait_us=waits, arrivals=last(0, A1), blocks=40)
    first, second = late_findings(seen, find_late(seen, LIMITS))
    assert (first.severity, first.hosts) == ("P1", ("a",))
    assert (second.severity, second.hosts) == ("P2", ("b",))
    assert "its collectives waited still longer for another one" in second.counter_evidence


def test_a_mild_slowdown_is_told_by_its_size() -> None:
    # 40 ms more than the 300 ms that the others compute in each second: 13 % slower, at a cost of 4 %.
    waits = {B1: [700_000.0] * 40, B2: [700_000.0] * 40, A2: [700_000.0] * 40, A1: [660_000.0] * 40}
    seen = observations([communicator(0, A1, A2, B1, B2)], wait_us=waits, arrivals=last(0, A1, range(40)), blocks=40)
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.severity, finding.processes) == ("P2", ("a-pid1",))
    assert finding.effect.slowdown == 1 + 40 / 300


def test_a_slowdown_is_told_by_its_size_where_blocks_last_whole_passes_of_the_dump_thread() -> None:
    # Of a second on average, the others compute 700 ms and wait 300 ms; a checkpoint makes one block longer.
    waits = dict.fromkeys((A2, B1, B2), [300_000.0] * 40)
    seen = observations([communicator(0, A1, A2, B1, B2)], wait_us=waits, arrivals=last(0, A1, range(40)), blocks=40)
    lasted_us = np.resize([1.2e6, 1.2e6, 0.6e6], 40)
    lasted_us[12] += 20e6
    (late,) = find_late(replace(seen, block_us=lasted_us), LIMITS)
    assert late.slowdown == pytest.approx(1 + 300 / 700, rel=0.02)


def test_many_that_are_a_little_late_are_the_slower_part_of_a_stage_and_no_fault() -> None:
    members = [(host, pid) for host in "abcdefgh" for pid in (1, 2)]
    seen = observations([communicator(0, *members)], blocks=40)
    mild = Late(
        level="rank", hosts=("a",), processes=(A1,), stage=0, window=Window(0, 39, 39, 40), cost_share=0.07,
        typical_share=0.07, slowdown=1.08, lost_us=1e6, late_us=7e4, probability=0.0, last_share=0.9, waited_cells=99,
        peers=15,
    )  # fmt: skip
    few = [replace(mild, processes=(member,)) for member in members[:3]]
    four = [*few, replace(mild, processes=(members[4],))]
    broken = replace(mild, processes=(members[5],), slowdown=1.5)
    assert outstanding(seen, few, LIMITS) == few
    assert outstanding(seen, [*four, broken], LIMITS) == [broken]


def test_a_process_all_of_whose_ranks_are_late_is_named_once() -> None:
    ranks = [("a", 1, " rank 0"), ("a", 1, " rank 1"), ("b", 1, " rank 2"), ("b", 1, " rank 3")]
    seen = observations([communicator(0, *ranks)], blocks=40)
    one = Late(
        level="rank", hosts=("a",), processes=(ranks[0],), stage=0, window=Window(0, 39, 39, 40), cost_share=0.3,
        typical_share=0.3, slowdown=1.5, lost_us=1e6, late_us=3e5, probability=0.0, last_share=1.0, waited_cells=99,
        peers=3, any_of_process=True,
    )  # fmt: skip
    other = replace(one, processes=(ranks[1],), lost_us=2e6)
    (finding,) = late_findings(seen, whole_processes(seen, [one, other]))
    assert (finding.processes, finding.ambiguous) == (("a-pid1 rank 0", "a-pid1 rank 1"), False)
    assert finding.effect.lost_rank_seconds == 2  # both are waited for at the same time
    # Which of the two ranks is late, the log does not say.
    assert whole_processes(seen, [one]) == [one]
    later = replace(other, window=Window(0, 9, 9, 40))
    earlier = replace(one, window=Window(20, 39, 20, 40))
    assert whole_processes(seen, [earlier, later]) == [earlier, later]


def test_blocks_in_which_the_late_one_lost_its_records_do_not_speak_against_it() -> None:
    # Nobody is seen to wait in three quarters of the blocks; in the others, all wait for a1.
    seen = observations(
        [communicator(0, A1, A2, B1, B2)],
        wait_us=dict.fromkeys((A2, B1, B2), [300_000.0] * 40),
        arrivals=last(0, A1, range(0, 40, 4), waited_us=1_200_000.0),
        blocks=40,
    )
    assert [late.processes for late in find_late(seen, LIMITS)] == [(A1,)]


def test_what_either_of_two_tests_may_tell_by_chance_is_twice_as_likely() -> None:
    # In turns 69.4 and 669.4 ms of each second: in the middle 359.4 ms beyond the 10 that are worth a note. Of two
    # processes of which one never varies, the deviation is 300 / sqrt 2, and that of a mean of four blocks 106 ms. So
    # far out (3.39) are 0.00035; times two processes and ten stretches of four blocks 0.0070; for two tests 0.0141.
    comm, waits = communicator(0, A1, B1), [69_400.0, 669_400.0] * 2
    arrivals = [Arrival(0, block, A1, 5, wait) for block, wait in enumerate(waits)]
    seen = observations([comm], wait_us={B1: waits}, arrivals=arrivals, blocks=4)
    assert find_late(seen, LIMITS) == []
    (late,) = find_late(seen, LIMITS.changed("diagnosis", max_chance=0.02))
    assert late.probability == pytest.approx(0.0141, abs=0.0002)


def test_containers_with_a_host_name_each_are_one_late_machine_and_lose_the_time_once() -> None:
    late, healthy = [(name, 1) for name in "qdza"], [(name, 1) for name in "wbyc"]
    world = replace(communicator(0, *late, *healthy), nnodes=2)
    arrivals = [arrival for process in late for arrival in last(0, process)]
    seen = observations([world], wait_us=dict.fromkeys(healthy, HALF), arrivals=arrivals, blocks=40)
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.severity, finding.level, finding.ambiguous) == ("P1", "host", False)
    assert finding.hosts == ("a", "d", "q", "z")
    # 0.3 s of each of 20 s, for the four others.
    assert finding.effect.lost_rank_seconds == 20 * 0.3 * 4
    assert "a, d, q, z: each of them" in finding.evidence and "share a machine" in finding.evidence


def test_late_together_under_one_host_name_is_told_once_and_names_all_of_them() -> None:
    everybody = [("localhost", 1, f" (c{number})") for number in range(8)]
    world = replace(communicator(0, *everybody), nnodes=2)
    late, healthy = everybody[::2], everybody[1::2]  # of both nodes
    arrivals = [arrival for process in late for arrival in last(0, process)]
    seen = observations([world], wait_us=dict.fromkeys(healthy, HALF), arrivals=arrivals, blocks=40)
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.severity, finding.level, finding.ambiguous) == ("P1", "rank", False)
    assert finding.processes == tuple(f"localhost-pid1 (c{number})" for number in (0, 2, 4, 6))
    assert all(name in finding.evidence for name in finding.processes)
    # Without Sends and Recvs in the log, they may be a pipeline stage that has more to do.
    assert [late.severity for late in late_findings(replace(seen, one_slot=True), find_late(seen, LIMITS))] == ["P2"]


def test_of_two_that_are_equally_late_one_may_wait_for_the_other_where_no_send_is_recorded() -> None:
    seen = observations(
        [communicator(0, A1, A2, B1, B2, ("c", 1))], arrivals=[*last(0, A1), *last(0, B1)], blocks=40,
        wait_us=dict.fromkeys((A2, B2, ("c", 1)), HALF),
    )  # fmt: skip
    assert [late.processes for late in late_findings(seen, find_late(seen, LIMITS))] == [("a-pid1",), ("b-pid1",)]
    (finding,) = late_findings(replace(seen, one_slot=True), find_late(seen, LIMITS))
    assert (finding.processes, finding.ambiguous, finding.severity) == (("a-pid1", "b-pid1"), True, "P2")


def test_who_may_have_waited_in_collectives_that_were_left_out_is_one_of_several() -> None:
    # a1 may have kept a2 from the ring that it shares with b: what they did among themselves is not looked at.
    rings = [communicator(0, A1, B1, ("c", 1)), communicator(1, A2, B2, ("c", 2))]
    group = communicator(2, A1, A2, role="tensor")
    waits = dict.fromkeys((B1, B2, ("c", 1), ("c", 2)), HALF)
    for left_out, ambiguous in (([2], True), ([], False)):
        seen = observations(
            [*rings, group, communicator(3, B1, B2), communicator(4, ("c", 1), ("c", 2))],
            wait_us=waits, arrivals=[*last(0, A1), *last(1, A2)], blocks=40, left_out=left_out, matched_p2p=9,
        )  # fmt: skip
        (finding,) = late_findings(seen, find_late(seen, LIMITS))
        assert finding.ambiguous == ambiguous
        assert finding.processes == ("a-pid1", "a-pid2")
        assert ("were left out" in finding.counter_evidence) == ambiguous


def test_who_shares_no_communicator_with_the_late_one_does_not_wait_for_it() -> None:
    # Two replicas of three.
    replica, other = [(host, 1) for host in "abc"], [(host, 1) for host in "def"]
    waits = dict.fromkeys(replica[1:], HALF)
    seen = observations(
        [communicator(0, *replica), communicator(1, *other)], wait_us=waits, arrivals=last(0, replica[0]), blocks=40
    )
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert finding.effect.lost_rank_seconds == 20 * 0.3 * 2
    assert finding.evidence.startswith("The 2 processes that communicate with it, directly or through others, spend")


def test_who_exchanges_tokens_with_a_rank_without_a_log_may_have_waited_for_it() -> None:
    late = [0.0] * 20 + [300_000.0] * 20
    world, group = communicator(0, A1, A2, B1, B2), replace(communicator(1, A1, A2, role=None), n_ranks=3)
    waits = dict.fromkeys((A2, B1, B2), late)
    seen = observations(
        [world, group], wait_us=waits, arrivals=last(0, A1), transfers=collective(world, [100.0] * 40), blocks=40
    )
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.processes, finding.severity) == (("a-pid1",), "P2")
    assert "may have waited unseen for ranks without a log in 0x1" in finding.counter_evidence
    # With the logs of all, it is sure.
    (finding,) = late_findings(replace(seen, communicators=(world,)), find_late(seen, LIMITS))
    assert finding.severity == "P1"


def test_where_sends_are_not_recorded_any_rank_without_a_log_may_be_waited_for() -> None:
    world = replace(communicator(0, A1, A2, B1, B2), n_ranks=5)
    seen = observations([world], wait_us=dict.fromkeys((A2, B1, B2), HALF), arrivals=last(0, A1), blocks=40)
    assert [finding.severity for finding in late_findings(seen, find_late(seen, LIMITS))] == ["P1"]
    (finding,) = late_findings(replace(seen, one_slot=True), find_late(seen, LIMITS))
    assert finding.severity == "P2"
    assert "ranks without a log in 0x0" in finding.counter_evidence


def test_what_the_job_did_not_feel_is_told_for_information() -> None:
    seen = observations(
        [communicator(0, A1, A2, B1, B2)], wait_us={B1: HALF, B2: HALF}, arrivals=last(0, A1), blocks=40
    )
    (late,) = find_late(seen, LIMITS)
    unfelt = replace(late, cost_share=0.009, typical_share=0.009)
    (finding,) = late_findings(seen, [replace(unfelt, window=Window(10, 30, 20, 40))])
    assert finding.severity == "info"
    assert finding.counter_evidence.endswith("so it cost next to nothing.")
    # Whoever is late to the end may have become so together with something else.
    assert [finding.severity for finding in late_findings(seen, [unfelt])] == ["P1"]


@pytest.mark.parametrize(
    ("waits_in_block", "process", "severity"),
    [
        # 100 steps in a block, and one pause of 0.3 s: a rank that writes a checkpoint, if it is rank 0.
        (1, A1, "info"),
        (1, B1, "P1"),
        # As much in each of the 100 steps is no pause.
        (100, A1, "P1"),
    ],
)
def test_rank_zero_that_pauses_seldom_is_in_its_role_although_it_is_late_in_every_block(
    waits_in_block: int, process: Process, severity: str
) -> None:
    others = [other for other in (A1, A2, B1, B2) if other != process]
    arrivals = [
        Arrival(0, block, process, 100, 300_000.0, waits_in_block * (300_000.0 / waits_in_block) ** 2)
        for block in range(20, 40)
    ]
    seen = observations(
        [communicator(0, A1, A2, B1, B2)], wait_us=dict.fromkeys(others, HALF), arrivals=arrivals, blocks=40
    )
    seen = replace(seen, pulse=4_000.0)
    (finding,) = late_findings(seen, find_late(seen, LIMITS))
    assert (finding.processes, finding.severity) == ((f"{process[0]}-pid{process[1]}",), severity)
