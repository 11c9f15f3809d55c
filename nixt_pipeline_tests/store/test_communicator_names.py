from nixt_pipeline.store.communicator_names import Seat, one_identity
from nixt_pipeline.store.incarnations import Communicator


def seats(identity: str, names: dict[int, str | None], n_ranks: int = 4, nnodes: int = 2) -> list[Seat]:
    return [Seat((identity, name, n_ranks, nnodes), rank) for rank, name in names.items()]


def names_after(*given: Seat) -> set[Communicator]:
    common = one_identity(given)
    return {common.get(seat.communicator, seat.communicator) for seat in given}


def test_communicators_with_one_name_stay_as_they_are() -> None:
    assert (
        one_identity([*seats("0xa", dict.fromkeys(range(4), "dp")), *seats("0xb", dict.fromkeys(range(4), "dp"))]) == {}
    )


def test_a_name_with_the_rank_in_it_is_that_of_one_communicator() -> None:
    given = seats("0xa", {rank: f"DP Group 1 rank {rank}" for rank in range(12)}, n_ranks=12)
    assert names_after(*given) == {("0xa", "DP Group 1", 12, 2)}


def test_a_rank_in_the_middle_of_the_name_is_left_out() -> None:
    assert names_after(*seats("0xa", {0: "rank0_dp", 1: "rank1_dp"})) == {("0xa", "_dp", 4, 2)}


def test_ranks_whose_plugin_writes_no_name_belong_to_the_named_ones() -> None:
    assert names_after(*seats("0xa", {0: "dp", 1: "dp", 2: None, 3: None})) == {("0xa", "dp", 4, 2)}


def test_of_unlike_names_the_most_frequent_stands_for_all() -> None:
    assert names_after(*seats("0xa", {0: "trainer", 1: "dp", 2: "dp", 3: "x"})) == {("0xa", "dp", 4, 2)}


def test_two_that_have_a_rank_in_common_share_the_id_by_chance() -> None:
    given = [*seats("0xa", {0: "tp", 1: "tp"}), *seats("0xa", {1: "dp", 2: "dp"})]
    assert one_identity(given) == {}


def test_what_fits_one_of_two_goes_with_it() -> None:
    # 0 to 2 are a whole communicator; of the other one, ranks 0 and 1 have a name and 2 has none.
    given = [*seats("0xa", dict.fromkeys(range(3), "tp")), *seats("0xa", {0: "dp", 1: "dp", 2: None})]
    assert names_after(*given) == {("0xa", "tp", 4, 2), ("0xa", "dp", 4, 2)}


def test_ranks_that_count_their_nodes_differently_are_one_communicator() -> None:
    given = [*seats("0xa", {0: "dp", 1: "dp", 2: "dp"}), *seats("0xa", {3: "dp"}, nnodes=1)]
    assert names_after(*given) == {("0xa", "dp", 4, 2)}


def test_communicators_of_different_size_are_two() -> None:
    assert one_identity([*seats("0xa", {0: "tp"}), *seats("0xa", {1: "dp"}, n_ranks=8)]) == {}
