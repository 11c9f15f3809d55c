"""Two hosts of two processes, each with a communicator within the host, which does two collectives to a step, and all
with one for the gradients, which does one and which may be replaced while the others live on."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording.text import since
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

STEPS, STEP_US = 20, 20_000
HOSTS: Mapping[str, Sequence[int]] = {"node-01": (1, 2), "node-02": (3, 4)}


def written(directory: Path, local_steps: int, pause_us: int = 30_000_000, left: str = "") -> Path:
    """The logs of a job that completed 20 steps of the large communicator and `local_steps` of the small ones when it
    stood still, and 20 of each after it, without the host that `left`. The dump thread writes after each step."""
    lines: dict[tuple[str, int], list[str]] = defaultdict(list)

    def step(number: int, sn: int, at_us: int, world: str, hosts: Sequence[str]) -> None:
        ranks = [(host, pid) for host in hosts for pid in HOSTS[host]]
        for rank, (host, pid) in enumerate(ranks):
            own = lines[host, pid]
            own += [
                collective(
                    sn=2 * number + turn, size=1_000_000, rank=HOSTS[host].index(pid), n_ranks=2, nnodes=1,
                    comm=f"0x{host}", name=f"TP {host}", host=host, pid=pid, at_us=EPOCH_US + at_us,
                )
                for turn in (0, 1)
            ]  # fmt: skip
            if world:
                own.append(
                    collective(
                        sn=sn, size=25_000_000, rank=rank, n_ranks=len(ranks), nnodes=len(hosts), comm=world,
                        name="WORLD", host=host, pid=pid, at_us=EPOCH_US + at_us,
                    )
                )  # fmt: skip

    for number in range(local_steps):
        step(number, number, number * STEP_US, "0x1" if number < STEPS else "", tuple(HOSTS))
    stayed = [host for host in HOSTS if host != left]
    for number in range(STEPS):
        at_us = pause_us + (local_steps + number) * STEP_US
        step(local_steps + number, number, at_us, "0x2", stayed)
    for (host, pid), own in lines.items():
        write_log(directory / f"{host}-pid{pid}.log", *own)
    return directory


def hangs(directory: Path, settings: Settings) -> list[Finding]:
    run = nixt.ingest_run(directory, settings).run
    return [finding for finding in nixt.diagnose_run(run, settings).findings if finding.kind == "hang"]


def test_a_communicator_that_is_made_anew_in_mid_step_stood_still_until_then(
    tmp_path: Path, settings: Settings
) -> None:
    (stop,) = hangs(written(tmp_path / "job", STEPS + 1), settings)
    assert (stop.severity, stop.level, stop.communicators) == ("P2", "communicator", ("0x1",))
    # 20 steps of 20 ms after the first write, and 30 s and another step later.
    assert (stop.onset_us, stop.until_us) == (EPOCH_US + 400_000, EPOCH_US + 30_420_000)
    assert "The job stalled for 30 s in the middle of a step" in stop.evidence
    assert "WORLD (AllReduce 20 times). Kept, and one step ahead by then: TP node-01, TP node-02." in stop.evidence
    assert "All 4 processes went on in a communicator of 4" in stop.evidence


def test_a_host_that_left_while_the_communicators_of_others_lived_on_is_named(
    tmp_path: Path, settings: Settings
) -> None:
    (stop,) = hangs(written(tmp_path / "job", STEPS + 1, left="node-02"), settings)
    assert (stop.severity, stop.level, stop.hosts) == ("P1", "host", ("node-02",))
    assert stop.processes == ("node-02-pid3", "node-02-pid4")
    assert since(stop) == "2025-08-30 21:00:00 UTC, until 2025-08-30 21:00:30 UTC"
    assert "the 2 other processes went on in a communicator of 2" in stop.evidence


@pytest.mark.parametrize(
    ("local_steps", "pause_us", "left"),
    [
        (STEPS, 30_000_000, ""),  # between two steps
        (STEPS, 30_000_000, "node-02"),
        (STEPS + 1, 500_000, ""),  # no longer than some steps take
        (STEPS + 5, 30_000_000, ""),  # an evaluation before
    ],
)
def test_communicators_that_are_replaced_on_purpose_are_no_hang(
    local_steps: int, pause_us: int, left: str, tmp_path: Path, settings: Settings
) -> None:
    assert hangs(written(tmp_path / "job", local_steps, pause_us, left), settings) == []
