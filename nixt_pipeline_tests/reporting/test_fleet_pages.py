"""The pages of a comparison and of the fleet."""

import re
from dataclasses import replace

import pyarrow.parquet as pq

from benchmarks.fleet_runs import Cluster, Job, write_run
from nixt_pipeline.fleet.against import update_comparisons
from nixt_pipeline.fleet.baselines import update_baselines
from nixt_pipeline.fleet.catalog import update_run_catalog
from nixt_pipeline.fleet.compare.compare import compare_sides
from nixt_pipeline.fleet.compare.results import Comparison
from nixt_pipeline.fleet.hosts import host_health_path, update_host_health
from nixt_pipeline.fleet.nccl_tests.variation import update_benchmark_variation
from nixt_pipeline.fleet.scaling import update_scaling
from nixt_pipeline.reporting.comparison_page import comparison_html, render_run_comparison
from nixt_pipeline.reporting.fleet_page import fleet_html, render_fleet_page
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store.files import write_table
from nixt_pipeline_tests.fleet.examples import Kernel, finding, side, slower, summary

CLUSTER = Cluster(("gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-bad"), frozenset({"gpu-bad"}))


def comparison(name: str = "b", factor: float = 1.3) -> Comparison:
    broadcast = replace(Kernel(), coll="Broadcast")
    return compare_sides(
        side(summary("a", (Kernel(), broadcast))),
        side(summary(name, (slower(Kernel(), factor), broadcast), seed=1)),
        Thresholds(),
    )


def test_a_comparison_says_its_verdict_first_and_shows_every_kernel() -> None:
    page = comparison_html(comparison())
    assert page.index("REGRESSED (suspected)") < page.index("AllReduce 16 MB, 4 ranks on 4 nodes (data)</td>")
    assert 'class="verdict P1"' in page
    assert page.count('<svg role="img"') == 2  # transfer and waiting
    assert "waiting cannot be told from transfer in this operation" in page
    assert "so a change is suspected only" in page
    assert comparison_html(comparison()) == page
    assert 'class="verdict none-found"' in comparison_html(comparison(factor=1.0))


def test_a_comparison_on_other_hosts_shows_what_findings_explain() -> None:
    late = finding("late-arrival", "gpu-12", lost_s=1.8)
    b = summary("b", (replace(Kernel(), wait_us=700.0),), seed=1, host_names=["gpu-12"], findings=(late,))
    page = comparison_html(compare_sides(side(summary("a")), side(b), Thresholds()))
    assert "SLOWER-OTHER-HOSTS: slower by 55% in waiting, on other hosts; B has a P1 finding (gpu-12)" in page
    assert 'class="verdict P2"' in page
    assert "What findings explain" in page
    assert "Run B again without gpu-12" in page


def test_names_from_logs_are_text() -> None:
    page = comparison_html(comparison(name="<script>alert(1)</script>"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_change_beyond_the_axis_is_written() -> None:
    page = comparison_html(comparison(factor=30.0))
    assert re.search(r"\+29\d\d\.\d %", page)


def test_the_axis_says_two_and_a_half_per_cent_where_it_means_that() -> None:
    page = comparison_html(comparison(factor=1.0))
    assert "+2.5 %" in page


def test_without_any_result_the_page_says_so(settings: Settings) -> None:
    page = fleet_html(settings)
    assert page.count("Not computed.") == 5
    assert "Hosts are not judged yet; runs are not compared yet." in page
    assert 'class="verdict not-assessable"' in page


def test_the_page_over_all_runs_names_hosts_and_slower_runs(settings: Settings) -> None:
    hosts = ("gpu-1", "gpu-2")
    jobs = [Job(f"job-{number}", float(number), hosts) for number in range(4)]
    jobs += [Job("slow", 9.0, hosts, 1.5), *(Job(f"bad-{n}", 20.0 + n, ("gpu-3", "gpu-bad")) for n in range(8))]
    jobs += [Job(f"large-{number}", 40.0 + number, ("gpu-1", "gpu-2", "gpu-3", "gpu-4")) for number in range(3)]
    for job in jobs:
        write_run(job, CLUSTER, settings)
    rows = update_run_catalog(settings).table.to_pylist()
    update_baselines(settings, rows)
    _, made = update_comparisons(settings, rows)
    (slow,) = (found for found in made if found.b.name == "slow")
    render_run_comparison(slow, settings)
    update_host_health(settings, rows)
    update_scaling(settings, rows)
    update_benchmark_variation(settings, rows)
    page = render_fleet_page(settings).read_text(encoding="utf-8")
    assert "1 host to drain" in page
    assert "gpu-bad" in page
    assert '<a href="slow/comparison.html">regressed</a>' in page
    assert "has a finding of severity P1" in page
    assert page.count('<svg role="img"') == 2  # bandwidth and its variation by GPUs
    assert 'href="fleet.html"' in render_index(settings).read_text(encoding="utf-8")


def test_without_the_page_over_all_runs_the_list_does_not_link_to_it(settings: Settings) -> None:
    assert "fleet.html" not in render_index(settings).read_text(encoding="utf-8")


def test_names_of_pods_are_no_hosts_to_drain(settings: Settings) -> None:
    pods = Cluster(("trainer-0", "trainer-1"), frozenset({"trainer-1"}))
    for number in range(5):
        write_run(Job(f"job-{number}", float(number), pods.hosts), pods, settings)
    update_host_health(settings, update_run_catalog(settings).table.to_pylist())
    page = fleet_html(settings)
    assert "No host to drain" in page
    assert ">no machine<" in page
    assert "each job numbers its hosts from 0 on" in page


def test_a_result_of_a_version_that_knew_fewer_columns_is_not_computed_yet(settings: Settings) -> None:
    write_run(Job("job", 0.0, CLUSTER.hosts[:2]), CLUSTER, settings)
    update_host_health(settings, update_run_catalog(settings).table.to_pylist())
    path = host_health_path(settings)
    write_table(pq.read_table(path).drop_columns(["caution"]), path)
    assert "Hosts are not judged yet" in fleet_html(settings)
