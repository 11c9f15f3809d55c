"""The synthetic big job is what its figures say, and in the plugin's own bytes."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.big_job import write_big_job
from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.inspector.operations import algobw_gbs, busbw_gbs
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog
from nixt_pipeline.store.ingest import ingest


def test_every_record_is_stored_and_no_line_is_rejected(tmp_path: Path, settings: Settings) -> None:
    job = write_big_job(tmp_path / "logs", 1000, files=16)
    summary = ingest(tmp_path / "logs", "big", settings)
    assert (summary.records["stored"], summary.rejected_lines, summary.foreign_lines) == (1000, 0, 0)
    assert (summary.files["read"], summary.bytes["stored"]) == (16, job.bytes)


def test_whole_groups_complete_their_collectives(tmp_path: Path, settings: Settings) -> None:
    # 16 processes are two tensor-parallel groups; all other communicators have ranks elsewhere.
    write_big_job(tmp_path / "logs", 1600, files=16)
    ingest(tmp_path / "logs", "big", settings)
    build_cells("big", settings)
    with catalog.open_run("big", settings) as con:
        [(complete, incomplete)] = con.sql(
            "SELECT count(*) FILTER (complete), count(*) FILTER (NOT complete) FROM cells WHERE n_ranks = 8"
        ).fetchall()
        [(largest,)] = con.sql("SELECT max(occurrence) FROM cells").fetchall()
    assert complete > 100
    assert (incomplete, largest) == (0, 1)


@pytest.mark.parametrize("verbose", [False, True])
def test_a_line_is_the_record_that_the_plugin_would_write(verbose: bool, tmp_path: Path) -> None:
    write_big_job(tmp_path, 300, files=2, verbose=verbose)
    for line in (tmp_path / "node-001-pid20001.log").read_text().splitlines():
        record = json.loads(line)
        assert json.dumps(record, separators=(",", ":")).startswith(line[:200])
        header, body = record["header"], record.get("coll_perf") or record["p2p_perf"]
        kind = "coll" if "coll" in body else "p2p"
        facts = body[kind], body[f"{kind}_msg_size_bytes"], header["n_ranks"], body[f"{kind}_exec_time_us"]
        assert body[f"{kind}_algobw_gbs"] == pytest.approx(algobw_gbs(*facts), abs=1e-6)
        assert body[f"{kind}_busbw_gbs"] == pytest.approx(busbw_gbs(*facts), abs=1e-6)
        assert ("event_trace_sn" in body) == verbose


def test_the_same_arguments_give_the_same_bytes_compressed_or_not(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_big_job(tmp_path / name, 200, files=3, seed=7, compress=name == "b")
    write_big_job(tmp_path / "c", 200, files=3, seed=8)
    plain = {path.name: path.read_bytes() for path in (tmp_path / "a").glob("*.log")}
    folded = {path.stem: gzip.decompress(path.read_bytes()) for path in (tmp_path / "b").glob("*.log.gz")}
    assert len(plain) == 3
    assert folded == plain
    assert (tmp_path / "c" / "node-001-pid20000.log").read_bytes() != plain["node-001-pid20000.log"]


def test_more_files_than_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the job has 2048 processes"):
        write_big_job(tmp_path, 10, files=2049)
