import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.reporting.downloads import downloads, report_json, spreadsheet_safe, write_downloads
from nixt_pipeline_tests.reporting import examples


@pytest.mark.parametrize(
    ("text", "inert"),
    [
        ("=cmd()", "'=cmd()"), ("+1", "'+1"), ("-1+2", "'-1+2"), ("@SUM(A1)", "'@SUM(A1)"), ("\t=1", "'\\u0009=1"),
        ("\r=1", "'\\u000d=1"), ("\n=1", "'\\u000a=1"), ("\uff1d1", "'\uff1d1"),
        # The title of a terminal's window, the other direction of writing, a letter that prints nothing.
        ("\x1b]0;pwn\x07", "\\u001b]0;pwn\\u0007"), ("gpu\u202e1", "gpu\\u202e1"), ("gpu\u31641", "gpu\\u31641"),
        ("Größe 16 MB, √2", "Größe 16 MB, √2"),
    ],
)  # fmt: skip
def test_text_is_no_formula_and_moves_no_terminal(text: str, inert: str) -> None:
    table = pa.table({"name": [text, "plain", None], "number": [-1, 2, 3]})
    assert spreadsheet_safe(table).to_pydict() == {"name": [inert, "plain", None], "number": [-1, 2, 3]}


def test_lists_become_text() -> None:
    table = pa.table({"hosts": [["=a", "b"], None, []]}, schema=pa.schema([("hosts", pa.list_(pa.string()))]))
    assert spreadsheet_safe(table)["hosts"].to_pylist() == ["'=a b", None, ""]


def test_every_table_is_there_as_csv_and_parquet_with_the_same_rows(tmp_path: Path) -> None:
    content = examples.content("=gpu\n1")
    write_downloads(content, tmp_path)
    names = {source.name for source, _ in downloads(content)}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{ext}" for name in names for ext in ("csv", "parquet")
    }
    for name in names:
        with (tmp_path / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert rows[0] == content.tables[name].column_names
        assert len(rows) - 1 == pq.read_table(tmp_path / f"{name}.parquet").num_rows == content.tables[name].num_rows
    assert "'=gpu\\u000a1" in (tmp_path / "hosts.csv").read_text(encoding="utf-8")


def test_tables_of_an_earlier_report_that_are_no_more_go(tmp_path: Path) -> None:
    (tmp_path / "old.csv").touch()
    write_downloads(examples.content(), tmp_path)
    assert not (tmp_path / "old.csv").exists()


def test_the_report_for_programs_has_the_verdict_the_findings_and_the_places_of_the_tables() -> None:
    report = json.loads(report_json(examples.content(diagnosis=examples.diagnosis(examples.finding()))))
    assert (report["run"], report["verdict"]) == ("job-1", "findings")
    assert report["findings"][0]["anchor"] == "finding-slow-transfer-gpu-1"
    assert report["findings"][0]["effect"]["cost_share"] == 0.22
    assert report["tables"]["hot_kernels"]["csv"] == "data/hot_kernels.csv"
    assert report["tables"]["hot_kernels"]["rows"] == 2


def test_a_run_that_was_not_diagnosed_has_no_verdict() -> None:
    report = json.loads(report_json(examples.content()))
    assert (report["verdict"], report["findings"]) == (None, [])
