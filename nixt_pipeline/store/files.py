"""Atomic file writing: a reader sees the old file or the new one, never half of either."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_TEMPORARY_PREFIX = ".tmp-"


def temporary_path(path: Path) -> Path:
    """Where this process writes what will become `path`."""
    return path.parent / f"{_TEMPORARY_PREFIX}{os.getpid()}-{path.name}"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the place of `path`, on an exception it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_table(table: pa.Table, path: Path) -> None:
    """Write `table` as Parquet (zstd), atomically."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def write_text(text: str, path: Path) -> None:
    """Write `text` as UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
