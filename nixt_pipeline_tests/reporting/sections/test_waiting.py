import pyarrow as pa

from nixt_pipeline.reporting.sections.waiting import (
    draw_progress,
    draw_waiting,
    progress_of,
    progress_section,
    waiting_of,
)
from nixt_pipeline_tests.reporting import examples


def test_gpus_waiting_and_transferring_are_rank_time_over_the_width_of_the_bin() -> None:
    # Bins of one second: 500,000 us of rank-time are half a GPU. The second bin has nothing.
    rows = [
        examples.waiting_row(0, 1, 500_000.0, 100_000.0),
        examples.waiting_row(0, None, 250_000.0, 0.0),
        examples.waiting_row(2, 1, 0.0, 50_000.0),
    ]
    (launch,) = waiting_of(pa.Table.from_pylist(rows))
    assert launch.seconds == (0.0, 1.0, 2.0)
    assert launch.waiting == (0.75, 0.0, 0.0)
    # A row has one collective of two ranks.
    assert launch.transferring == (0.2, 0.0, 0.1)
    assert launch.end_s == 3.0


def test_only_the_hot_kernels_have_panels_of_their_own_and_gaps_stay_gaps() -> None:
    rows = [examples.waiting_row(0, 2, 300.0, 100.0), examples.waiting_row(2, 1, 40.0, 10.0)]
    (launch,) = waiting_of(pa.Table.from_pylist([*rows, examples.waiting_row(1, None, 1.0, 1.0)]))
    assert [kernel.label for kernel in launch.kernels] == ["kernel 1", "kernel 2"]
    assert launch.kernels[1].wait[1] == (150.0, None, None)
    assert launch.kernels[0].transfer[1] == (None, None, 10.0)
    assert draw_waiting(launch, "waiting").count("<svg") == 3


def test_launches_are_told_apart() -> None:
    rows = [examples.waiting_row(number, 1, 1.0, 1.0) | {"incarnation": number} for number in (2, 1)]
    first, second = waiting_of(pa.Table.from_pylist(rows))
    assert second.start_us - first.start_us == 1_000_000


def test_stretches_without_a_complete_collective_are_gaps() -> None:
    rows = [examples.progress_row(0, 50.0, 100.0), examples.progress_row(2, 60.0, 110.0)]
    (data,) = progress_of(pa.Table.from_pylist(rows))
    assert data.edges == (0.0, 10.0, 20.0, 30.0)
    assert data.kernel.wait[1] == (50.0, None, 60.0)
    assert data.kernel.transfer[0] == (100.0, None, 110.0)
    assert draw_progress(data, "progress").count("<svg") == 1


def test_launches_are_named_where_there_are_several() -> None:
    rows = [examples.progress_row(0, 1.0, 1.0, incarnation=launch) for launch in (2, 1)]
    assert [data.kernel.label for data in progress_of(pa.Table.from_pylist(rows))] == [
        "launch 1: kernel 1",
        "launch 2: kernel 1",
    ]


def test_the_reading_says_where_transfers_are_longest() -> None:
    rows = [examples.progress_row(number, 1.0, 300.0 if number == 2 else 100.0) for number in range(4)]
    section = progress_section(examples.content(), pa.Table.from_pylist(rows))
    assert section.figures[0].reading == (
        "kernel 1: median transfers take from 100 us to 300 us, the longest from collective 20 on."
    )
