import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import matplotlib
import pyarrow as pa
import pytest

from nixt_pipeline.reporting.canvas import _tag, render, share_map
from nixt_pipeline.reporting.palette import COLL_TYPE_COLOURS
from nixt_pipeline.reporting.sections.distributions import EcdfFigure, draw_ecdf, ecdf_figure
from nixt_pipeline.reporting.sections.edges import draw_edges, edge_panels
from nixt_pipeline.reporting.sections.entities import (
    draw_bandwidth_ranges,
    draw_last_arrivals,
    last_arrivals,
    range_panels,
)
from nixt_pipeline.reporting.sections.kernels import draw_kernels
from nixt_pipeline.reporting.sections.lateness import draw_lateness, lateness_maps
from nixt_pipeline.reporting.sections.over_time import draw_time, time_figures
from nixt_pipeline.reporting.sections.payload import PayloadBars, draw_payload, payload_bars
from nixt_pipeline.reporting.sections.ranks import draw_ranges, rank_maps
from nixt_pipeline.reporting.sections.sizes import HeatMap, decade_label, decade_of, draw_heat_map, heat_map
from nixt_pipeline.reporting.sections.variation import draw_variation, variations
from nixt_pipeline.reporting.sections.waiting import draw_waiting, waiting_of
from nixt_pipeline_tests.reporting import examples

SVG = "{http://www.w3.org/2000/svg}"
CONTENT = examples.content(examples.HOSTILE)


def one_kernel(label: str, coll_type: str) -> pa.Table:
    """`hot_kernels` of a run of one kernel."""
    return pa.Table.from_pylist([examples.kernel(1, label, 1.0, 1.0, coll_type)])


def _time() -> str:
    (figure,) = time_figures(CONTENT.tables["temporal_correlation"])
    return draw_time(figure, "time-1")


