"""Members of which not every cell was recorded."""

import numpy as np
import pytest

from nixt_pipeline.diagnosis.sampled import filled, numbered, typical_times


def test_members_are_compared_within_the_cells_that_both_recorded() -> None:
    # Cells take 100, 200, ... 800 us, and member 1 always 50 us less. It recorded the long ones, member 0 the short
    # ones, and both two in the middle: what each recorded on average says the opposite of what is true.
    records = [(cell, 0) for cell in range(5)] + [(cell, 1) for cell in range(3, 8)]
    cell, member = (np.array(column) for column in zip(*records, strict=True))
    times = 100.0 * (cell + 1) - 50 * member
    group = np.zeros_like(cell)
    groups, members, typical = typical_times(group, cell, np.zeros_like(cell), member, times)
    assert (groups.tolist(), members.tolist()) == ([0, 0], [0, 1])
    assert typical == pytest.approx([450, 400], abs=1)


def test_positions_count_alike_however_many_of_them_were_recorded() -> None:
    # Three cells of 100 us at one position of the step and one of 500 us at the other: 300 us on average.
    cell, position = np.arange(4), np.array([0, 0, 0, 1])
    same = np.zeros_like(cell)
    _, _, typical = typical_times(same, cell, position, same, np.array([100.0, 100, 100, 500]))
    assert typical == pytest.approx([300])


def test_gaps_are_closed_by_the_nearest_value() -> None:
    gap = float("nan")
    values = np.array([[gap, 1, gap, gap, 4], [gap, gap, gap, gap, gap], [1, 2, 3, 4, 5]])
    assert filled(values).tolist() == [[1, 1, 1, 4, 4], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]]


def test_rows_are_numbered_in_the_order_of_their_values() -> None:
    rows, number = numbered(np.array([2, 1, 2, 1]), np.array([5, 7, 5, -1]))
    assert rows.tolist() == [[1, 1, 2], [-1, 7, 5]]
    assert number.tolist() == [2, 1, 2, 0]
    nothing = np.array([], np.int64)
    assert numbered(nothing, nothing)[0].shape == (2, 0)
