import pyarrow as pa

from nixt_pipeline.reporting.sections.waiting import draw_progress, progress_of, progress_section
from nixt_pipeline_tests.reporting import examples


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
