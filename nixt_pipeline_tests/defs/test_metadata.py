import base64
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from nixt_pipeline.defs.metadata import (
    MAX_PICTURE_BYTES,
    PREVIEW_ROWS,
    arrow_preview,
    column_schema,
    flat_numbers,
    path_links,
    picture,
    table_preview,
)
from nixt_pipeline.inspector.taxonomy import F64, RUN, Column, Role
from nixt_pipeline.settings import load_settings

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 300"><path d="M 1.23456 7"/></svg>'


def test_a_column_shows_its_meaning_unit_and_role() -> None:
    column = Column("busbw", F64, Role.MEASUREMENT, "GB/s", "Bus bandwidth")
    shown, run = column_schema([column, RUN]).columns
    assert shown.description == "Bus bandwidth [GB/s]"
    assert shown.tags == {"role": "Measurement", "unit": "GB per s"}
    assert (shown.type, shown.constraints.nullable, run.constraints.nullable) == ("double", True, False)


def test_a_preview_is_cut_and_keeps_types() -> None:
    preview = arrow_preview(pa.table({"n": list(range(100)), "x": [0.123456] * 100, "s": ["a"] * 100}), ("n", "x", "s"))
    assert len(preview.records) == PREVIEW_ROWS
    assert preview.records[0].data == {"n": 0, "x": 0.1235, "s": "a"}
    assert [column.type for column in preview.schema.columns] == ["int", "float", "string"]


def test_a_preview_of_nothing_says_so() -> None:
    assert table_preview([]).records[0].data == {"": "no rows"}


def test_only_numbers_that_can_be_plotted_are_kept() -> None:
    numbers = flat_numbers({"a": 1, "b": 2.5, "none": None, "text": "x", "flag": True, "nan": float("nan")})
    assert numbers == {"a": 1.0, "b": 2.5}


def test_a_picture_has_a_size_a_white_ground_and_short_numbers() -> None:
    text = picture(SVG, "Kernels").value
    assert text is not None and text.startswith("![Kernels](data:image/svg+xml;base64,")
    svg = base64.b64decode(text.split(",")[1].rstrip(")")).decode()
    # As wide as always, and in the proportion of the view box.
    assert svg.startswith('<svg width="520" height="260" xmlns="http://www.w3.org/2000/svg"')
    assert 'fill="white"' in svg
    assert "M 1.2 7" in svg


def test_a_picture_shows_the_numbers_of_the_report_and_rounds_coordinates_only() -> None:
    label = '<svg role="img" aria-label="7.86 %" width="432" height="2" viewBox="0 0 600 300" '
    drawn = label + 'stroke-opacity="0.25"><path d="M 1.26 0.96"/><text x="9.97">7.86 %, 0.000351 d="1.26"</text></svg>'
    text = picture(drawn, "Kernels").value
    assert text is not None
    svg = base64.b64decode(text.split(",")[1].rstrip(")")).decode()
    assert '<path d="M 1.3 1.0"/>' in svg
    assert '<text x="10.0">7.86 %, 0.000351 d="1.26"</text>' in svg
    assert 'aria-label="7.86 %"' in svg
    assert 'stroke-opacity="0.25"' in svg
    assert svg.count(" width=") == 2  # the picture's own, and that of the white ground


def test_a_figure_of_several_panels_is_several_images() -> None:
    text = picture(SVG + SVG, "Kernels").value
    assert text is not None and text.count("![Kernels](data:image/svg+xml;base64,") == 2


def test_a_picture_that_is_too_large_is_left_to_the_report() -> None:
    large = SVG.replace("M 1.23456 7", "L 1 1 " * MAX_PICTURE_BYTES)
    assert picture(large, "Kernels").value == "_Kernels: too large to show here, see the report_"


def test_a_picture_without_a_view_box_is_refused() -> None:
    with pytest.raises(ValueError, match="no view box"):
        picture("<svg></svg>", "Kernels")


def test_a_link_needs_a_server(tmp_path: Path) -> None:
    settings = load_settings(reports_dir=tmp_path)
    assert path_links(tmp_path / "job" / "index.html", "report", settings) == {
        "report": dg.MetadataValue.path(str(tmp_path / "job" / "index.html"))
    }
