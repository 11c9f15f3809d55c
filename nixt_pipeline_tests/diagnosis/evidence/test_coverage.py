"""What was recorded, and what became of the rest. Four ranks of one communicator, unless it says otherwise."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.api import ingest_run
from nixt_pipeline.diagnosis.evidence.coverage import Recorded, measure
from nixt_pipeline.diagnosis.evidence.replays import order_replays
from nixt_pipeline.diagnosis.findings import Diagnosis, RunCoverage
from nixt_pipeline.diagnosis.wording.reasons import not_assessable
from nixt_pipeline.diagnosis.wording.recording import capture_findings
from nixt_pipeline.diagnosis.wording.text import as_text
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log


def measured(directory: Path, settings: Settings) -> Recorded:
    run = ingest_run(directory, settings).run
    build_cells(run, settings)
    with closing(catalog.open_run(run, settings)) as con:
        return measure(order_replays(con), Thresholds())


def write(directory: Path, numbers: dict[int, list[int]], name: str | None = "DP") -> Path:
    """The given sequence numbers of each rank; the communicator has four ranks."""
    for rank, recorded in numbers.items():
        lines = [collective(sn=n, rank=rank, n_ranks=4, pid=100 + rank) for n in recorded]
        if name is None:
            lines = [line.replace('"comm_name":"unknown",', "") for line in lines]
        write_log(directory / f"node-01-pid{100 + rank}.log", *lines)
    return directory


def test_records_of_processes_without_a_log_and_of_nobody_are_told_apart(tmp_path: Path, settings: Settings) -> None:
    # Ranks 0 to 2 lack numbers 4 and 5 of ten; rank 3 has no log: of 40 records, 24 are there.
    kept = [n for n in range(10) if n not in (4, 5)]
    recorded = measured(write(tmp_path / "job", dict.fromkeys(range(3), kept)), settings)
    coverage = recorded.coverage
    assert coverage.capture_rate == pytest.approx(24 / 40)
    assert coverage.losses == {
        "processes without a log": 8,
        "below the minimum size, or without GPU time on all ranks": 8,
    }
    assert (coverage.ranks_seen, coverage.ranks_expected) == (3, 4)
    assert {capture.rate for capture in recorded.captures} == {0.8}


def test_what_one_rank_lacks_has_no_known_cause(tmp_path: Path, settings: Settings) -> None:
    numbers = {rank: list(range(10)) for rank in range(3)} | {3: [0, 9]}
    recorded = measured(write(tmp_path / "job", numbers), settings)
    coverage, captures = recorded.coverage, recorded.captures
    assert coverage.losses == {"unknown": 8}
    assert coverage.lowest_capture_rate == pytest.approx(0.2)
    assert (captures[0].process[1], captures[0].rate) == (103, 0.2)
    loss, gap = capture_findings(recorded, Thresholds())
    assert (loss.kind, loss.severity, gap.kind, gap.severity) == ("record-loss", "info", "capture-gap", "info")
    assert gap.processes == ("node-01-pid103",)
    assert "the process with the fewest, of those that left a log, wrote 20.0%" in loss.evidence


def test_nothing_is_said_where_nothing_was_lost(tmp_path: Path, settings: Settings) -> None:
    recorded = measured(write(tmp_path / "job", {rank: list(range(10)) for rank in range(4)}), settings)
    assert recorded.coverage.capture_rate == 1
    assert capture_findings(recorded, Thresholds()) == []


def test_a_log_that_ends_early_is_not_a_process_that_fell_silent(tmp_path: Path, settings: Settings) -> None:
    # Three ranks have 400 collectives. The fourth took part in all of them, or they would not have completed, and its
    # log lacks the last 100.
    numbers = {rank: list(range(400)) for rank in range(3)} | {3: list(range(300))}
    recorded = measured(write(tmp_path / "job", numbers), settings)
    assert recorded.coverage.losses == {"log ends before its process did": 100}
    _, silent = capture_findings(recorded, Thresholds())
    assert (silent.kind, silent.severity, silent.processes) == ("process-silent", "P2", ("node-01-pid103",))
    assert "ends 100 records early: its peers completed collectives that need it" in silent.evidence


def test_a_file_that_ends_within_a_record_was_cut(tmp_path: Path, settings: Settings) -> None:
    job = write(tmp_path / "job", {rank: list(range(400)) for rank in range(4)})
    log = job / "node-01-pid103.log"
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True)[:301])[:-50])
    recorded = measured(job, settings)
    assert recorded.coverage.losses == {"file cut short": 100}
    assert recorded.coverage.cut_files == 1
    silent = capture_findings(recorded, Thresholds())[-1]
    assert (silent.kind, silent.severity) == ("process-silent", "info")
    assert "Its file was cut" in silent.evidence


def test_files_that_were_cut_are_told_together(tmp_path: Path, settings: Settings) -> None:
    job = write(tmp_path / "job", {rank: list(range(400)) for rank in range(6)})
    for pid, kept in ((103, 300), (104, 200)):
        log = job / f"node-01-pid{pid}.log"
        log.write_text("".join(line for line in log.read_text().splitlines(keepends=True)[: kept + 1])[:-50])
    silent = [found for found in capture_findings(measured(job, settings), Thresholds()) if found.kind != "record-loss"]
    assert [(found.kind, found.processes) for found in silent] == [
        ("process-silent", ("node-01-pid103", "node-01-pid104"))
    ]
    assert "node-01-pid103 (100 records), node-01-pid104 (200 records)" in silent[0].evidence


def test_a_cut_file_of_one_container_says_nothing_of_the_file_of_another(tmp_path: Path, settings: Settings) -> None:
    # All four are process 1 of the same host name. The log of rank 3 ends early, and that of rank 0 within a record.
    for rank in range(4):
        lines = [collective(sn=n, rank=rank, n_ranks=4, pid=1) for n in range(300 if rank == 3 else 400)]
        log = write_log(tmp_path / "job" / f"c{rank}" / "node-01-pid1.log", *lines)
        if rank == 0:
            log.write_text(log.read_text() + lines[0][:50])
    silent = capture_findings(measured(tmp_path / "job", settings), Thresholds())[-1]
    assert (silent.kind, silent.processes) == ("process-silent", ("node-01-pid1 (c3)",))
    assert "Its file ends with a whole record" in silent.evidence


def test_ranks_are_counted_by_launch(tmp_path: Path, settings: Settings) -> None:
    for launch, ranks in ((1, 4), (2, 4), (3, 2)):
        for rank in range(ranks):
            lines = [
                collective(
                    sn=n, rank=rank, n_ranks=ranks, comm=f"0x{launch}", pid=100 * launch + rank,
                    at_us=EPOCH_US + launch * 60_000_000 + n * 1000,
                )
                for n in range(30)
            ]  # fmt: skip
            write_log(tmp_path / "job" / f"node-01-pid{100 * launch + rank}.log", *lines)
    coverage = measured(tmp_path / "job", settings).coverage
    assert (coverage.ranks_seen, coverage.ranks_by_launch) == (10, (4, 4, 2))
    told = as_text(Diagnosis("job", "none-found", coverage))
    assert "10 of 10 ranks left records: 4, 4, 2 in the 3 launches" in told
    told = as_text(Diagnosis("job", "none-found", replace(coverage, ranks_by_launch=(4, 4))))
    assert "left records: 4 in each of 2 launches" in told


def test_when_most_logs_end_early_it_is_the_end_of_the_job_that_is_missing(tmp_path: Path, settings: Settings) -> None:
    numbers = {0: list(range(400))} | {rank: list(range(400 - 40 * rank)) for rank in range(1, 4)}
    recorded = measured(write(tmp_path / "job", numbers), settings)
    assert recorded.coverage.losses == {"log ends before its process did": 40 + 80 + 120}
    assert [finding.kind for finding in capture_findings(recorded, Thresholds())] == ["record-loss"]


def test_one_slot_is_told_from_losses_at_random(tmp_path: Path, settings: Settings) -> None:
    def logs(directory: Path, step_us: int) -> Path:
        for rank in range(4):
            lines = [
                collective(sn=n, rank=rank, n_ranks=4, pid=100 + rank, name=None, at_us=EPOCH_US + step_us * n)
                for n in range(0, 60, 2)
            ]
            write_log(directory / f"node-01-pid{100 + rank}.log", *[line.replace("v2.30.7-1", "") for line in lines])
        return directory

    assert measured(logs(tmp_path / "slot", 500), settings).one_slot
    # Records of one communicator written within microseconds were remembered together.
    assert not measured(logs(tmp_path / "ring", 2), settings).one_slot


@pytest.mark.parametrize(
    ("coverage", "reason"),
    [
        (RunCoverage(4, 4, 9, 0.9, 100, capture_rate=0.05, gpu_timed=1.0), "only 5.0% of the collectives' records"),
        (RunCoverage(4, 4, 9, 0.9, 100, capture_rate=0.9, gpu_timed=0.1), "90% of the times were taken by the CPU"),
        (RunCoverage(4, 4, 9, 0.9, 19, capture_rate=0.9, gpu_timed=1.0), "only 19 collectives"),
        (RunCoverage(4, 4, 9, None, 0), "the log has no AllReduce"),
        (RunCoverage(4, 4, 9, 0.9, 20, capture_rate=0.9, gpu_timed=1.0), ""),
    ],
)
def test_too_little_is_not_assessable_with_a_reason(coverage: RunCoverage, reason: str) -> None:
    found = not_assessable(coverage, Thresholds())
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_where_hardly_anything_was_recorded_no_end_is_known(tmp_path: Path, settings: Settings) -> None:
    # One record in forty; the last one of rank 3 is the first half of the job's.
    numbers = {rank: list(range(rank, 1_600, 40)) for rank in range(3)} | {3: list(range(3, 800, 40))}
    recorded = measured(write(tmp_path / "job", numbers), settings)
    assert "process-silent" not in {finding.kind for finding in capture_findings(recorded, Thresholds())}
