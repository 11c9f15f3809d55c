import numpy as np
import pytest

from nixt_pipeline.diagnosis.windows import Window, chance, densest_window


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
