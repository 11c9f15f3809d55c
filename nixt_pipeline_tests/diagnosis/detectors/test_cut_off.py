"""A job of ten steps with four gathers and one flag each, of which two processes keep a log."""

import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.cut_off import Past, with_clocks_set
from nixt_pipeline.diagnosis.detectors.tracks import Series, tracks_of
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline_tests.diagnosis.examples import communicator, stages

A, B, C, D = ("a", 1), ("a", 2), ("b", 1), ("b", 2)


def series(number: int, coll: str, reached: int, *members: Process) -> Series:
    return Series(communicator(number, *members), coll, dict.fromkeys(members, reached), 0.0, communicator=number)


def past(gathers: list[int], flags: list[int], agrees: list[bool], end: tuple[int, int]) -> Past:
    """How many of each were done at some moments, and at the end."""
    ends = [series(1, "AllGather", end[0] - 1, A, C), series(0, "AllReduce", end[1] - 1, A, B, C, D)]
    return Past(ends, np.array([gathers, flags]) - 1, np.array(agrees))


def test_the_share_of_moments_at_which_logs_agreed_is_that_of_jobs_killed_so() -> None:
    assert past([20, 22, 23, 24], [5, 5, 5, 5], [True, False, False, False], (40, 9)).share() == 0.25
    assert past([], [], [], (40, 9)).share() == 0.0


def test_a_phase_in_which_the_logs_never_agreed_is_no_killed_job() -> None:
    # They agree between steps, and after the first two gathers; the job ended after four gathers, without its flag.
    gathers, flags = [20, 22, 23, 24, 26, 28, 30], [5, 5, 5, 6, 6, 7, 7]
    agrees = [True, True, False, True, True, True, True]
    assert past(gathers, flags, agrees, (40, 9)).rarer() == 0.0
    # After two gathers, it is in a phase that three of the seven moments have, and no more have the one between steps.
    assert past(gathers, flags, agrees, (38, 9)).rarer() == pytest.approx(6 / 7)


def test_phases_that_never_repeat_are_as_likely_as_one_that_was_not_seen() -> None:
    gathers, flags = [20, 25, 31, 38], [5, 5, 5, 5]
    assert past(gathers, flags, [True] * 4, (40, 9)).rarer() == 1.0


def test_a_lead_that_was_never_seen_is_no_killed_job() -> None:
    pairs = [series(n, "ReduceScatter", last, ("a", n), ("b", n)) for n, last in ((0, 40), (1, 40), (2, 37))]
    joined = [series(3 + n, "AllReduce", 9, *((host, pid) for pid in range(3))) for n, host in enumerate("ab")]
    ends = [*pairs, *joined]
    everyone = [(host, pid) for host in "ab" for pid in range(3)]
    tracks = tracks_of(ends, [], {item.comm.number: item.comm for item in ends}, stages(ends, everyone))
    reached = np.array([[10, 20, 30, 35], [10, 20, 30, 35], [10, 19, 30, 34], [2, 4, 7, 8], [2, 4, 7, 8]])
    seen = Past(ends, reached, np.array([True, True, True, False]))
    assert seen.share(tracks, 3) == 0.0
    assert seen.share(tracks, 1) == 0.25


def test_a_clock_was_set_when_it_stands_otherwise_to_the_others_at_the_end() -> None:
    # The clock of host b is 20 s ahead from the begin on, and the log of process C ends a collective early.
    def reaches(set_by_us: int) -> list[Reach]:
        ends = {A: (9, 40_000_000), B: (9, 40_100_000), C: (8, 59_000_000), D: (9, 60_000_000 + set_by_us)}
        return [
            Reach(1, "AllReduce", process, last, 0, last + 1, last_us, 20_000_000 * (process[0] == "b"))
            for process, (last, last_us) in ends.items()
        ]

    assert with_clocks_set(reaches(0), 2_000_000) == set()
    # Each of two hosts stands to the middle of both: half of what the one was set by.
    assert with_clocks_set(reaches(5_000_000), 2_000_000) == {"a", "b"}
    assert with_clocks_set(reaches(-5_000_000), 2_000_000) == {"a", "b"}


def test_who_left_no_collective_with_others_has_no_clock_to_compare() -> None:
    alone = [Reach(1, "AllReduce", process, 9, 0, 10, 40_000_000, 0) for process in (A, B)]
    timeless = [Reach(2, "AllReduce", process, 9, 0, 10, None) for process in (A, C)]
    assert with_clocks_set([*alone, *timeless], 1) == set()
