"""Write `docs/api.md` from the docstrings: `python -m nixt_pipeline.api_reference > docs/api.md`."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import nixt_pipeline

INTRODUCTION = """\
# Python API

Everything here can be imported from `nixt_pipeline`; anything else may change. Generated from the docstrings by
`python -m nixt_pipeline.api_reference > docs/api.md`. Settings are described in [operations](operations.md#settings),
tables in [columns](columns.md).
"""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Reading runs": ("open_run", "Run", "compare"),
    "Processing runs": ("ingest_run", "analyse_run", "diagnose_run", "report_run"),
    "Settings": ("load_settings", "Settings"),
    "Errors": ("NixtError", "DamagedError", "StorageError"),
}


def api_reference() -> str:
    """The page as Markdown."""
    parts = [INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [entry for name in names for entry in _entries(name, getattr(nixt_pipeline, name))]
    return "\n".join(parts)


def _entries(name: str, item: Any) -> Iterator[str]:
    """A function, or a class and what it has of its own that is public."""
    if not inspect.isclass(item):
        yield _entry(name, item, _signature(item))
        return
    yield _entry(name, item, "")
    for attribute, member in vars(item).items():
        if attribute.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            yield _entry(f"{name}.{attribute}", member, "")
        elif inspect.isfunction(member):
            yield _entry(f"{name}.{attribute}", member, _signature(member))


def _entry(name: str, item: Any, signature: str) -> str:
    return f"### `{name}{signature}`\n\n{_markdown(inspect.getdoc(item) or '')}\n"


def _signature(function: Callable[..., object]) -> str:
    """As a caller reads it: without `self`, and types without their modules."""
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=parameters))
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_]\w*)", "", text)


def _markdown(docstring: str) -> str:
    """A docstring with its examples as blocks of code."""
    lines = [re.sub(r"\s*# doctest: \+SKIP$", "", line) for line in docstring.splitlines()]
    examples = [re.sub(r"^(>>>|\.\.\.) ", "", line) for line in lines if line.startswith((">>> ", "... "))]
    text = "\n".join(line for line in lines if not line.startswith((">>> ", "... "))).strip()
    return text + ("\n\n```pycon\n" + "\n".join(f">>> {line}" for line in examples) + "\n```" if examples else "")


if __name__ == "__main__":
    print(api_reference(), end="")
