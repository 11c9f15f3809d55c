"""Data-parallel jobs of one communicator with three AllReduces to a step, of which a new one may take the place."""

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.detectors.halt import Behind, Halt
from nixt_pipeline.diagnosis.detectors.sequel import Sequel, restarted, what_followed
from nixt_pipeline.diagnosis.detectors.stopped import Stop
from nixt_pipeline.diagnosis.evidence.ending import Ending
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.launches import Launch
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.parts import Part
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording.hangs import with_sequel
from nixt_pipeline.diagnosis.wording.text import how_bad, since, title
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.diagnosis.examples import communicator
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

SECOND_US = 1_000_000
INTERVAL_US = 100_000  # of the dump thread
SIX = [("node-01", 1), ("node-01", 2), ("node-02", 3), ("node-02", 4), ("node-03", 5), ("node-03", 6)]
# When it begins, in seconds; its processes; the steps, and operations of one more.
Process = tuple[str, int]
Phase = tuple[float, list[Process], int, int]


def written(
    directory: Path, *phases: Phase, last_bytes: int = 9_000_000, unwritten: dict[Process, int] | None = None
) -> Path:
    """The logs of a job whose communicators follow one another; processes write at different moments, and lack as many
    of their last records as `unwritten` says."""
    chance = random.Random(0)
    offset: dict[Process, int] = defaultdict(lambda: chance.randrange(INTERVAL_US))
    lines: dict[Process, list[str]] = defaultdict(list)
    for number, (begin_s, members, steps, begun) in enumerate(phases):
        for sn in range(3 * steps + begun):
            end_us = begin_s * SECOND_US + (sn // 3) * 100_000 + 60_000 + (sn % 3) * 10_000
            for rank, (host, pid) in enumerate(members):
                late_us = -(end_us - offset[host, pid]) % INTERVAL_US
                lines[host, pid].append(
                    collective(
                        sn=sn, size=last_bytes if sn % 3 == 2 else 25_000_000, rank=rank, n_ranks=len(members),
                        nnodes=len({host for host, _ in members}), comm=f"0x{number}", name="default_pg:0", host=host,
                        pid=pid, at_us=EPOCH_US + int(end_us + late_us),
                    )
                )  # fmt: skip
    for (host, pid), own in lines.items():
        lost = (unwritten or {}).get((host, pid), 0)
        write_log(directory / f"{host}-pid{pid}.log", *own[: len(own) - lost])
    return directory


def stops(directory: Path, settings: Settings) -> list[Finding]:
    run = nixt.ingest_run(directory, settings).run
    return [f for f in nixt.diagnose_run(run, settings).findings if f.kind in ("hang", "unfinished-step")]


def test_who_has_no_record_since_the_others_shrank_the_communicator_is_named(
    tmp_path: Path, settings: Settings
) -> None:
    without = [*SIX[:3], *SIX[4:]]
    (stop,) = stops(written(tmp_path / "job", (0, SIX, 25, 1), (30, without, 40, 0)), settings)
    assert (stop.severity, stop.level, stop.ambiguous, stop.processes) == ("P1", "rank", False, ("node-02-pid4",))
    assert since(stop) == "2025-08-30 21:00:02 UTC, until 2025-08-30 21:00:30 UTC"
    assert how_bad(stop) == "the job stalled until 2025-08-30 21:00:30 UTC, then went on"
    assert "node-02-pid4 has no record since; the 5 other processes went on in a communicator of 5" in stop.evidence
    assert title(stop) == "Hang that is over: node-02-pid4"


@pytest.mark.parametrize("begun", [1, 2])
@pytest.mark.parametrize("unwritten", [0, 1, 4])
def test_who_died_within_a_step_of_equal_operations_is_named(
    begun: int, unwritten: int, tmp_path: Path, settings: Settings
) -> None:
    dead = [SIX[1], SIX[3]]
    phases: list[Phase] = [(0, SIX, 25, begun), (30, [one for one in SIX if one not in dead], 40, 0)]
    directory = written(tmp_path / "job", *phases, last_bytes=25_000_000, unwritten=dict.fromkeys(dead, unwritten))
    (stop,) = stops(directory, settings)
    assert (stop.kind, stop.severity, stop.ambiguous) == ("hang", "P1", False)
    assert stop.processes == ("node-01-pid2", "node-02-pid4")
    assert f"25 steps of 3 operations, {begun} of one more" in stop.evidence
    assert stop.until_us is not None


def test_equal_operations_that_end_with_a_step_are_no_hang(tmp_path: Path, settings: Settings) -> None:
    phases: list[Phase] = [(0, SIX, 25, 0), (30, SIX[:5], 40, 0), (60, SIX[:4], 40, 0)]
    assert stops(written(tmp_path / "job", *phases, last_bytes=25_000_000), settings) == []


def test_hosts_and_one_process_after_the_other_may_leave(tmp_path: Path, settings: Settings) -> None:
    spare = ("node-09", 1)
    phases: list[Phase] = [(0, SIX, 25, 1), (30, SIX[:4], 25, 2), (60, [*SIX[:3], spare], 40, 0)]
    later, first = sorted(stops(written(tmp_path / "job", *phases), settings), key=lambda stop: -(stop.onset_us or 0))
    assert (first.level, first.hosts, first.processes) == ("host", ("node-03",), ("node-03-pid5", "node-03-pid6"))
    assert (later.level, later.processes) == ("rank", ("node-02-pid4",))
    assert "went on in a communicator of 4" in later.evidence


def test_communicators_that_are_replaced_between_two_steps_are_no_hang(tmp_path: Path, settings: Settings) -> None:
    phases: list[Phase] = [(0, SIX, 25, 0), (30, SIX[:5], 40, 0), (40, SIX, 30, 0)]
    assert stops(written(tmp_path / "job", *phases), settings) == []


def test_a_hang_that_all_processes_overcame_is_a_note(tmp_path: Path, settings: Settings) -> None:
    # No process can have been started again within 1.4 s.
    (stop,) = stops(written(tmp_path / "job", (0, SIX, 25, 1), (4, SIX, 40, 0)), settings)
    assert (stop.severity, stop.until_us) == ("P2", EPOCH_US + stop_s(4))
    assert "All 6 processes went on" in stop.evidence


def stop_s(begin_s: int) -> int:
    """The first record of a communicator: 60 ms after its begin, written by the first process at the next pass."""
    chance = random.Random(0)
    offsets = [chance.randrange(INTERVAL_US) for _ in SIX]
    end_us = begin_s * SECOND_US + 60_000
    return end_us + min(-(end_us - offset) % INTERVAL_US for offset in offsets)


def test_a_job_that_was_started_again_hung_in_the_past(tmp_path: Path, settings: Settings) -> None:
    again = [(host, pid + 100) for host, pid in SIX]
    (stop,) = stops(written(tmp_path / "job", (0, SIX, 25, 1), (20, again, 40, 0)), settings)
    assert stop.severity == "P1"
    assert since(stop) == "2025-08-30 21:00:02 UTC, until 2025-08-30 21:00:20 UTC"
    assert "The job was restarted at 2025-08-30 21:00:20 UTC (6 processes) and went on until" in stop.evidence
    assert "py-spy" not in stop.next_step


def test_a_job_that_was_started_again_with_the_process_ids_that_it_had_hung_in_the_past(
    tmp_path: Path, settings: Settings
) -> None:
    (stop,) = stops(written(tmp_path / "job", (0, SIX, 25, 1), (20, SIX, 40, 0)), settings)
    assert stop.severity == "P1"
    assert since(stop) == "2025-08-30 21:00:02 UTC, until 2025-08-30 21:00:20 UTC"
    assert "The job was restarted at 2025-08-30 21:00:20 UTC (6 processes) and went on until" in stop.evidence


def test_what_took_the_place_of_a_launch_came_later_on_its_hosts_or_is_as_large() -> None:
    own = Launch(1, 0, 100, frozenset("ab"), 16, 100)
    beside = Launch(2, 50, 300, frozenset("a"), 16, 100)
    elsewhere = Launch(3, 200, 300, frozenset("cd"), 4, 100)
    requeued = Launch(4, 210, 300, frozenset("ef"), 16, 100)
    again = Launch(5, 220, 300, frozenset("bc"), 8, 100)
    assert restarted([own, beside], 1, 100) is None
    assert restarted([own, beside, elsewhere], 1, 100) is None
    assert restarted([own, elsewhere, again], 1, 100) == again
    assert restarted([own, elsewhere, requeued, again], 1, 100) == requeued


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "launches", "told"),
    [
        ("02_nccl_tests_in_a_row/more_iters_10ms", 3, []),
        ("03_torchrun_restart/preempted_30_then_40", 2, []),
        ("03_torchrun_restart/restart_after_60s", 2, [("P1", "21:00:00", "21:01:00")]),
        ("15_comm_shrink/shrink", 1, [("P1", "21:00:00", "21:00:30")]),
        ("15_comm_shrink/shrink_planned", 1, []),
        ("15_comm_shrink/grow", 1, []),
    ],
)
def test_situations_from_the_field(
    job: str, launches: int, told: list[tuple[str, str, str]], corpus: Path, settings: Settings
) -> None:
    summary = nixt.ingest_run(corpus / "field" / job, settings)
    assert summary.incarnations == launches
    found = [f for f in nixt.diagnose_run(summary.run, settings).findings if f.severity != "info"]
    assert [f.kind for f in found] == ["hang"] * len(told)
    for finding, (severity, begin, end) in zip(found, told, strict=True):
        assert finding.severity == severity
        assert since(finding) == f"2025-08-30 {begin} UTC, until 2025-08-30 {end} UTC"


