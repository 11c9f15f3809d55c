"""What one more run costs when there are many: every asset of the fleet, and the sensor's tick.

    python -m benchmarks.fleet DIR --runs 2000

writes the results of so many runs below DIR (kept for the next time), brings everything up to date, adds one run, and
measures bringing everything up to date again, each step in wall and CPU seconds.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from benchmarks.fleet_runs import Cluster, Job, jobs, write_run
from nixt_pipeline.defs.sensors import Attempt, Cursor, tick
from nixt_pipeline.fleet.against import update_comparisons
from nixt_pipeline.fleet.baselines import update_baselines
from nixt_pipeline.fleet.catalog import current_run_catalog, update_run_catalog
from nixt_pipeline.fleet.hosts import update_host_health
from nixt_pipeline.fleet.nccl_tests.variation import update_benchmark_variation
from nixt_pipeline.fleet.scaling import update_scaling
from nixt_pipeline.inspector.runs import find_runs
from nixt_pipeline.reporting.fleet_page import render_fleet_page
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store.catalog import publish_catalog
from nixt_pipeline.store.manifest import published_runs

HOSTS = 300
FILES_PER_RUN = 8


def refresh(settings: Settings) -> list[tuple[str, float, float]]:
    """Bring the fleet up to date, as the assets do; name, wall and CPU seconds of each step."""
    update_run_catalog(settings)
    rows = current_run_catalog(settings).table.to_pylist()
    steps: list[tuple[str, Callable[[], object]]] = [
        ("run_catalog", lambda: update_run_catalog(settings)),
        ("catalog.duckdb", lambda: publish_catalog(settings)),
        ("baselines", lambda: update_baselines(rows, settings)),
        ("run_comparison", lambda: update_comparisons(rows, settings)),
        ("host_health", lambda: update_host_health(rows, settings)),
        ("scaling", lambda: update_scaling(rows, settings)),
        ("benchmark_variation", lambda: update_benchmark_variation(rows, settings)),
        ("fleet_report", lambda: (render_fleet_page(settings), render_index(settings))),
    ]
    return [measure(name, step) for name, step in steps]


def measure(name: str, step: Callable[[], object]) -> tuple[str, float, float]:
    """Name, wall and CPU seconds of one step."""
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return name, time.perf_counter() - wall, time.process_time() - cpu


def sensor_tick(settings: Settings, runs: int) -> tuple[str, float, float]:
    """A tick over a landing directory of so many known runs, of which nothing is new."""
    for number in range(runs):
        directory = settings.landing_dir / f"nccl-inspector-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        for file in range(FILES_PER_RUN):
            (directory / f"gpu-{file}-pid1.log").touch()
    found, _ = find_runs(settings)
    cursor = Cursor({directory.run: Attempt(directory.fingerprint, 1) for directory in found})
    with dg.DagsterInstance.ephemeral() as instance:
        return measure("sensor tick", lambda: tick(settings, instance, cursor, "ingest_run"))


def main() -> None:
    """Write the runs, refresh, add one, refresh again, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args()
    below: Path = options.directory
    settings = load_settings(data_dir=below / "data", reports_dir=below / "reports", landing_dir=below / "landing")
    cluster, known = Cluster.of(HOSTS), set(published_runs(settings))
    for job in jobs(options.runs, cluster, seed=0):
        if job.run not in known:
            write_run(job, cluster, settings)
    first = refresh(settings)
    latest = len([run for run in known if run.startswith("more-")])
    write_run(Job(f"more-{latest}", options.runs + float(latest), cluster.hosts[1:5]), cluster, settings)
    again = [*refresh(settings), sensor_tick(settings, options.runs)]
    everything = {name: (wall, cpu) for name, wall, cpu in first}
    print(f"{options.runs} runs; one more is added\n")
    print("| step | CPU s, all at once | CPU s, one more | wall s, one more |\n| --- | ---: | ---: | ---: |")
    for name, wall, cpu in again:
        before = f"{everything[name][1]:.1f}" if name in everything else ""
        print(f"| {name} | {before} | {cpu:.2f} | {wall:.2f} |")
    print(f"| **sum** | | {sum(cpu for _, _, cpu in again):.1f} | {sum(wall for _, wall, _ in again):.1f} |")
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
