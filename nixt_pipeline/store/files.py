"""Atomic file writing: a reader sees the old file or the new one, never half of either."""

import glob
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

_TEMPORARY_PREFIX = ".tmp-"

# Rows of a Parquet row group that is written from a query: small enough to be built in memory beside the query.
ROW_GROUP_ROWS = 262_144


def temporary_path(path: Path) -> Path:
    """Where this process writes what will become `path`; what killed processes of this machine left there goes, with
    what a database keeps beside its file."""
    mine = f"{_TEMPORARY_PREFIX}{socket.gethostname()}-"
    for left in path.parent.glob(f"{glob.escape(mine)}*-{glob.escape(path.name)}*"):
        pid = left.name.removeprefix(mine).split("-", 1)[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            left.unlink(missing_ok=True)
    return path.parent / f"{mine}{os.getpid()}-{path.name}"


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


def write_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> int:
    """Write `batches`, cast to `schema`, as Parquet (zstd), atomically. Returns the number of rows."""
    rows = 0
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
            rows += batch.num_rows
    return rows


def write_text(text: str, path: Path) -> None:
    """Write `text` as UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def link_or_copy(source: Path, target: Path) -> None:
    """A second name for the same file where the file system can, otherwise a copy; makes the directory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
