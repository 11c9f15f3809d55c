"""Write `docs/settings.md` from the settings: `python -m nixt_pipeline.settings_reference > docs/settings.md`."""

from collections.abc import Iterable
from typing import Any

import orjson
from pydantic.fields import FieldInfo

from nixt_pipeline.settings import Settings
from nixt_pipeline.thresholds import grouped

INTRODUCTION = """\
# Settings

Every setting and every threshold. This page is generated from `nixt_pipeline/settings.py` and
`nixt_pipeline/thresholds`; renew it with `python -m nixt_pipeline.settings_reference > docs/settings.md`. Where
settings are read from, and in which order: [operations](operations.md#settings).

A setting is an environment variable, or a key in `nixt.toml` without `NIXT_` and in small letters. Lists are JSON in
the variable and arrays in the file.
"""
THRESHOLDS = """\
## Thresholds

What decides a verdict can be set, too. `thresholds.diagnosis.min_blocks` is `min_blocks` below
`[thresholds.diagnosis]` in `nixt.toml`, and `NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS` in the environment.
"""


def settings_reference() -> str:
    """The page as Markdown."""
    settings = {name: field for name, field in Settings.model_fields.items() if name != "thresholds"}
    rows = (f"| `NIXT_{name.upper()}` | {_default(field)} | {field.description} |" for name, field in settings.items())
    return "\n".join([INTRODUCTION, _table("variable | default | meaning", rows), THRESHOLDS, *_groups()])


def _groups() -> Iterable[str]:
    for group, model in grouped().items():
        rows = (
            f"| `{name}` | {_default(field)} | {field.description} | {_origin(field)} |"
            for name, field in model.model_fields.items()
        )
        yield f"### thresholds.{group}\n\n{model.__doc__}\n\n{_table('threshold | default | meaning | origin', rows)}"


def _table(columns: str, rows: Iterable[str]) -> str:
    rule = " | ".join("---" for _ in columns.split(" | "))
    return "\n".join([f"| {columns} |", f"| {rule} |", *rows]) + "\n"


def _default(field: FieldInfo) -> str:
    """The default as it is written in the environment; words where it depends on the machine."""
    default: Any = field.default
    if field.default_factory:
        return "the cores available"
    if default is None:
        return ""
    if isinstance(default, tuple):
        return f"`{orjson.dumps(default).decode()}`"
    return f"`{int(default) if isinstance(default, float) and default.is_integer() else default}`"


def _origin(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra["origin"]) if isinstance(extra, dict) else ""


if __name__ == "__main__":
    print(settings_reference(), end="")
