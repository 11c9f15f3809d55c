"""A job that began a step and did not finish it.

By counts: two processes that step 30 times, gradients in a communicator of each, then a flag of both. By order:
operations of one communicator are given as letters, by what they are: see `OPERATIONS`.
"""

from collections import Counter
from math import ceil
from pathlib import Path

import numpy as np
import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.detectors.unfinished_step import never_completed, stopped_between_pauses, stopped_in_step
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.operations import Log, Operation, by_number
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.steps import Steps
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.diagnosis.examples import communicator
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

A, B, C, D = ("a", 1), ("a", 2), ("b", 1), ("b", 2)
FLAG_US, GRADIENTS_US = 50_000, 40_000


def job(
    flags: int, gradients: int, flag_us: int = FLAG_US, gradients_us: int = GRADIENTS_US
) -> tuple[list[Series], list[Reach]]:
    """How often the flag and the gradients were exchanged, and when each was written first."""
    series, frontier = [], []
    comms: list[tuple[tuple[Process, ...], str, int, int]] = [
        ((A, B, C, D), "AllReduce", flags, flag_us),
        ((A, C), "ReduceScatter", gradients, gradients_us),
        ((B, D), "ReduceScatter", gradients, gradients_us),
    ]
    for number, (members, coll, times, first_us) in enumerate(comms):
        last = dict.fromkeys(members, times - 1)
        series.append(Series(communicator(number, *members), coll, last, 0.0, communicator=number))
        frontier += [Reach(number, coll, member, times - 1, 0, times, 9_000_000, first_us) for member in members]
    return series, frontier


def test_everything_but_the_last_flag_of_all_is_a_job_that_waits_in_it() -> None:
    found = never_completed(*job(29, 60), processes=4)
    assert found is not None
    assert (found.coll, found.furthest) == ("AllReduce", 28)


def test_a_job_of_whole_steps_has_ended() -> None:
    assert never_completed(*job(30, 60), processes=4) is None


def test_a_job_that_begins_its_steps_with_the_flag_has_ended_after_as_many() -> None:
    # Were it to begin with the gradients, 29 flags in 30 steps would lack one.
    assert never_completed(*job(29, 60, flag_us=10_000), processes=4) is None


def test_what_was_not_done_regularly_says_nothing() -> None:
    assert never_completed(*job(29, 61), processes=4) is None
    assert never_completed(*job(9, 20), processes=4) is None


def test_of_what_was_written_at_once_nobody_knows_which_came_first() -> None:
    assert never_completed(*job(29, 60, flag_us=GRADIENTS_US + 500), processes=4) is None


@pytest.mark.parametrize(
    ("passes_of_flags", "pending"),
    [
        (range(29), True),  # every pass writes one step's flag with its gradients, and the last one gradients only
        (range(1, 30), False),  # the flag follows later: a job that ends leaves it out as well
    ],
)
def test_what_is_done_in_one_go_and_once_less_at_the_end_was_never_completed(
    passes_of_flags: range, pending: bool
) -> None:
    series, frontier = job(29, 30, flag_us=GRADIENTS_US)
    flag, gradients = Operation("AllReduce", 8), Operation("ReduceScatter", 1 << 20)
    own = {
        0: Log([flag] * 29, np.array(passes_of_flags)),
        1: Log([gradients] * 30, np.arange(30)),
    }
    found = never_completed(series, frontier, 4, lambda: [own])
    assert (found is not None) == pending


MEGABYTES = 1_000_000
OPERATIONS = {
    "B": Operation("Broadcast", 100 * MEGABYTES),
    "g": Operation("AllReduce", 25 * MEGABYTES),  # a bucket of gradients
    "h": Operation("AllReduce", 9 * MEGABYTES),  # the last one
    "k": Operation("AllReduce", 30 * MEGABYTES),  # one of the first step, before they were arranged
    "l": Operation("AllReduce", 4),  # the loss
    "a": Operation("AllGather", 8 * MEGABYTES),  # the parameters of a layer
    "r": Operation("ReduceScatter", 8 * MEGABYTES),
}
# Two layers, whose parameters are gathered again for the backward pass, but for the last one.
FULLY_SHARDED = "aaaararr"


def stopped(operations: str) -> str | None:
    """The beginning of a step that was done last, and then what comes next; None when nothing hung."""
    found = stopped_in_step({7: Log([OPERATIONS[letter] for letter in operations], np.arange(len(operations)))})
    if not found:
        return None
    letters = {operation: letter for letter, operation in OPERATIONS.items()}
    step = "".join(letters[operation] for operation in found[7].operations)
    return f"{step[: found[7].begun]} {step[found[7].begun]}"