def test_a_job_that_may_have_been_killed_names_nobody_who_hung() -> None:
    suspects = (("a", 1), ("b", 1))
    stop = Finding(
        kind="hang", severity="P0", level="communicator", hosts=("a", "b"), processes=("a-pid1", "b-pid1"),
        communicators=("0x1",), ambiguous=True, evidence="It stopped. One of 2 processes hung.",
        counter_evidence="", next_step="",
    )  # fmt: skip
    part = Part(frozenset({1}), suspects)
    how = Behind(Stop((), frozenset(suspects), 1, 0.0), (), sure=True)

    def told(sequel: Sequel | None, **killed: Any) -> Finding:
        return with_sequel(stop, Halt(how, part, EPOCH_US, sequel, **killed), Ending())

    killed = told(None, may_be_killed=True, killed_share=0.2)
    assert (killed.kind, killed.processes) == ("unfinished-step", ())
    assert "the log would look the same in 20% of them" in killed.counter_evidence
    assert "clocks were set" in told(None, may_be_killed=True, killed_share=None).counter_evidence
    assert killed.evidence.startswith("It stopped. It was killed, reached its time limit, or hung")
    # Of two that stopped, one went on: the other is named, and not among two.
    left = told(Sequel(EPOCH_US, (suspects[0],), (suspects[1],), 1))
    assert (left.processes, "hung" in left.evidence) == (("b-pid1",), False)
    assert "One of 2 processes hung" in told(None).evidence


