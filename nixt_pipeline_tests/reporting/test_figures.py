from collections.abc import Collection

import pyarrow as pa

from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.sections.distributions import Curve, ecdf_figure
from nixt_pipeline.reporting.sections.entities import MAX_ENTITIES, last_arrivals, range_panels
from nixt_pipeline.reporting.sections.kernels import hottest
from nixt_pipeline.reporting.sections.over_time import time_figures
from nixt_pipeline.reporting.sections.payload import Segment, payload_bars
from nixt_pipeline.reporting.sections.sizes import heat_map
from nixt_pipeline_tests.reporting import examples


def test_payload_is_stacked_by_placement_with_the_largest_function_first() -> None:
    summary = examples.summary(
        ("AllReduce", "mixed", 100), ("AllGather", "nvlink-only", 100), ("AllGather", "nic-only", 300)
    )

    data = payload_bars(summary)

    assert data.total_bytes == 500
    assert [coll for coll, _ in data.bars] == ["AllGather", "AllReduce"]
    assert data.bars[0][1] == (Segment("nic-only", 300), Segment("nvlink-only", 100))


def test_payload_leaves_out_functions_without_bytes() -> None:
    assert payload_bars(examples.summary(("Broadcast", "mixed", 0))).bars == ()


def test_hot_kernels_keep_the_first_by_rank() -> None:
    rows = [
        examples.kernel(2, "second", 0.3, 0.9),
        examples.kernel(1, "first", 0.6, 0.6),
        examples.kernel(3, "x", 0.1, 1.0),
    ]

    kernels = hottest(pa.Table.from_pylist(rows), 2, "share_of_payload")

    assert [(row["label"], row["share_of_payload"], row["cumulative_share_of_payload"]) for row in kernels] == [
        ("first", 0.6, 0.6),
        ("second", 0.3, 0.9),
    ]


def test_a_distribution_has_one_panel_per_kernel_and_one_curve_per_measure() -> None:
    rows = examples.ecdf_rows("K", (10.0, 20.0, 30.0)) + examples.ecdf_rows("K", (25.0, 35.0), "transfer_busbw_gbs")

    data = ecdf_figure(pa.Table.from_pylist(rows))

    assert [panel.label for panel in data.panels] == ["K"]
    assert data.panels[0].curves == (
        Curve("busbw_gbs", (10.0, 20.0, 30.0), (0.0, 0.5, 1.0), 8),
        Curve("transfer_busbw_gbs", (25.0, 35.0), (0.0, 1.0), 8),
    )


def test_a_distribution_axis_is_logarithmic_only_when_the_middle_of_the_values_spans_more_than_twenty() -> None:
    # Only the medians lie between the quantiles 0.01 and 0.99: 10 and 190 (19 to 1), then 10 and 210 (21 to 1).
    narrow = examples.ecdf_rows("A", (1.0, 10.0, 11.0)) + examples.ecdf_rows("B", (100.0, 190.0, 9000.0))
    wide = examples.ecdf_rows("A", (1.0, 10.0, 11.0)) + examples.ecdf_rows("B", (100.0, 210.0, 220.0))

    assert not ecdf_figure(pa.Table.from_pylist(narrow)).log_axis
    assert ecdf_figure(pa.Table.from_pylist(wide)).log_axis


def test_bandwidth_over_time_is_drawn_at_the_middle_of_each_bin_and_broken_at_a_long_silence() -> None:
    # Bins of one second at 0, 1, 5 and 10 s: three empty bins before 5 s are bridged, four before 10 s are not.
    rows = [examples.time_bin(start, p50) for start, p50 in ((0, 40.0), (1, 41.0), (5, 30.0), (10, 31.0))]

    (figure,) = time_figures(pa.Table.from_pylist(rows))

    assert (figure.start_us, figure.end_us) == (examples.START_US, examples.START_US + 11_000_000)
    (panel,) = figure.panels
    assert panel.seconds == (0.5, 1.5, 5.5, 8.0, 10.5)
    assert panel.p50 == (40.0, 41.0, 30.0, None, 31.0)
    assert panel.p25 == (39.0, 40.0, 29.0, None, 30.0)
    assert panel.transfer == (42.0, 43.0, 32.0, None, 33.0)


def test_each_launch_has_its_own_figure_with_its_own_start() -> None:
    later = examples.time_bin(86_400, 20.0) | {"incarnation": 2}

    first, second = time_figures(pa.Table.from_pylist([later, examples.time_bin(0, 40.0)]))

    assert first.panels[0].p50 == (40.0,)
    assert second.start_us == examples.START_US + 86_400_000_000
    assert second.panels[0].seconds == (0.5,)


def test_time_panels_are_those_with_most_records_in_the_order_of_placements() -> None:
    rows = [
        examples.time_bin(0, 1.0, "Broadcast", "mixed", records=1),
        examples.time_bin(0, 2.0, "AllGather", "nvlink-only", records=50),
        examples.time_bin(0, 3.0, "AllReduce", "nic-only", records=20),
    ]

    (figure,) = time_figures(pa.Table.from_pylist(rows), limit=2)

    assert [(panel.coll, panel.coll_type) for panel in figure.panels] == [
        ("AllReduce", "nic-only"),
        ("AllGather", "nvlink-only"),
    ]


def _shares(spatial: pa.Table, within_host: Collection[str] = ()) -> list[tuple[object, ...]]:
    rows, _ = last_arrivals(spatial, "host", within_host)
    return [(row["label"], row["observed"], row["expected"], row["cells"]) for row in rows]


