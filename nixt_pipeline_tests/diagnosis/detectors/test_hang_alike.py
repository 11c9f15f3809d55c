"""Communicators of the same size and function that do different work: none of them has hung."""

from dataclasses import replace

from nixt_pipeline.diagnosis.detectors.tracks import Series, series_of
from nixt_pipeline.diagnosis.evidence.alike import Pace, alike, middle
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline_tests.diagnosis.detectors.examples import edge, pair, series, stopped
from nixt_pipeline_tests.diagnosis.examples import communicator

MEGABYTES = 1_000_000


def at(pace: Pace, item: Series) -> Series:
    return replace(item, pace=pace)


def tensor_parallel(stage: int, reached: int, per_us: float) -> Series:
    """A communicator of two processes that a pipeline stage has to itself."""
    members: dict[Process, int] = {("abcd"[stage], 0): reached, ("abcd"[stage], 1): reached}
    return at(Pace(per_us, 8 * MEGABYTES), series(stage, members, "AllReduce"))


def test_stages_with_more_layers_do_not_make_a_hang_of_the_others() -> None:
    # In each of 60 steps, the last stage has an AllReduce for the loss beside the 8 of its layers.
    assert stopped([*(tensor_parallel(stage, 480, 8e-6) for stage in (0, 1, 2)), tensor_parallel(3, 540, 9e-6)]) == []
    assert stopped([tensor_parallel(0, 420, 7e-6), *(tensor_parallel(stage, 480, 8e-6) for stage in (1, 2, 3))]) == []


def test_who_did_as_much_as_others_until_it_stopped_holds_the_one_who_hung() -> None:
    stages = [tensor_parallel(0, 476, 7.95e-6), *(tensor_parallel(stage, 480, 8e-6) for stage in (1, 2, 3))]
    assert stopped(stages) == [({0}, {("a", 0), ("a", 1)})]


def test_the_loss_is_no_bucket_of_gradients_though_both_are_reduced_once_in_a_step() -> None:
    gradients = [at(Pace(1e-6, 25 * MEGABYTES), pair(number, 99, "AllReduce")) for number in (1, 2)]
    losses = [at(Pace(1e-6, 4), pair(number, 98, "AllReduce")) for number in (3, 4)]
    assert stopped([*gradients, *losses]) == []


def test_sends_of_another_purpose_are_at_another_pace() -> None:
    joined = [series(host, {("ab"[host], n): 9 for n in (1, 2, 3, 4)}, "AllReduce") for host in (0, 1)]
    stages = [replace(edge(n, 80), pace=Pace(1e-6, 8 * MEGABYTES)) for n in (1, 2)]
    experts = [replace(edge(n, 320), pace=Pace(4e-6, 4 * MEGABYTES)) for n in (3, 4)]
    assert stopped(joined, [*stages, *experts]) == []
    behind = replace(stages[1], sent=77, received=77)
    assert stopped(joined, [stages[0], behind, *experts]) == [({102}, {("a", 2), ("b", 2)})]


def test_what_goes_at_one_pace_is_alike() -> None:
    paces = [Pace(2.0, 100.0), Pace(1.0, 100.0), Pace(1.04, 300.0), Pace(1.08, 100.0), Pace(1.0, 4000.0)]
    first, second, *others = alike(paces)
    assert first != second
    assert others[:2] == [second, second]
    assert others[2] not in (first, second)
    # Numbers that were written at one time have no slope: they are not zero.
    assert alike([Pace(float("nan")), Pace(None), Pace(1.0)]) == [0, 0, 1]
    assert alike([]) == []


def test_one_rank_with_few_records_does_not_change_the_pace_of_its_communicator() -> None:
    assert middle([Pace(1.0, 8.0), Pace(1.02, 8.0), Pace(7.0, 80.0), Pace(None, None)]) == Pace(1.02, 8.0)
    assert middle([Pace(float("nan"))]) == Pace(None, None)


def test_one_record_of_what_a_slot_overwrites_nearly_always_does_not_end_it() -> None:
    comms = {number: communicator(number, ("a", number), ("b", number)) for number in range(3)}

    def reach(number: int, coll: str, last: int, records: int, last_us: int) -> list[Reach]:
        return [Reach(number, coll, member, last, 0, records, last_us) for member in comms[number].members]

    reduced = [item for number in comms for item in reach(number, "ReduceScatter", 99, 95, 9_000_000)]
    gathered = [
        *reach(0, "AllGather", 0, 1, 1_000_000),
        *(reach(1, "AllGather", 70, 2, 7_000_000)),
        *reach(2, "AllGather", 59, 2, 6_000_000),
    ]
    assert stopped(series_of([*reduced, *gathered], comms, frozenset(), one_slot=True)) == []


def test_who_stops_just_before_its_pace_can_be_told_is_like_those_that_did_about_as_much() -> None:
    pace, unknown = Pace(1.0), Pace(None)
    assert alike([pace, pace, unknown], [20, 20, 19]) == [0, 0, 0]
    # A few operations at the start are something else, and of two that are equally near, it is not known which.
    assert alike([pace, pace, unknown], [1_000, 1_000, 5]) == [0, 0, 1]
    assert alike([pace, Pace(2.0), unknown], [20, 21, 19]) == [0, 1, 2]
