"""What can be said about processes of which only a part was recorded.

The plugin loses records of each rank on its own, so that hardly a collective of many ranks is complete when every third
record is missing. Ranks can still be compared, within the collectives that both recorded.
"""

import numpy as np
from numpy.typing import NDArray

from nixt_pipeline.arrays import Floats, Ints

# Alternating least squares is within a percent after some steps when ranks share several collectives.
_ROUNDS = 20
# A collective is about as much longer or shorter than its peers as one rank in it is than usual (a random effect of the
# same variance). With none of it, what a rank shows when its peers lost the record would tell nothing.
_RECORDS_OF_CALM = 1

# Other columns that a gap is filled from, and rows that are enough to find them.
_NEIGHBOURS = 3
_COMPARED_ROWS = 4_000


def typical_times(group: Ints, cell: Ints, member: Ints, times_us: Floats) -> tuple[Ints, Ints, Floats]:
    """What each member of a group shows on average, whichever cells of the group it recorded.

    A record is the time of one `member` (a process) in one `cell` (a collective) of one `group` (the collectives of a
    communicator at one place in the steps of a block). Fits time = member + cell by least squares, with cells drawn
    towards zero, as in a mixed model: members are compared within the cells that they share, and by their own
    times where they share none. Returns groups, members and times in microseconds.
    """
    keys, of_record = numbered(group, member)
    _, cell = numbered(group, cell)
    groups, of_group = np.unique(group, return_inverse=True)
    per_cell, per_member = np.bincount(cell), np.bincount(of_record)
    usual = np.bincount(of_group, times_us) / np.bincount(of_group)
    members = usual[np.searchsorted(groups, keys[0])]
    for _ in range(_ROUNDS):
        cells = np.bincount(cell, times_us - members[of_record]) / (per_cell + _RECORDS_OF_CALM)
        members = np.bincount(of_record, times_us - cells[cell]) / per_member
    return keys[0], keys[1], members


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
    """Rows with their gaps (NaN) closed; a row without any value becomes zero.

    A gap gets the middle one of three values of its row: of those columns that resemble its column most in what other
    rows show (nearest neighbours). So what was lost after a change is not filled with what was before, nor what was
    lost next to a checkpoint with a checkpoint.
    """
    result = np.nan_to_num(values)
    some = values[:: max(1, len(values) // _COMPARED_ROWS)]
    for column in np.flatnonzero(np.isnan(values).any(axis=0)):
        rows = np.flatnonzero(np.isnan(values[:, column]) & ~np.isnan(values).all(axis=1))
        candidates = values[rows][:, _most_alike(some, column)]
        candidates[np.cumsum(~np.isnan(candidates), axis=1) > _NEIGHBOURS] = np.nan
        result[rows, column] = np.nanmedian(candidates, axis=1)
    return result


def _most_alike(values: Floats, column: np.intp) -> Ints:
    """All columns, those first that differ least from `column` in the rows that have both; of equal ones, the nearest
    first."""
    differences = np.abs(values - values[:, [column]])
    known = (~np.isnan(differences)).sum(axis=0)
    mean = np.where(known > 0, np.nansum(differences, axis=0) / np.maximum(known, 1), np.inf)
    return np.lexsort((np.abs(np.arange(values.shape[1]) - column), mean))


def like_others(values: Floats, *keys: Ints) -> Floats:
    """Rows without any value (NaN) become the mean of the others that share their first key, or else the second one,
    and so on; zero where nobody does."""
    result = np.nan_to_num(values)
    missing = np.isnan(values).all(axis=1)
    known = np.flatnonzero(~missing)
    for key in keys:
        groups, group = np.unique(key, return_inverse=True)
        members, sums = np.bincount(group[known], minlength=len(groups)), np.zeros((len(groups), values.shape[1]))
        np.add.at(sums, group[known], values[known])
        here = np.flatnonzero(missing & (members[group] > 0))
        result[here] = sums[group[here]] / members[group[here], None]
        missing = missing & (members[group] == 0)
    return result
