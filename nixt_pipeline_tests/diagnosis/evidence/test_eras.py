"""Jobs of one communicator with a step of 100 ms and two AllReduces, that goes on in another one with fewer or more
processes. Whoever is late comes 30 ms after the others in the first one of each step, which wait for it."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

FOUR = [("node-01", 1), ("node-01", 2), ("node-02", 3), ("node-02", 4)]
THREE = FOUR[:3]
STEP_US = 100_000
# Its processes, steps, and who is late.
Phase = tuple[Sequence[tuple[str, int]], int, Sequence[tuple[str, int]]]


def written(directory: Path, *phases: Phase, pause_us: int = 1_000_000, tensor: bool = False) -> Path:
    """The logs of a job, written every step. With `tensor`, the processes of each host share a communicator that is
    never replaced and has an AllReduce in each step."""
    lines: dict[tuple[str, int], list[str]] = defaultdict(list)
    begin_us = 0
    local: dict[str, int] = defaultdict(int)
    for number, (members, steps, late) in enumerate(phases):
        nnodes = len({host for host, _ in members})
        for step in range(steps):
            at_us = begin_us + (step + 1) * STEP_US
            for host in {host for host, _ in members} if tensor else ():
                own = [pid for other, pid in members if other == host]
                for rank, pid in enumerate(own):
                    lines[host, pid].append(
                        collective(
                            sn=local[host], rank=rank, n_ranks=2, comm=f"0x{host}", name=f"TP {host}", host=host,
                            pid=pid, at_us=EPOCH_US + at_us - STEP_US // 2,
                        )
                    )  # fmt: skip
                local[host] += 1
            for rank, (host, pid) in enumerate(members):
                for turn in (0, 1):
                    waits = bool(late) and turn == 0 and (host, pid) not in late
                    lines[host, pid].append(
                        collective(
                            sn=2 * step + turn, size=25_000_000, rank=rank, n_ranks=len(members), nnodes=nnodes,
                            comm=f"0x{number}", name="default_pg:0", host=host, pid=pid,
                            time_us=31_000 + rank if waits else 1_000 + rank, at_us=EPOCH_US + at_us + turn,
                        )
                    )  # fmt: skip
        begin_us += steps * STEP_US + pause_us
    for (host, pid), own_lines in lines.items():
        write_log(directory / f"{host}-pid{pid}.log", *own_lines)
    return directory


def alarms(directory: Path, settings: Settings) -> list[Finding]:
    run = nixt.ingest_run(directory, settings).run
    return [finding for finding in nixt.diagnose_run(run, settings).findings if finding.severity != "info"]


@pytest.mark.parametrize("pause_us", [0, 1_000_000, 30_000_000])
@pytest.mark.parametrize(("before", "after"), [(FOUR, THREE), (THREE, FOUR)])
def test_only_who_is_late_after_a_change_is_named(
    before: list[tuple[str, int]], after: list[tuple[str, int]], pause_us: int, tmp_path: Path, settings: Settings
) -> None:
    phases: list[Phase] = [(before, 40, ()), (after, 80, FOUR[1:2])]
    (late,) = alarms(written(tmp_path / "job", *phases, pause_us=pause_us), settings)
    assert (late.kind, late.processes) == ("late-arrival", ("node-01-pid2",))
    assert late.until_us is None
    # From the change on, give or take the first step.
    assert late.onset_us == pytest.approx(EPOCH_US + 40 * STEP_US + pause_us, abs=3 * STEP_US)
    # It keeps the others for 30 of 100 ms.
    assert late.effect.cost_share == pytest.approx(0.30, rel=0.05)
    assert late.effect.lost_rank_seconds == pytest.approx(0.03 * 80 * (len(after) - 1), rel=0.1)


def test_who_is_late_before_and_after_a_change_is_told_once(tmp_path: Path, settings: Settings) -> None:
    phases: list[Phase] = [(FOUR, 40, FOUR[1:2]), (THREE, 40, FOUR[1:2])]
    (late,) = alarms(written(tmp_path / "job", *phases), settings)
    assert late.processes == ("node-01-pid2",)
    assert late.until_us is None
    assert "Found before and after communicators were replaced at 2025-08-30 21:00:05 UTC" in late.evidence
    assert late.effect.cost_share == pytest.approx(0.30, rel=0.05)
    # Three others waited for it, then two.
    assert late.effect.lost_rank_seconds == pytest.approx(0.03 * 40 * (3 + 2), rel=0.1)


def test_the_lateness_of_who_leaves_in_good_order_is_past(tmp_path: Path, settings: Settings) -> None:
    phases: list[Phase] = [(FOUR, 40, FOUR[3:]), (THREE, 60, ()), (FOUR[:2], 60, ())]
    (late,) = alarms(written(tmp_path / "job", *phases), settings)
    assert (late.kind, late.processes) == ("late-arrival", ("node-02-pid4",))
    assert late.until_us == pytest.approx(EPOCH_US + 40 * STEP_US, abs=STEP_US)
    assert late.effect.cost_share == pytest.approx(0.30, rel=0.05)


def test_communicators_that_live_on_are_looked_at_in_parts(tmp_path: Path, settings: Settings) -> None:
    phases: list[Phase] = [(FOUR, 40, ()), (FOUR[:2], 80, FOUR[1:2])]
    (late,) = alarms(written(tmp_path / "job", *phases, tensor=True), settings)
    assert (late.kind, late.processes) == ("late-arrival", ("node-01-pid2",))
    assert late.effect.cost_share == pytest.approx(0.30, rel=0.05)


@pytest.mark.parametrize("pause_us", [0, 5_000_000])
def test_who_left_in_good_order_did_not_hang_where_others_kept_their_communicators(
    pause_us: int, tmp_path: Path, settings: Settings
) -> None:
    six = [*FOUR, ("node-03", 5), ("node-03", 6)]
    phases: list[Phase] = [(six, 40, ()), (FOUR, 40, ()), (six[:2], 40, ())]
    assert alarms(written(tmp_path / "job", *phases, pause_us=pause_us, tensor=True), settings) == []
