"""What of a table becomes rows: cut and counted in Arrow, because rows of Python take ten times the memory."""

from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]
Order = tuple[str, Literal["ascending", "descending"]]

# Launches with figures of their own.
MAX_LAUNCHES = 3


def first_rows(table: pa.Table, limit: int, *order: Order) -> list[Row]:
    """The first `limit` rows of `table` in the given order; nulls come last, ties as they lie in the table."""
    first = pc.sort_indices(table, sort_keys=list(order))[:limit]
    return list(table.take(first).to_pylist())


def first_launches(table: pa.Table, limit: int = MAX_LAUNCHES) -> tuple[pa.Table, int]:
    """The rows of the earliest `limit` launches of an analysis, and of how many launches it has rows."""
    launches = pc.unique(table["incarnation"])
    earliest = launches.take(pc.sort_indices(launches)[:limit])
    return table.filter(pc.is_in(table["incarnation"], value_set=earliest)), len(launches)


def not_drawn(launches: int, limit: int = MAX_LAUNCHES) -> tuple[str, ...]:
    """The note that counts the launches without figures; none when all have some."""
    return (f"Of {launches:,} launches the first {limit} are drawn.",) if launches > limit else ()


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
    rows = first_rows(sums, limit, ("records_sum", "descending"), ("coll", "ascending"), ("coll_type", "ascending"))
    return [(row["coll"], row["coll_type"]) for row in rows]
