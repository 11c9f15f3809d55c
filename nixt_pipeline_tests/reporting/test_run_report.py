"""From log lines to the page, through the store and the analyses."""

import json
from pathlib import Path
from typing import Any

import pytest

from nixt_pipeline.analysis import REPORTED, materialise
from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.reporting.content import load_content
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.reporting.report import render_run_report
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline.store.manifest import UnknownRunError
from nixt_pipeline_tests.reporting import examples

OPERATIONS = 4


def _record(rank: int, number: int, host: str) -> dict[str, Any]:
    """An AllReduce of 4 MB on two ranks. Rank 1 is the last to arrive: it has the shortest time."""
    time_us = 100 if rank == 1 else 300
    algobw = 4_000_000 / time_us / 1000
    return {
        "header": {"id": "0xabc", "comm_name": "DP Group 0", "rank": rank, "n_ranks": 2, "nnodes": 2},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "git_rev": "v2.30.7-1",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": examples.START_US + number * 1_000_000,
            "hostname": host,
            "pid": 7,
        },
        "coll_perf": {
            "coll": "AllReduce",
            "coll_sn": number,
            "coll_msg_size_bytes": 4_000_000,
            "coll_exec_time_us": time_us,
            "coll_timing_source": "kernel_gpu",
            "coll_algobw_gbs": algobw,
            # AllReduce on 2 ranks: the factor 2 (n - 1) / n is 1.
            "coll_busbw_gbs": algobw,
        },
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store with one run of two ranks; the last line of the second file is cut off."""
    logs = tmp_path / "logs" / "job-1"
    logs.mkdir(parents=True)
    for rank, host in enumerate(("gpu-1", "gpu-2")):
        lines = [json.dumps(_record(rank, number, host), separators=(",", ":")) + "\n" for number in range(OPERATIONS)]
        tail = '{"header":<b>' if rank else ""
        (logs / f"{host}-pid7.log").write_text("".join(lines) + tail, encoding="utf-8")
    settings = load_settings(data_dir=tmp_path / "data", reports_dir=tmp_path / "reports", workers=1)
    ingest(logs, "job-1", settings)
    return settings


def test_a_run_that_was_not_analysed_has_a_report_that_says_so(settings: Settings, tmp_path: Path) -> None:
    path = render_run_report("job-1", settings)
    html = path.read_text(encoding="utf-8")
    assert path == tmp_path / "reports" / "job-1" / "index.html"
    assert html.count("<strong>Not computed.</strong>") == len(REPORTED)
    assert "{&#34;header&#34;:&lt;b&gt;" in html, "the rejected line is shown as text"


@pytest.mark.slow
def test_a_report_shows_what_the_analyses_found(settings: Settings) -> None:
    build_cells("job-1", settings)
    for analysis in REPORTED:
        materialise(analysis, "job-1", settings)

    html = render_run_report("job-1", settings).read_text(encoding="utf-8")

    assert "Not computed" not in html
    # gpu-2 was last in 4 of 4; the chance of either is one half.
    assert "gpu-2 arrived last in 100 % of 4 complete collectives; 50 % if all were equal." in html
    for analysis in REPORTED:
        assert analysis.question.replace("'", "&#39;") in html
    assert "Per-rank count times type size" in html, "the glossary comes from the taxonomy"
    assert '<a href="job-1/index.html">job-1</a>' in render_index(settings).read_text(encoding="utf-8")


def test_the_same_store_gives_the_same_page(settings: Settings) -> None:
    first = render_run_report("job-1", settings).read_bytes()
    assert render_run_report("job-1", settings).read_bytes() == first


def test_an_unknown_run_is_refused_and_nothing_is_written(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UnknownRunError, match="job-1"):
        render_run_report("job-2", settings)
    assert not (tmp_path / "reports" / "job-2").exists()


def test_every_table_of_the_content_says_how_it_was_made(settings: Settings) -> None:
    content = load_content("job-1", settings)
    sources = {source.name: source for source in content.sources}
    assert sources.keys() == content.tables.keys()
    assert all(source.sql for source in sources.values())
    for table in ("files", "rejects", "communicators", "processes", "hosts"):
        assert Path(sources[table].path).exists()
    assert sources["rejects"].parameters == {"kept_rejects": 1000}
