"""A stored run of a few hand-written records, so that expected values can be worked out by hand."""

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from nixt_pipeline.analysis import analysis_named, compute
from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.inspector.operations import algobw_gbs, busbw_gbs
from nixt_pipeline.inspector.taxonomy import AUXILIARY_COLUMNS, EVENT_COLUMNS, FILE_COLUMNS, STRING, Column, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, dimensions
from nixt_pipeline.store.files import write_table
from nixt_pipeline.store.manifest import Manifest, write_manifest

RUN = "job"
# 2023-11-14 22:13:20 UTC, the start of every run here.
START_US = 1_700_000_000_000_000

Row = dict[str, Any]


def event(**values: Any) -> Row:
    """One record: an AllReduce of 1 MB in 100 us on rank 0 of a two-rank communicator, but for `values`.

    Bandwidths follow from the other values unless given; each rank is process 100 + rank on host gpu-1.
    """
    row: Row = {
        "kind": "collective",
        "id": "0xa",
        "comm_name": None,
        "rank": 0,
        "n_ranks": 2,
        "nnodes": 1,
        "hostname": "gpu-1",
        "pid": 100 + values.get("rank", 0),
        "inspector_output_format_version": "v4.0",
        "git_rev": "abc",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": START_US,
        "coll": "AllReduce",
        "coll_sn": 0,
        "coll_msg_size_bytes": 1_000_000,
        "coll_exec_time_us": 100.0,
        "coll_timing_source": "kernel_gpu",
        "flags": 0,
        "file_id": 0,
        "record_bytes": 500,
    } | values
    facts = (row["coll"], row["coll_msg_size_bytes"], row["n_ranks"], row["coll_exec_time_us"])
    if None not in facts:
        row = {"coll_algobw_gbs": algobw_gbs(*facts), "coll_busbw_gbs": busbw_gbs(*facts)} | row
    return row


class StoredRun:
    """The stored run: its settings, a connection to its views, and results as rows."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.con: duckdb.DuckDBPyConnection = catalog.open_run(RUN, settings)

    def result(self, analysis: str) -> list[Row]:
        """The rows of an analysis."""
        rows: list[Row] = compute(analysis_named(analysis), self.con, self.settings).to_pylist()
        return rows

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query over the run's views."""
        return self.con.execute(text).fetchall()


StoreRun = Callable[..., StoredRun]


@pytest.fixture
def store_run(settings: Settings) -> StoreRun:
    """Stores records (and rows of other tables), builds the cells, and opens the run."""

    def store(events: list[Row], *, auxiliary: list[Row] | None = None, files: list[Row] | None = None) -> StoredRun:
        manifest = Manifest(
            run=RUN,
            source_dir="/logs/job",
            generation="1",
            fingerprint="f",
            ingested_at="2026-01-01T00:00:00+00:00",
            incarnations=1,
            files={},
            records={},
            rejected_lines=0,
            foreign_lines=0,
            dropped_by_plugin=0,
            bytes={},
            seconds=0.0,
        )
        generation = manifest.directory(settings)
        write_table(_table(events, EVENT_COLUMNS), generation / "events" / "part-0.parquet")
        write_table(_table(auxiliary or [], AUXILIARY_COLUMNS), generation / "auxiliary.parquet")
        rows = files or [_file(number) for number in sorted({row["file_id"] for row in events})]
        write_table(_table(rows, FILE_COLUMNS), generation / "files.parquet")
        incarnations = dimensions.write_membership(generation, RUN, settings)
        dimensions.write_dimensions(generation, RUN, settings)
        write_manifest(Manifest(**{**vars(manifest), "incarnations": incarnations}), settings)
        build_cells(RUN, settings)
        return StoredRun(settings)

    return store


def _file(number: int) -> Row:
    """A file of which nothing but its place is known."""
    unknown: Row = {column.name: "" if column.type == STRING else 0 for column in FILE_COLUMNS if not column.nullable}
    return unknown | {"file_id": number, "path": f"{number}.log"}


def _table(rows: list[Row], columns: tuple[Column, ...]) -> pa.Table:
    names = {column.name for column in columns}
    for row in rows:
        assert row.keys() <= names, f"no such columns: {sorted(row.keys() - names)}"
    return pa.Table.from_pylist(rows, schema=schema(columns))