def test_a_job_that_ends_with_a_whole_step_has_not_hung() -> None:
    assert stopped("B" + "gggh" * 20) is None
    assert stopped(FULLY_SHARDED * 20) is None
    assert stopped("g" * 50) is None
    assert stopped("") is None


def test_a_step_that_was_begun_and_not_ended_hangs_before_what_comes_next() -> None:
    assert stopped("B" + "gggh" * 20 + "gg") == "gg g"
    assert stopped("B" + "gggh" * 20 + "ggg") == "ggg h"
    assert stopped("B" + "ggggh" * 20 + "gggg") == "gggg h"
    assert stopped(FULLY_SHARDED * 20 + "aaaar") == "aaaar a"
    assert stopped("gggh" * 20 + "g") == "g g"


def test_evaluations_between_steps_and_at_the_end_are_no_begun_step() -> None:
    interrupted = ("gggh" * 20 + "l") * 3
    assert stopped(interrupted) is None
    assert stopped(interrupted + "gggh" * 7) is None
    assert stopped(interrupted + "gggh" * 7 + "g") == "g g"
    evaluated = (FULLY_SHARDED * 20 + "aa") * 3
    assert stopped(evaluated) is None
    assert stopped(evaluated + FULLY_SHARDED * 5 + "aa") is None
    # One that was never seen before: a forward pass begins a step as well.
    assert stopped(FULLY_SHARDED * 20 + "aaa") is None
    assert stopped(FULLY_SHARDED * 20 + "a") == "a a"


def test_an_evaluation_every_few_steps_is_not_taken_for_the_end_of_one_long_step() -> None:
    # In 61 operations of 20 steps and an evaluation, the last 17 steps would be a beginning.
    assert stopped("B" + ("ggh" * 20 + "l") * 17 + "ggh" * 17) is None
    assert stopped(("gh" * 3 + "l") * 17 + "gh" * 2) is None
    assert stopped(("g" * 5 + "l") * 17 + "g" * 2) is None


def test_what_was_done_before_the_first_step_does_not_shift_the_beginning() -> None:
    # A barrier may look like the loss.
    assert stopped("l" + "gggl" * 20) is None
    # The first step has other buckets but for the last one.
    assert stopped("kkh" + "gggh" * 20) is None
    assert stopped("kkh" + "gggh" * 20 + "gg") is None


def test_a_small_operation_alone_is_no_begun_step() -> None:
    assert stopped("lggg" * 20 + "l") is None
    assert stopped("lggg" * 20 + "lg") == "lg g"


def test_a_few_steps_or_ones_that_differ_show_no_order() -> None:
    assert stopped("gggh" * 4 + "gg") is None
    assert stopped("".join("g" * (2 + n * n % 5) + "h" for n in range(30)) + "g") is None


