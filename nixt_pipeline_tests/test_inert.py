"""Text from logs does nothing, whatever it is printed on and in which format."""

import csv
import io
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.cli import main
from nixt_pipeline.inert import csv_cell, distinct, json_text, markdown, spreadsheet, visible
from nixt_pipeline_tests.records import collective, write_log

# Terminals, spreadsheets, Markdown and HTML, readers' eyes.
HOSTILE = (
    "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x1b]8;;http://evil.example\x1b\\click", "\x1bc", "\x9b31m", "\x90q", "a\rb",
    "a\x08\x08b", "\x07", "nul\x00", "a\nb", "a\n- [x](http://evil.example)", "a\u2028b", "a\u2029b", "a\x85b", "\x7f",
    "\u202egpj.exe", "\u2066a\u2069", "gpu\u200b-1", "gpu\u2060-1", "\ufeffgpu", "gpu\u00ad-1", "gpu\u3164",
    "gpu\ufe0f", "gpu\u115f", "gpu\U000e0041", "gpu\u00a0-1", "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1",
    "\r=1", "\n=2+5", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM", "[a](http://evil.example)",
    "![a](//evil.example/x.png)", "<img src=x onerror=alert(1)>", "a|b|c", "`x`", "**bold** _it_ ~~s~~", "# head",
    "&#x202e;", "http://evil.example", "www.evil.example", "[bold red]a[/]",
    "$\\frac{1}{0}$", "\\", "\\x1b[2J", "'\"; DROP TABLE events; --",
)  # fmt: skip
# What must never leave on standard output or error: controls but for the ends of lines, and what hides or turns text.
FORBIDDEN = [chr(c) for c in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(c) not in "\r\n"]
FORBIDDEN += list("\u00ad\u061c\u115f\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e")
FORBIDDEN += list("\u2060\u2066\u2067\u2068\u2069\u3164\ufe0f\ufeff\U000e0041")


def nixt(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("text", HOSTILE)
def test_visible_text_prints_on_one_line(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not set(shown) & set(FORBIDDEN)
    assert visible(shown) == shown


def test_visible_shows_characters_that_would_hide_or_reorder_text_and_tells_long_codes_from_short_ones() -> None:
    assert visible("a\x00b\u202ec\nd\U000e0041") == "a\\u0000b\\u202ec\\u000ad\\U000e0041"


def test_visible_leaves_printable_text_of_any_script_alone() -> None:
    assert visible("gpu-1 <漢字> Ж é e\u0301") == "gpu-1 <漢字> Ж é e\u0301"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("[a](http://e)", "\\[a\\](http:\\//e)"),
        ("![a](//e)", "!\\[a\\](//e)"),
        ("<b>&lt;", "\\<b\\>\\&lt;"),
        ("`*_~#{}\\", "\\`\\*\\_\\~\\#\\{\\}\\\\"),
        ("a\nb", "a\\\\u000ab"),
        ("WWW.evil", "WWW\\.evil"),
        ("gpu-1: 7.8 %", "gpu-1: 7.8 %"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, escaped: str) -> None:
    assert markdown(text) == escaped


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20a"]
)
def test_what_a_spreadsheet_would_calculate_starts_with_an_apostrophe(text: str) -> None:
    assert spreadsheet(text) == f"'{text}"
    assert str(csv_cell(text)).startswith("'")
    assert spreadsheet(f"a{text}") == f"a{text}"


def test_numbers_stay_numbers_in_csv() -> None:
    values = [-1, -1.5, Decimal("-2.5"), None, True]
    assert [csv_cell(value) for value in values] == values
    assert csv_cell(["=a", "b"]) == "'=a b"


def test_json_is_valid_whatever_a_query_returns() -> None:
    row = {
        "nan": math.nan, "inf": [math.inf, {"x": -math.inf}], "dec": Decimal("NaN"),
        "at": datetime(2025, 1, 1, tzinfo=UTC),
        "blob": b"\x00", "map": {(1, 2): "\x7f\x9b\u202e"},
    }  # fmt: skip

    def fails(name: str) -> Any:
        raise AssertionError(name)

    text = json_text([row])
    (found,) = json.loads(text, parse_constant=fails)
    assert (found["nan"], found["inf"], found["dec"]) == (None, [None, {"x": None}], None)
    assert found["map"] == {"(1, 2)": "\x7f\x9b\u202e"}
    assert text.isascii() and text.isprintable()


def test_columns_of_one_name_stay_apart() -> None:
    assert distinct(["a", "b", "a", "a_1", "a"]) == ["a", "b", "a_1", "a_1_1", "a_2"]


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of two runs whose hosts, communicators, functions, run.json and directories are hostile: in one of them
    a host is late."""
    root = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for number, late_us in enumerate((0, 3000)):
            directory = root / f"{number}-\x1b[2J\u202e=a|b"
            for rank in range(4):
                host = HOSTILE[0] + "".join(HOSTILE[-6:]) if rank == 0 else HOSTILE[rank] + "a\rb\n|[x](y)"
                names = [*HOSTILE, *["DP"] * 400]
                lines = [
                    collective(
                        sn=sn, rank=rank, nnodes=4, host=host, pid=rank, name=names[sn],
                        comm="0xabc" if sn >= 60 else f"{sn}\x1b", coll="AllReduce\x1b[2J|" if sn % 2 else "AllReduce",
                        time_us=1000 + sn % 3 + (late_us if rank else 0), at_us=1_756_587_600_000_000 + sn * 10_000,
                    )
                    for sn in range(400)
                ]  # fmt: skip
                write_log(directory / f"x-pid{rank}.log", *lines)
            info = {"name": "\x1b[2J=1|<b>", "model": "\u202e\n=m", "tags": list(HOSTILE[:20])}
            (directory / "run.json").write_text(json.dumps(info), encoding="utf-8")
            assert nixt("ingest", str(directory)).exit_code == 0
    return root


def _inert(result: Result, codes: tuple[int, ...] = (0, 1)) -> str:
    assert result.exit_code in codes, result.output
    for stream in (result.stdout, result.stderr):
        assert sorted(set(stream) & set(FORBIDDEN)) == []
    return result.stdout


def test_no_command_in_any_format_lets_text_of_a_log_act(hostile_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile_store)
    runs = [row["run"] for row in json.loads(_inert(nixt("runs", "--format", "json")))]
    listing = "SELECT DISTINCT hostname, coll FROM events ORDER BY ALL"
    for form in ("table", "csv", "json"):
        for command in (["runs"], ["hosts", "--all"], ["baselines"], ["retention"], ["sql", listing]):
            text = _inert(nixt(*command, "--format", form))
            if form == "csv":
                rows = list(csv.reader(io.StringIO(text, newline="")))
                assert {len(row) for row in rows} == {len(rows[0])}
                assert not [cell for row in rows[1:] for cell in row if cell[:1] in "=+@\t\r\n" and cell]
    for form in ("text", "json", "markdown"):
        for run in runs:
            text = _inert(nixt("diagnose", run, "--format", form))
            assert "u001b" in text or run.startswith("0"), "the late host is named"
            if form == "markdown":
                assert "](" not in text.replace("\\](", "")
        text = _inert(nixt("compare", *sorted(runs), "--format", form))
        if form == "markdown":
            table = [line for line in text.splitlines() if line.startswith("|")]
            # Eight cells, and no more whatever stands in them.
            assert {line.replace("\\|", "").count("|") for line in table} == {9}


def test_errors_and_progress_are_inert_too(tmp_path: Path) -> None:
    evil = tmp_path / "\x1b]0;pwned\x07\u202e"
    evil.mkdir()
    (evil / "x-pid1.log").write_text("\x1b[2J\n", encoding="utf-8")
    for command in (["ingest", str(evil)], ["diagnose", str(evil)], ["report", str(evil)], ["report", "\x1b[2J"],
                    ["compare", "\x1b[2J", "\u202e"], ["sql", "SELECT \x1b[2J"], ["ingest", str(evil / "none\x07")],
                    ["runs", "--since", "\x1b[2J"]):  # fmt: skip
        _inert(nixt(*command), (0, 2))


def test_columns_that_a_query_takes_from_the_data_are_inert_and_distinct() -> None:
    query = "SELECT 1 AS \"\x1b[2J\", 'nan'::DOUBLE AS x, 2 AS x, ['=a'] AS \"=1\""
    assert json.loads(_inert(nixt("sql", query, "--format", "json"))) == [
        {"\x1b[2J": 1, "x": None, "x_1": 2, "=1": ["=a"]}
    ]
    assert _inert(nixt("sql", query, "--format", "csv")).splitlines() == ["\\u001b[2J,x,x,'=1", "1,nan,2,'=a"]
    assert "\\u001b[2J" in _inert(nixt("sql", query))
