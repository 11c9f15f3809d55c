"""What all commands share: the formats, errors that the user can fix, and text and tables on standard output, all of it
inert (`nixt_pipeline.inert`), because names and messages may come from a log."""

import csv
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from nixt_pipeline.errors import EXIT_INPUT, NixtError, storage_errno
from nixt_pipeline.inert import csv_cell, distinct, json_text, visible, visible_lines
from nixt_pipeline.obstacles import obstacle_behind

Function = TypeVar("Function", bound=Callable[..., Any])

# Spellings that some commands had before.
_OTHER_SPELLINGS = {"md": "markdown", "table": "text"}


class Format(click.Choice[str]):
    """One of the formats that a command has; other spellings are understood, and not listed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format as it is listed. Fails the command for any other."""
        return super().convert(_OTHER_SPELLINGS.get(value, value), param, ctx)


def format_option(*formats: str) -> Callable[[Function], Function]:
    """`--format`, the first of `formats` by default; the command's parameter is `output_format`."""
    return click.option("--format", "output_format", type=Format(formats), default=formats[0], show_default=True)


class InputError(click.ClickException):
    """An error that the user can fix; exit code 2."""

    exit_code = EXIT_INPUT


@contextmanager
def input_errors() -> Iterator[None]:
    """Errors that the user can fix end the command with their message and exit code 2, not with a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except NixtError as error:
        raise InputError(visible(str(error))) from error
    except OSError as error:
        raise InputError(visible(obstacle_behind(error) or str(error))) from error
    except Exception as error:
        from duckdb import Error  # the list of commands needs no database

        # A large query spills to the disk, which may be full.
        if not isinstance(error, Error) or storage_errno(error) is None:
            raise
        raise InputError(visible(f"{error}; make room, or set NIXT_DATA_DIR to another place")) from error


def say(text: str) -> None:
    """Print to standard error: progress, warnings, failures."""
    click.echo(visible_lines(text), err=True)


class _VisibleLog(logging.Formatter):
    """Warnings and tracebacks of the library, which may quote a log."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))


def show_log_inertly() -> None:
    """Make what is logged without any other configuration, which goes to standard error, inert."""
    if logging.lastResort:
        logging.lastResort.setFormatter(_VisibleLog())


def print_rows(names: list[str], rows: Sequence[tuple[Any, ...]], output_format: str) -> None:
    """Print a table for people (`text`), or all of it as `csv` or `json`."""
    if output_format == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(map(csv_cell, names))
        writer.writerows(map(csv_cell, row) for row in rows)
    elif output_format == "json":
        columns = distinct(names)
        click.echo(json_text([dict(zip(columns, row, strict=True)) for row in rows]))
    elif names:
        _print_table(names, rows)


def _print_table(names: list[str], rows: Sequence[tuple[Any, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            """Rich would end the program with 1, which means findings."""
            raise BrokenPipeError

    console = _Console() if sys.stdout.isatty() else _Console(width=10_000)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for index, name in enumerate(names):
        numeric = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(visible(name)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if value is None else visible(str(value))) for value in row))
    console.print(table)
    console.print(f"({len(rows):,} row{'' if len(rows) == 1 else 's'})", style="dim", highlight=False)