DRAWINGS: dict[str, Callable[[], str]] = {
    "payload": lambda: draw_payload(payload_bars(CONTENT.tables["summary_histogram"])),
    "kernels": lambda: draw_kernels(CONTENT.tables["hot_kernels"]),
    "ecdf": lambda: draw_ecdf(ecdf_figure(CONTENT.tables["bandwidth_ecdf"])),
    "time": _time,
    "last": lambda: draw_last_arrivals(last_arrivals(CONTENT.tables["spatial_correlation"], "host")[0], "last"),
    "ranges": lambda: draw_bandwidth_ranges(range_panels(CONTENT.tables["spatial_correlation"], "host"), "ranges"),
    "times": lambda: draw_ecdf(ecdf_figure(CONTENT.tables["time_ecdf"]), "times", "us"),
    "waiting": lambda: draw_waiting(waiting_of(CONTENT.tables["waiting_over_time"])[0], "waiting"),
    "lateness": lambda: draw_lateness(
        lateness_maps(CONTENT.tables["host_lateness"])[0], "lateness", [examples.START_US]
    ),
    "rank ranges": lambda: draw_ranges(rank_maps(CONTENT.tables["rank_times"])[0], "rank-ranges"),
    "edges": lambda: draw_edges(edge_panels(CONTENT.tables["p2p_edges"])[0], "edges"),
    "variation": lambda: draw_variation(variations(CONTENT.tables["variation"]), "variation"),
    "sizes": lambda: draw_heat_map(heat_map(CONTENT.tables["resource_correlation"])),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_of_hostile_names_is_well_formed_and_holds_no_script(name: str) -> None:
    root = ET.fromstring(f"<div>{DRAWINGS[name]()}</div>")

    assert {panel.tag for panel in root} == {f"{SVG}svg"}
    assert all(panel.attrib["role"] == "img" and panel.attrib["aria-label"] for panel in root)
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script" in (text.text or "") for text in root.iter(f"{SVG}text")), "the name is shown as text"


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_the_same_every_time_and_leaves_matplotlib_as_it_was(name: str) -> None:
    before = dict(matplotlib.rcParams)
    assert DRAWINGS[name]() == DRAWINGS[name]()
    assert dict(matplotlib.rcParams) == before


def test_no_drawing_refers_to_anything_outside_or_shares_an_id_with_another() -> None:
    ids: list[str] = []
    for draw in DRAWINGS.values():
        root = ET.fromstring(f"<div>{draw()}</div>")
        own = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
        ids += own
        for element in root.iter():
            link = element.attrib.get("{http://www.w3.org/1999/xlink}href")
            assert link is None or link.removeprefix("#") in own
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["$x_1$ \\alpha", "$\\frac{1}{0}$", "$x^{$ a$"])
def test_mathematics_in_a_name_is_drawn_as_written(name: str) -> None:
    data = one_kernel(name, "mixed")
    root = ET.fromstring(draw_kernels(data))
    assert name in [text.text for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_needs_no_style_and_no_image(name: str) -> None:
    root = ET.fromstring(f"<div>{DRAWINGS[name]()}</div>")
    assert not [element for element in root.iter() if "style" in element.attrib]
    assert not [element for element in root.iter() if element.tag in (f"{SVG}style", f"{SVG}image")]
    assert len(root) > 0
    for panel in root:
        assert float(panel.attrib["width"]) == 432  # 4.5 inches of 96 pixels
        assert panel.attrib["stroke-linejoin"] == "round"


def test_a_map_has_a_rectangle_for_neighbours_of_one_class_and_nothing_where_there_is_no_value() -> None:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        share_map(axes, [[0.0, 0.005, 0.2, None], [float("nan"), 0.01, 1.0, 2.0]], 4.0)

    root = ET.fromstring(render("map", 2.0, draw))
    (cells,) = [group for group in root.iter(f"{SVG}g") if group.attrib.get("shape-rendering") == "crispEdges"][:1]
    drawn = {
        path.attrib["fill"]: path.attrib["d"].count("M") for path in root.iter(f"{SVG}path") if "fill" in path.attrib
    }
    # Up to 1 %, two neighbours in one; from 1 % on; from 10 % on; from 50 % on, two in one, also beyond the whole.
    assert {colour: drawn[colour] for colour in drawn if colour != "none"} == {
        "#fff7ec": 1, "#fdd49e": 1, "#fc8d59": 1, "#7f0000": 1,
    }  # fmt: skip
    assert cells.find(f"{SVG}path") is not None


def test_an_axis_of_equal_values_is_widened_without_a_word() -> None:
    svg = render("thin", 1.0, lambda figure: figure.subplots().set_xlim(3.0, 3.0))
    assert svg.count("<text") > 2


def test_styles_of_older_releases_become_attributes_too() -> None:
    assert _tag('<text style="font: bold 8.5px \'DejaVu Sans\', sans-serif; text-anchor: end; fill: #777" x="1">') == (
        '<text font-size="8.5px" font-family="\'DejaVu Sans\', sans-serif" text-anchor="end" fill="#777" x="1">'
    )


def test_coordinates_are_rounded_and_bars_are_written_short() -> None:
    path = '<path d="M 1.239 2 \nL 3.001 2 \nL 3.001 4.9999 \nL 1.239 4.9999 \nL 1.239 2 \nz\n" x="-0.126"/>'
    assert _tag(path) == '<path d="M1.24 2H3.00V5.00H1.24z\n" x="-0.13"/>'


def test_a_name_in_a_script_without_a_font_does_not_fail() -> None:
    data = one_kernel("ኢትዮጵያ 漢字 🚀", "mixed")
    assert "ኢትዮጵያ 漢字 🚀" in draw_kernels(data)


def test_digits_in_a_label_survive_the_shortening_of_coordinates() -> None:
    data = one_kernel("host-1.23456", "mixed")
    assert "host-1.23456" in draw_kernels(data)


def test_bars_have_the_colour_of_their_placement() -> None:
    data = one_kernel("K", "nvlink-only")
    assert COLL_TYPE_COLOURS["nvlink-only"].lower() in draw_kernels(data)


def test_the_decade_of_a_count_is_named_without_gaps() -> None:
    data = heat_map(
        pa.Table.from_pylist(
            [examples.size_row(1, 1, "A", size, records) for size, records in ((1, 9), (2, 10), (3, 10**8))]
        )
    )
    decades = [decade_of(records) for _, _, records in data.cells]
    assert [decade_label(decade) for decade in decades] == [
        "1–9 records",  # noqa: RUF001
        "10–99 records",  # noqa: RUF001
        "1,000,000+ records",
    ]


def test_single_bins_between_gaps_are_marked_and_a_run_without_bandwidth_still_draws() -> None:
    lone = [examples.time_bin(0, 40.0), examples.time_bin(50, 41.0), examples.time_bin(100, None)]
    (figure,) = time_figures(pa.Table.from_pylist(lone))
    assert figure.panels[0].p50 == (40.0, None, 41.0, None, None)
    root = ET.fromstring(draw_time(figure, "time-1"))
    assert root.attrib["role"] == "img"


@pytest.mark.parametrize(
    "draw",
    [
        lambda: draw_payload(PayloadBars((), 0)),
        lambda: draw_kernels(CONTENT.tables["hot_kernels"].slice(0, 0)),
        lambda: draw_ecdf(EcdfFigure((), False)),
        lambda: draw_last_arrivals((), "last"),
        lambda: draw_bandwidth_ranges((), "ranges"),
        lambda: draw_heat_map(HeatMap((), (), (), 0, False)),
    ],
)
def test_no_data_is_drawn_as_nothing(draw: Callable[[], str]) -> None:
    assert "nothing to draw" in draw()
