"""What the run is, how good its data are and how much of the job they cover: the part of a report that comes first."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inspector.operations import COLL_TYPES
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.coverage import coverage_by_type
from nixt_pipeline.reporting.rows import Order, Row, first_rows
from nixt_pipeline.reporting.text import NOT_AVAILABLE, count, duration, iso, percent, plain, plural, shorten, size, utc
from nixt_pipeline.reporting.views import Fact, SectionView, Spec, TableView, table_view

# Rows that a table in the page has at most: it scrolls, sorts and filters; the download has all.
SHOWN_ROWS = 60
SAMPLE_CHARACTERS = 160
RUN_INFO_CHARACTERS = 200
BYTE_OUTCOMES = ("stored", "duplicate", "rejected", "foreign", "blank")
_RELEASE = re.compile(r"v?(2\.\d{2}\.\d{1,2})(?!\d)")


def time_span(content: RunContent) -> tuple[int | None, int | None]:
    """Earliest and latest plausible write time of any process, in microseconds."""
    first, last = (content.values("processes", name) for name in ("first_dump_us", "last_dump_us"))
    return min(first, default=None), max(last, default=None)


def host_count(content: RunContent) -> int:
    """Distinct hosts over all launches."""
    return len(content.values("hosts", "hostname"))


def process_count(content: RunContent) -> int:
    """Distinct processes over all launches."""
    return len(content.values("processes", "process"))


def within_host(content: RunContent) -> set[str]:
    """The placements of which no communicator spans hosts. On an NVLink rack `nvlink-only` does, elsewhere not."""
    communicators = content.tables.get("communicators")
    if communicators is None:
        return set(COLL_TYPES)
    spanning = communicators.filter(pc.greater(communicators["hosts_seen"], 1))
    return set(COLL_TYPES) - set(pc.unique(spanning["coll_type"]).to_pylist())


def facts_section(content: RunContent) -> SectionView:
    """Run id, place, time, size, writers and what `run.json` says."""
    manifest = content.manifest
    first, last = time_span(content)
    processes = process_count(content)
    facts = [
        Fact("Run", plain(manifest.run)),
        Fact("Source directory", plain(manifest.source_dir)),
        Fact("First record written", utc(first)),
        Fact("Last record written", utc(last)),
        Fact("Span", duration(last - first) if first is not None and last is not None else NOT_AVAILABLE),
        Fact("Processes (normally one GPU each)", count(processes)),
        Fact("Hosts", count(host_count(content))),
        Fact("Communicators", count(content.coverage.communicators)),
        Fact("Launches in this directory", count(manifest.incarnations)),
        Fact("Ingested", f"{iso(manifest.ingested_at)}, in {manifest.seconds:.3g} s"),
    ]
    notes = []
    if manifest.incarnations > 1:
        notes.append(
            f"This directory holds {plural(manifest.incarnations, 'launch', 'launches')} of one or more jobs. Figures "
            "over time show them apart; totals and distributions contain all of them."
        )
    tables = [_writers_table(content)]
    if manifest.run_info:
        tables.append(_run_info_table(manifest.run_info))
    return SectionView("run", "The run", facts=tuple(facts), notes=tuple(notes), tables=tuple(tables))


def nccl_hint(writer: Mapping[str, Any]) -> str:
    """Which NCCL release the plugin came with, as far as its records tell: a hint, a plugin can be built apart."""
    release = _RELEASE.search(writer["git_rev"] or "")
    if release:
        return f"{release.group(1)} (build name)"
    if writer["algo_records"]:
        return "after 2.30 (algorithm written)"
    if writer["p2p_records"] or writer["named_records"]:
        return "2.30 or later (P2P or names written)"
    return "not told; 2.28 or 2.29 write neither P2P nor names"


def _writers_table(content: RunContent) -> TableView:
    rows = [{**row, "nccl": nccl_hint(row)} for row in content.rows("writers")]
    columns = (
        Spec("Format version", "inspector_output_format_version"),
        Spec("Plugin build", "git_rev"),
        Spec("Attached by", "rec_mechanism"),
        Spec("NCCL release (hint)", "nccl"),
        Spec("Processes", "processes", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
    )
    return table_view("Who wrote the records", rows, columns, SHOWN_ROWS, source="writers")


def _run_info_table(run_info: Mapping[str, Any]) -> TableView:
    def words(value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        return shorten(text, RUN_INFO_CHARACTERS)

    rows = [{"key": key, "value": value} for key, value in sorted(run_info.items())]
    return table_view("What run.json says", rows, (Spec("Key", "key"), Spec("Value", "value", words)), SHOWN_ROWS)


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
    tables = [_files_table(content), _bytes_table(content), _timing_table(content)]
    problems = _problems(content)
    if problems is not None and problems.num_rows:
        columns = (
            Spec("File", "path"),
            Spec("Status", "status"),
            Spec("Problem", "problem"),
            Spec("Size", "size_bytes", size, numeric=True),
            Spec("Records", "records", count, numeric=True),
        )
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


def _files_table(content: RunContent) -> TableView:
    rows = [{"status": status, "files": files} for status, files in content.manifest.files.items()]
    return table_view("Files by status", rows, (Spec("Status", "status"), Spec("Files", "files", count, numeric=True)))


def _bytes_table(content: RunContent) -> TableView:
    """Bytes by outcome, with the check that they add up to what was read."""
    counts = content.manifest.bytes
    read = counts.get("read", 0)
    rows: list[dict[str, Any]] = [{"outcome": name, "bytes": counts.get(name, 0)} for name in BYTE_OUTCOMES]
    total = sum(row["bytes"] for row in rows)
    rows.append(
        {
            "outcome": "read, the sum of the above" if total == read else "read, which is NOT the sum of the above",
            "bytes": read,
        }
    )
    for row in rows:
        row["share"] = row["bytes"] / read if read else None
    columns = (
        Spec("Outcome", "outcome"),
        Spec("Bytes", "bytes", count, numeric=True),
        Spec("Share", "share", percent, numeric=True),
    )
    return table_view("Where the bytes went", rows, columns)


def _timing_table(content: RunContent) -> TableView:
    columns = (
        Spec("Kind", "kind"),
        Spec("Timing source", "coll_timing_source"),
        Spec("Records", "records", count, numeric=True),
        Spec("Without usable time", "unusable_times", count, numeric=True),
    )
    return table_view("How times were measured", content.rows("timing"), columns, SHOWN_ROWS, source="timing")


def _reject_tables(content: RunContent) -> list[TableView]:
    """Reasons with counts, and the first rejected lines with place and sample."""
    reasons = content.rows("reject_reasons")
    if not reasons:
        return []
    by_reason = (
        Spec("Outcome", "outcome"),
        Spec("Reason", "reason"),
        Spec("Lines", "lines", count, numeric=True),
        Spec("Bytes", "bytes", count, numeric=True),
        Spec("Files", "files", count, numeric=True),
    )
    by_line = (
        Spec("File", "path"),
        Spec("Line", "line", count, numeric=True),
        Spec("Byte offset", "byte_offset", count, numeric=True),
        Spec("Outcome", "outcome"),
        Spec("Reason", "reason"),
        Spec("Sample", "sample", lambda sample: shorten(sample, SAMPLE_CHARACTERS)),
    )
    total = sum(row["lines"] for row in reasons)
    return [
        table_view("Rejected and foreign lines by reason", reasons, by_reason, SHOWN_ROWS, source="reject_reasons"),
        table_view("Rejected and foreign lines", content.rows("rejects"), by_line, SHOWN_ROWS, total, source="rejects"),
    ]


def coverage_parts(content: RunContent) -> SectionView:
    """Capture rate, missing ranks, and the communicators that were seen least."""
    coverage = content.coverage
    facts = (
        Fact("Capture rate (records seen of records due)", percent(coverage.capture_rate)),
        Fact("Collectives seen by every rank", f"{percent(coverage.complete_share)} of {count(coverage.cells)}"),
        Fact("Processes seen", f"{count(coverage.processes_seen)} of at least {count(coverage.processes_expected)}"),
        Fact("Ranks without any record", count(coverage.ranks_missing)),
        Fact(
            "Communicators with missing ranks",
            f"{count(coverage.communicators_incomplete)} of {count(coverage.communicators)}",
        ),
    )
    columns = (
        Spec("Communicator", "id"),
        Spec("Name", "comm_name"),
        Spec("Placement", "coll_type"),
        Spec("Function", "coll"),
        Spec("Ranks seen", "ranks"),
        Spec("Hosts", "hosts_seen", count, numeric=True),
        Spec("Operations due", "sn_expected", count, numeric=True),
        Spec("Operations seen", "sn_seen", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Capture rate", "capture_rate", percent, numeric=True),
        Spec("Seen by all ranks", "complete_share", percent, numeric=True),
        Spec("Lost by its own count", "dropped_by_plugin", count, numeric=True),
    )
    table = content.tables["coverage"]
    gaps, rows = _incomplete(table)
    notes = (
        () if gaps else ("Every communicator was captured completely, from its first recorded operation to its last.",)
    )
    tables = [_coverage_by_type_table(table)]
    if gaps:
        caption = "Incompletely captured, least first"
        tables.append(table_view(caption, rows, columns, total=gaps, source="coverage"))
    return SectionView("coverage", "Coverage", facts=facts, notes=notes, tables=tuple(tables))


def _incomplete(coverage: pa.Table) -> tuple[int, list[Row]]:
    """How many rows of `coverage` have gaps, and the first of those that were captured least."""
    whole = pc.and_(
        pc.and_(pc.equal(coverage["capture_rate"], 1), pc.equal(coverage["complete_share"], 1)),
        pc.equal(coverage["ranks_seen"], coverage["n_ranks"]),
    )
    gaps = coverage.filter(pc.invert(pc.fill_null(whole, False)))
    rated = gaps.append_column("rate", pc.fill_null(gaps["capture_rate"], 1.0))
    order: tuple[Order, ...] = (("rate", "ascending"), ("id", "ascending"), ("coll", "ascending"))
    rows = first_rows(rated, SHOWN_ROWS, *order)
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    return gaps.num_rows, rows


def _coverage_by_type_table(coverage: pa.Table) -> TableView:
    columns = (
        Spec("Placement", "coll_type"),
        Spec("Function", "coll"),
        Spec("Communicators", "communicators", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Capture rate", "capture_rate", percent, numeric=True),
    )
    return table_view("Capture rate by placement and function", coverage_by_type(coverage), columns, SHOWN_ROWS)
