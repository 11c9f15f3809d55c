import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.windows import Window, chance, chance_among, densest_window, noise_of


def marks(text: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([letter == "x" for letter in text])


def test_the_window_is_the_stretch_with_most_marks_over_gaps() -> None:
    # xx.xxx has 5 marks and 1 gap (surplus 4); the single x at the start would cost two more gaps.
    assert densest_window(marks("x..xx.xxx.")) == Window(first=3, last=8, marked=5, blocks=10)
    assert densest_window(marks("....")) is None


def test_onset_and_end_are_write_times_of_the_blocks_around() -> None:
    ends = [100, 200, 300, 400]
    middle, whole = Window(1, 2, 2, 4), Window(0, 3, 4, 4)
    assert (middle.onset_us(ends), middle.until_us(ends)) == (100, 300)
    assert (whole.onset_us(ends), whole.until_us(ends)) == (None, None)


def test_chance_is_the_binomial_tail_times_everything_that_was_tried() -> None:
    # Four of four blocks at 1/2 each: 1/16; two entities and four possible beginnings: times 8.
    assert chance(Window(0, 3, 4, 4), rate=1 / 2, tested=2) == pytest.approx(0.5)
    # Nine or ten of ten at 1/4: 10 * 0.25^9 * 0.75 + 0.25^10 = 31 / 4^10; times 4 entities and 10 beginnings.
    assert chance(Window(0, 9, 9, 10), rate=1 / 4, tested=4) == pytest.approx(31 / 4**10 * 40)
    assert chance(Window(0, 0, 1, 40), rate=1 / 2, tested=2) == 1.0


def test_blocks_that_resemble_their_neighbours_count_for_less_but_never_for_nothing() -> None:
    # Two periods of a sine in 200 blocks: neighbours correlate by cos(2 pi / 100) = 0.998, which is taken as 0.9. An
    # alternation correlates by -1, which is taken as 0.
    waves = np.sin(2 * np.pi * np.arange(200) / 100)
    assert noise_of([(waves, None)]).correlation == 0.9
    assert noise_of([(np.tile([1.0, -1.0], 100), None)]).correlation == 0.0


def test_who_is_as_late_as_others_now_and_then_are_is_so_by_chance() -> None:
    # Of twenty blocks of two others, four are at least half as late: a fifth. By chance, three of three blocks are so
    # in 1 of 125 cases; times three entities and ten beginnings.
    late, window = np.array([0.2, 0.3, 0.1]), Window(2, 4, 3, 10)
    others = np.array([[0.0, 0.3, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.1, 0.0], [0.0] * 9 + [0.4]])
    assert chance_among(late, others, window, tested=3) == pytest.approx(3 * 10 / 125)
    assert chance_among(late, np.zeros((2, 10)), window, tested=3) == 0
    assert chance_among(-late, others, window, tested=3) == 1
