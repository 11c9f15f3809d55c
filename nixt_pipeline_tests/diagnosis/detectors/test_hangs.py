"""Series are collectives of a communicator, given by the last sequence number of each of its ranks."""

from dataclasses import replace

import pytest

from nixt_pipeline.diagnosis.detectors.stopped import stopped_first, together
from nixt_pipeline.diagnosis.detectors.tracks import Series, ended_together, tracks_of, without_end, without_log
from nixt_pipeline.diagnosis.evidence.frontier import EarlyEnd
from nixt_pipeline.diagnosis.evidence.observations import Edge
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.detectors.examples import edge, pair, series, stopped, stops
from nixt_pipeline_tests.diagnosis.examples import communicator


def test_the_communicator_that_stopped_before_its_alike_holds_the_one_who_hung() -> None:
    assert stopped([pair(1, 152), pair(2, 152), pair(3, 149)]) == [({3}, {("a", 3), ("b", 3)})]


def test_a_normal_end_leaves_nobody_behind() -> None:
    assert stopped([pair(1, 152), pair(2, 152), pair(3, 152)]) == []
    assert stopped([]) == []


def test_one_that_is_ahead_does_not_make_all_others_suspects() -> None:
    assert stopped([pair(1, 152), pair(2, 149), pair(3, 149), pair(4, 149)]) == []


def test_functions_are_compared_with_themselves_only() -> None:
    assert stopped([pair(1, 152), pair(1, 149, "AllGather"), pair(2, 152), pair(2, 149, "AllGather")]) == []


def test_two_communicators_of_one_process_do_not_do_the_same() -> None:
    members = {("a", 1): 0, ("a", 2): 0, ("b", 1): 0, ("b", 2): 0}
    assert stopped([series(1, dict.fromkeys(members, 120)), series(2, dict.fromkeys(members, 40))]) == []
    # Without names, experts and gradients look alike. One of the gradients' three stopped.
    experts = [series(n, {("a", 2 * n): 120, ("a", 2 * n + 1): 120}) for n in (1, 2, 3)]
    gradients = [series(3 + n, {("a", 1 + n): last, ("a", 1 + n + 3): last}) for n, last in ((1, 40), (2, 40), (3, 39))]
    assert stopped([*experts, *gradients]) == [({6}, {("a", 4), ("a", 7)})]


def test_a_log_that_ends_unevenly_lost_its_tail_and_proves_nothing() -> None:
    assert not ended_together([pair(1, 152), series(3, {("a", 3): 149, ("b", 3): 151})], Thresholds())
    assert ended_together([pair(1, 152), pair(3, 149)], Thresholds())
    # Of four records, one is lost, and of these, one of the last.
    assert ended_together([pair(1, 152, lost=0.25), series(3, {("a", 3): 151, ("b", 3): 152}, lost=0.25)], Thresholds())


def test_how_likely_lost_records_look_like_a_hang_is_known() -> None:
    # Each of its two ranks loses a tenth of its records, and both lost the last three, in one of four communicators (0
    # has no collectives).
    [stop] = stops([pair(1, 152, lost=0.1), pair(2, 152, lost=0.1), pair(3, 149, lost=0.1)])
    assert stop.chance == pytest.approx(0.01**3 * 4)
    [stop] = stops([pair(1, 152), pair(2, 152), pair(3, 149)])
    assert stop.chance == 0


def test_what_stopped_apart_is_one_hang_all_the_same() -> None:
    both = together(stops([pair(1, 152), pair(2, 152), pair(3, 149), pair(4, 152), pair(5, 150)]))
    assert {track.comm.number for track in both.first} == {3, 5}
    assert both.suspects == {("a", 3), ("b", 3), ("a", 5), ("b", 5)}


def test_what_may_have_lost_its_last_records_is_no_suspect() -> None:
    # Both of its ranks lose every second record: three in a row at both, by chance 1 in 64.
    assert stopped([pair(1, 152), pair(2, 152), pair(3, 149, lost=0.5)]) == []


def test_some_lost_records_do_not_hide_who_stopped() -> None:
    # One in a hundred at each of two ranks: three in a row at both, by chance 1 in a million million.
    behind = series(3, {("a", 3): 149, ("b", 3): 148}, lost=0.01)
    others = [pair(number, 152, lost=0.01) for number in range(4, 20)]
    assert stopped([*others, behind]) == [({3}, {("a", 3), ("b", 3)})]


def test_many_ranks_show_a_short_lead_through_heavy_losses() -> None:
    # Each of sixteen ranks loses every second record: all of them the same one, by chance 1 in 65,536.
    ranks = {(host, number): 40 for host in "abcd" for number in range(4)}
    behind = series(1, ranks, lost=0.5)
    ahead = [series(number, {(host, 10 * number + pid): 41 for host, pid in ranks}, lost=0.5) for number in (2, 3)]
    assert stopped([behind, *ahead]) == [({1}, set(ranks))]