def test_last_arrivals_are_pooled_over_functions_and_ordered_by_the_excess_over_chance() -> None:
    # a: 10 + 20 of 100 collectives, 25 expected: 5 % more than chance. b: 40 of 50, 10 expected: 60 % more.
    rows = [
        examples.entity("a", 10, 12.5, 50),
        examples.entity("a", 20, 12.5, 50, coll="AllGather"),
        examples.entity("b", 40, 10.0, 50),
    ]

    assert _shares(pa.Table.from_pylist(rows)) == [("b", 0.8, 0.2, 50), ("a", 0.3, 0.25, 100)]


def test_last_arrivals_between_hosts_leave_out_placements_that_stay_within_a_host() -> None:
    # A host that holds all ranks is always last: 100 of 100 says nothing about it.
    rows = [examples.entity("a", 5, 10.0, 20), examples.entity("a", 100, 100.0, 100, coll_type="nvlink-only")]

    assert _shares(pa.Table.from_pylist(rows), {"nvlink-only"}) == [("a", 0.25, 0.5, 20)]


def test_last_arrivals_without_a_complete_collective_are_empty() -> None:
    rows = [examples.entity("a", 0, 0.0, 0)]
    assert last_arrivals(pa.Table.from_pylist(rows), "host") == ([], 0)


def test_many_entities_are_cut_to_the_largest_excess_and_the_total_is_kept() -> None:
    rows = [examples.entity(f"h{i}", i, 5.0, 100) for i in range(300)]

    shown, total = last_arrivals(pa.Table.from_pylist(rows), "host")

    assert [row["label"] for row in shown] == [f"h{number}" for number in range(299, 299 - MAX_ENTITIES, -1)]
    assert total == 300


def test_bandwidth_ranges_keep_the_lowest_and_the_highest_medians_when_there_are_many_entities() -> None:
    rows = [examples.entity(f"h{i}", 0, 1.0, 4, p50=float(i)) for i in (5, 1, 4, 2, 3, 6)]

    (panel,) = range_panels(pa.Table.from_pylist(rows), "host", limit=4)

    medians = [(row["label"], row["busbw_p50_gbs"]) for row in panel.ranges]
    assert medians == [("h1", 1.0), ("h2", 2.0), ("h5", 5.0), ("h6", 6.0)]
    assert (panel.ranges[0]["busbw_p10_gbs"], panel.ranges[0]["busbw_p90_gbs"]) == (-4.0, 6.0)
    assert panel.total == 6


def test_labels_do_without_the_domain_that_all_hosts_share() -> None:
    rows = [
        examples.entity("gpu-1.cluster.internal", 3, 2.0, 4, level="process", process="gpu-1.cluster.internal-pid7"),
        examples.entity("gpu-2.cluster.internal", 1, 2.0, 4, level="process", process="gpu-2.cluster.internal-pid8"),
    ]

    shown, _ = last_arrivals(pa.Table.from_pylist(rows), "process")

    assert [row["label"] for row in shown] == ["gpu-1-pid7", "gpu-2-pid8"]


def test_labels_keep_domains_that_differ() -> None:
    rows = [examples.entity("gpu-1.east", 3, 2.0, 4), examples.entity("gpu-1.west", 1, 2.0, 4)]
    shown, _ = last_arrivals(pa.Table.from_pylist(rows), "host")
    assert [row["label"] for row in shown] == ["gpu-1.east", "gpu-1.west"]


def test_the_heat_map_has_a_row_for_each_shape_and_a_column_for_each_size() -> None:
    rows = [
        examples.size_row(2, 2, "AllReduce", 4_000_000, 8),
        examples.size_row(8, 1, "AllGather", 1024, 90, "nvlink-only"),
        examples.size_row(8, 1, "AllGather", 4_000_000, 16, "nvlink-only"),
    ]

    data = heat_map(pa.Table.from_pylist(rows))

    assert data.rows == (("8r/1n AllGather", "nvlink-only"), ("2r/2n AllReduce", "nic-only"))
    assert data.columns == ("1.02 kB", "4 MB")
    assert data.cells == ((0, 0, 90), (0, 1, 16), (1, 1, 8))
    assert not data.sizes_grouped


def test_more_sizes_than_columns_are_grouped_by_powers_of_two() -> None:
    # 41 sizes from 1024 to 1064 fall into the one class that starts at 1024.
    rows = [examples.size_row(2, 2, "Send", 1024 + i, 1) for i in range(41)]

    data = heat_map(pa.Table.from_pylist(rows))

    assert data.columns == ("1.02 kB",)
    assert data.cells == ((0, 0, 41),)
    assert data.sizes_grouped


def test_placements_are_listed_in_display_order_whatever_the_iterable() -> None:
    legend = type_legend(iter(["mixed", None, "nic-only", "mixed"]))
    assert [entry.label for entry in legend] == ["nic-only", "mixed"]


def test_functions_beyond_the_largest_share_a_bar_that_counts_them() -> None:
    # Payloads of 1 to 100 bytes; the 24 largest are 77 to 100, and the other 76 have 76 * 77 / 2 together.
    data = payload_bars(examples.summary(*((f"Function{n}", "nic-only", n) for n in range(1, 101))))
    assert [coll for coll, _ in data.bars[:2]] == ["Function100", "Function99"]
    assert data.bars[-1] == ("76 other functions", (Segment("nic-only", 76 * 77 / 2),))
    assert (len(data.bars), data.total_bytes) == (25, 5050)
