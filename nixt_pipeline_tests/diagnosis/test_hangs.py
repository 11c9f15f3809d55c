"""Series are collectives of a communicator, given by the last sequence number of each of its ranks."""

from nixt_pipeline.diagnosis.hangs import Series, joined_by_edges, odd_edges, silent_processes, stopped_first
from nixt_pipeline.diagnosis.observations import Edge, Process
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import communicator

LIMITS = Thresholds()


def series(number: int, last: dict[Process, int], coll: str = "ReduceScatter", lost: float = 0.0) -> Series:
    return Series(communicator(number, *last), coll, last, lost)


def pair(number: int, last: int, coll: str = "ReduceScatter", lost: float = 0.0) -> Series:
    """A communicator of process `number` on hosts a and b, whose both ranks end at `last`."""
    return series(number, {("a", number): last, ("b", number): last}, coll, lost)


def edge(number: int, operations: int, source: str = "a", target: str = "b", recorded: float = 1.0) -> Edge:
    ends = ((source, number), (target, number))
    return Edge(100 + number, *ends, operations, operations, recorded, recorded)


def test_the_communicator_that_stopped_before_its_alike_holds_the_one_who_hung() -> None:
    behind = pair(3, 149)
    assert stopped_first([pair(1, 152), pair(2, 152), behind]) == [[behind]]


def test_a_normal_end_leaves_nobody_behind() -> None:
    assert stopped_first([pair(1, 152), pair(2, 152), pair(3, 152)]) == []
    assert stopped_first([]) == []


def test_one_that_is_ahead_does_not_make_all_others_suspects() -> None:
    assert stopped_first([pair(1, 152), pair(2, 149), pair(3, 149), pair(4, 149)]) == []


def test_functions_are_compared_with_themselves_only() -> None:
    assert stopped_first([pair(1, 152), pair(1, 149, "AllGather"), pair(2, 152), pair(2, 149, "AllGather")]) == []


def test_an_uneven_end_is_a_lost_tail_and_proves_nothing() -> None:
    uneven = series(3, {("a", 3): 149, ("b", 3): 151})
    assert stopped_first([pair(1, 152), pair(2, 152), uneven]) == []


def test_what_may_have_lost_its_last_records_is_no_suspect() -> None:
    # Both of its ranks lose every second record: three in a row at both, by chance 1 in 64.
    assert stopped_first([pair(1, 152), pair(2, 152), pair(3, 149, lost=0.5)]) == []


def test_some_lost_records_do_not_hide_who_stopped() -> None:
    # One in a hundred at each of two ranks: three in a row at both, by chance 1 in a million million.
    behind = series(3, {("a", 3): 149, ("b", 3): 148}, lost=0.01)
    others = [pair(number, 152, lost=0.01) for number in range(4, 20)]
    assert stopped_first([*others, behind]) == [[behind]]


def test_what_shares_a_process_is_one_hang() -> None:
    inside = series(9, {("a", 3): 70, ("a", 4): 70}, "AllGather")
    other = series(8, {("b", 7): 75, ("b", 8): 75}, "AllGather")
    third = series(7, {("b", 5): 75, ("b", 6): 75}, "AllGather")
    behind = pair(3, 149)
    (group,) = stopped_first([pair(1, 152), pair(2, 152), behind, inside, other, third])
    assert {item.comm.number for item in group} == {3, 9}


def test_stages_between_which_something_is_sent_are_one_hang() -> None:
    first, second = series(1, {("a", 1): 75, ("a", 2): 75}), series(2, {("b", 1): 75, ("b", 2): 75})
    elsewhere = series(3, {("c", 1): 75, ("c", 2): 75})
    groups = joined_by_edges([[first], [second], [elsewhere]], [edge(1, 40)])
    assert sorted(sorted(item.comm.number for item in group) for group in groups) == [[1, 2], [3]]


def test_the_edge_that_stopped_before_its_siblings_is_the_one() -> None:
    late = edge(3, 64)
    assert odd_edges([edge(1, 65), edge(2, 65), late]) == [late]
    assert odd_edges([edge(1, 65), edge(2, 65)]) == []
    # Of two that differ, nobody can say which is odd; and other hosts' edges are no siblings.
    assert odd_edges([edge(1, 65), edge(2, 64), edge(3, 10, "c", "d")]) == []
    # With one record of three lost at either end, the last operation of one edge in nine is missing.
    assert odd_edges([edge(1, 65), edge(2, 65), edge(3, 64, recorded=0.67)]) == []


def test_a_process_whose_records_end_everywhere_is_silent() -> None:
    whole = [series(n, {("a", n): 152, ("b", n): 152}) for n in range(1, 4)]
    ended = [series(9, {("a", 9): 100, ("b", 9): 152}), series(8, {("a", 9): 300, ("a", 1): 400}, "AllGather")]
    assert silent_processes([*whole, *ended], processes=8, limits=LIMITS) == [("a", 9)]


def test_a_process_that_is_behind_in_one_communicator_only_is_not_silent() -> None:
    series_of_it = [series(9, {("a", 9): 100, ("b", 9): 152}), series(8, {("a", 9): 400, ("a", 1): 400}, "AllGather")]
    assert silent_processes(series_of_it, processes=8, limits=LIMITS) == []


def test_many_silent_processes_are_a_job_that_was_cut_off() -> None:
    cut = [series(n, {("a", n): 100, ("b", n): 152}) for n in range(1, 5)]
    assert silent_processes(cut, processes=8, limits=LIMITS) == []
