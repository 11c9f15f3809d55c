import pyarrow as pa

from nixt_pipeline.reporting.sections.lateness import draw_lateness, lateness_maps
from nixt_pipeline_tests.reporting import examples


def test_hosts_are_rows_by_the_waiting_they_caused_and_bins_without_them_are_empty() -> None:
    rows = [
        examples.lateness_row(0, "gpu-1", 10.0, 0.1),
        examples.lateness_row(0, "gpu-2", 20.0, 0.2),
        examples.lateness_row(2, "gpu-2", 0.0, 0.0),
    ]
    (data,) = lateness_maps(pa.Table.from_pylist(rows))
    assert (data.hosts, data.total) == (("gpu-2", "gpu-1"), 2)
    assert data.shares == ((0.2, None, 0.0), (0.1, None, None))


def test_of_many_hosts_those_are_kept_that_others_waited_for_most_and_colours_get_finer_limits() -> None:
    rows = [examples.lateness_row(0, f"gpu-{number:03}", float(number), 0.001) for number in range(100)]
    (data,) = lateness_maps(pa.Table.from_pylist(rows), limit=3)
    assert (data.hosts, data.total, data.scale) == (("gpu-099", "gpu-098", "gpu-097"), 100, 0.1)
    assert lateness_maps(pa.Table.from_pylist(rows[:64]))[0].scale == 1.0


def test_the_map_has_a_cell_in_the_colour_of_its_class_and_is_no_image_that_a_server_could_forbid() -> None:
    (data,) = lateness_maps(pa.Table.from_pylist([examples.lateness_row(0, "gpu-1", 10.0, 0.6)]))
    svg = draw_lateness(data, "lateness", [examples.START_US])
    assert "<image" not in svg
    # 60 % is of the last class, from 50 % on.
    assert svg.count('fill="#7f0000"') == 1
    assert "gpu-1: 60 %" in svg
