"""The fleet's results: one file for all runs, `<data>/results/<name>.parquet`, with known columns."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from nixt_pipeline.inspector.taxonomy import Column, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_table
from nixt_pipeline.store.reading import read_cache

Row = Mapping[str, Any]


class FleetTable:
    """One result of the fleet; `name` is that of its asset, too."""

    def __init__(self, name: str, *columns: Column) -> None:
        self.name, self.columns = name, columns

    def path(self, settings: Settings) -> Path:
        """Its file."""
        return settings.data_dir / "results" / f"{self.name}.parquet"

    def of(self, rows: Iterable[Row]) -> pa.Table:
        """The table with these rows; columns that a row does not have are null."""
        return pa.Table.from_pylist([*rows], schema=schema(self.columns))

    def read(self, settings: Settings) -> pa.Table | None:
        """The stored table; None before the first, and when it was written by a version that knew fewer columns."""
        return read_cache(self.path(settings), [column.name for column in self.columns])

    def rows(self, settings: Settings) -> list[dict[str, Any]] | None:
        """The rows of the stored table; None without one."""
        stored = self.read(settings)
        return None if stored is None else list(stored.to_pylist())

    def write(self, table: pa.Table, settings: Settings) -> pa.Table:
        """Store and return `table`."""
        write_table(table, self.path(settings))
        return table
