import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.fleet_runs import Cluster, Job, write_run
from nixt_pipeline.api import ingest_run
from nixt_pipeline.cli import main
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

DAY_US = 86_400_000_000


def nixt(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def drop(settings: Settings, run: str, time_us: int, day: int = 0, **info: object) -> None:
    """A job of two ranks and 60 AllReduces of `time_us`, for which rank 0 waits 10 us longer than rank 1."""
    directory = settings.landing_dir / run
    for rank in (0, 1):
        lines = [
            collective(
                sn=sn,
                rank=rank,
                n_ranks=2,
                pid=100 + rank,
                time_us=time_us + (sn % 3) + 10 * (1 - rank),
                at_us=EPOCH_US + day * DAY_US + sn,
            )
            for sn in range(60)
        ]
        write_log(directory / f"node-01-pid{100 + rank}.log", *lines)
    (directory / "run.json").write_text(json.dumps(info), encoding="utf-8")
    ingest_run(directory, settings)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory with both runs, made once."""
    data = tmp_path_factory.mktemp("stored") / "data"
    settings = load_settings(data_dir=data, landing_dir=data / "landing", workers=1)
    drop(settings, "fast", 1000, tags=["good"], model="7B", gpus=2)
    drop(settings, "slow", 1300, day=1, model="7B", parallelism={"dp": 2})
    return data


@pytest.fixture
def two_runs(stored: Path) -> None:
    shutil.copytree(stored, "data")


@pytest.mark.usefixtures("two_runs")
def test_a_regression_is_exit_code_one_in_every_format() -> None:
    text = nixt("compare", "fast", "slow")
    assert text.exit_code == 1, text.output
    assert text.stdout.startswith("REGRESSED (suspected): transfer of AllReduce 1 MB, 2 ranks on 1 node")
    found = json.loads(nixt("compare", "fast", "slow", "--format", "json").stdout)
    assert (found["schema"], found["verdict"], found["basis"], found["suspected"]) == (1, "regressed", "blocks", True)
    (kernel,) = found["kernels"]
    # 1301 against 1001 us in the middle.
    assert kernel["transfer"]["change"] == pytest.approx(0.2997, abs=0.001)
    assert kernel["waiting"]["verdict"] == "equivalent"
    assert "| AllReduce 1 MB" in nixt("compare", "fast", "slow", "--format", "markdown").stdout
    back = nixt("compare", "slow", "fast")
    assert (back.exit_code, back.stdout.split(":")[0]) == (0, "IMPROVED (suspected)")


@pytest.mark.usefixtures("two_runs")
def test_runs_are_meant_by_tag_and_time_and_wrong_ones_are_an_input_error() -> None:
    assert nixt("compare", "--baseline", "good", "since:2025-08-31").stdout.startswith("REGRESSED")
    assert nixt("compare", "fast", "fast").exit_code == 2
    assert "no run matches 'missing'; known runs: fast, slow" in nixt("compare", "fast", "missing").output
    assert nixt("compare", "fast").exit_code == 2
    assert nixt("compare", "fast", "slow", "--baseline", "good").exit_code == 2


@pytest.mark.usefixtures("two_runs")
def test_runs_are_filtered_and_sorted() -> None:
    def listed(*arguments: str) -> list[str]:
        return [row["run"] for row in json.loads(nixt("runs", *arguments, "--format", "json").stdout)]

    assert listed() == ["slow", "fast"]  # the newest first
    assert listed("--sort", "run", "--ascending") == ["fast", "slow"]
    assert listed("--tag", "good") == ["fast"]
    assert listed("--model", "7B", "--limit", "1") == ["slow"]
    assert listed("--before", "2025-08-31") == ["fast"]
    assert listed("--host", "node-02") == []
    assert listed("--name", "lo") == ["slow"]
    assert nixt("runs", "--since", "soon").exit_code == 2
    table = nixt("runs").stdout
    assert "dp=2" in table
    # Two ranks of one tensor-parallel group, by its name.
    assert "tp=2 (inferred)" in table


def test_no_runs_are_no_rows() -> None:
    assert "(0 rows)" in nixt("runs").stdout


@pytest.mark.usefixtures("two_runs")
def test_baselines_are_listed_and_decided_on() -> None:
    listed = json.loads(nixt("baselines", "--format", "json").stdout)
    assert listed == []  # nothing was analysed yet
    nixt("compare", "fast", "slow")
    rows = json.loads(nixt("baselines", "--pin", "fast", "--reason", "known good", "--format", "json").stdout)
    assert {row["run"]: (row["fit"], row["reason"]) for row in rows} == {
        "fast": (True, "pinned: known good"),
        "slow": (False, "not diagnosed yet"),
    }
    against = nixt("compare", "slow")
    assert (against.exit_code, against.stdout.split(":")[0]) == (1, "REGRESSED (suspected)")
    assert nixt("baselines", "--reject", "missing").exit_code == 2
    assert nixt("baselines", "--pin", "fast", "--reject", "slow").exit_code == 2
    assert "fast has no baseline" in nixt("compare", "fast").output


def test_hosts_to_drain_are_listed() -> None:
    assert "(0 rows)" in nixt("hosts").stdout
    assert json.loads(nixt("hosts", "--all", "--format", "json").stdout) == []


def test_names_of_pods_are_listed_with_a_caution_and_not_to_be_drained() -> None:
    pods = Cluster(("trainer-0", "trainer-1"), frozenset({"trainer-1"}))
    for number in range(5):
        write_run(Job(f"job-{number}", float(number), pods.hosts), pods, load_settings())
    table = nixt("hosts").stdout
    assert "caution: trainer-1 is flagged in 5 of 5 runs, but is not a machine to drain" in table
    assert "host_nodes" in table
    (row,) = json.loads(nixt("hosts", "--format", "json").stdout)
    assert (row["hostname"], row["suspect"], row["caution"][:8]) == ("trainer-1", False, "each job")


def test_slower_on_other_hosts_is_a_verdict_that_a_gate_can_stop_at() -> None:
    cluster = Cluster(("gpu-1", "gpu-2", "gpu-3", "gpu-bad"), frozenset({"gpu-bad"}))
    write_run(Job("a", 0.0, ("gpu-1", "gpu-2")), cluster, load_settings())
    write_run(Job("b", 1.0, ("gpu-3", "gpu-bad"), factor=1.2), cluster, load_settings())
    found = nixt("compare", "a", "b", "--format", "json")
    report = json.loads(found.stdout)
    assert (found.exit_code, report["verdict"]) == (0, "slower-other-hosts")
    # The finding is a late host, which explains no longer transfers.
    assert (report["explained"]["findings"][0]["hosts"], report["explained"]["transfer_share"]) == (["gpu-bad"], 0.0)
    assert nixt("compare", "a", "b", "--fail-on", "slower-other-hosts").exit_code == 1
