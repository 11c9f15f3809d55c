"""Atomic file writing: a reader sees the old file or the new one, never half of either."""

import functools
import glob
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from nixt_pipeline.errors import DamagedError, StorageError, storage_errno, storage_error

_TEMPORARY_PREFIX = ".tmp-"
# What a writer left that cannot be asked whether it lives. No file takes a day to write.
_ABANDONED_AFTER_S = 86_400.0

# Rows of a Parquet row group that is written from a query: small enough to be built in memory beside the query.
ROW_GROUP_ROWS = 262_144


def temporary_path(path: Path) -> Path:
    """Where this process writes what will become `path`, under a name of its own.

    What killed processes left there goes, with what a database keeps beside its file: those of the same boot and the
    same space of process ids at once, because only there a process id says who lives, all others when they are old.
    """
    mine = f"{_TEMPORARY_PREFIX}{_process_id_space()}-"
    name = path.name
    for left in path.parent.glob(f"{_TEMPORARY_PREFIX}*-{glob.escape(name)}*"):
        pid = left.name.removeprefix(mine).split("-", 1)[0]
        with suppress(OSError):
            if left.name.startswith(mine) and pid.isdigit():
                gone = not psutil.pid_exists(int(pid))
            else:
                gone = time.time() - left.stat().st_mtime > _ABANDONED_AFTER_S
            if gone:
                left.unlink(missing_ok=True)
    return path.parent / f"{mine}{os.getpid()}-{secrets.token_hex(4)}-{name}"


@functools.cache
def _process_id_space() -> str:
    """Tells containers and machines apart, even those that share a host name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return secrets.token_hex(4)
    return hashlib.blake2b(f"{boot} {space}".encode(), digest_size=4).hexdigest()


@contextmanager
def replacing(path: Path, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the place of `path`, on an exception it is removed.

    With `durable`, a power cut afterwards leaves the new file. Raises `StorageError` when it cannot be written.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(path)
        try:
            yield temporary
            if durable:
                sync(temporary)
            take_place(temporary, path)
            if durable:
                sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what a full disk or a missing permission raises into a `StorageError` that says what to do."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        found = storage_error(error, path)
        if found is None:
            raise
        raise found from error


@contextmanager
def where_possible() -> Iterator[None]:
    """Store what only saves work later: without permission or room the answer is given all the same."""
    try:
        yield
    except OSError as error:
        if storage_errno(error) is None:
            raise


def take_place(temporary: Path, path: Path) -> None:
    """Rename; an empty directory in the place of the file goes. Raises `DamagedError` for one with something in it."""
    try:
        temporary.replace(path)
    except IsADirectoryError:
        try:
            path.rmdir()
        except OSError:
            raise DamagedError(f"{path} is a directory where a file belongs; move it away, then start again") from None
        temporary.replace(path)


def remove(path: Path) -> None:
    """Remove a file, or an empty directory in its place. Raises `StorageError` when it cannot be removed."""
    with explained(path):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the operating system write a file, or the entries of a directory, to the device."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_files(paths: Iterable[Path], root: Path) -> None:
    """Write files to the device, and then their names, up to the directory `root`."""
    files = list(paths)
    for path in files:
        sync(path)
    for directory in sorted({above for path in files for above in path.parents if above.is_relative_to(root)}):
        sync(directory)


def file_lock(path: Path) -> FileLock:
    """A lock that whoever may write to the directory can take: it has the directory's permissions. A thread that holds
    it may take it again."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        remove(path)
    return FileLock(path, mode=path.parent.stat().st_mode & 0o666 | 0o600, is_singleton=True)


def write_table(table: pa.Table, path: Path, note: Callable[[Path], None] | None = None) -> None:
    """Write `table` as Parquet (zstd, pages with checksums), atomically. `note` is shown the whole file just before
    readers see it."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
        if note:
            note(temporary)


def write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, note: Callable[[Path], None] | None = None
) -> int:
    """Write `batches`, cast to `schema`, like `write_table`. Returns the number of rows."""
    rows = 0
    with replacing(path) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]).cast(schema))
                rows += batch.num_rows
        if note:
            note(temporary)
    return rows


def write_text(text: str, path: Path, durable: bool = False) -> None:
    """Write `text` as UTF-8, atomically; for `durable` see `replacing`."""
    with replacing(path, durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


def link_or_copy(source: Path, target: Path) -> None:
    """A second name for the same file where the file system can, otherwise a copy; makes the directory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
