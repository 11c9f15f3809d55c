"""What can be said about processes of which only a part was recorded.

The plugin loses records of each rank on its own, so that hardly a collective of many ranks is complete when every third
record is missing. Ranks can still be compared, within the collectives that both recorded.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Alternating least squares is within a percent after some steps when ranks share several collectives.
_ROUNDS = 20


def typical_times(group: Ints, cell: Ints, position: Ints, member: Ints, times_us: Floats) -> tuple[Ints, Ints, Floats]:
    """What each member of a group would show on average, had it recorded every cell of the group.

    A record is the time of one `member` (a process) in one `cell` (a collective) of one `group` (a communicator's
    collectives in one block). Fits time = cell + member by least squares, so that members are compared within cells:
    which cells a member happened to record does not matter. Cells at each `position` (of a step) count alike, however
    many of them were recorded. Returns groups, members and times in microseconds.
    """
    keys, of_record = numbered(group, member)
    places, cell = numbered(group, position, cell)
    per_cell, per_member = np.bincount(cell), np.bincount(of_record)
    members, cells = np.zeros(len(per_member)), np.zeros(len(per_cell))
    for _ in range(_ROUNDS):
        cells = np.bincount(cell, times_us - members[of_record]) / per_cell
        members = np.bincount(of_record, times_us - cells[cell]) / per_member
    positions, of_cell = numbered(places[0], places[1])
    groups, of_position = np.unique(positions[0], return_inverse=True)
    by_position = np.bincount(of_cell, cells) / np.bincount(of_cell)
    level = np.bincount(of_position.ravel(), by_position) / np.bincount(of_position.ravel())
    return keys[0], keys[1], level[np.searchsorted(groups, keys[0])] + members


def numbered(*columns: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The distinct rows of some columns, in order, and the number of each row's among them.

    Like `np.unique` along an axis, but that compares rows as bytes and takes ten times as long.
    """
    rows = np.stack([column.astype(np.int64) for column in columns])
    order = np.lexsort(rows[::-1])
    in_order = rows[:, order]
    first = np.ones(len(order), bool)
    first[1:] = (in_order[:, 1:] != in_order[:, :-1]).any(axis=0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(first) - 1
    return in_order[:, first], number


def filled(values: Floats) -> Floats:
    """Rows with their gaps (NaN) closed by the nearest known value of the same row; a row without any becomes zero."""
    columns = np.arange(values.shape[1])
    known = ~np.isnan(values)
    result = values.copy()
    for row in np.flatnonzero(~known.all(axis=1)):
        at = columns[known[row]]
        if not len(at):
            result[row] = 0.0
            continue
        nearest = at[np.abs(columns[:, None] - at[None, :]).argmin(axis=1)]
        result[row] = values[row, nearest]
    return result
