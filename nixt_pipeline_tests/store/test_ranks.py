"""Processes are ("a", 1); communicators have their letters as ids, and as names what a framework gives them."""

from collections.abc import Mapping, Sequence

from nixt_pipeline.store.incarnations import Communicator, Process
from nixt_pipeline.store.ranks import Held, Place, crowded, places

A: Process = ("a", 1)


def comm(identity: str, n_ranks: int, name: str | None = None, nnodes: int = 1) -> Communicator:
    return identity, name, n_ranks, nnodes


def held(ranks: Mapping[Communicator, Sequence[int]], path: str = "a-pid1.log", process: Process = A) -> list[Held]:
    return [Held(1, process, key, rank, path) for key, own in ranks.items() for rank in own]


def suffixes(found: Mapping[tuple[Process, Communicator, int | None], Place], key: Communicator) -> list[str]:
    return [place.suffix for (_, other, _), place in sorted(found.items(), key=str) if other == key]


WORLD = comm("w", 16, "WORLD Group 0", 2)


def test_a_process_with_one_rank_of_each_communicator_is_one_gpu() -> None:
    assert crowded([(A, WORLD, 3), (A, comm("t", 8), 3), (A, WORLD, 3), (("a", 2), WORLD, 4)]) == set()


def test_a_process_with_two_ranks_of_a_communicator_is_crowded() -> None:
    assert crowded([(A, WORLD, 3), (A, WORLD, 4), (("b", 1), WORLD, 5)]) == {A}


def test_ranks_are_called_by_that_of_the_largest_communicator_and_joined_in_their_order() -> None:
    tensor = comm("t", 4, "TP Group 1")
    found = places(held({WORLD: [4, 5, 6, 7], tensor: [0, 1, 2, 3]}))
    assert suffixes(found, WORLD) == suffixes(found, tensor) == [" rank 4", " rank 5", " rank 6", " rank 7"]
    assert all(place.certain for place in found.values())


def test_groups_with_one_rank_each_share_the_gpus_in_the_order_of_their_numbers() -> None:
    groups = {comm(identity, 2, f"DP Group {number}", 2): [1] for identity, number in (("x", 10), ("y", 9), ("z", 2))}
    found = places(held({comm("w", 6, "WORLD", 2): [3, 4, 5], **groups}))
    assert [suffixes(found, group) for group in groups] == [[" rank 5"], [" rank 4"], [" rank 3"]]
    assert all(place.certain for place in found.values())


def test_groups_without_names_could_each_be_any_gpus() -> None:
    groups = {comm(identity, 2, None, 2): [1] for identity in "xy"}
    found = places(held({comm("w", 4, None, 2): [2, 3], **groups}))
    assert [found[A, group, 1].certain for group in groups] == [False, False]
    assert {found[A, group, 1].suffix for group in groups} == {" rank 2", " rank 3"}


def test_tensor_groups_hold_neighbours_and_data_groups_every_nth() -> None:
    tensor = [comm("s", 2, "TP Group 0"), comm("t", 2, "TP Group 1")]
    data = [comm("d", 2, "DP Group 0"), comm("e", 2, "DP Group 1")]
    world = comm("w", 4, "WORLD")
    found = places(held({world: [0, 1, 2, 3], **{key: [0, 1] for key in [*tensor, *data]}}))
    assert [suffixes(found, group) for group in tensor] == [[" rank 0", " rank 1"], [" rank 2", " rank 3"]]
    assert [suffixes(found, group) for group in data] == [[" rank 0", " rank 2"], [" rank 1", " rank 3"]]


def test_without_a_communicator_of_all_gpus_they_are_counted() -> None:
    groups = [comm("s", 2, "TP Group 4"), comm("t", 2, "TP Group 5")]
    found = places(held({key: [0, 1] for key in groups}))
    assert [suffixes(found, group) for group in groups] == [
        [" local rank 0", " local rank 1"],
        [" local rank 2", " local rank 3"],
    ]


def test_containers_of_one_name_are_told_by_their_folders() -> None:
    data = [comm("d", 2, "DP Group 0", 2), comm("e", 2, "DP Group 1", 2)]
    found = places(
        [
            *held({WORLD: [8], data[0]: [1]}, "logs/gpu-0/a-pid1.log"),
            *held({WORLD: [9], data[1]: [1]}, "logs/gpu-1/a-pid1.log"),
        ]
    )
    assert suffixes(found, WORLD) == [" (gpu-0)", " (gpu-1)"]
    assert suffixes(found, data[1]) == [" (gpu-1)"]
    assert all(place.certain for place in found.values())


def test_files_that_continue_one_another_are_one_process() -> None:
    later = comm("e", 2, "DP Group 0", 2)
    found = places(
        [
            *held({WORLD: [0]}, "gpu-0/a-pid1.log.1"),
            *held({WORLD: [0]}, "gpu-0/a-pid1.log"),
            *held({later: [0]}, "gpu-0/a-pid1.log.2"),
            *held({WORLD: [1]}, "gpu-1/a-pid1.log"),
        ]
    )
    assert suffixes(found, WORLD) == [" (gpu-0)", " (gpu-1)"]
    assert suffixes(found, later) == [" (gpu-0)"]


def test_two_processes_of_one_name_can_drive_several_gpus_each() -> None:
    found = places([*held({WORLD: [0, 1]}, "m1/a-pid1.log"), *held({WORLD: [2, 3]}, "m2/a-pid1.log")])
    assert suffixes(found, WORLD) == [" (m1) rank 0", " (m1) rank 1", " (m2) rank 2", " (m2) rank 3"]
