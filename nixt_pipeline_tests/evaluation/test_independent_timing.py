"""The second simulation's timing, on jobs small enough to be worked out by hand.

A host thread needs 8 us to launch a kernel; nothing else takes time but what is given.
"""

import pytest

from evaluation.independent.fabric import Congestion, Fabric, wire_bytes
from evaluation.independent.faults import Fault, Path
from evaluation.independent.machines import Cluster, Communicator, Communicators, Gpu
from evaluation.independent.megatron import Turn, one_forward_one_backward
from evaluation.independent.streams import Meeting, Part, Program, Task, solve

# Two hosts with two GPUs each.
CLUSTER = Cluster(tuple(Gpu(rank, f"host-{rank // 2}", 100 + rank, rank % 2, rank // 2) for rank in range(4)))


MADE = Communicators(CLUSTER, 1, {})


def group(*ranks: int, family: str = "world") -> Communicator:
    return MADE.make(family, list(ranks))


def solved(*programs: Program, transfer_us: float = 500.0) -> None:
    solve(programs, lambda task: task.work_us, lambda _meeting, _start_us: transfer_us)


def exec_us(task: Task) -> float:
    assert task.start_us is not None and task.end_us is not None
    return task.end_us - task.start_us


def test_a_collective_moves_when_its_last_rank_has_come_and_the_early_one_waits() -> None:
    pair = group(0, 1)
    early, late = Program(0), Program(1)
    reduced = [
        program.communicate([Part(pair, "AllReduce", 1)], [program.compute(work_us)])
        for program, work_us in ((early, 1000.0), (late, 4000.0))
    ]
    solved(early, late)
    # Computing is launched after 8 us: they come at 1008 and 4008, and both leave at 4508.
    assert [task.start_us for task in reduced] == [1008, 4008]
    assert [task.end_us for task in reduced] == [4508, 4508]
    assert [exec_us(task) for task in reduced] == [3500, 500]


def test_computing_goes_on_while_a_bucket_is_reduced() -> None:
    pair = group(0, 1)
    programs = [Program(0), Program(1)]
    for program in programs:
        first = program.compute(100.0)
        reduced = program.communicate([Part(pair, "AllReduce", 1)], [first])
        program.compute(300.0)
        program.compute(10.0, [reduced])
    solved(*programs)
    # 8 + 100 = 108: the bucket lasts until 608, the second computing until 408; what needs both runs from 608 to 618.
    assert programs[0].tasks[-1].end_us == 618


def test_a_host_that_waits_for_its_gpu_launches_late() -> None:
    program = Program(0)
    program.host_waits(program.compute(1000.0))
    program.host_works(50.0)
    following = program.compute(10.0)
    solved(program)
    assert following.start_us == 1008 + 50 + 8


def test_a_send_and_its_recv_end_together() -> None:
    pair = group(0, 2, family="pipeline")
    sender, receiver = Program(0), Program(2)
    sent = sender.communicate([Part(pair, "Send", 1, 2)], [sender.compute(700.0)])
    received = receiver.communicate([Part(pair, "Recv", 1, 0)])
    solved(sender, receiver)
    # Rank 0 comes after 8 + 700, rank 2 after 8.
    assert (exec_us(sent), exec_us(received)) == (500, 1200)


def test_the_operations_of_a_group_end_with_its_last_one() -> None:
    trio = group(0, 1, 2, family="expert")
    programs = [Program(rank) for rank in range(3)]
    work_us = (0.0, 0.0, 900.0)
    exchanged = []
    for program in programs:
        computed = program.compute(work_us[program.rank])
        parts = [part for peer in range(3) for part in (Part(trio, "Send", 1, peer), Part(trio, "Recv", 1, peer))]
        exchanged.append(program.communicate(parts, [computed]))
    solved(*programs)
    # Launched after 8 and 16 us; rank 2 comes after 8 + 900, and everybody has something to exchange with it.
    assert [task.start_us for task in exchanged] == [16, 16, 908]
    assert [task.end_us for task in exchanged] == [1408] * 3


def test_who_halts_is_waited_for_and_what_it_launched_before_completes() -> None:
    pair = group(0, 1)
    programs = [Program(0), Program(1)]
    programs[1].halt_before = ("world", 0, 1)
    reduced = [[program.communicate([Part(pair, "AllReduce", 1)]) for _ in range(3)] for program in programs]
    solved(*programs)
    for tasks in reduced:
        assert [task.end_us is not None for task in tasks] == [True, False, False]
    assert reduced[0][1].start_us is not None, "the healthy one is in its kernel and waits"
    assert reduced[1][1].start_us is None


def test_two_different_collectives_wait_for_each_other_for_ever() -> None:
    pair = group(0, 1)
    programs = [Program(0), Program(1)]
    tasks = [
        program.communicate([Part(pair, function, 1)])
        for program, function in zip(programs, ("AllReduce", "AllGather"), strict=True)
    ]
    solved(*programs)
    assert [task.end_us for task in tasks] == [None, None]


def test_the_first_stage_runs_ahead_by_one_and_the_last_one_alternates() -> None:
    forward, backward = Turn(True, 0), Turn(False, 0)
    assert one_forward_one_backward(0, 2, 3, 1) == [forward, forward, backward, forward, backward, backward]
    assert one_forward_one_backward(1, 2, 3, 1) == [forward, backward] * 3


def test_an_interleaved_stage_passes_each_batch_through_each_of_its_chunks_once() -> None:
    order = one_forward_one_backward(1, 4, 4, 2)
    assert [order.count(Turn(forward, chunk)) for forward in (True, False) for chunk in (0, 1)] == [4] * 4
    # (4 - 1 - 1) * 2 + (2 - 1) * 4 = 8 forward passes first: all of them. Backward begins with the last chunk.
    assert order[8:] == [Turn(False, 1)] * 4 + [Turn(False, 0)] * 4


def meeting(pair: Communicator, function: str, size_bytes: int) -> Meeting:
    tasks = [Task(rank, 5, 0.0, None, 0.0, ()) for rank in pair.ranks]
    return Meeting(len(tasks), 1, [(task, Part(pair, function, size_bytes)) for task in tasks])


def fabric(*faults: Fault, congestions: tuple[Congestion, ...] = ()) -> Fabric:
    return Fabric(CLUSTER, 100.0, 10.0, 3, congestions, faults)


def test_rings_carry_what_the_nccl_tests_say() -> None:
    assert wire_bytes("AllReduce", 800, 4) == 1200
    assert wire_bytes("AllGather", 800, 4) == 2400
    assert wire_bytes("Send", 800, 2) == 800


def test_a_path_across_hosts_has_a_card_for_each_gpu_of_a_host() -> None:
    # 10 MB: 10e6 / 10 GB/s = 1000 us on one card each, plus 18 + 3 * log2(2) us.
    links = fabric()
    assert links.usual_us(links.path(group(0, 2)), "AllReduce", 10_000_000) == pytest.approx(1021)
    # Four ranks carry 15 MB over two cards a host: 750 us, and 150 us on NVLink meanwhile.
    assert links.usual_us(links.path(group(0, 1, 2, 3)), "AllReduce", 10_000_000) == pytest.approx(774)
    # Within a host: 100 us, plus 6 + 3.
    assert links.usual_us(links.path(group(0, 1)), "AllReduce", 10_000_000) == pytest.approx(109)


def test_only_paths_with_the_slow_card_are_slow() -> None:
    slow = Fault("link", frozenset({2}), 0, 100, strength=3.0, link="nic")
    for pair, factor in ((group(0, 2), 3.0), (group(1, 3), 1.0), (group(2, 3), 1.0)):
        bare = fabric().transfer_us(meeting(pair, "AllReduce", 100_000_000), 0.0)
        with_fault = fabric(slow).transfer_us(meeting(pair, "AllReduce", 100_000_000), 0.0)
        assert with_fault / bare == pytest.approx(factor, rel=0.01)


def test_a_transfer_stands_still_while_its_link_is_down() -> None:
    pair = group(0, 2)
    flap = Fault("flap", frozenset({2}), 0, 100, link="nic", down=((400.0, 900.0),))
    bare = fabric().transfer_us(meeting(pair, "AllReduce", 10_000_000), 0.0)
    assert 1000 < bare < 1200
    # Begun before it goes down: held up for all of 500 us. Begun at 700: for 200. Begun after it: not at all.
    for start_us, held_us in ((0.0, 500.0), (700.0, 200.0), (900.0, 0.0)):
        lasting_us = fabric(flap).transfer_us(meeting(pair, "AllReduce", 10_000_000), start_us)
        assert lasting_us - bare == pytest.approx(held_us)


def test_congestion_slows_what_leaves_the_host() -> None:
    burst = (Congestion(0.0, 50.0, 2.0),)
    for pair, slow in ((group(0, 2), True), (group(0, 1), False)):
        bare = fabric().transfer_us(meeting(pair, "AllReduce", 10_000_000), 10.0)
        during = fabric(congestions=burst).transfer_us(meeting(pair, "AllReduce", 10_000_000), 10.0)
        after = fabric(congestions=burst).transfer_us(meeting(pair, "AllReduce", 10_000_000), 50.0)
        assert (during > 1.9 * bare) is slow
        assert after == bare


def test_a_path_between_two_domains_is_on_the_ring_only_where_they_are_neighbours() -> None:
    gpus = tuple(Gpu(rank, f"host-{rank}", 1, 0, rank) for rank in range(4))
    slow = {pair: Fault("link", frozenset(pair), 0, 1, link="path", place=pair) for pair in ((0, 1), (0, 2), (3, 0))}
    assert [slow[pair].is_on(Path(gpus)) for pair in slow] == [True, False, True]
