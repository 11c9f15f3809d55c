"""Every error that a user can fix, below one class. The message says what happened, where, and what to do.

    NixtError
    ├── SettingsError         a setting is not usable                                    (settings)
    ├── LandingError          the landing directory cannot be listed                     (inspector.runs)
    ├── TooManyFilesError     a directory has more files than the settings allow         (inspector.inventory)
    ├── IngestError           an ingest cannot go on                                     (store.fan_out)
    ├── IngestPendingError    the run is being ingested again                            (store.retention)
    ├── UnknownRunError       no such run in the store                                   (store.manifest)
    ├── StoreVersionError     a newer version of this program wrote the store            (store.manifest)
    ├── NoLogsError           the logs of a run are nowhere to be found                  (store.locate)
    ├── EventsDroppedError    the run's events were dropped to save space                (store.dropped)
    ├── DamagedError          a file is damaged, or missing although its run names it
    ├── StorageError          a file cannot be written: disk full, no permission, something is in the way
    ├── SelectionError        no run matches a selection                             (fleet.selection)
    ├── ComparisonError       runs cannot be compared                                    (fleet.compare)
    ├── DecisionsError        baselines.json is not usable                               (fleet.decisions)
    ├── BenchmarkError        output of nccl-tests is not usable                         (fleet.nccl_tests)
    └── PdfError              a report cannot be printed                                 (reporting.pdf)

Anything else that is raised, but for `OSError`, is a defect of this program.
"""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nixt_pipeline.obstacles import obstacle_behind

# Exit codes of the command line. 70 is EX_SOFTWARE of sysexits.h; 130 is what a shell reports after Ctrl-C, and 141
# after a pipe was closed.
EXIT_FINDINGS = 1
EXIT_INPUT = 2
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM)


class NixtError(Exception):
    """Base of all errors that a user can fix."""


class DamagedError(NixtError):
    """A file is damaged, or missing although its run lists it; the message says how to rebuild it."""


class StorageError(NixtError, OSError):
    """A file cannot be written, or a directory not listed: disk full, permission denied, or something else is where a
    directory belongs; see `errno`."""


def storage_errno(error: BaseException) -> int | None:
    """Why nothing can be stored (`ENOSPC`, `EDQUOT`, `EACCES`, `EPERM`, `EROFS`); None for any other error.

    DuckDB hands on the operating system's words only.
    """
    known = (*_FULL, *_FORBIDDEN, errno.EROFS)
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in known else None
    return next((number for number in known if os.strerror(number) in str(error)), None)


def is_full(error: BaseException) -> bool:
    """Whether the disk or the quota is used up."""
    return storage_errno(error) in _FULL


def storage_error(error: BaseException, path: Path) -> StorageError | None:
    """What to say when `path` cannot be written because of `error`; None when the storage is not the reason."""
    number = storage_errno(error)
    if isinstance(error, OSError) and (what := obstacle_behind(error, path)):
        found = StorageError(f"cannot write {path}: {what}")
        found.errno = error.errno
        return found
    if number is None:
        return None
    words, elsewhere = os.strerror(number), "set NIXT_DATA_DIR or NIXT_REPORTS_DIR to another place"
    if number in _FORBIDDEN:
        reason = f"{words}: {_who_may_write(path)}; or {elsewhere}"
    else:
        reason = f"{words}; {'make room or ' if number in _FULL else ''}{elsewhere}"
    found = StorageError(f"cannot write {path}: {reason}")
    found.errno = number
    return found


def _who_may_write(path: Path) -> str:
    """The directory that refuses, whose it is, and how two users share one."""
    directory = next((place for place in path.absolute().parents if place.exists()), Path("/"))
    status = directory.stat()
    mode = stat.filemode(status.st_mode)
    owner, group = _name(status.st_uid, pwd.getpwuid), _name(status.st_gid, grp.getgrgid)
    user = _name(os.geteuid(), pwd.getpwuid)
    return (
        f"{directory} belongs to {owner}:{group} with mode {mode},"
        f" and you are {user}. To share it, put both users into one group, let the owner run"
        " `chgrp -R GROUP DIR; chmod -R g+rwX DIR; find DIR -type d -exec chmod g+s {} +`,"
        " and let both work with umask 002"
    )


def _name(number: int, entry_of: Callable[[int], Sequence[Any]]) -> str:
    """The name of a user or a group, or the number where the machine knows none."""
    try:
        return str(entry_of(number)[0])
    except KeyError:
        return str(number)
