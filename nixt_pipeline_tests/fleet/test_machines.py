"""Whether a host name is the same machine in every run."""

from pathlib import Path
from typing import Any

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.fleet.catalog import current_run_catalog
from nixt_pipeline.fleet.compare.matching import Side
from nixt_pipeline.fleet.compare.placement import on_machines, placement
from nixt_pipeline.fleet.hosts import judge_hosts, update_host_health
from nixt_pipeline.fleet.machines import Machines, find_machines
from nixt_pipeline.settings import Settings, SettingsError, Thresholds
from nixt_pipeline_tests.fleet.examples import Kernel, summary

HOUR_US = 3_600_000_000


def row(
    number: int, hosts: dict[str, int], *, begin_h: float | None = None, nodes: dict[str, str] | None = None
) -> dict[str, Any]:
    """A run of one hour, the `number`-th of them unless it says when it began; `hosts` has the lowest pid on each."""
    names = sorted(hosts)
    begin_us = int((number if begin_h is None else begin_h) * HOUR_US)
    return {
        "run": f"r{number}",
        "verdict": "findings",
        "host_names": names,
        "lowest_pids": [hosts[name] for name in names],
        "node_names": [(nodes or {}).get(name) for name in names],
        "gpus": len(names),
        "duration_us": HOUR_US,
        "first_dump_us": begin_us,
        "last_dump_us": begin_us + HOUR_US,
    }


def cautions(settings: Settings, *rows: dict[str, Any]) -> set[str]:
    return set(find_machines(rows, settings).cautions)


PODS = {"trainer-worker-0": 7, "trainer-worker-1": 7, "trainer-worker-2": 8}


@pytest.mark.parametrize(
    "runs",
    [
        [PODS] * 3,  # a StatefulSet's or a PyTorchJob's workers
        [{"job-master-0": 1, "job-worker-0": 1, "job-worker-1": 1}] * 2,
        [PODS, {"trainer-worker-0": 7, "trainer-worker-1": 9}],  # a smaller job
        [{"worker1": 12, "worker2": 12}] * 2,  # services of Docker Compose
        [{"trainer-0": 4711, "trainer-1": 4711}] * 2,  # the same process ids in every run
        [{"localhost": 4711}, {"localhost": 5012}],
        [{"3f2a9c01bd77": 1}, {"9be01c33aa10": 1}],
        [{"train-7d4b9c6f5-x2v9z": 31}],
        [{"train-job-0-x7k2p": 7}],
        [{"trainer-3.trainer.team-a.svc.cluster.local": 4711}],
        [{"hopper": 1}, {"hopper": 1}],
    ],
)
def test_a_name_that_the_next_job_has_on_whatever_machine_is_none(
    runs: list[dict[str, int]], settings: Settings
) -> None:
    rows = [row(number, hosts) for number, hosts in enumerate(runs)]
    assert cautions(settings, *rows) == {name for hosts in runs for name in hosts}


@pytest.mark.parametrize(
    "runs",
    [
        [{"gpu-120": 20_016, "gpu-121": 20_016}, {"gpu-120": 20_016, "gpu-7": 20_000}],
        [{"node-01": 3011, "node-02": 3011}] * 2,
        [{"node-01": 1, "node-02": 1}] * 2,  # no pod is numbered with leading zeros
        [{"r07-n12": 7, "r07-n13": 7}] * 2,
        [{"gpu-0": 3011, "gpu-1": 2980}, {"gpu-0": 41_200, "gpu-1": 39_876}],  # all of a small cluster
        [{"gpu-0": 20_000, "gpu-1": 20_000}] * 3,  # the same process ids after each boot
        [{"dgx0": 4711, "dgx1": 4711}] * 2,
        [{"lab-node-0": 1, "lab-node-1": 1}] * 2,
        [{"gpu-120": 1, "gpu-133": 1}] * 2,  # containers with the host's network have the host's name
        [{"dgx.example.org": 3011}, {"dgx.example.org": 20_011}],
    ],
)
def test_a_name_as_clusters_give_it_is_a_machine(runs: list[dict[str, int]], settings: Settings) -> None:
    assert cautions(settings, *(row(number, hosts) for number, hosts in enumerate(runs))) == set()


def test_one_process_in_two_runs_at_one_time_is_on_two_machines(settings: Settings) -> None:
    one, other = row(0, {"gpu-120": 4711}), row(1, {"gpu-120": 4711}, begin_h=0.5)
    found = find_machines([one, other], settings)
    assert found.cautions == {"gpu-120": "its process 4711 ran in r0 and in r1 at the same time"}
    # Two jobs share a machine; one follows the other; one log was ingested twice.
    assert cautions(settings, one, row(1, {"gpu-120": 5012}, begin_h=0.5)) == set()
    assert cautions(settings, one, row(1, {"gpu-120": 4711})) == set()
    assert cautions(settings, one, row(1, {"gpu-120": 4711}, begin_h=0)) == set()


