"""The locked requirements are exact, complete for what the project asks, and name no registry."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LINES = [
    line
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_line_is_one_exact_version() -> None:
    odd = [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( *;.*)?", line)]
    assert odd == []


def test_the_lock_satisfies_the_project_and_its_development_tools() -> None:
    locked = {canonicalize_name(Requirement(line).name): Requirement(line) for line in LINES}
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]:
        wanted = Requirement(text)
        (pin,) = locked[canonicalize_name(wanted.name)].specifier
        assert wanted.specifier.contains(pin.version), f"{text} is locked as {pin}"
