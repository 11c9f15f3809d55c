"""Where settings come from besides arguments: a `nixt.toml`, found upwards from the working directory, and the
environment; and which names in them are probably mistakes."""

import os
import stat
import tomllib
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nixt_pipeline.thresholds import former_names, regrouped

SETTINGS_FILE = "nixt.toml"
PREFIX = "NIXT_"
# Variables that are not settings: the tests of this package read whole jobs from the folder that it names.
NOT_SETTINGS = frozenset({"NIXT_CORPUS"})


def settings_file() -> Path | None:
    """The `nixt.toml` of the working directory, or else of the nearest directory above it.

    Raises `ValueError` for one that another user may have put there: it can name a command (`sacct_command`).
    """
    here = Path.cwd()
    path = next((p for p in (d / SETTINGS_FILE for d in (here, *here.parents)) if os.path.isfile(p)), None)  # noqa: PTH113
    if path and path.parent.stat().st_mode & stat.S_IWOTH and path.stat().st_uid not in (0, os.geteuid()):
        raise ValueError(
            f"{path} belongs to another user, in a world-writable directory; remove that permission"
            f" (chmod o-w {path.parent}), or use your own {SETTINGS_FILE} closer to the working directory"
        )
    return path


def from_file(paths: Mapping[str, Path | None]) -> dict[str, Any]:
    """What `nixt.toml` says; empty without one. `paths` are the settings that are paths, with their defaults: both what
    the file says of them and the defaults are relative to its directory. Raises `ValueError` naming the file."""
    file = settings_file()
    if file is None:
        return {}
    values = _read(file)
    places = {name: values.get(name, default) for name, default in paths.items()}
    values |= {name: file.parent / place for name, place in places.items() if isinstance(place, str | Path)}
    return values | {"thresholds": regrouped(values.get("thresholds", {}))}


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {file}: {error}") from error


def variable(name: str) -> str:
    """The environment variable of a setting, `group.name` for a threshold."""
    return f"{PREFIX}{name.upper().replace('.', '__')}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing when no known name resembles this one."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def doubtful_variables(names: Collection[str]) -> list[str]:
    """A line for each variable in the environment that looks like a setting and is none, or has a former name. `names`
    are those of all settings and thresholds."""
    groups = {name.rpartition(".")[0] for name in names} - {""}
    known = {*map(variable, (*names, *groups, "thresholds")), *NOT_SETTINGS}
    former = {variable(f"thresholds.{old}"): f"thresholds.{'.'.join(new)}" for old, new in former_names().items()}
    lines = []
    for name in sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known):
        if name.upper() in former:
            lines.append(f"{name} is called {variable(former[name.upper()])} now")
        else:
            lines.append(f"{name} is not a setting and is ignored{suggestion(name.upper(), known)}")
    return lines


def doubtful_keys() -> list[str]:
    """A line for each threshold that `nixt.toml` calls by a former name; none for a file that cannot be read, which is
    an error of its own."""
    try:
        file = settings_file()
        thresholds = _read(file).get("thresholds") if file else None
    except ValueError:
        return []
    former = former_names()
    return [
        f"{file}: thresholds.{old} is called thresholds.{'.'.join(former[old])} now"
        for old in (thresholds if isinstance(thresholds, dict) else ())
        if old in former
    ]
