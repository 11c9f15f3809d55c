"""How good the data are: files, bytes, timing, rejected lines."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.rows import SHOWN_ROWS
from nixt_pipeline.reporting.views import Fact, SectionView, TableView, table_view

BYTE_OUTCOMES = ("stored", "duplicate", "rejected", "foreign", "blank")


def quality_section(content: RunContent) -> SectionView:
    """Files, records, bytes, timing and rejected lines."""
    manifest = content.manifest
    facts = (
        Fact("Records stored", count(manifest.records.get("stored", 0))),
        Fact("Duplicate records left out", count(manifest.records.get("duplicate", 0))),
        Fact("Rejected lines", count(manifest.rejected_lines)),
        Fact("Foreign lines", count(manifest.foreign_lines)),
        Fact("Records the plugin says it lost", count(manifest.dropped_by_plugin)),
    )
    by_status = [{"status": status, "files": files} for status, files in manifest.files.items()]
    timed = columns_of("kind coll_timing_source records unusable_times", unusable_times="Without usable time")
    tables = [
        table_view("Files by status", by_status, columns_of("status files")),
        _bytes_table(content),
        table_view("How times were measured", content.rows("timing"), timed, SHOWN_ROWS, source="timing"),
    ]
    problems = _problems(content)
    if problems is not None and problems.num_rows:
        columns = columns_of("path status problem size_bytes records")
        rows = [
            {**row, "records": row["records_collective"] + row["records_p2p"]}
            for row in problems.slice(0, SHOWN_ROWS).to_pylist()
        ]
        tables.append(table_view("Files with a problem", rows, columns, total=problems.num_rows, source="files"))
    tables += _reject_tables(content)
    notes = (
        "Every byte of every file is stored, a counted duplicate, rejected, foreign or blank, after decompression.",
        "What the plugin says it lost comes from its own counters (`dropped_by_plugin`), which only newer plugins "
        "write: 0 does not mean that nothing was lost.",
    )
    return SectionView("quality", "Data quality", facts=facts, notes=notes, tables=tuple(tables))


def _problems(content: RunContent) -> pa.Table | None:
    """The files that were not read, or not without a problem."""
    files = content.tables.get("files")
    if files is None:
        return None
    fine = pc.is_in(files["status"], value_set=pa.array(["read", "unchanged"]))
    return files.filter(pc.or_(pc.invert(fine), pc.is_valid(files["problem"])))


def _bytes_table(content: RunContent) -> TableView:
    """Bytes by outcome, with the check that they add up to what was read."""
    counts = content.manifest.bytes
    read = counts.get("read", 0)
    rows: list[dict[str, Any]] = [{"outcome": name, "bytes": counts.get(name, 0)} for name in BYTE_OUTCOMES]
    total = sum(row["bytes"] for row in rows)
    is_sum = "the sum of the above" if total == read else "which is NOT the sum of the above"
    rows.append({"outcome": f"read, {is_sum}", "bytes": read})
    for row in rows:
        row["share"] = row["bytes"] / read if read else None
    columns = columns_of("outcome bytes share")
    return table_view("Where the bytes went", rows, columns)


def _reject_tables(content: RunContent) -> list[TableView]:
    """Reasons with counts, and the first rejected lines with place and sample."""
    reasons = content.rows("reject_reasons")
    if not reasons:
        return []
    by_reason = columns_of("outcome reason lines bytes files")
    by_line = columns_of("path line byte_offset outcome reason sample")
    total = sum(row["lines"] for row in reasons)
    return [
        table_view("Rejected and foreign lines by reason", reasons, by_reason, SHOWN_ROWS, source="reject_reasons"),
        table_view("Rejected and foreign lines", content.rows("rejects"), by_line, SHOWN_ROWS, total, source="rejects"),
    ]
