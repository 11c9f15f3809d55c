import json
import re
from pathlib import Path

import pyarrow as pa

from nixt_pipeline.reporting.index import index_html, render_index, run_line, thinned
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
    write_text("report", layout.report_dir("job 2%", settings) / "index.html")
    # 2 ranks x 4 operations at 50 % and 6 ranks x 4 operations at 100 %: (4 + 24) / (8 + 24) = 87.5 %.
    coverage = examples.coverage(run="job-1", capture_rate=0.5), examples.coverage(run="job-1", n_ranks=6)
    write_table(pa.concat_tables(coverage), layout.results_path("coverage", "job-1", settings))

    html = render_index(settings).read_text(encoding="utf-8")

    assert '<a href="job%202%25/index.html">job 2%</a>' in html
    assert '<td class="name" data-sort="job-1">job-1</td>' in html
    assert ">87.5 %<" in html
    assert html.count(">2025-08-30T20:20:06Z<") == 2
    assert '<td class="number" data-sort="10000000">10 s</td>' in html
    assert "<td>3 lines rejected</td>" in html
    assert "<td>2 launches</td>" in html


def test_a_report_leaves_its_verdict_and_the_course_of_its_hottest_kernel_for_the_index() -> None:
    content = examples.content(diagnosis=examples.diagnosis(examples.finding()))
    assert json.loads(run_line(content)) == {
        "verdict": "P1 slow-transfer: gpu-1",
        "class": "P1",
        "kernel": "gpu-1 2r/2n",
        "busbw_p50_gbs": 42.0,
        # The bins of AllReduce nic-only, whose kernel is the hottest.
        "busbw_over_time_gbs": [40.0, 41.0, 30.0],
    }


def test_a_long_course_is_thinned_to_the_means_of_its_stretches() -> None:
    assert thinned([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert thinned([1.0], 2) == [1.0]


def test_the_course_is_a_line_from_zero_up() -> None:
    html = index_html(
        [examples.catalog_row(line={"verdict": "none found", "class": "none-found", "busbw_over_time_gbs": [0.0, 9.0]})]
    )
    assert 'points="0,19 100,1"' in html


def test_hosts_are_numbered_once_and_runs_have_ranges_of_numbers() -> None:
    rows = [
        examples.catalog_row(host_names=["c", "a", "b"]),
        examples.catalog_row(run="job-2", host_names=["a", "c"]),
        examples.catalog_row(run="job-3"),
    ]
    html = index_html(rows)
    found = re.search(r'<script type="application/json" id="hosts">(.*?)</script>', html)
    assert found is not None
    assert json.loads(found.group(1)) == {
        "names": ["a", "b", "c", "gpu-1", "gpu-2"],
        "runs": [[0, 3], [0, 1, 2, 1], [3, 2]],
    }


def test_hostile_names_are_text_and_cannot_end_the_data() -> None:
    html = index_html([examples.catalog_row(run=examples.HOSTILE, name=examples.HOSTILE, host_names=["</script><b>"])])
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert html.count("</script>") == 2
    assert "\\u003c/script>\\u003cb>" in html


def test_the_name_the_model_and_the_tags_stand_with_the_run() -> None:
    html = index_html([examples.catalog_row(name="baseline", model="15b", tags=["weekly"])])
    assert "<small>baseline, 15b, weekly</small>" in html
