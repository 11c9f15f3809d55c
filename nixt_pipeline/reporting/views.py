"""What a page consists of, as plain dataclasses: the templates know these and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nixt_pipeline.reporting.columns import Column, words

State = Literal["ok", "empty", "missing", "failed"]


@dataclass(frozen=True)
class Heading:
    """The heading of a column; those of numbers are at its right end."""

    heading: str
    numeric: bool


@dataclass(frozen=True)
class Cell:
    """A displayed value; `sort` is what the page's sorting compares."""

    text: str
    sort: str
    link: str | None = None


@dataclass(frozen=True)
class TableView:
    """A displayed table: the first rows of `total`. `source` names the downloadable table that they are from;
    `anchors` are the ids of the rows, or none."""

    caption: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int
    source: str = ""
    anchor: str = ""
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True)
class LegendEntry:
    """What a colour stands for; `mark` is how it is drawn: a patch, `line`, `dashes` or `dot`."""

    label: str
    colour: str
    mark: str = ""


@dataclass(frozen=True)
class FigureView:
    """A drawn figure. `svg` is markup made by `drawing`, one `<svg>` for each panel, and each says in words what it
    shows. `reading` is what this run's figure says, in a line; `source` names the table of the numbers."""

    svg: str
    caption: str
    anchor: str = ""
    title: str = ""
    reading: str = ""
    legend: tuple[LegendEntry, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Link:
    """A link within the page."""

    text: str
    target: str


@dataclass(frozen=True)
class Meter:
    """A share of 1 as a bar; `detail` says of what."""

    label: str
    share: float | None
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Card:
    """A finding: `anchor` stays the same when the report is made again; `urgency` is the severity in words."""

    anchor: str
    severity: str
    urgency: str
    title: str
    facts: tuple["Fact", ...]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: str


@dataclass(frozen=True)
class Tile:
    """A key fact at the top of the page: a number with what it means in plain words, and where there is more of it."""

    value: str
    label: str
    detail: str = ""
    target: str = ""


@dataclass(frozen=True)
class SectionView:
    """A section of the page. `missing`: the result it rests on was not computed; `empty`: the result has no rows;
    `failed`: a defect kept it from being drawn, and the notes say which."""

    anchor: str
    title: str
    state: State = "ok"
    question: str = ""
    reading: str = ""
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    figures: tuple[FigureView, ...] = ()
    tables: tuple[TableView, ...] = ()


def table_view(
    caption: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    top: int | None = None,
    total: int | None = None,
    source: str = "",
    anchor_of: Callable[[Mapping[str, Any]], str] | None = None,
) -> TableView:
    """The first `top` of `rows` in words. `total` is the size of the whole when `rows` is already a part of it;
    `anchor_of` gives a row its id in the page; of rows with the same, the first has it."""
    shown = rows if top is None else rows[:top]
    cells = tuple(tuple(_cell(column, row) for column in columns) for row in shown)
    headings = tuple(Heading(column.heading, column.is_numeric(shown)) for column in columns)
    found = [anchor_of(row) for row in shown] if anchor_of else []
    anchors = tuple("" if anchor in found[:position] else anchor for position, anchor in enumerate(found))
    return TableView(caption, headings, cells, len(rows) if total is None else total, source=source, anchors=anchors)


def _cell(column: Column, row: Mapping[str, Any]) -> Cell:
    value = row.get(column.key)
    link = None if column.link is None or value is None else column.link(row)
    return Cell(words(column.key, value), "" if value is None else str(value), link)
