"""Which runs a person means: by id, pattern, tag, model, host, verdict or time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from nixt_pipeline.errors import NixtError
from nixt_pipeline.fleet.tables import Row


class SelectionError(NixtError, ValueError):
    """A selection that means nothing, or no run; the message says what was looked for."""


def select(selection: str, rows: Sequence[Row]) -> list[str]:
    """The ids of the runs in `rows` (of the run catalog) that `selection` means, in the order of the catalog.

    Parts are separated by commas. Ids and patterns (`nightly-*`) add up; conditions such as `tag:T`, `model:M`,
    `since:DATE` and `before:DATE` (UTC) restrict. Raises `SelectionError`.
    """
    if not selection.strip(" ,"):
        raise SelectionError(f"no run matches {selection!r}; {_known(rows)}")
    parts = [part.strip() for part in selection.split(",") if part.strip()]
    names = [part for part in parts if part.partition(":")[0] not in _CONDITIONS]
    conditions = [part.partition(":") for part in parts if part.partition(":")[0] in _CONDITIONS]
    chosen = [
        row["run"]
        for row in rows
        if (not names or any(fnmatchcase(row["run"], name) for name in names))
        and all(_CONDITIONS[kind](row, value) for kind, _, value in conditions)
    ]
    unknown = [name for name in names if not any(fnmatchcase(row["run"], name) for row in rows)]
    if unknown or not chosen:
        raise SelectionError(f"no run matches {unknown[0] if unknown else selection!r}; {_known(rows)}")
    return chosen


def meets(row: Row, conditions: Mapping[str, str | None]) -> bool:
    """Whether a row of the run catalog meets all conditions, given by their names; those that are None ask nothing.
    Raises `SelectionError` for a date that is none."""
    return all(_CONDITIONS[kind](row, value) for kind, value in conditions.items() if value is not None)


def _known(rows: Sequence[Row]) -> str:
    return "known runs: " + (", ".join(row["run"] for row in rows[:10]) or "none yet; start with: nixt ingest DIR")


def timestamp_us(text: str) -> int:
    """A date or a time in ISO form, in UTC unless it says otherwise, as Unix microseconds. Raises `SelectionError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SelectionError(f"{text!r} is not a date; write it as 2026-11-29 or 2026-11-29T18:30") from None
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1_000_000)


_CONDITIONS: dict[str, Callable[[Row, str], bool]] = {
    "name": lambda row, value: value in row["run"] or value in (row["name"] or ""),
    "host": lambda row, value: value in row["host_names"],
    "verdict": lambda row, value: row["verdict"] == value,
    "tag": lambda row, value: value in (row["tags"] or ()),
    "model": lambda row, value: row["model"] == value,
    "since": lambda row, value: (row["first_dump_us"] or 0) >= timestamp_us(value),
    "before": lambda row, value: (row["first_dump_us"] or 0) < timestamp_us(value),
}
