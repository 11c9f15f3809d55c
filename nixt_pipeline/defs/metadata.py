"""What the UI shows beside an asset: column tables, previews, numbers, small pictures and links.

Metadata is kept forever in Dagster's event log, so everything here is small: previews have few rows, pictures few
kilobytes.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import dagster as dg
import pyarrow as pa

from nixt_pipeline.inspector.taxonomy import Column
from nixt_pipeline.settings import Settings

PREVIEW_ROWS = 12
# A picture is stored in the event log once per run and analysis; larger ones belong in the report.
MAX_PICTURE_BYTES = 50_000
PICTURE_WIDTH = 520

_VIEW_BOX = re.compile(r'viewBox="0 0 (?P<width>[\d.]+) (?P<height>[\d.]+)"')
_SIZE = re.compile(r' (?:width|height)="[^"]*"')
# A tenth of a point is finer than a screen shows; the digits beyond it are a third of the file. Only where they are
# coordinates: numbers of labels and shares of opacity stay as they are.
_TAG = re.compile(r"<[^>]*>")
_COORDINATES = re.compile(r'(?<= )(?:d|x|y)="[^"]*"')
_LONG_NUMBER = re.compile(r"-?\d+\.\d\d+")

Value = str | int | float | bool | None


def column_schema(columns: Iterable[Column]) -> dg.TableSchema:
    """The table of columns in the UI: meaning, unit and role, from the one place where columns are described."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                type=str(column.type),
                description=f"{column.meaning} [{column.unit}]" if column.unit else column.meaning,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
                tags={"role": column.role.value} | ({"unit": column.unit.replace("/", " per ")} if column.unit else {}),
            )
            for column in columns
        ]
    )


def table_preview(rows: Iterable[Mapping[str, object]]) -> dg.TableMetadataValue:
    """The first rows as a table; an empty one says so instead of vanishing."""
    shown = [
        {name: cell(value) for name, value in row.items()} for row, _ in zip(rows, range(PREVIEW_ROWS), strict=False)
    ]
    return dg.MetadataValue.table(
        [dg.TableRecord(row) for row in shown or [{"": "no rows"}]], schema=_preview_schema(shown)
    )


def arrow_preview(table: pa.Table, columns: Sequence[str]) -> dg.TableMetadataValue:
    """The first rows of the named columns of an Arrow table."""
    return table_preview(table.select(columns).slice(0, PREVIEW_ROWS).to_pylist())


def cell(value: object) -> Value:
    """A value that the UI can show in a table; floats are shortened to what a person reads."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if value == value else None
    return value if isinstance(value, (str, int, bool)) or value is None else str(value)


def flat_numbers(numbers: Mapping[str, object]) -> dict[str, float]:
    """The numbers as floats, which the UI plots over runs and time; what is missing or no number is left out."""
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    }


def picture(svg: str, title: str) -> dg.MarkdownMetadataValue:
    """A figure of the report, of one panel or several, as images inside Markdown.

    Raises `ValueError` for an SVG without a view box.
    """
    panels = [f"<svg{panel}" for panel in svg.split("<svg")[1:]]
    images = [_image(panel, title) for panel in panels]
    if sum(map(len, images)) > MAX_PICTURE_BYTES:
        return dg.MetadataValue.md(f"_{title}: too large to show here, see the report_")
    return dg.MetadataValue.md(" ".join(images))


def _image(svg: str, title: str) -> str:
    """One panel as Markdown: with a size, and on white because the UI may be dark."""
    box = _VIEW_BOX.search(svg)
    if box is None:
        raise ValueError(f"the figure {title!r} has no view box")
    width, height = float(box["width"]), float(box["height"])
    size = f'<svg width="{PICTURE_WIDTH}" height="{PICTURE_WIDTH * height / width:.0f}" '
    opening = svg.index(">") + 1
    background = '<rect width="100%" height="100%" fill="white"/>'
    whole = size + _SIZE.sub("", svg[len("<svg") : opening]).lstrip() + background + svg[opening:]
    encoded = base64.b64encode(_TAG.sub(_shortened, whole).encode("utf-8")).decode("ascii")
    return f"![{title}](data:image/svg+xml;base64,{encoded})"


def _shortened(tag: re.Match[str]) -> str:
    return _COORDINATES.sub(
        lambda text: _LONG_NUMBER.sub(lambda number: f"{float(number.group()):.1f}", text.group()), tag.group()
    )


def path_links(path: Path, name: str, settings: Settings) -> dict[str, dg.MetadataValue]:
    """The path of a file below `reports_dir`, and its URL when `report_url` says where reports are served.

    Browsers refuse links from a web page to a local file, so without a server the path is there to be copied.
    """
    links: dict[str, dg.MetadataValue] = {name: dg.MetadataValue.path(path.resolve())}
    if settings.report_url:
        below = path.relative_to(settings.reports_dir).as_posix()
        links[f"open {name}"] = dg.MetadataValue.url(f"{settings.report_url.rstrip('/')}/{below}")
    return links


def _preview_schema(rows: Sequence[Mapping[str, Value]]) -> dg.TableSchema:
    """Column types of a preview; Dagster wants them named before it shows mixed columns."""
    names = list(rows[0]) if rows else [""]
    return dg.TableSchema(
        columns=[dg.TableColumn(name, type=_type_name([row[name] for row in rows])) for name in names]
    )


def _type_name(values: Sequence[Value]) -> str:
    """The narrowest type that holds all values."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} and kinds:
        return "bool"
    if kinds <= {int} and kinds:
        return "int"
    return "float" if kinds <= {int, float} and kinds else "string"
