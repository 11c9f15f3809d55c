"""Sixteen processes on two machines, with the host names that containers give them."""

from collections.abc import Sequence
from dataclasses import replace

from nixt_pipeline.diagnosis.evidence.machines import machines_of
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline_tests.diagnosis.examples import communicator


def job(processes: Sequence[Process], nodes: int = 2) -> list[Communicator]:
    """A communicator of all, and one for each of two machines."""
    half = len(processes) // 2
    groups = [communicator(1, *processes[:half]), communicator(2, *processes[half:])]
    return [replace(communicator(0, *processes), nnodes=nodes), *(replace(comm, nnodes=1) for comm in groups)]


def test_host_names_that_agree_with_the_count_of_nodes_are_machines() -> None:
    processes = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    machines = machines_of(processes, job(processes))
    assert machines.by_name and machines.of == {process: process[0] for process in processes}


def test_containers_with_a_name_each_are_put_together_by_the_order_of_their_ranks() -> None:
    # The names say nothing: they are in another order than the ranks.
    processes = [(name, 1) for name in ("q", "d", "z", "a")]
    machines = machines_of(sorted(processes), job(processes))
    assert not machines.by_name
    assert machines.of["q", 1] == machines.of["d", 1] != machines.of["z", 1] == machines.of["a", 1]


def test_one_name_for_all_is_told_apart_in_the_same_way() -> None:
    processes = [("localhost", 1, f" (c{number})") for number in range(4)]
    machines = machines_of(processes, job(processes))
    assert [machines.of[process] for process in processes] == ["node 0", "node 0", "node 1", "node 1"]


def test_an_order_that_contradicts_a_communicator_tells_nothing() -> None:
    # The first and the third share a node: ranks are dealt out in turn.
    processes = [(name, 1) for name in "abcd"]
    comms = [
        replace(communicator(0, *processes), nnodes=2),
        replace(communicator(1, processes[0], processes[2]), nnodes=1),
    ]
    machines = machines_of(processes, comms)
    assert not machines.by_name and len(set(machines.of.values())) == 4


def test_hosts_of_a_rack_stay_hosts() -> None:
    processes = [("tray-1", 1), ("tray-1", 2), ("tray-2", 1), ("tray-2", 2)]
    machines = machines_of(processes, job(processes, nodes=1))
    assert machines.of == {process: process[0] for process in processes}


def test_a_communicator_whose_nodes_or_members_are_not_known_says_nothing() -> None:
    processes = [("a", 1), ("b", 1)]
    whole = communicator(0, *processes)
    for comm in (replace(whole, nnodes=0), replace(whole, nnodes=1, n_ranks=3)):
        assert machines_of(processes, [comm]).of == {("a", 1): "a", ("b", 1): "b"}


def test_where_no_communicator_has_all_those_that_one_counts_as_a_node_share_it() -> None:
    # Two machines of four: pairs within them, and two communicators of two ranks on each.
    names = [(name, 1) for name in "qdzamhbk"]
    pairs = [replace(communicator(n, *names[2 * n : 2 * n + 2]), nnodes=1) for n in range(4)]
    across = [replace(communicator(4 + n, *names[n::2]), nnodes=2) for n in range(2)]
    machines = machines_of(sorted(names), [*pairs, *across])
    assert not machines.by_name
    assert [len({machines.of[name] for name in part}) for part in (names[:4], names[4:], names)] == [1, 1, 2]


def test_one_node_for_all_tells_no_machines_apart() -> None:
    names = [(name, 1) for name in "abcd"]
    pairs = [replace(communicator(n, names[n], names[n + 1]), nnodes=1) for n in range(3)]
    assert len(set(machines_of(names, pairs).of.values())) == 4
