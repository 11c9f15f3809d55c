"""Waiting that shows in two kinds of communicators although it is one: for collectives that run side by side on streams
of their own, as the gradients of experts and of the rest do, or one above the other.

Who is early then waits for the late rank in both at the same time, and adding up both counts it twice: those in front
of whom the late rank stands in something else (its peers in an exchange of tokens) seem to wait too little. That two
kinds wait at once shows in what differs from block to block by chance: if it is the same lag, both change together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nixt_pipeline.arrays import Array, Floats, Ints

Columns = dict[str, Array]

# Changes of one lag have correlation 1 but for what the transfers differ by, of two lags 0.
_ONE_LAG = 0.9
# Pairs of signs, so that their mean has a standard error of less than a tenth.
_LEAST_PAIRS = 200
# More communicators of a kind say hardly more.
_COMMUNICATORS = 64


@dataclass(frozen=True)
class Series:
    """What series of collectives belong to, by the number of the series in `order`: the kind of their communicator
    (what communicators have in common that do the same for different processes), and the communicator."""

    order: Array
    kind: Array
    comm: Ints


def waited_twice(spent: Sequence[Columns], series: Series, processes: int, blocks: int) -> Floats:
    """What was waited in one kind of communicator and counts in another one already, in microseconds by process and
    block. `spent`: of each series, process and block the time and what of it is carried over, in microseconds."""
    kinds = _waited(spent, series, processes, blocks)
    twice = np.zeros((processes, blocks))
    while len(kinds) > 1:
        (waited, comm), *kinds = sorted(kinds, key=lambda entry: entry[0].sum())
        for number, (other, comm_of_other) in enumerate(kinds):
            if _is_one_lag(waited, other, comm):
                twice += np.minimum(waited, other)
                kinds[number] = (np.maximum(waited, other), comm_of_other)
                break
    return twice


def _waited(spent: Sequence[Columns], series: Series, processes: int, blocks: int) -> list[tuple[Floats, Ints]]:
    """For each kind of communicator, by how much longer each process was in its collectives than the process that came
    last, by process and block, and the communicator of each process (-1 where it has none)."""
    name, process, block, time_us, carried_us = (
        np.concatenate([part[column] for part in spent])
        for column in ("series", "process", "block", "time_us", "carried_us")
    )
    of_record = np.searchsorted(series.order, name)
    own_us = time_us - carried_us
    shortest_us = np.full((len(series.order), blocks), np.inf)
    np.minimum.at(shortest_us, (of_record, block), own_us)
    waited_us = own_us - shortest_us[of_record, block]
    result = []
    for kind in np.unique(series.kind):
        of_kind = series.kind[of_record] == kind
        waited, comm = np.zeros((processes, blocks)), np.full(processes, -1)
        np.add.at(waited, (process[of_kind], block[of_kind]), waited_us[of_kind])
        comm[process[of_kind]] = series.comm[of_record[of_kind]]
        result.append((waited, comm))
    return result


def _is_one_lag(waited: Floats, other: Floats, comm: Ints) -> bool:
    """Whether what members of a communicator wait differs from block to block in the same way in both kinds.

    The mean product of the signs of two normal variables is 2/pi arcsin(correlation) (Sheppard's formula). Signs are
    not moved by a fault, which holds in all blocks or changes a few.
    """
    signs = []
    for number in np.unique(comm[comm >= 0])[:_COMMUNICATORS]:
        members = comm == number
        changes = [np.diff(values[members] - np.median(values[members], axis=0), axis=1) for values in (waited, other)]
        products = np.sign(changes[0]) * np.sign(changes[1])
        signs.append(products[products != 0])
    found = np.concatenate(signs) if signs else np.zeros(0)
    return len(found) >= _LEAST_PAIRS and float(np.sin(np.pi / 2 * found.mean())) >= _ONE_LAG
