"""Four ranks, two on each of two machines that are both called localhost."""

from nixt_pipeline.store.incarnations import Communicator
from nixt_pipeline.store.machines import machine_names, too_few_names
from nixt_pipeline.store.ranks import Held

WORLD: Communicator = ("w", "WORLD", 4, 2)


def job(paths: list[str], *, tensor: bool = True) -> list[Held]:
    """One process, with a file, for each rank: in the communicator of all and in one of its node."""
    held = []
    for rank, path in enumerate(paths):
        process = ("localhost", 100 + rank)
        held.append(Held(1, process, WORLD, rank, path))
        if tensor:
            held.append(Held(1, process, (f"t{rank // 2}", "TP", 2, 1), rank % 2, path))
    return held


def machines(held: list[Held]) -> list[str]:
    names = machine_names(held, WORLD)
    return [names[seat.process, WORLD, seat.rank] for seat in held if seat.communicator == WORLD]


FLAT = [f"{rank}.log" for rank in range(4)]
FOLDERS = ["logs/m1/0.log", "logs/m1/1.log", "logs/m2/0.log", "logs/m2/1.log"]


def test_a_communicator_of_two_nodes_with_one_host_name_has_too_few() -> None:
    seats = [(seat.process, seat.communicator, seat.rank) for seat in job(FLAT)]
    assert too_few_names(seats) == [WORLD]
    # Of a communicator with a rank missing, the other machine may be the missing one's.
    assert too_few_names(seats[:-2]) == []


def test_ranks_of_a_communicator_of_one_node_share_a_machine() -> None:
    assert machines(job(FLAT)) == ["localhost (machine 1)"] * 2 + ["localhost (machine 2)"] * 2


def test_machines_are_called_by_their_directories_where_each_has_one() -> None:
    assert machines(job(FOLDERS)) == ["localhost (m1)"] * 2 + ["localhost (m2)"] * 2


def test_directories_tell_machines_apart_where_no_communicator_does() -> None:
    assert machines(job(FOLDERS, tensor=False)) == ["localhost (m1)"] * 2 + ["localhost (m2)"] * 2


def test_machines_that_nothing_tells_apart_keep_their_name() -> None:
    assert machine_names(job(FLAT, tensor=False), WORLD) == {}


def test_directories_that_cut_through_a_node_are_no_machines() -> None:
    # Four directories of two nodes' processes; of two directories, the second has one rank of each node.
    uneven = ["a/0.log", "b/1.log", "b/2.log", "b/3.log"]
    held = [seat for seat in job(uneven) if seat.communicator[0] != "t1"]
    assert machine_names(held, WORLD) == {}
