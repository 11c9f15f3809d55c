"""From log files to findings."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import nixt_pipeline as nixt
from nixt_pipeline.cli import main
from nixt_pipeline.diagnosis import Diagnosis
from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.reporting.index import render_index
from nixt_pipeline.reporting.report import render_run_report
from nixt_pipeline.settings import Settings
from nixt_pipeline.simulation.demo import write_demo_job
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log


def diagnosed(directory: Path, settings: Settings) -> Diagnosis:
    run = nixt.ingest_run(directory, settings).run
    return nixt.diagnose_run(run, settings)


def test_too_few_collectives_are_not_assessable_and_never_healthy(tmp_path: Path, settings: Settings) -> None:
    for rank in range(2):
        lines = [collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank) for n in range(19)]
        write_log(tmp_path / "job" / f"node-01-pid{100 + rank}.log", *lines)
    found = diagnosed(tmp_path / "job", settings)
    assert found.verdict == "not-assessable"
    assert found.reason == "only 19 collectives were recorded by several ranks with GPU times (at least 20 are needed)"
    assert found.findings == ()


def test_who_is_late_to_the_end_of_a_launch_that_another_follows_was_late_until_then(
    tmp_path: Path, settings: Settings
) -> None:
    # A step every 10 ms, for 2 s. In the first launch the others wait 3 ms in each for rank 3; the second is healthy.
    for launch, begin_us in ((1, EPOCH_US), (2, EPOCH_US + 30_000_000)):
        for rank in range(4):
            waiting_us = 3_000 if launch == 1 and rank != 3 else 0
            lines = [
                collective(
                    sn=n, rank=rank, comm=f"0x{launch}", pid=100 * launch + rank, size=100_000_000,
                    time_us=1_000 + waiting_us, at_us=begin_us + 10_000 * n,
                )
                for n in range(200)
            ]  # fmt: skip
            write_log(tmp_path / "job" / f"node-01-pid{100 * launch + rank}.log", *lines)
    (late,) = diagnosed(tmp_path / "job", settings).findings
    assert (late.kind, late.processes) == ("late-arrival", ("node-01-pid103",))
    assert late.until_us == EPOCH_US + 199 * 10_000


def test_a_log_without_synchronising_collectives_is_not_assessable(tmp_path: Path, settings: Settings) -> None:
    lines = [collective(sn=n, coll="Broadcast") for n in range(50)]
    write_log(tmp_path / "job" / "node-01-pid100.log", *lines)
    assert diagnosed(tmp_path / "job", settings).reason.startswith("the log has no AllReduce")


def test_a_collective_recorded_by_one_rank_of_four_says_nothing(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "job" / "node-01-pid100.log", *(collective(sn=n) for n in range(50)))
    found = diagnosed(tmp_path / "job", settings)
    assert found.verdict == "not-assessable"
    assert (found.coverage.ranks_seen, found.coverage.ranks_expected) == (1, 4)


def test_the_late_rank_of_a_recorded_job_is_named_and_none_of_those_that_wait(settings: Settings) -> None:
    # By construction, rank 5 (node 2, pid 32820) comes 5 ms late to every collective of the last ten steps.
    (finding,) = diagnosed(FIXTURES / "job_2.30.7_8ranks", settings).findings
    assert (finding.kind, finding.severity, finding.level) == ("late-arrival", "P1", "rank")
    assert finding.processes == ("gpu-node-02-pid32820",)
    assert not finding.ambiguous


def test_sizes_that_differ_between_ranks_are_a_mismatch(tmp_path: Path, settings: Settings) -> None:
    for rank in range(2):
        lines = [
            collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank, size=2_000_000 if rank and n == 25 else 1_000_000)
            for n in range(30)
        ]
        write_log(tmp_path / "job" / f"node-01-pid{100 + rank}.log", *lines)
    (finding,) = diagnosed(tmp_path / "job", settings).findings
    assert (finding.kind, finding.severity) == ("mismatch", "P0")
    assert "1 AllReduce from number 25 on" in finding.evidence


def test_broken_records_in_between_do_no_harm(tmp_path: Path, settings: Settings) -> None:
    for rank in range(2):
        lines = [collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank) for n in range(30)]
        lines.append(collective(sn=2**63 + 5, rank=rank, n_ranks=2, pid=100 + rank))
        lines.append(collective(sn=30, rank=rank, n_ranks=2, pid=100 + rank).replace('"hostname":"node-01",', ""))
        write_log(tmp_path / "job" / f"node-01-pid{100 + rank}.log", *lines)
    found = diagnosed(tmp_path / "job", settings)
    assert (found.verdict, found.findings) == ("none-found", ())


@pytest.mark.slow
def test_a_late_host_is_named_and_the_host_that_waits_for_it_is_not(tmp_path: Path, settings: Settings) -> None:
    write_demo_job(tmp_path / "job", gpus_per_host=2, steps=40, late_host="node-02", late_from_step=20)
    (finding,) = diagnosed(tmp_path / "job", settings).findings
    assert (finding.kind, finding.level, finding.hosts) == ("late-arrival", "host", ("node-02",))


@pytest.mark.slow
def test_a_slow_network_card_is_named_by_what_is_fast(tmp_path: Path, settings: Settings) -> None:
    write_demo_job(tmp_path / "job", gpus_per_host=2, steps=30, late_host=None, slow_network_host="node-03")
    (finding,) = diagnosed(tmp_path / "job", settings).findings
    assert (finding.kind, finding.level, finding.hosts) == ("slow-transfer", "host", ("node-03",))


@pytest.mark.slow
def test_a_healthy_job_has_no_finding(tmp_path: Path, settings: Settings) -> None:
    write_demo_job(tmp_path / "job", gpus_per_host=2, steps=30, late_host=None)
    found = diagnosed(tmp_path / "job", settings)
    assert (found.verdict, found.findings) == ("none-found", ())


def test_the_command_prints_the_contract_and_fails_on_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NIXT_WORKERS", "1")
    job = str(FIXTURES / "job_2.30.7_8ranks")
    result = CliRunner().invoke(main, ["diagnose", job, "--format", "json", "--fail-on", "P1"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verdict"] == "findings"
    again = CliRunner().invoke(main, ["diagnose", "job_2.30.7_8ranks", "--fail-on", "P0"])
    assert again.exit_code == 0
    assert "gpu-node-02-pid32820 keeps others waiting" in again.stdout
    assert CliRunner().invoke(main, ["diagnose", "unknown"]).exit_code == 2


def test_the_report_and_the_index_show_what_was_found(settings: Settings) -> None:
    diagnosed(FIXTURES / "job_2.30.7_8ranks", settings)
    stored = stored_diagnosis("job_2.30.7_8ranks", settings)
    assert stored is not None
    html = render_run_report("job_2.30.7_8ranks", settings).read_text(encoding="utf-8")
    assert "gpu-node-02-pid32820" in html.split('id="findings"')[1].split("</section>")[0]
    assert stored.findings[0].counter_evidence in html
    index = render_index(settings).read_text(encoding="utf-8")
    assert "late-arrival: gpu-node-02-pid32820" in index


def test_the_findings_are_a_table_of_the_run(settings: Settings) -> None:
    diagnosed(FIXTURES / "job_2.30.7_8ranks", settings)
    run = nixt.open_run("job_2.30.7_8ranks", settings)
    assert run.sql("SELECT severity, level FROM findings").fetchall() == [("P1", "rank")]
    assert run.findings().verdict == "findings"
