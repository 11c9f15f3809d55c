"""Members of which not every cell was recorded."""

import numpy as np
import pytest

from nixt_pipeline.diagnosis.evidence.sampled import filled, like_others, numbered, typical_times


def test_members_are_compared_within_the_cells_that_both_recorded() -> None:
    # Cells take 100, 200, ... 800 us, and member 1 always 50 us less than the others. It recorded the long ones, member
    # 0 the short ones, and both two in the middle: what each recorded on average, 550 and 300, says the opposite.
    others = [(cell, member) for cell in range(8) for member in range(2, 20)]
    records = [(cell, 0) for cell in range(5)] + [(cell, 1) for cell in range(3, 8)] + others
    cell, member = (np.array(column) for column in zip(*records, strict=True))
    times = 100.0 * (cell + 1) - 50 * (member == 1)
    groups, members, typical = typical_times(np.zeros_like(cell), cell, member, times)
    assert (groups.tolist(), members.tolist()) == ([0] * 20, list(range(20)))
    # A twentieth of what cells differ is left to the members.
    assert typical[0] == pytest.approx(450 - 150 / 20, abs=1)
    assert typical[1] == pytest.approx(400 + 150 / 20, abs=1)


def test_members_that_share_no_cell_are_compared_by_their_own_times() -> None:
    cell, member = np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1])
    same = np.zeros_like(cell)
    _, _, typical = typical_times(same, cell, member, np.array([100.0, 120, 500, 520]))
    assert typical == pytest.approx([110, 510], abs=5)


def test_a_gap_gets_what_its_row_shows_in_the_columns_that_resemble_it() -> None:
    gap = float("nan")
    # A change after the third column, and a checkpoint in the last one but one.
    others = [[1, 1, 1, 5, 5, 5, 5, 90, 5]] * 3
    values = np.array([*others, [2, 2, 2, gap, 6, 7, 8, 99, gap], [gap] * 9])
    assert filled(values)[3].tolist() == [2, 2, 2, 7, 6, 7, 8, 99, 7]
    assert filled(values)[4].tolist() == [0] * 9
    assert filled(values)[:3].tolist() == others


def test_rows_are_numbered_in_the_order_of_their_values() -> None:
    rows, number = numbered(np.array([2, 1, 2, 1]), np.array([5, 7, 5, -1]))
    assert rows.tolist() == [[1, 1, 2], [-1, 7, 5]]
    assert number.tolist() == [2, 1, 2, 0]
    nothing = np.array([], np.int64)
    assert numbered(nothing, nothing)[0].shape == (2, 0)


def test_a_row_without_any_value_is_like_those_that_share_its_first_known_key() -> None:
    gap = float("nan")
    values = np.array([[1.0, 2], [3, 4], [gap, gap], [10, 20], [gap, gap], [gap, gap]])
    beside, alike = np.array([5, 5, 5, 6, 7, 8]), np.array([1, 1, 1, 2, 2, 3])
    filled_in = like_others(values, beside, alike)
    # The third like the two before it, the fifth like the fourth; nobody is like the last one.
    assert filled_in.tolist() == [[1, 2], [3, 4], [2, 3], [10, 20], [10, 20], [0, 0]]
