"""Ingesting one run, and reading back what became of it."""

from pathlib import Path
from typing import Any

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, ingest
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline_tests.records import EPOCH_US, collective


def take_in(directory: Path, settings: Settings) -> IngestSummary:
    summary = ingest.ingest(directory, "run", settings)
    assert summary.bytes["read"] == sum(count for name, count in summary.bytes.items() if name != "read")
    return summary


def query(settings: Settings, sql: str) -> list[Any]:
    with catalog.open_run("run", settings) as con:
        return con.execute(sql).fetchall()


def stored(settings: Settings) -> list[Any]:
    """Every stored record, without the number of the file it came from."""
    return query(settings, "SELECT * EXCLUDE (file_id) FROM events ORDER BY ALL")


def records(count: int, pid: int = 1, start: int = 0) -> list[str]:
    return [collective(sn=n, pid=pid, at_us=EPOCH_US + n, rank=pid) for n in range(start, start + count)]
