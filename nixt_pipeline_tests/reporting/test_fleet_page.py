"""The fleet's page."""

import pyarrow.parquet as pq

from benchmarks.fleet_runs import Cluster, Job, write_run
from nixt_pipeline.fleet.against import update_comparisons
from nixt_pipeline.fleet.baselines import update_baselines
from nixt_pipeline.fleet.catalog import update_run_catalog
from nixt_pipeline.fleet.hosts import HOST_HEALTH, update_host_health
from nixt_pipeline.fleet.nccl_tests.variation import update_benchmark_variation
from nixt_pipeline.fleet.scaling import update_scaling
from nixt_pipeline.reporting.comparison_page import render_run_comparison
from nixt_pipeline.reporting.fleet_page import fleet_html, render_fleet_page
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_table

CLUSTER = Cluster(("gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-bad"), frozenset({"gpu-bad"}))


def test_without_any_result_the_page_says_so(settings: Settings) -> None:
    page = fleet_html(settings)
    assert page.count("Not computed.") == 5
    assert "Hosts have not been judged yet; runs have not been compared yet." in page
    assert 'class="verdict not-assessable"' in page


def test_the_page_names_hosts_and_slower_runs(settings: Settings) -> None:
    hosts = ("gpu-1", "gpu-2")
    jobs = [Job(f"job-{number}", float(number), hosts) for number in range(4)]
    jobs += [Job("slow", 9.0, hosts, 1.5), *(Job(f"bad-{n}", 20.0 + n, ("gpu-3", "gpu-bad")) for n in range(8))]
    jobs += [Job(f"large-{number}", 40.0 + number, ("gpu-1", "gpu-2", "gpu-3", "gpu-4")) for number in range(3)]
    for job in jobs:
        write_run(job, CLUSTER, settings)
    rows = update_run_catalog(settings).table.to_pylist()
    update_baselines(rows, settings)
    _, made = update_comparisons(rows, settings)
    (slow,) = (found for found in made if found.b.name == "slow")
    render_run_comparison(slow, settings)
    update_host_health(rows, settings)
    update_scaling(rows, settings)
    update_benchmark_variation(rows, settings)
    page = render_fleet_page(settings).read_text(encoding="utf-8")
    assert "1 host to drain" in page
    assert "gpu-bad" in page
    assert '<a href="slow/comparison.html">regressed</a>' in page
    assert "has a finding of severity P1" in page
    assert page.count('<svg role="img"') == 2  # bandwidth and its variation by GPUs
    assert 'href="fleet.html"' in render_index(settings).read_text(encoding="utf-8")


def test_without_the_page_the_list_does_not_link_to_it(settings: Settings) -> None:
    assert "fleet.html" not in render_index(settings).read_text(encoding="utf-8")


def test_names_of_pods_are_no_hosts_to_drain(settings: Settings) -> None:
    pods = Cluster(("trainer-0", "trainer-1"), frozenset({"trainer-1"}))
    for number in range(5):
        write_run(Job(f"job-{number}", float(number), pods.hosts), pods, settings)
    update_host_health(update_run_catalog(settings).table.to_pylist(), settings)
    page = fleet_html(settings)
    assert "No host to drain" in page
    assert ">not a machine<" in page
    assert "each job numbers its hosts from 0 on" in page


def test_a_result_of_a_version_that_knew_fewer_columns_is_not_computed_yet(settings: Settings) -> None:
    write_run(Job("job", 0.0, CLUSTER.hosts[:2]), CLUSTER, settings)
    update_host_health(update_run_catalog(settings).table.to_pylist(), settings)
    path = HOST_HEALTH.path(settings)
    write_table(pq.read_table(path).drop_columns(["caution"]), path)
    assert "Hosts have not been judged yet" in fleet_html(settings)
