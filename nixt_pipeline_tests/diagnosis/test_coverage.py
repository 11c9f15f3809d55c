"""What was recorded, and what became of the rest. Four ranks of one communicator, unless it says otherwise."""

from contextlib import closing
from pathlib import Path

import pytest

from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.api import ingest_run
from nixt_pipeline.diagnosis.coverage import Capture, capture_findings, measure, not_assessable
from nixt_pipeline.diagnosis.findings import RunCoverage
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog
from nixt_pipeline_tests.records import collective, write_log


def measured(directory: Path, settings: Settings) -> tuple[RunCoverage, list[Capture]]:
    run = ingest_run(directory, settings).run
    build_cells(run, settings)
    with closing(catalog.open_run(settings, run)) as con:
        return measure(con)


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
    coverage, captures = measured(write(tmp_path / "job", dict.fromkeys(range(3), kept)), settings)
    assert coverage.capture_rate == pytest.approx(24 / 40)
    assert coverage.losses == {
        "processes without a log": 8,
        "below the minimum size, or without GPU time on all ranks": 8,
    }
    assert (coverage.ranks_seen, coverage.ranks_expected) == (3, 4)
    assert {capture.rate for capture in captures} == {0.8}


def test_what_one_rank_lacks_has_no_known_cause(tmp_path: Path, settings: Settings) -> None:
    numbers = {rank: list(range(10)) for rank in range(3)} | {3: [0, 9]}
    coverage, captures = measured(write(tmp_path / "job", numbers), settings)
    assert coverage.losses == {"unknown": 8}
    assert coverage.lowest_capture_rate == pytest.approx(0.2)
    assert (captures[0].pid, captures[0].rate) == (103, 0.2)
    loss, gap = capture_findings(coverage, captures)
    assert (loss.kind, loss.severity, gap.kind, gap.severity) == ("record-loss", "info", "capture-gap", "info")
    assert gap.processes == ("node-01-pid103",)
    assert "by the process with the fewest 20.0%" in loss.evidence


def test_nothing_is_said_where_nothing_was_lost(tmp_path: Path, settings: Settings) -> None:
    coverage, captures = measured(write(tmp_path / "job", {rank: list(range(10)) for rank in range(4)}), settings)
    assert coverage.capture_rate == 1
    assert capture_findings(coverage, captures) == []


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
