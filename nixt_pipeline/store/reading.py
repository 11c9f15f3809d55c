"""Reading what may be damaged: one file that cannot be used keeps nothing else from being read.

What can be made again is left out, with a line in the log (and so on standard error) that names the file. What a run
rests on raises `DamagedError`.

Every file of the store is looked at before it is opened: opening a pipe without a writer waits forever.
"""

import errno
import json
import logging
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from nixt_pipeline.errors import DamagedError
from nixt_pipeline.obstacles import obstacle

log = logging.getLogger(__name__)
_Content = TypeVar("_Content")


@cache
def warn_once(message: str) -> None:
    """Say it in the log, but not again for every reader of the same file."""
    log.warning("%s", message)


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises `OSError`, at once also for what is no file: a pipe, a socket, a device."""
    _require_regular(path)
    return path.read_bytes()


def _require_regular(path: Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def unusable(error: BaseException) -> str:
    """What is wrong with a file that could not be read, or whose content has another shape, after the word "it"."""
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror or error})"
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"has another shape ({'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']})"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "is not JSON"
    if isinstance(error, KeyError):
        return f"lacks `{error.args[0]}`"
    return "has another shape"


def read_table(path: Path) -> pa.Table:
    """A whole Parquet file whose folder names mean nothing; pages are compared with their checksums. Raises
    `DamagedError`."""
    try:
        _require_regular(path)
        return pq.read_table(path, partitioning=None, page_checksum_verification=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedError(f"{path} is damaged: it cannot be read as Parquet ({_first_line(error)})") from error


def read_cache(path: Path, columns: Sequence[str]) -> pa.Table | None:
    """A table that is kept only to save work; None when it is not there, damaged, or lacks one of `columns`."""
    if not path.exists():
        return None
    try:
        table = read_table(path)
    except DamagedError as error:
        warn_once(f"{error}; it will be rebuilt")
        return None
    return table if set(columns) <= set(table.column_names) else None


def read_json(path: Path, shape: Callable[[Any], _Content], remedy: str) -> _Content | None:
    """What `shape` makes of a JSON file; None when the file is not there, or when it is damaged, which is said with the
    remedy."""
    content, problem = _read(path, shape)
    if problem:
        warn_once(obstacle(path.parent) or f"{path} is damaged: it {problem}; {remedy}")
    return content


def json_problem(path: Path, shape: Callable[[Any], object]) -> str | None:
    """What is wrong with a JSON file of which `shape` makes something, after the word "it"; None for one that is sound,
    or not there."""
    return _read(path, shape)[1]


def _read(path: Path, shape: Callable[[Any], _Content]) -> tuple[_Content | None, str | None]:
    """What `shape` makes of a JSON file, or what is wrong with it; neither where there is none."""
    try:
        return shape(json.loads(read_bytes(path))), None
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return None, unusable(error)


def unreadable(path: Path, every_page: bool = False) -> str | None:
    """Why a Parquet file cannot be read; None for one that can. With `every_page`, all of it is read and compared with
    the checksums of its pages, where it has any."""
    try:
        _require_regular(path)
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            if every_page:
                for _ in parquet.iter_batches():
                    pass
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"cannot be read as Parquet ({_first_line(error)})"
    return None


def readable(paths: Iterable[Path], remedy: str) -> list[Path]:
    """Those of `paths` that are whole Parquet files; says which others are left out, and the remedy."""
    sound = []
    for path in paths:
        problem = unreadable(path, every_page=True)
        if problem is None:
            sound.append(path)
        else:
            warn_once(f"{path} is damaged and left out: it {problem}; {remedy}")
    return sound


def of_readable(use: Callable[[Sequence[Path]], _Content], files: Sequence[Path], remedy: str) -> _Content:
    """What `use` makes of Parquet files; of those that are not damaged, where it raises `duckdb.Error`."""
    try:
        return use(files)
    except duckdb.Error:
        sound = readable(files, remedy)
        if len(sound) == len(files):
            raise
    return use(sound)


def query_readable(con: duckdb.DuckDBPyConnection, sql: str, files: Sequence[Path], remedy: str) -> pa.Table | None:
    """The result of `sql` over `$files`, without those of them that are damaged; None when none is left."""
    return of_readable(lambda sound: query(con, sql, sound), files, remedy)


def query(con: duckdb.DuckDBPyConnection, sql: str, files: Sequence[Path]) -> pa.Table | None:
    """The result of `sql` over `$files`; None when there are none. Raises `duckdb.Error`."""
    if not files:
        return None
    require_for_duckdb(files)
    return con.sql(sql, params={"files": [str(path) for path in files]}).to_arrow_table()


def require_for_duckdb(files: Iterable[Path]) -> None:
    """Raise what DuckDB raises for files that it cannot read also for those at which it would wait for ever."""
    try:
        for path in files:
            _require_regular(path)
    except OSError as error:
        raise duckdb.IOException(str(error)) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
