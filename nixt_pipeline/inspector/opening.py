"""Finding and opening files that other programs put there: never one that blocks, none without an end, no link out."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nixt_pipeline.settings import Settings

# Their files are views of the kernel: they have no size, and some of them never end.
_KERNEL_FOLDERS = ("/proc", "/sys")
# Folders of copies and of other tools, in which there may be more files than in all logs: one entry each.
_NOT_ENTERED = frozenset((".snapshot", ".zfs", ".git", ".svn", ".hg"))
# Holes below this are read as the zeros they stand for.
_MAX_HOLE_BYTES = 16 << 20
_MAX_EXTENTS = 10_000


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; `follow` says whether it may be a link.

    Raises `OSError` for anything else, at once: a pipe without a writer, a device, a view of the kernel.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_dev in _kernel_devices() or os.path.realpath(path).startswith(
            tuple(f"{folder}/" for folder in _KERNEL_FOLDERS)
        ):
            raise OSError(errno.EINVAL, "a view of the kernel, not a file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _kernel_devices() -> set[int]:
    return {os.stat(folder).st_dev for folder in _KERNEL_FOLDERS if Path(folder).is_dir()}  # noqa: PTH116


def sparse(file: BinaryIO) -> str | None:
    """Why a file of little more than holes is not read, None for any other: its zeros may go on for days."""
    status = os.fstat(file.fileno())
    # Compressing file systems count few blocks, so that these only tell when there is nothing to look for.
    if status.st_size - 512 * status.st_blocks <= _MAX_HOLE_BYTES:
        return None
    holes = status.st_size - _data_bytes(file.fileno(), status.st_size)
    if holes <= _MAX_HOLE_BYTES or 2 * holes <= status.st_size:
        return None
    return (
        f"sparse: {holes:,} of its {status.st_size:,} bytes are holes (made by truncate, or a log cut while it was"
        " written); copy its contents to another file, for example with grep -a header"
    )


def _data_bytes(descriptor: int, size: int) -> int:
    """Bytes that are no hole; all from the 10,000th stretch of data on count as data."""
    total = position = 0
    for _ in range(_MAX_EXTENTS):
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:
            # No data after this position.
            break
        position = os.lseek(descriptor, start, os.SEEK_HOLE)
        total += position - start
    else:
        total += size - position
    os.lseek(descriptor, 0, os.SEEK_SET)
    return total


def link_root(directory: Path, settings: Settings) -> Path | None:
    """Where links of a dump directory may lead: into the landing directory that it lies in, else into itself; None for
    anywhere."""
    if settings.follow_links == "anywhere":
        return None
    directory, landing = directory.resolve(), settings.landing_dir.resolve()
    return landing if directory.is_relative_to(landing) else directory


def leads_out(path: str | Path, root: Path | None) -> str | None:
    """Why a link at `path` is not followed, None when it stays below `root`, or may lead anywhere."""
    if root is None or not os.path.exists(path) or Path(os.path.realpath(path)).is_relative_to(root):  # noqa: PTH110
        return None
    return "a link out of the directory; it is followed with NIXT_FOLLOW_LINKS=anywhere"


class Found(NamedTuple):
    """Something below a run's directory that is no directory, or one that cannot be listed or is not entered."""

    path: str  # relative to the run's directory, with "/"
    entry: os.DirEntry[str]
    problem: str | None  # why it cannot be read, if that shows without opening it


def walk_files(directory: Path, left_out: tuple[Path, ...] = (), root: Path | None = None) -> Iterator[Found]:
    """Everything below `directory` that is no directory, hidden or not, without the directories `left_out`.

    Links are followed as far as they stay below `root` (None: wherever they lead), but neither in circles nor to a
    directory that holds this one: other runs may be in it. What cannot be looked at (no permission, a dangling link, a
    pipe) comes with its problem. Raises `OSError` only when `directory` itself cannot be listed.
    """
    elsewhere = (path for path in (*directory.resolve().parents, *left_out) if path.exists())
    seen = {(status.st_dev, status.st_ino) for status in (path.stat() for path in elsewhere)}
    own = directory.stat()
    seen.discard((own.st_dev, own.st_ino))
    stack: list[tuple[Path, Found | None]] = [(directory, None)]
    while stack:
        current, found = stack.pop()
        try:
            status = current.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(current) as entries:
                listed = list(entries)
        except OSError as error:
            if found is None:
                raise
            yield found._replace(problem=error.strerror or str(error))
            continue
        for entry in listed:
            name = f"{found.path}/{entry.name}" if found else entry.name
            try:
                problem = leads_out(entry.path, root) if entry.is_symlink() else None
                if entry.is_dir() and problem is None and entry.name not in _NOT_ENTERED:
                    stack.append((Path(entry.path), Found(name, entry, None)))
                elif entry.is_dir():
                    yield Found(name, entry, problem or "a folder that is not looked into")
                else:
                    yield Found(name, entry, problem or (None if entry.is_file() else "not a regular file"))
            except OSError as error:
                yield Found(name, entry, error.strerror or str(error))
