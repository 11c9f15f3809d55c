"""Two processes that step 30 times: gradients in a communicator of each, then a flag of both."""

import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.tracks import Series
from nixt_pipeline.diagnosis.detectors.unfinished import unfinished
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.operations import Log, Operation
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline_tests.diagnosis.examples import communicator

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
    found = unfinished(*job(29, 60), processes=4)
    assert found is not None
    assert (found.coll, found.furthest) == ("AllReduce", 28)


def test_a_job_of_whole_steps_has_ended() -> None:
    assert unfinished(*job(30, 60), processes=4) is None


def test_a_job_that_begins_its_steps_with_the_flag_has_ended_after_as_many() -> None:
    # Were it to begin with the gradients, 29 flags in 30 steps would lack one.
    assert unfinished(*job(29, 60, flag_us=10_000), processes=4) is None


def test_what_was_not_done_regularly_says_nothing() -> None:
    assert unfinished(*job(29, 61), processes=4) is None
    assert unfinished(*job(9, 20), processes=4) is None


def test_of_what_was_written_at_once_nobody_knows_which_came_first() -> None:
    assert unfinished(*job(29, 60, flag_us=GRADIENTS_US + 500), processes=4) is None


@pytest.mark.parametrize(
    ("passes_of_flags", "stopped"),
    [
        (range(29), True),  # every pass writes one step's flag with its gradients, and the last one gradients only
        (range(1, 30), False),  # the flag follows later: a job that ends leaves it out as well
    ],
)
def test_what_is_done_in_one_go_and_once_less_at_the_end_was_never_completed(
    passes_of_flags: range, stopped: bool
) -> None:
    series, frontier = job(29, 30, flag_us=GRADIENTS_US)
    flag, gradients = Operation("AllReduce", 8), Operation("ReduceScatter", 1 << 20)
    logs = {
        0: Log([flag] * 29, np.array(passes_of_flags)),
        1: Log([gradients] * 30, np.arange(30)),
    }
    found = unfinished(series, frontier, 4, lambda: [logs])
    assert (found is not None) == stopped
