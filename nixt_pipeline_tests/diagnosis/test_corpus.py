"""Whole jobs whose faults are known (`truth.json`)."""

import tarfile
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis import Finding
from nixt_pipeline.settings import Settings

pytestmark = pytest.mark.slow


def findings(job: str, corpus: Path, tmp_path: Path, settings: Settings) -> list[Finding]:
    """What is found in an archived job, without what only informs."""
    with tarfile.open(corpus / "corpus" / f"{job}.tar.xz") as archive:
        archive.extractall(tmp_path / job, filter="data")
    (directory,) = (tmp_path / job).iterdir()
    run = nixt.ingest_run(directory, settings).run
    return [finding for finding in nixt.diagnose_run(run, settings).findings if finding.severity != "info"]


@pytest.mark.parametrize("job", ["healthy-32", "healthy-sampled-v2.28-16"])
def test_nothing_is_found_in_a_healthy_job(job: str, corpus: Path, tmp_path: Path, settings: Settings) -> None:
    assert findings(job, corpus, tmp_path, settings) == []


@pytest.mark.parametrize(
    ("job", "kind", "host"),
    [
        ("slow-compute-host-32", "late-arrival", "gpu-126"),
        ("slow-nic-host-32", "slow-transfer", "gpu-120"),
        ("slow-nvlink-verbose-skew-16", "slow-transfer", "gpu-123"),
    ],
)
def test_the_host_at_fault_is_named_alone(
    job: str, kind: str, host: str, corpus: Path, tmp_path: Path, settings: Settings
) -> None:
    (finding,) = findings(job, corpus, tmp_path, settings)
    assert (finding.kind, finding.level, finding.hosts, finding.ambiguous) == (kind, "host", (host,), False)


def test_a_hang_is_narrowed_to_the_communicator_that_stopped_first(
    corpus: Path, tmp_path: Path, settings: Settings
) -> None:
    (finding,) = findings("hang-dp-32", corpus, tmp_path, settings)
    assert (finding.kind, finding.severity, finding.level) == ("hang", "P0", "communicator")
    assert "gpu-128-pid20019" in finding.processes
    assert len(finding.processes) == 4
    assert finding.ambiguous


@pytest.mark.parametrize(
    ("folder", "kind", "level", "name"),
    [
        ("07_mnnvl_rack/slow_ports_pipeline", "slow-transfer", "host", "tray-03"),
        ("07_mnnvl_rack/clock_off_rack", "clock-skew", "host", "tray-03"),
        ("09_cuda_graph_replays/mixed", "late-arrival", "rank", "infer-01-pid402"),
        ("09_cuda_graph_replays/late_in_decode", "late-arrival", "rank", "infer-01-pid402"),
    ],
)
def test_racks_and_cuda_graphs_are_diagnosed_like_other_jobs(
    folder: str, kind: str, level: str, name: str, corpus: Path, settings: Settings
) -> None:
    run = nixt.ingest_run(corpus / "field" / folder, settings).run
    (finding,) = nixt.diagnose_run(run, settings).findings
    assert (finding.kind, finding.level, finding.ambiguous) == (kind, level, False)
    assert (finding.hosts if level == "host" else finding.processes) == (name,)
    if kind == "slow-transfer":
        assert "NVLink" in finding.next_step
