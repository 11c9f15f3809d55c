"""The requirements name what is imported; the lock is exact, sufficient, and names no registry."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
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

# Parts of another dependency's interface, at the version that suits it.
BROUGHT_BY = {"numpy": "pandas", "pydantic": "pydantic-settings", "markupsafe": "jinja2"}


def imported_modules() -> set[str]:
    """Top-level modules of other people that the package imports anywhere."""
    found = set()
    for path in (ROOT / "nixt_pipeline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"nixt_pipeline"}


def test_everything_imported_is_declared_as_a_dependency() -> None:
    extras = [text for name, texts in PROJECT["optional-dependencies"].items() if name != "dev" for text in texts]
    declared = {canonicalize_name(Requirement(text).name) for text in [*PROJECT["dependencies"], *extras]}
    distributions = packages_distributions()
    undeclared = {
        module
        for module in imported_modules()
        if not {canonicalize_name(name) for name in distributions[module]} & declared
    }
    assert undeclared == {module for module, parent in BROUGHT_BY.items() if parent in declared}


def test_every_line_of_the_lock_is_one_exact_version() -> None:
    odd = [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( *;.*)?", line)]
    assert odd == []


def test_the_lock_satisfies_the_project_and_its_development_tools() -> None:
    locked = {canonicalize_name(Requirement(line).name): Requirement(line) for line in LINES}
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]:
        wanted = Requirement(text)
        (pin,) = locked[canonicalize_name(wanted.name)].specifier
        assert wanted.specifier.contains(pin.version), f"{text} is locked as {pin}"
