"""What the run is, who wrote its records, what run.json says, and the communicators."""

import json
import re
from collections.abc import Mapping
from typing import Any

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, duration, plural, utc
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.text import iso, plain
from nixt_pipeline.reporting.views import Fact, SectionView, TableView, table_view

RUN_INFO_CHARACTERS = 200
_RELEASE = re.compile(r"v?(2\.\d{2}\.\d{1,2})(?!\d)")


def facts_section(content: RunContent) -> SectionView:
    """Run id, place, time, size, writers and what `run.json` says."""
    manifest = content.manifest
    first, last, span = time_span(content)
    facts = [
        Fact("Run", plain(manifest.run)),
        Fact("Source directory", plain(manifest.source_dir)),
        Fact("First record written", utc(first)),
        Fact("Last record written", utc(last)),
        Fact("Span", span),
        Fact("Processes (normally one GPU each)", count(len(content.values("processes", "process")))),
        Fact("Hosts", count(len(content.values("hosts", "hostname")))),
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


def time_span(content: RunContent) -> tuple[int | None, int | None, str]:
    """Earliest and latest plausible write time of any process, in microseconds, and the time between in words."""
    first, last = (content.values("processes", name) for name in ("first_dump_us", "last_dump_us"))
    begin, end = min(first, default=None), max(last, default=None)
    return begin, end, duration(end - begin if begin is not None and end is not None else None)


def nccl_hint(writer: Mapping[str, Any]) -> str:
    """Which NCCL release the plugin came with, as far as its records tell: a hint, a plugin can be built apart."""
    release = _RELEASE.search(writer["git_rev"] or "")
    if release:
        return f"{release.group(1)} (build name)"
    if writer["algo_records"]:
        return "after 2.30 (algorithm written)"
    if writer["p2p_records"] or writer["named_records"]:
        return "2.30 or later (P2P or names written)"
    return "unknown; 2.28 and 2.29 write neither P2P nor names"


def _writers_table(content: RunContent) -> TableView:
    rows = [{**row, "nccl": nccl_hint(row)} for row in content.rows("writers")]
    columns = columns_of("inspector_output_format_version git_rev rec_mechanism nccl processes records")
    return table_view("Who wrote the records", rows, columns, SHOWN_ROWS, source="writers")


def _run_info_table(run_info: Mapping[str, Any]) -> TableView:
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for key, value in sorted(run_info.items())
    }
    rows = [{"key": key, "value": shorten(text, RUN_INFO_CHARACTERS)} for key, text in texts.items()]
    return table_view("What run.json says", rows, columns_of("key value"), SHOWN_ROWS)


def communicators_section(content: RunContent) -> SectionView:
    """Communicators with their role and how it was derived."""
    table = content.tables.get("communicators")
    title = "Communicators"
    if table is None or table.num_rows == 0:
        return SectionView("communicators", title, state="empty")
    rows = first_rows(table, SHOWN_ROWS, "-records", "id")
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    columns = columns_of(
        "id comm_name coll_type parallel_role parallel_role_source ranks nnodes hosts_seen incarnation records"
    )
    notes = (
        "The log does not contain the parallel role. It is derived from the framework's name, or guessed from the "
        "shape; the table says which.",
    )
    view = table_view("Communicators with most records", rows, columns, total=table.num_rows, source="communicators")
    return SectionView("communicators", title, notes=notes, tables=(view,))
