"""What lies beside the page: every table of the report as CSV and Parquet, and the report for programs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from nixt_pipeline.diagnosis.wording.text import verdict_sentence, where
from nixt_pipeline.inert import FORMULA, UNPRINTABLE, json_text, visible
from nixt_pipeline.isolation import attempt
from nixt_pipeline.reporting.content import RunContent, Source
from nixt_pipeline.reporting.sections.findings import finding_anchors
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.store.files import replacing, write_table

SCHEMA = 1
# What the report for programs has of the manifest.
_OF_MANIFEST = ("ingested_at", "source_dir", "run_info", "records", "files", "rejected_lines")


def downloads(content: RunContent) -> tuple[tuple[Source, int], ...]:
    """The tables there are, each with its number of rows, in the order of `content.sources`."""
    there = (source for source in content.sources if source.name in content.tables)
    return tuple((source, content.tables[source.name].num_rows) for source in there)


def write_downloads(content: RunContent, directory: Path) -> None:
    """Write every table into `directory`, and remove those of an earlier report that are no more."""
    names = {source.name for source, _ in downloads(content)}
    for old in directory.glob("*.*") if directory.exists() else ():
        if old.stem not in names:
            old.unlink(missing_ok=True)
    for name in sorted(names):
        attempt(f"the download of {name}", _write_download, content.tables[name], directory / name)


def _write_download(table: pa.Table, path: Path) -> None:
    write_table(table, path.with_name(f"{path.name}.parquet"))
    with replacing(path.with_name(f"{path.name}.csv")) as temporary:
        csv.write_csv(spreadsheet_safe(table), temporary)


def spreadsheet_safe(table: pa.Table) -> pa.Table:
    """`table` for CSV: lists become text with spaces between, text that looks like a formula starts with an apostrophe,
    and what does not print is escaped. Numbers stay numbers."""
    return pa.table({name: _safe(table[name]) for name in table.column_names})


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type):
        texts = [None if value is None else " ".join(map(str, value)) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    if not pa.types.is_string(column.type):
        return column
    risky = pc.match_substring_regex(column, FORMULA)
    column = pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
    if pc.any(pc.match_substring_regex(column, UNPRINTABLE)).as_py():
        texts = [None if text is None else visible(text) for text in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    return column


def report_json(content: RunContent) -> str:
    """The report for programs: verdict, findings with the ids of their cards, the run, and its tables."""
    diagnosis = content.diagnosis
    findings = diagnosis.findings if diagnosis else ()
    stated = diagnosis.to_json() if diagnosis else {}
    report = {
        "schema": SCHEMA,
        "run": content.manifest.run,
        "page": "index.html",
        "verdict": stated.get("verdict"),
        "in_words": verdict_sentence(diagnosis),
        "coverage": stated.get("coverage"),
        "findings": [
            {"anchor": anchor, "where": where(finding), **finding.to_json()}
            for anchor, finding in zip(finding_anchors(findings), findings, strict=True)
        ],
        **{name: getattr(content.manifest, name) for name in _OF_MANIFEST},
        "tables": {
            item.name: {
                "title": item.title,
                "rows": rows,
                "columns": content.tables[item.name].column_names,
                "csv": f"data/{item.name}.csv",
                "parquet": f"data/{item.name}.parquet",
                "parameters": {name: plain(value) for name, value in item.parameters.items()},
            }
            for item, rows in downloads(content)
        },
    }
    return json_text(report, indent=1) + "\n"
