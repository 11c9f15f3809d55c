"""A file decoded as an ingest does, with what it yields kept in memory."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from nixt_pipeline.inspector.file_summary import FileSummary, settle
from nixt_pipeline.inspector.log_file import decode_file
from nixt_pipeline.inspector.records import Row, Typed
from nixt_pipeline.settings import Settings


class Collected:
    def __init__(self) -> None:
        self.sequence_numbers: list[int | None] = []
        self.refused: list[Row] = []

    def add(self, typed: Typed) -> None:
        if typed.event is not None:
            self.sequence_numbers.append(typed.event[15])

    def add_batches(self, events: pa.RecordBatch, channels: pa.RecordBatch | None) -> None:
        self.sequence_numbers += events.column("coll_sn").to_pylist()

    def refuse(self, row: Row) -> None:
        self.refused.append(row)


def decode(path: Path, settings: Settings) -> tuple[FileSummary, list[int | None]]:
    """Decode by both paths, which must agree on everything."""
    results, refused = [], []
    careful_may_repeat = False
    for by_template in (False, True):
        sink = Collected()
        summary = settle(decode_file(path, path.name, 0, sink, settings, by_template=by_template))
        parts = summary.bytes_stored + summary.bytes_rejected + summary.bytes_foreign + summary.bytes_blank
        assert summary.bytes_read == parts
        results.append((replace(summary, may_repeat=False, counters={}), sorted(sink.sequence_numbers, key=str)))
        refused.append(sink.refused)
        # Whether copies are looked for may differ, but not by the fast path overlooking any.
        assert summary.may_repeat >= careful_may_repeat
        careful_may_repeat = summary.may_repeat if not by_template else careful_may_repeat
    assert results[0] == results[1]
    assert refused[0] == refused[1]
    return replace(results[1][0], may_repeat=careful_may_repeat), results[1][1]
