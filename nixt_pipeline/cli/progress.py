"""How far a long command has come: a bar on a terminal, plain lines at each tenth otherwise."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nixt_pipeline.cli.output import say
from nixt_pipeline.pipeline import StepProgress


@contextmanager
def progress(title: str) -> Iterator[StepProgress]:
    """A progress bar on a terminal, plain lines at each tenth otherwise."""
    if not sys.stderr.isatty():
        yield _PlainProgress(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total, description=f"{title} {name}".rstrip()
        )


class _PlainProgress:
    def __init__(self, title: str) -> None:
        self._title, self._tenth = title, 0

    def __call__(self, done: int, total: int, name: str) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._tenth:
            self._tenth = tenth
            say(f"{self._title}: {10 * tenth} % {name}".rstrip())
