"""What every command does alike: errors that a user can put right, and tables on standard output."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from nixt_pipeline.comparison.compare import ComparisonError
from nixt_pipeline.comparison.decisions import DecisionsError
from nixt_pipeline.comparison.selection import SelectionError
from nixt_pipeline.inspector.runs import LandingError
from nixt_pipeline.settings import SettingsError
from nixt_pipeline.store.dropped import EventsDroppedError
from nixt_pipeline.store.fan_out import IngestError
from nixt_pipeline.store.manifest import StoreVersionError, UnknownRunError

_INPUT_ERRORS = (
    SettingsError,
    IngestError,
    UnknownRunError,
    StoreVersionError,
    LandingError,
    SelectionError,
    ComparisonError,
    DecisionsError,
    EventsDroppedError,
    OSError,
)


class InputError(click.ClickException):
    """Something the user can put right; exit code 2."""

    exit_code = 2


@contextmanager
def input_errors() -> Iterator[None]:
    """Errors that a user can put right end the command with their message and exit code 2, not with a traceback."""
    try:
        yield
    except _INPUT_ERRORS as error:
        raise InputError(str(error)) from error


def print_rows(names: list[str], rows: Sequence[tuple[Any, ...]], form: str) -> None:
    """Print a table for people (`table`), or all of it as `csv` or `json`."""
    if form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows(rows)
    elif form == "json":
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], default=str))
    elif names:
        _print_table(names, rows)


def _print_table(names: list[str], rows: Sequence[tuple[Any, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=10_000)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for index, name in enumerate(names):
        numeric = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    console.print(table)
    console.print(f"({len(rows):,} row{'' if len(rows) == 1 else 's'})", style="dim", highlight=False)
