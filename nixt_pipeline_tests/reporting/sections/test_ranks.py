import pyarrow as pa

from nixt_pipeline.reporting.sections.ranks import draw_map, draw_ranges, rank_maps
from nixt_pipeline_tests.reporting import examples

TIMES = ("exec_time_min_us", "exec_time_p50_us", "exec_time_max_us")


def test_a_rank_waits_for_what_its_mean_lies_above_the_lowest_of_its_communicator() -> None:
    rows = [examples.rank_row(0, 200.0, 100.0), examples.rank_row(1, 100.0, 0.0)]
    (data,) = rank_maps(pa.Table.from_pylist(rows))
    assert data.communicators == ("DP Group 0",)
    assert data.shares == ((0.5, 0.0),)


def test_the_most_uneven_communicator_comes_first_and_its_ranks_are_named_by_their_process() -> None:
    rows = [
        *(examples.rank_row(rank, 100.0, 0.0, "even") for rank in (0, 1)),
        examples.rank_row(0, 400.0, 300.0, "uneven", id="0x2"),
        examples.rank_row(1, 100.0, 0.0, "uneven", id="0x2"),
    ]
    (data,) = rank_maps(pa.Table.from_pylist(rows))
    assert data.communicators == ("uneven", "even")
    # The one with the lowest median, for whom the other waits, is at the top.
    assert [[row[name] for name in ("label", *TIMES)] for row in data.ranges] == [
        ["gpu-1-pid7", 100.0, 102.0, 104.0],
        ["gpu-0-pid7", 400.0, 402.0, 404.0],
    ]


def test_a_rank_without_records_is_empty() -> None:
    (data,) = rank_maps(pa.Table.from_pylist([examples.rank_row(1, 100.0, 0.0)]))
    assert data.shares == ((None, 0.0),)


def test_a_communicator_of_2048_ranks_has_64_columns_that_keep_the_worst_of_their_ranks() -> None:
    rows = [examples.rank_row(rank, 100.0, 50.0 if rank == 33 else 0.0, n_ranks=2048) for rank in range(2048)]
    (data,) = rank_maps(pa.Table.from_pylist(rows))
    assert data.ranks_per_column == 32
    assert len(data.shares[0]) == 64
    assert data.shares[0][:3] == (0.0, 0.5, 0.0)
    assert len(data.ranges) == 16


def test_many_communicators_are_cut_and_counted() -> None:
    rows = [examples.rank_row(0, 100.0, 0.0, f"TP {number}") for number in range(30)]
    (data,) = rank_maps(pa.Table.from_pylist(rows))
    assert (len(data.communicators), data.total) == (24, 30)


def test_maps_and_ranges_draw_what_they_hold() -> None:
    (data,) = rank_maps(pa.Table.from_pylist([examples.rank_row(0, 200.0, 100.0), examples.rank_row(1, 100.0, 0.0)]))
    assert "the most that a rank waits is 50 %" in draw_map(data, "map")
    assert "medians from 102 us to 202 us" in draw_ranges(data, "ranges")
