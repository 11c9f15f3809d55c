"""What lies below a run's directory: every file once, with what shows without opening it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nixt_pipeline.inspector.opening import leads_out

# Folders of copies and of other tools, in which there may be more files than in all logs: one entry each.
_NOT_ENTERED = frozenset((".snapshot", ".zfs", ".git", ".svn", ".hg"))


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
