"""What of a table becomes rows: cut and counted in Arrow, because rows of Python take ten times the memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.reporting.text import unique_labels

Row = dict[str, Any]


def first_rows(table: pa.Table, limit: int, *order: str, known: str = "") -> list[Row]:
    """The first `limit` rows of `table` in the order of these columns, of those with a minus before the name from the
    largest down; nulls come last, ties as they lie in the table. Only rows in which the column `known` has a value,
    where it is given."""
    keys = [(name.removeprefix("-"), "descending" if name.startswith("-") else "ascending") for name in order]
    first = pc.sort_indices(table, sort_keys=keys)
    if known:
        first = first.filter(pc.is_valid(table[known]).take(first).combine_chunks())
    return list(table.take(first[:limit]).to_pylist())


def labelled(rows: Sequence[Row], limit: int, name: str = "label") -> list[Row]:
    """The rows with a `label` of at most `limit` characters, and no two the same, for what stands in `name`."""
    labels = unique_labels((row[name] for row in rows), limit)
    return [{**row, "label": label} for label, row in zip(labels, rows, strict=True)]


def as_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers as floats, rounded where they have more than 53 bits, which Arrow refuses unasked."""
    return pc.cast(column, pa.float64(), safe=False)


def matching(table: pa.Table, values: Mapping[str, object]) -> pa.Table:
    """The rows that have these values; None stands for null."""
    for name, value in values.items():
        column = table[name]
        table = table.filter(pc.is_null(column) if value is None else pc.equal(column, value))
    return table


# Rows that a table in the page has at most: it scrolls, sorts and filters; the download has all.
SHOWN_ROWS = 60


def most_recorded(table: pa.Table, limit: int) -> list[tuple[str, str | None]]:
    """The functions and placements with most records in a result that has them by either."""
    sums = table.group_by(["coll", "coll_type"]).aggregate([("records", "sum")])
    rows = first_rows(sums, limit, "-records_sum", "coll", "coll_type")
    return [(row["coll"], row["coll_type"]) for row in rows]
