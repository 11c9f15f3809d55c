"""Jobs in which a host name and a process id are not one GPU: each is a rewritten log of the same simulated job, in
which node-02 needs 1.6 times as long to compute."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis import Diagnosis, Finding
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.wording.ranks import with_ranks
from nixt_pipeline.settings import Settings
from nixt_pipeline.simulation.demo import write_demo_job
from nixt_pipeline_tests.diagnosis.examples import communicator, observations

GPUS = 4
# What the diagnosis says of the same job with a process for each GPU.
COST_SHARE = pytest.approx(0.365, abs=0.005)

# The file of a process, by its host, its number in the launch, and its log; and what stands in the log instead.
Rewrite = Callable[[str, int, str], tuple[str, str]]


def one_process_per_host(host: str, _: int, log: str) -> tuple[str, str]:
    return f"{host}-pid7.log", re.sub(r'"pid":\d+', '"pid":7', log)


def containers(host: str, number: int, log: str) -> tuple[str, str]:
    return f"gpu-{number}/{host}-pid1.log", re.sub(r'"pid":\d+', '"pid":1', log)


def rank_in_name(host: str, number: int, log: str) -> tuple[str, str]:
    named = re.sub(r'"comm_name":"([^"]*)","rank":(\d+)', r'"comm_name":"\1 r\2","rank":\2', log)
    return f"{host}-pid{number}.log", named


def diagnosed(rewrite: Rewrite, tmp_path: Path, settings: Settings) -> Diagnosis:
    write_demo_job(tmp_path / "demo", hosts=3, gpus_per_host=GPUS, steps=24, late_from_step=0)
    for number, path in enumerate(sorted((tmp_path / "demo").iterdir())):
        name, log = rewrite(path.name.split("-pid")[0], number, path.read_text())
        target = tmp_path / "job" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a") as file:
            file.write(log)
    return nixt.diagnose_run(nixt.ingest_run(tmp_path / "job", settings).run, settings)


@pytest.mark.slow
@pytest.mark.parametrize("rewrite", [one_process_per_host, containers, rank_in_name])
def test_the_late_host_is_named_however_its_gpus_share_processes_and_names(
    rewrite: Rewrite, tmp_path: Path, settings: Settings
) -> None:
    diagnosis = diagnosed(rewrite, tmp_path, settings)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.level, finding.hosts) == ("late-arrival", "host", ("node-02",))
    assert finding.severity == "P1"
    assert finding.effect.cost_share == COST_SHARE
    assert finding.ranks == (4, 5, 6, 7)
    assert (diagnosis.coverage.ranks_seen, diagnosis.coverage.ranks_expected) == (12, 12)


A0, A1, B0, B1 = members = (("a", 7, " rank 0"), ("a", 7, " rank 1"), ("b", 7, " rank 2"), ("b", 7, " rank 3"))


def ranked(finding: Finding, *, certain: bool) -> Finding:
    """The finding in a launch of two processes with two ranks each, of which the first are in a communicator."""
    first: tuple[Process, ...] = (A0, B0)
    seen = observations([communicator(0, *members), replace(communicator(1, *first), certain=certain)])
    [result] = with_ranks(replace(seen, ranks={process: rank for rank, process in enumerate(members)}), [finding])
    return result


HANG = Finding(
    kind="hang", severity="P0", level="rank", hosts=("a",), processes=("a-pid7 rank 0",), communicators=("0x1",),
    evidence="It stopped.", counter_evidence="It may have been killed.", next_step="Get its stack.",
)  # fmt: skip


def test_findings_have_the_ranks_of_their_processes() -> None:
    assert ranked(HANG, certain=True) == replace(HANG, ranks=(0,))


def test_where_any_rank_of_the_process_could_be_meant_all_are_named() -> None:
    finding = ranked(HANG, certain=False)
    assert (finding.processes, finding.ranks, finding.ambiguous) == (("a-pid7 rank 0", "a-pid7 rank 1"), (0, 1), True)
    assert "does not say which of the ranks" in finding.counter_evidence
