"""Broken and odd inputs, through the real command: what must come out stands in fixtures/cases/expected.json."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nixt_pipeline.api import open_run
from nixt_pipeline.cli import main
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline_tests.conftest import FIXTURES

CASES = FIXTURES / "cases"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))

# Lines that are records, counted apart from this project with `grep -c '^{"header".*}}$'`, and lines cut short.
EDGE = {
    "bad_comm_name_2.30.7.log": (3, 1),
    "edge_values_2.28.9.log": (21, 0),
    "edge_values_2.30.7.log": (22, 0),
    "reinit_truncated_2.30.7.log": (7, 0),
    "ring_overflow_5000ops_2.30.7.log": (1024, 0),
    "sigkill_truncated_2.30.7.log": (86, 1),
    "verbose_64ch_2.28.9.log": (4, 0),
    "verbose_64ch_2.30.7.log": (6, 0),
    "zero_bytes_2.30.7.log": (0, 0),
}

# (records, lines of the plugin that are none, rejected, foreign lines, foreign files), read off each sample by eye.
SAMPLES = {
    "01_nvidia_readme": (3, 0, 0, 0, 2),
    "02_nvidia_blog": (0, 0, 1, 0, 1),  # JSON with comments is not JSON
    "03_rocm_cvs_fixtures": (10, 0, 1, 0, 0),
    "04_datadog_agent": (3, 0, 0, 0, 0),
    "05_rccl_docs": (2, 0, 0, 0, 1),
    "06_nvidia_dev_v41_to_v44": (2, 7, 0, 0, 0),
    "07_fork_hexagonal_banana": (2, 0, 0, 0, 0),
    "08_accl_lookalike": (0, 0, 0, 2, 0),
    "09_third_party_tests": (3, 0, 0, 0, 1),
}


def ingest(directory: Path) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["ingest", str(directory), "--format", "json"])
    summary: dict[str, Any] = json.loads(result.stdout.splitlines()[0])
    assert result.exit_code == (0 if summary["records"]["stored"] else 2), result.output
    read = summary["bytes"].pop("read")
    assert read == sum(summary["bytes"].values())
    return summary


def ask(case: str, query: str) -> list[Any]:
    return open_run(case).sql(query).fetchall()


@pytest.mark.parametrize("case", EXPECTED)
def test_a_case_gives_what_is_expected(case: str) -> None:
    expected = EXPECTED[case]
    summary = ingest(CASES / case)
    assert summary["records"]["stored"] == expected["good_records"]
    assert summary["rejected_lines"] == expected["bad_lines"]
    assert summary["foreign_lines"] == expected.get("foreign_lines", 0)
    assert summary["files"]["foreign"] == expected.get("foreign_files", 0)
    assert summary["files"]["duplicate"] == expected.get("duplicate_files", 0)
    assert summary["files"]["empty"] == expected.get("empty_files", 0)
    assert summary["incarnations"] == expected.get("jobs", 1)
    if "dropped" in expected:
        assert summary["dropped_by_plugin"] == expected["dropped"]
    if "missing_bandwidth" in expected:
        (row,) = ask(case, "SELECT count(*) FROM events WHERE coll_busbw_gbs IS NULL")
        assert row[0] == expected["missing_bandwidth"]
    if "usable_times" in expected:
        (row,) = ask(case, "SELECT count(coll_exec_time_us) FROM events")
        assert row[0] in expected["usable_times"]
    if "plausible" in expected:
        (row,) = ask(case, "SELECT count(*) FROM events WHERE flags & 64 = 0")
        assert row[0] == len(expected["plausible"])


@pytest.mark.parametrize("name", EDGE)
def test_the_plugins_own_oddities(name: str, tmp_path: Path) -> None:
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge" / name).write_bytes((CASES / "edge" / name).read_bytes())
    summary = ingest(tmp_path / "edge")
    assert (summary["records"]["stored"], summary["rejected_lines"]) == EDGE[name]


@pytest.mark.parametrize("sample", SAMPLES)
def test_public_examples_of_every_variant(sample: str, tmp_path: Path) -> None:
    directory = tmp_path / sample
    directory.mkdir()
    for path in (FIXTURES / "samples" / sample).iterdir():
        if path.name != "SOURCE.txt":
            (directory / path.name).write_bytes(path.read_bytes())
    summary = ingest(directory)
    auxiliary = ask(sample, "SELECT count(*) FROM auxiliary")[0][0]
    assert (
        summary["records"]["stored"],
        auxiliary,
        summary["rejected_lines"],
        summary["foreign_lines"],
        summary["files"]["foreign"],
    ) == SAMPLES[sample]


def test_one_communicator_id_with_two_shapes_is_two_communicators() -> None:
    ingest(CASES / "12_comm_id_collision")
    rows = ask("12_comm_id_collision", "SELECT n_ranks FROM communicators WHERE id = '0x16b8e812dc45f2' ORDER BY 1")
    assert rows == [(4,), (8,)]


def test_sequence_numbers_are_exact_and_one_beyond_63_bits_is_flagged_and_kept_as_written() -> None:
    ingest(CASES / "16_sn_beyond_int64")
    rows = ask("16_sn_beyond_int64", "SELECT coll_sn, flags, extra FROM events ORDER BY 1 NULLS LAST")
    assert [row[0] for row in rows] == [9007199254740992, 9007199254740993, None]
    assert [row[1] for row in rows] == [0, 0, RecordFlag.SN_IMPLAUSIBLE]
    assert json.loads(rows[2][2])["coll_perf.coll_sn"] > 2**63


def test_unused_channels_of_verbose_records_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "verbose").mkdir()
    name = "verbose_64ch_2.30.7.log"
    (tmp_path / "verbose" / name).write_bytes((CASES / "edge" / name).read_bytes())
    ingest(tmp_path / "verbose")
    rows = ask(
        "verbose", "SELECT DISTINCT len(channel_id), len(kernel_start_ts) FROM channels WHERE kind = 'collective'"
    )
    assert rows
    assert all(channels == times <= 64 for channels, times in rows)
    assert ask("verbose", "SELECT count(*) FROM channels WHERE list_min(kernel_start_ts) <= 0") == [(0,)]