def test_a_person_decides(settings: Settings) -> None:
    rows = [row(number, {**PODS, "gpu-9": 3011}) for number in range(2)]
    assert cautions(settings.model_copy(update={"hosts_are_machines": "yes"}), *rows) == set()
    assert cautions(settings.model_copy(update={"hosts_are_machines": "no"}), *rows) == {*PODS, "gpu-9"}


def test_a_run_or_a_file_says_which_nodes_they_were(settings: Settings) -> None:
    path = settings.data_dir.parent / "nodes.json"
    path.write_text('{"*": {"trainer-worker-0": "n0"}, "r1": {"trainer-worker-0": "n1"}}')
    mapped = settings.model_copy(update={"node_map": path})
    rows = [row(0, PODS, nodes={"trainer-worker-2": "n17"}), row(1, PODS)]
    found = find_machines(rows, mapped)
    assert [found.of("r0", name) for name in PODS] == ["n0", "trainer-worker-1", "n17"]
    assert found.of("r1", "trainer-worker-0") == "n1"
    assert found.caution("r0", "trainer-worker-2") == ""
    assert found.caution("r1", "trainer-worker-2").startswith("each job numbers its hosts from 0 on")
    path.write_text("[]")
    with pytest.raises(SettingsError, match="it holds"):
        find_machines(rows, mapped)


def late(host: str) -> list[dict[str, Any]]:
    return [{"kind": "late-arrival", "severity": "P1", "hosts": [host], "ambiguous": False, "lost_rank_seconds": 60.0}]


def test_pods_are_no_suspects_and_their_nodes_are(settings: Settings) -> None:
    def judged(rows: list[dict[str, Any]], names: list[str]) -> dict[str, dict[str, Any]]:
        findings = {row["run"]: late(name) for row, name in zip(rows, names, strict=True)}
        table = judge_hosts(rows, findings, Thresholds(), find_machines(rows, settings))
        return {found["hostname"]: found for found in table.to_pylist()}

    rows = [row(number, PODS) for number in range(5)]
    found = judged(rows, ["trainer-worker-2"] * 5)
    assert {name: found[name]["suspect"] for name in PODS} == dict.fromkeys(PODS, False)
    assert found["trainer-worker-2"]["named"] == 5
    assert found["trainer-worker-2"]["caution"].startswith("each job numbers its hosts from 0 on")
    # Another pod is late each time, and each time it is on node n17.
    places = ["trainer-worker-2", "trainer-worker-0", "trainer-worker-1", "trainer-worker-2", "trainer-worker-0"]
    rows = [
        row(number, PODS, nodes={name: "n17" if name == place else f"n{number}{name[-1]}" for name in PODS})
        for number, place in enumerate(places)
    ]
    found = judged(rows, places)
    assert [name for name, host in found.items() if host["suspect"]] == ["n17"]
    assert (found["n17"]["runs"], found["n17"]["caution"]) == (5, None)


def test_pods_of_one_name_are_not_the_same_hosts(settings: Settings) -> None:
    kernel = Kernel(groups=(("trainer-worker-0 trainer-worker-1", 1.0),))

    def placed(**facts: Any) -> tuple[Side, Side]:
        rows = [row(number, {"trainer-worker-0": 7, "trainer-worker-1": 7}) | facts for number in range(2)]
        runs = [summary(found.pop("run"), (kernel,), **found) for found in rows]
        one, other = on_machines(runs, settings)
        return Side("a", (one,)), Side("b", (other,))

    unknown = placement(*placed(), Thresholds())
    assert (unknown.kind, unknown.common, unknown.names_are_machines) == ("changed", 0, False)
    a, b = placed(node_names=["n4", "n3"])
    assert placement(a, b, Thresholds()).kind == "same"
    (found,) = a.runs[0].kernels.values()
    assert list(found.groups) == ["n3 n4"]


def test_names_that_nothing_speaks_against_stay_as_they_are(settings: Settings) -> None:
    run = summary("r", host_names=["gpu-1", "gpu-2"])
    assert on_machines([run], settings) == [run]
    assert Machines().of("r", "gpu-1") == "gpu-1"


@pytest.mark.slow
def test_five_jobs_on_pods_of_one_name_give_no_host_to_drain(corpus: Path, settings: Settings) -> None:
    directories = sorted((corpus / "field" / "21_pod_names_are_not_hosts").glob("nccl-inspector-*"))
    for directory in directories:
        nixt.diagnose_run(nixt.ingest_run(directory, settings).run, settings)
    table = update_host_health(current_run_catalog(settings).table.to_pylist(), settings)
    late = next(row for row in table.to_pylist() if row["hostname"] == "trainer-worker-2")
    assert (late["named"], late["runs"], late["suspect"]) == (5, 5, False)
    assert late["caution"].startswith("each job numbers its hosts from 0 on")
