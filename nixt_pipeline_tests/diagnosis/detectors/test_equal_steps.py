"""Steps of three equal operations, 10 ms apart, which begin every 100 ms."""

import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.equal_steps import stopped_between_pauses
from nixt_pipeline.diagnosis.evidence.operations import Operation

BUCKET = Operation("AllReduce", 25_000_000)


def ended_us(operations: int, interval_us: int = 1) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """When each was written by a dump thread that writes every `interval_us`."""
    numbers = np.arange(operations)
    times = numbers // 3 * 100_000 + numbers % 3 * 10_000
    return np.asarray(-(-times // interval_us) * interval_us, dtype=np.int64)


@pytest.mark.parametrize("interval_us", [1, 15_000, 70_000])
@pytest.mark.parametrize("done", [1, 2])
def test_the_operations_of_a_step_that_was_begun_are_told_from_the_pauses(done: int, interval_us: int) -> None:
    operations = 3 * 40 + done
    stop = stopped_between_pauses(7, [BUCKET] * operations, ended_us(operations, interval_us))
    assert stop is not None
    assert (stop.communicator, len(stop.step), stop.done, stop.steps) == (7, 3, done, 40)


def test_whole_steps_did_not_stop_within_one() -> None:
    assert stopped_between_pauses(7, [BUCKET] * 120, ended_us(120)) is None


def test_operations_without_a_rhythm_or_of_two_kinds_tell_no_steps() -> None:
    evenly = np.arange(121, dtype=np.int64) * 30_000
    assert stopped_between_pauses(7, [BUCKET] * 121, evenly) is None
    two_kinds = [*[BUCKET] * 120, Operation("AllReduce", 4)]
    assert stopped_between_pauses(7, two_kinds, ended_us(121)) is None


def test_few_steps_have_no_rhythm() -> None:
    assert stopped_between_pauses(7, [BUCKET] * 31, ended_us(31)) is None