def test_a_kind_of_collectives_clears_those_who_take_part_in_it_and_went_on() -> None:
    # a3 waits in one of them for a4 or b3, or they both for a3. What b7 and b8 do shows nothing of them.
    inside = series(9, {("a", 3): 70, ("a", 4): 70}, "AllGather")
    other = series(8, {("b", 7): 75, ("b", 8): 75}, "AllGather")
    third = series(7, {("b", 5): 75, ("b", 6): 75}, "AllGather")
    ((tracks, suspects),) = stopped([pair(1, 152), pair(2, 152), pair(3, 149), inside, other, third])
    assert (tracks, suspects) == ({3, 9}, {("a", 3), ("a", 4), ("b", 3)})
    # b3 is in another communicator of that kind, which went on.
    fourth = series(6, {("b", 3): 75, ("b", 4): 75}, "AllGather")
    ((_, suspects),) = stopped([pair(1, 152), pair(2, 152), pair(3, 149), inside, other, third, fourth])
    assert suspects == {("a", 3), ("a", 4)}


def test_of_what_stopped_by_one_cause_the_one_that_got_least_far_is_it() -> None:
    # Ranks 3 and 4 exchange experts: that 4 stopped a collective later than 3 is because it waits for 3.
    experts = [
        series(20 + n, {(host, first): last, (host, first + 1): last}, "AlltoAll")
        for n, (host, first, last) in enumerate((("a", 1, 12), ("b", 1, 12), ("a", 3, 9), ("b", 3, 9)))
    ]
    dense = [pair(1, 152), pair(2, 152), pair(3, 149), pair(4, 150), pair(5, 152)]
    gradients = [series(host, {("ab"[host], n): 9 for n in range(1, 6)}, "AllReduce") for host in (0, 1)]
    shifted = [Series(replace(item.comm, number=item.comm.number + 2), item.coll, item.last, 0.0) for item in dense]
    assert stopped([*gradients, *shifted, *experts]) == [({5}, {("a", 3), ("b", 3)})]


def test_stages_between_which_something_is_sent_are_one_hang() -> None:
    # Two stages of three tensor-parallel pairs: the third pairs of both stopped, one waiting for the other.
    first = [series(n, {("a", n): last, ("a", n + 10): last}) for n, last in ((1, 80), (2, 80), (3, 75))]
    second = [series(n + 3, {("b", n): last, ("b", n + 10): last}) for n, last in ((1, 80), (2, 80), (3, 76))]
    joined = [
        series(10 + number, {(host, n + number): 9 for n in (1, 2, 3)}, "AllReduce")
        for host in "ab"
        for number in (0, 10)
    ]
    edges = [edge(n, 39 if n % 10 == 3 else 40) for n in (1, 2, 3, 11, 12, 13)]
    ((_, suspects),) = stopped([*first, *second, *joined], edges)
    assert suspects == {("a", 3), ("a", 13), ("b", 3), ("b", 13)}
    # One of the two Sends has not been made: it is that, and not the group that waits for its member.
    edges[-1] = edge(13, 38)
    assert stopped([*first, *second, *joined], edges) == [({113}, {("a", 13), ("b", 13)})]


def test_an_embedding_that_is_behind_does_not_clear_the_stages_between_its_ends() -> None:
    # Lane 1 of two lanes with three stages stopped; its embedding, of the first and the last stage, comes at the end.
    tensor = [
        series(10 * lane + n, {(host, lane): last, (host, lane + 10): last})
        for lane, last in ((1, 75), (2, 80))
        for n, host in enumerate("abc")
    ]
    data = [series(40 + n, {(host, 1): 9, (host, 2): 9}, "AllGather") for n, host in enumerate("abc")]
    embedding = [
        series(50 + lane, {("a", lane): last, ("c", lane): last}, "AllReduce") for lane, last in ((1, 8), (2, 9))
    ]
    edges = [edge(lane + way, 39 + (lane == 2), *ends) for lane in (1, 2) for way in (0, 10) for ends in ("ab", "bc")]
    ((_, suspects),) = stopped([*tensor, *data, *embedding], edges)
    assert suspects == {(host, process) for host in "abc" for process in (1, 11)}


def test_of_the_stages_of_a_lane_the_one_that_stopped_within_a_layer_holds_the_one_who_hung() -> None:
    # Two lanes of two stages. In lane 1, the second stage gathered and did not reduce; the first waits for it.
    def stage(number: int, host: str, gathered: int, reduced: int) -> list[Series]:
        last = [{(host, 2 * number): n, (host, 2 * number + 1): n} for n in (gathered, reduced)]
        return [series(number, last[0], "AllGather"), series(number, last[1])]

    lanes = [*stage(1, "a", 125, 125), *stage(2, "b", 124, 123), *stage(3, "a", 127, 127), *stage(4, "b", 127, 127)]
    sent = [
        Edge(100 + n, ("a", 2 * lane + way), ("b", 2 * lane + 2 + way), 60, 60, 1.0, 1.0)
        for n, (lane, way) in enumerate([(1, 0), (1, 1), (3, 0), (3, 1)])
    ]
    # Gradients tell which communicators are of one stage.
    lanes += [
        series(5, {("a", 2): 61, ("a", 6): 61}, "AllReduce"),
        series(6, {("b", 4): 61, ("b", 8): 61}, "AllReduce"),
    ]
    assert stopped(lanes, sent) == [({2}, {("b", 4), ("b", 5)})]
    # Both between two layers: either may hold it.
    lanes[2:4] = stage(2, "b", 123, 123)
    assert stopped(lanes, sent) == [({1, 2}, {("a", 2), ("a", 3), ("b", 4), ("b", 5)})]