def logs(steps: str, every: int) -> dict[int, Log]:
    """What each of some communicators, named by a digit before each of its operations, wrote: one pass for so many."""
    found: dict[int, list[tuple[str, int]]] = {}
    for n, (number, letter) in enumerate(zip(steps[::2], steps[1::2], strict=True)):
        found.setdefault(int(number), []).append((letter, n // every))
    return {
        number: Log([OPERATIONS[letter] for letter, _ in items], np.array([n for _, n in items]))
        for number, items in found.items()
    }


def once_less(times: int) -> dict[int, Steps]:
    """The loss in communicator 3, so many times."""
    return {3: Steps((OPERATIONS["l"],), tuple(range(times)), 0)}


def test_what_all_processes_do_last_in_a_step_hung_when_it_was_done_once_less() -> None:
    # Two tensor-parallel layers, gradients, parameters, and the gradients' norm of the whole job.
    step = "1a1r1a1r2r2a3l"
    assert stopped_in_step(logs(step * 20, every=3)) == {}
    assert stopped_in_step(logs(step * 20 + step[:-2], every=3)) == once_less(20)
    # In one pass, the dump thread wrote several steps.
    assert stopped_in_step(logs(step * 80 + step[:-2], every=20)) == once_less(80)


def test_what_was_always_done_once_less_did_not_hang() -> None:
    # In the first step, or in one of the first half, it was left out.
    step = "1a1r1a1r2r2a3l"
    assert stopped_in_step(logs(step[:-2] + step * 20, every=3)) == {}
    assert stopped_in_step(logs(step * 5 + step[:-2] + step * 20, every=3)) == {}
    # It comes first in a step: the others are not ahead of it when one ends.
    assert stopped_in_step(logs(step[-2:] + (step[:-2] + step[-2:]) * 20 + step[:-2] * 2, every=3)) == {}


def written(directory: Path, operations: str, passes: int, apart: float = 0.5) -> Path:
    """The logs of the two processes of a job with one communicator, written in so many passes, which the second process
    makes a share of an interval after the first."""
    for rank in range(2):
        numbers: Counter[str] = Counter()
        lines = []
        for n, letter in enumerate(operations):
            operation = OPERATIONS[letter]
            at_us = EPOCH_US + int((ceil(n * passes / len(operations) - rank * apart) + rank * apart) * 100_000)
            sn = numbers[operation.coll]
            lines.append(
                collective(
                    sn=sn, coll=operation.coll, size=operation.size_bytes, rank=rank, n_ranks=2, pid=rank, at_us=at_us
                )
            )
            numbers[operation.coll] += 1
        write_log(directory / f"node-01-pid{rank}.log", *lines)
    return directory


def stops(directory: Path, settings: Settings) -> list[Finding]:
    run = nixt.ingest_run(directory, settings).run
    found = nixt.diagnose_run(run, settings).findings
    return [finding for finding in found if finding.kind in ("hang", "unfinished-step")]


def test_the_order_within_a_pass_is_that_of_the_log(tmp_path: Path, settings: Settings) -> None:
    # At no other moment do both logs end with the same operation: a job that was killed would not look so.
    directory = written(tmp_path / "hung", FULLY_SHARDED * 20 + "aaaar", passes=30)
    (hang,) = stops(directory, settings)
    assert (hang.kind, hang.severity, hang.level, hang.hosts) == ("hang", "P1", "communicator", ("node-01",))
    assert "completed 20 steps of 8 operations, 5 of one more, and never the AllGather of 8,000,000" in hang.evidence
    assert hang.ambiguous and len(hang.processes) == 2

    directory = written(tmp_path / "ended", FULLY_SHARDED * 20, passes=30)
    assert stops(directory, settings) == []


def test_a_job_whose_logs_always_agree_may_have_been_killed(tmp_path: Path, settings: Settings) -> None:
    # Both write at the same moments, or as soon as something is completed.
    operations = FULLY_SHARDED * 20 + "aaaar"
    for name, passes, apart in (("together", 30, 0.0), ("at-once", len(operations), 0.1)):
        (stop,) = stops(written(tmp_path / name, operations, passes, apart), settings)
        assert (stop.kind, stop.severity, stop.processes) == ("unfinished-step", "info", ())
        assert "was killed, reached its time limit, or hung" in stop.evidence


def test_slurm_decides_whether_a_job_that_ended_within_a_step_hung(tmp_path: Path, settings: Settings) -> None:
    told = {}
    for state in ("TIMEOUT", "CANCELLED by 1000", "FAILED", "COMPLETED"):
        directory = written(tmp_path / state.split()[0], FULLY_SHARDED * 20 + "aaaar", passes=30)
        (directory / "run.json").write_text(f'{{"state": "{state}"}}')
        (stop,) = stops(directory, settings)
        assert f"Slurm says {state.split()[0]}" in stop.evidence
        told[state.split()[0]] = stop.severity
    assert told == {"TIMEOUT": "info", "CANCELLED": "info", "FAILED": "P1", "COMPLETED": "info"}


def test_records_of_one_function_are_in_the_order_of_their_numbers_whatever_the_times() -> None:
    # By time: 7 of the first function, 3 of the second, 6 of the first, 8 of the first, 4 of the second.
    order, series, numbers = np.array([2, 4, 0, 1, 3]), np.array([1, 1, 1, 2, 2]), np.array([6, 8, 7, 4, 3])
    assert numbers[by_number(order, series, numbers)].tolist() == [6, 3, 7, 8, 4]


def test_of_equal_operations_only_a_begun_step_is_a_stop() -> None:
    # Two in a step, 10 ms apart, which begin every 100 ms: 30 whole steps, and half of one more.
    numbers = np.arange(61)
    written_us = numbers // 2 * 100_000 + numbers % 2 * 10_000
    whole, begun = (Log([OPERATIONS["g"]] * n, numbers[:n], written_us[:n]) for n in (60, 61))
    [(number, steps)] = stopped_between_pauses({1: whole, 2: begun}).items()
    assert (number, len(steps.ends), steps.begun) == (2, 30, 1)
