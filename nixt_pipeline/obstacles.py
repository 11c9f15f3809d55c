"""What stands where a directory of the store or of the reports belongs: a file, or a link that leads nowhere.

The operating system says `File exists` or `Not a directory` and names the path that was wanted, not what is in its way.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

# What it then raises when a directory is made, or something in it is opened or listed.
_RAISED = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.ENOENT)


def obstacle(directory: Path) -> str:
    """What is in the way of a directory, with the remedy; empty when nothing is: it is there, or can be made."""
    for place in (*reversed(directory.absolute().parents), directory.absolute()):
        if os.path.lexists(place) and not os.path.isdir(place):  # noqa: PTH112 (Path.is_dir raises for what may not be seen)
            what = "a link that leads nowhere" if place.is_symlink() else "a file"
            return f"{place} is {what} where a directory belongs; move it away, then run the command again"
    return ""


def obstacle_behind(error: OSError, path: Path | None = None) -> str:
    """What is in the way of what the error names, or of the file `path`; empty when the error has another reason."""
    if error.errno not in _RAISED:
        return ""
    named = [Path(os.fsdecode(error.filename))] if error.filename else []
    made = named if error.errno == errno.EEXIST else []
    directories = [*made, *(place.parent for place in (*named, *([path] if path else [])))]
    return next((what for directory in directories if (what := obstacle(directory))), "")


def misplaced(directories: Iterable[Path]) -> dict[Path, str]:
    """What is wrong with directories that should be there, or are not made yet: an obstacle, or no permission to list
    them."""
    found = {}
    for directory in directories:
        if what := obstacle(directory):
            found[directory] = what
        elif directory.is_dir() and not os.access(directory, os.R_OK | os.X_OK):
            found[directory] = f"{directory} may not be listed; ask its owner for permission to read it"
    return found