def test_an_edge_that_may_have_lost_its_last_record_is_no_suspect() -> None:
    stages = [series(host, {("ab"[host], n): 9 for n in (1, 2, 3)}, "AllReduce") for host in (0, 1)]
    assert stopped(stages, [edge(1, 65), edge(2, 65), edge(3, 64)]) == [({103}, {("a", 3), ("b", 3)})]
    # With one record of three lost at either end, the last operation of one edge in nine is missing.
    assert stopped(stages, [edge(1, 65), edge(2, 65), edge(3, 64, recorded=0.67)]) == []


def test_the_newest_operation_stays_in_the_slot_of_an_old_plugin() -> None:
    def slot(number: int, last: int, final: bool, coll: str = "AllGather") -> Series:
        members: dict[Process, int] = {("a", number): last, ("b", number): last}
        return Series(communicator(number, *members), coll, members, 0.6, one_slot=True, final=final)

    assert stopped([slot(1, 152, True), slot(2, 151, False), slot(3, 149, True)]) == [({3}, {("a", 3), ("b", 3)})]
    # Something else was recorded after it: more of the same may have been overwritten.
    assert stopped([slot(1, 152, True), slot(2, 151, False), slot(3, 149, False)]) == []
    # Others were overwritten by the AllGather that follows: it would be in the slot of the third one as well.
    ended = [slot(1, 152, True), slot(2, 152, True), slot(3, 151, False)]
    assert stopped([*ended, *(slot(n, 152, n == 3, "ReduceScatter") for n in (1, 2, 3))]) == [
        ({3}, {("a", 3), ("b", 3)})
    ]
    # The third one went on to the next step, where the others have not been seen yet.
    assert stopped([*ended, *(slot(n, 152 + (n == 3), n == 3, "ReduceScatter") for n in (1, 2, 3))]) == []


def test_a_log_without_its_end_is_left_aside_unless_the_whole_job_was_cut_off() -> None:
    everyone = [(host, pid) for host in "abcd" for pid in range(4)]

    def early(*processes: Process, long: bool = False) -> dict[Process, EarlyEnd]:
        return {process: EarlyEnd({1: 3}, long, None) for process in processes}

    two = (("a", 1), ("b", 1))
    assert without_end(early(("a", 1)), frozenset(), everyone) == {("a", 1)}
    assert without_end(early(*everyone[:4]), frozenset(), everyone) == set(everyone[:4])
    # Two hosts lack a little at the end: they were killed before they wrote, unless their files were cut.
    assert without_end(early(*two), frozenset(), everyone) == set()
    assert without_end(early(*two), frozenset(two), everyone) == set(two)
    assert without_end(early(*two, long=True), frozenset(), everyone) == set(two)
    assert without_end(early(*everyone), frozenset(), everyone) == set()


def test_the_log_of_one_process_can_be_left_out() -> None:
    # Three pairs; of the third, which stopped first, one process lost its last record when it died.
    died = series(3, {("a", 3): 148, ("b", 3): 149})
    told = without_log([pair(1, 152), pair(2, 152), died], ("a", 3))
    assert not ended_together([pair(1, 152), pair(2, 152), died], Thresholds())
    assert ended_together(told, Thresholds())
    assert stopped(told) == [({3}, {("a", 3), ("b", 3)})]
    # Who had a communicator of its own leaves nothing of it.
    assert without_log([series(1, {("a", 3): 5})], ("a", 3)) == []


def test_a_communicator_between_stages_of_which_one_log_is_left_out_does_the_same_as_the_others() -> None:
    # Embeddings that the first and the last stage share, of two lanes that stopped a step before the third; the process
    # of the first stage died in the second lane.
    ends: dict[Process, int] = {(host, number): stage for stage, host in enumerate("ab") for number in (1, 2, 3)}
    lanes = without_log([pair(1, 67), pair(2, 67), pair(3, 68)], ("a", 2))
    tracks = tracks_of(lanes, [], {item.comm.number: item.comm for item in lanes}, ends)
    (stop,) = stopped_first([track for track in tracks if track.comm.number != 1], Thresholds())
    assert stop.suspects == {("a", 2), ("b", 2)}
    assert len({track.family for track in tracks}) == 1
