"""Write `docs/columns.md`: `python -m nixt_pipeline.inspector.column_reference > docs/columns.md`."""

import pyarrow as pa

from nixt_pipeline.inspector.taxonomy import TABLES, Column, Role
from nixt_pipeline.inspector.views import VIEWS, added_columns

TITLE = "Columns"

INTRODUCTION = """\
Every table and view of a run, column by column. This page is generated from `taxonomy.py` and `views.py` in
`nixt_pipeline/inspector`; the same descriptions are in the Parquet files' field metadata and in the Dagster UI. Renew
it with `python -m nixt_pipeline.inspector.column_reference > docs/columns.md`.

Columns keep the plugin's own names, so that a query written against NVIDIA's exporter runs here. Times are in
microseconds, bandwidths in GB/s (10^9 bytes per second), sizes in bytes.

In SQL each table is a view of the same name. Views whose names end in `_events` are what nixt itself reads, and may
change.
"""

# What each role means, after the NIXT paper.
ROLES: dict[Role, str] = {
    Role.IDENTIFIER: "identifies what a row is about",
    Role.CONFIGURATION: "how the communicator or the plugin was configured",
    Role.WORKLOAD: "what NCCL was asked to do",
    Role.MEASUREMENT: "a measured value, with the errors of the measurement",
    Role.COUNTER: "orders or counts: times, sequence numbers, totals",
    Role.DERIVED: "computed by nixt from other columns",
}

# One row of each table is ...
GRAINS: dict[str, str] = {
    "events": "one operation of one rank, as one line of a log",
    "channels": "one operation of one rank that was logged with its channels (`NCCL_INSPECTOR_DUMP_VERBOSE=1`)",
    "auxiliary": "one line written by the plugin that does not describe an operation",
    "rejects": "one line that is not a record",
    "files": "one file of the run's directory",
    "membership": "one rank of one communicator in one process",
    "identities": (
        "one rank of one communicator in one process, as its records name them; there are rows only where those of one"
        " communicator differ in its name or number of nodes, or a process holds several of its ranks"
    ),
    "communicators": "one communicator",
    "processes": "one GPU: a process, or one rank of a process that drives several GPUs",
    "hosts": "one host",
    "cells": "one collective of one communicator, across all of its ranks",
    "kernel_times": "one execution time of one NCCL kernel, with the number of records that have it",
}


def column_reference() -> str:
    """The page as Markdown."""
    parts = [f"# {TITLE}\n", INTRODUCTION, _roles()]
    for table, columns in TABLES.items():
        parts.append(f"## {table}\n\nOne row is {GRAINS[table]}.\n\n{columns_table(columns)}")
        if added := added_columns(table):
            parts.append(f"### Columns that the view `{table}` adds\n\nComputed when read.\n\n{columns_table(added)}")
    for view, (grain, of_events, columns) in VIEWS.items():
        inherited = "It has the columns of the view `events`" if of_events else ""
        also = f"{inherited}{', and' if columns else '.'}\n\n" if inherited else ""
        described = columns_table(columns) if columns else ""
        parts.append(f"## {view}\n\nA view: one row is {grain}.\n\n{also}{described}".rstrip("\n") + "\n")
    return "\n".join(parts)


def _roles() -> str:
    return "A column's role:\n\n" + "".join(f"- **{role}** {meaning}\n" for role, meaning in ROLES.items())


def columns_table(columns: tuple[Column, ...]) -> str:
    """A Markdown table with a row for each column: type, unit, role, meaning."""
    rows = ["| column | type | unit | role | meaning |", "| --- | --- | --- | --- | --- |"]
    for column in columns:
        meaning = column.meaning.replace("|", "\\|")
        rows.append(f"| `{column.name}` | {_type_name(column.type)} | {column.unit} | {column.role} | {meaning} |")
    return "\n".join(rows) + "\n"


def _type_name(data_type: pa.DataType) -> str:
    """The Arrow type, with lists as `list of int64` for readers who don't know Arrow's notation."""
    return f"list of {data_type.value_type}" if pa.types.is_list(data_type) else str(data_type)


if __name__ == "__main__":
    print(column_reference(), end="")
