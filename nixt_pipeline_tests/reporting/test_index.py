from pathlib import Path

import pyarrow as pa

from nixt_pipeline.reporting.index import index_html, render_index
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_table, write_text
from nixt_pipeline.store.manifest import Manifest, write_manifest
from nixt_pipeline_tests.reporting import examples


def _settings(tmp_path: Path) -> Settings:
    return load_settings(data_dir=tmp_path / "data", reports_dir=tmp_path / "reports")


def _publish(manifest: Manifest, settings: Settings) -> None:
    directory = manifest.directory(settings)
    write_table(examples.processes("gpu-1", "gpu-2", run=manifest.run), directory / "processes.parquet")
    write_manifest(manifest, settings)


def test_the_index_of_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    path = render_index(_settings(tmp_path))
    assert path == tmp_path / "reports" / "index.html"
    assert "No runs yet." in path.read_text(encoding="utf-8")


def test_the_index_has_a_row_for_each_run_and_links_to_the_reports_there_are(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    _publish(examples.manifest(run="job-1", rejected_lines=3), settings)
    _publish(examples.manifest(run="job 2%", incarnations=2), settings)
    write_text("report", layout.report_dir(settings, "job 2%") / "index.html")
    # 2 ranks x 4 operations at 50 % and 6 ranks x 4 operations at 100 %: (4 + 24) / (8 + 24) = 87.5 %.
    coverage = examples.coverage(run="job-1", capture_rate=0.5), examples.coverage(run="job-1", n_ranks=6)
    write_table(pa.concat_tables(coverage), layout.results_path(settings, "coverage", "job-1"))

    html = render_index(settings).read_text(encoding="utf-8")

    assert '<a href="job%202%25/index.html">job 2%</a>' in html
    assert "<td>job-1</td>" in html
    assert ">87.5 %<" in html
    assert html.count(">2025-08-30T20:20:06Z<") == 2
    assert '<td class="number" data-sort="10000000">10 s</td>' in html


def test_a_hostile_run_name_is_text(tmp_path: Path) -> None:
    row = {"run": examples.HOSTILE, "records": 1, "link": None}
    html = index_html([row])
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