def test_what_began_before_a_stop_by_the_clock_of_those_who_used_both_is_no_sequel() -> None:
    a1, a2, b1, b2 = ("a", 1), ("a", 2), ("b", 1), ("b", 2)
    world, pair = communicator(0, a1, a2, b1, b2), communicator(1, b1, b2)
    part = Part(frozenset({0, 1}), (a1, a2, b1, b2))

    def followed(pair_begins_us: int) -> Sequel | None:
        # The clock of host a was set back: by it, all ended before the pair began by the clock of host b.
        reaches = [Reach(10, "AllReduce", process, 9, 0, 10, 50_000_000, 0) for process in (a1, a2)]
        reaches += [Reach(10, "AllReduce", process, 9, 0, 10, 170_000_000, 120_000_000) for process in (b1, b2)]
        reaches += [Reach(11, "AllReduce", process, 9, 0, 10, 175_000_000, pair_begins_us) for process in (b1, b2)]
        comms = _used({world: (0, 170_000_000), pair: (pair_begins_us, 175_000_000)})
        return what_followed(part, frozenset({0}), reaches, reaches, comms)[1]

    assert followed(121_000_000) is None
    sequel = followed(171_000_000)
    assert sequel is not None and (sequel.went_on, sequel.left) == ((b1, b2), (a1, a2))


