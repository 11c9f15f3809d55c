"""What a page consists of, as plain dataclasses: the templates know these and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nixt_pipeline.reporting.text import plain

State = Literal["ok", "empty", "missing"]


@dataclass(frozen=True)
class Spec:
    """A column of a displayed table: heading, key of the row, how to word the value, whether it is a number."""

    heading: str
    key: str
    words: Callable[[Any], str] = plain
    numeric: bool = False


@dataclass(frozen=True)
class Cell:
    """A displayed value; `sort` is what the page's sorting compares."""

    text: str
    sort: str
    link: str | None = None


@dataclass(frozen=True)
class TableView:
    """A displayed table: the first rows of `total`, with the place of the whole."""

    caption: str
    columns: tuple[Spec, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int
    path: str | None = None


@dataclass(frozen=True)
class FigureView:
    """A drawn figure. `svg` is markup made by `drawing`; `alt` says in words what it shows."""

    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: str


@dataclass(frozen=True)
class Tile:
    """A key fact at the top of the page: a number with what it means in plain words."""

    value: str
    label: str
    detail: str = ""


@dataclass(frozen=True)
class SectionView:
    """A section of the page. `missing`: the result it rests on was not computed; `empty`: the result has no rows."""

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
    columns: tuple[Spec, ...],
    top: int | None = None,
    total: int | None = None,
    path: str | None = None,
) -> TableView:
    """The first `top` of `rows` in words. `total` is the size of the whole when `rows` is already a part of it."""
    shown = rows if top is None else rows[:top]
    cells = tuple(tuple(_cell(spec, row.get(spec.key)) for spec in columns) for row in shown)
    return TableView(caption, columns, cells, len(rows) if total is None else total, path)


def _cell(spec: Spec, value: Any) -> Cell:
    return Cell(spec.words(value), "" if value is None else str(value))