def _used(spans: dict[Communicator, tuple[int, int]]) -> list[Communicator]:
    """The communicators with when they were used, and 10 more than their number for the hash of their identity."""
    return [replace(comm, key=comm.number + 10, span=span) for comm, span in spans.items()]


def _reaches(comm: int, last_us: dict[Process, int], first_us: int = 0) -> list[Reach]:
    """Ten AllReduces each, by the clock of each process."""
    return [Reach(comm, "AllReduce", process, 9, 0, 10, last, first_us) for process, last in last_us.items()]


def test_who_took_no_part_in_what_stopped_goes_on_by_a_clock_of_its_own() -> None:
    a1, a2, b1, b2 = ("a", 1), ("a", 2), ("b", 1), ("b", 2)
    own, pair, world = communicator(0, a1, a2), communicator(1, b1, b2), communicator(2, a1, a2, b1, b2)
    part = Part(frozenset({0, 1, 2}), (a1, a2, b1, b2))
    comms = _used({own: (0, 40_000_000), pair: (0, 150_000_000), world: (0, 90_000_000)})

    def followed(pair_ends_us: int) -> Sequel | None:
        # The clock of host b is 50 s ahead: all left the collective of all at 39 s by the clock of host a.
        reaches = _reaches(12, {a1: 39_000_000, a2: 39_000_000, b1: 89_000_000, b2: 89_000_000})
        reaches += _reaches(10, {a1: 40_000_000, a2: 40_000_000})
        reaches += _reaches(11, {b1: pair_ends_us, b2: pair_ends_us})
        return what_followed(part, frozenset({0}), reaches, reaches, comms)[1]

    # It stopped at 90 s by the clock of host b. Three of ten steps in 150 s may be waited for.
    assert followed(90_000_000) is None
    sequel = followed(150_000_000)
    assert sequel is not None and (sequel.went_on, sequel.left) == ((b1, b2), (a1, a2))


def test_a_clock_that_was_set_makes_nobody_patient() -> None:
    a1, b1, c1, c2 = ("a", 1), ("b", 1), ("c", 1), ("c", 2)
    part = Part(frozenset({0, 1}), (a1, b1, c1, c2))
    # The clock of host a was set ahead by an hour: by it, the collectives of all took so long.
    reaches = _reaches(10, {a1: 3_640_000_000, b1: 40_000_000, c1: 40_000_000, c2: 40_000_000})
    reaches += _reaches(11, {c1: 70_000_000, c2: 70_000_000})
    world, pair = communicator(0, a1, b1, c1, c2), communicator(1, c1, c2)
    comms = _used({world: (0, 3_640_000_000), pair: (0, 70_000_000)})
    sequel = what_followed(part, frozenset({0}), reaches, reaches, comms)[1]
    assert sequel is not None and (sequel.went_on, sequel.left) == ((c1, c2), (a1, b1))


def test_a_communicator_of_others_that_was_in_use_all_the_time_is_no_sequel_by_their_clock() -> None:
    a1, a2, b1, b2 = ("a", 1), ("a", 2), ("b", 1), ("b", 2)
    part = Part(frozenset({0, 1}), (a1, a2, b1, b2))
    # Of host b only Sends and Recvs were recorded; its clock is an hour ahead.
    own, others = communicator(0, a1, a2), communicator(1, b1, b2)
    comms = _used({own: (0, 40_000_000), others: (3_600_000_000, 3_640_000_000)})
    reaches = _reaches(10, {a1: 40_000_000, a2: 40_000_000})
    assert what_followed(part, frozenset({0}), reaches, reaches, comms)[1] is None
