"""Quantiles of times and bandwidths over records that are grouped by place or by time.

DuckDB only gathers the execution times of each kernel of a group in a list. Within a kernel the bandwidth is a function
of the time, so that it is computed here, a list at once, which takes a fraction of the time that SQL takes row by row.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nixt_pipeline.arrays import Array, Floats, Ints
from nixt_pipeline.inspector.operations import has_bandwidth

# Counting looks at each value once and at each number of the range once; partial sorting takes several times as long.
_COUNTED_RANGE = 4
_JOINED_AT_ONCE = 4096

# GROUP BY this, and each group is of one kernel whose bandwidths are either all written or all the formula's.
KERNEL = "coll, n_ranks, nnodes, coll_msg_size_bytes, coll_busbw_gbs IS NULL AND flags & $bandwidth_flags = 0"
# What `summarise` needs of each such group of `stored_events`; `sample_time` is one of the analyses' macros.
SAMPLES = """
    coll, n_ranks, coll_msg_size_bytes,
    coll_busbw_gbs IS NULL AND flags & $bandwidth_flags = 0 AS by_formula,
    count(*) AS records,
    list(sample_time(coll_exec_time_us)) FILTER (WHERE coll_exec_time_us IS NOT NULL
        AND coll_msg_size_bytes >= $min_message_bytes) AS times_us,
    list(coll_busbw_gbs) FILTER (WHERE coll_busbw_gbs IS NOT NULL
        AND coll_msg_size_bytes >= $min_message_bytes) AS written_busbw_gbs
"""


# Shares that are ranges of hosts, because a log file holds one host's records: the others' are hardly read. Records of
# no host are a share of their own.
OF_HOSTS = """
WITH by_host AS (SELECT hostname, sum(records) AS records FROM hosts GROUP BY hostname),
numbered AS (
    SELECT hostname, (sum(records) OVER (ORDER BY hostname NULLS LAST) - records) // $records_per_share AS number
    FROM by_host
)
SELECT min(hostname) AS first_host, max(hostname) AS last_host, {columns}
FROM numbered
GROUP BY number, hostname IS NULL
ORDER BY first_host
"""


def summarise(
    samples: pa.Table, keys: Sequence[str], busbw_quantiles: Sequence[float], time_quantiles: Sequence[float]
) -> pa.Table:
    """One row for each combination of `keys` in `samples`, whose rows have the columns of `SAMPLES` besides.

    Its columns are the keys, `records`, `busbw` and `exec_time` (lists: bandwidths in GB/s and times in microseconds at
    the quantiles, null without any) and `exec_time_mean_us`. Quantiles are those of `quantile_cont`, but for the last
    bit.
    """
    groups = _rows_of_groups([samples[name] for name in keys])
    of_kernels = [_Values(samples[name]) for name in Kernel._fields]
    times, written = _Lists(samples["times_us"]), _Lists(samples["written_busbw_gbs"])
    records = samples["records"].to_numpy()
    found: dict[str, list[Any]] = {"records": [], "busbw": [], "exec_time": [], "exec_time_mean_us": []}
    for rows in groups:
        found["records"].append(int(records[rows].sum()))
        kernels = (Kernel(*(column[row] for column in of_kernels)) for row in rows)
        of_group = _joined(times[row] for row in rows)
        if len(rows) == 1 and of_kernels[-1][rows[0]]:
            busbw, exec_time = _of_one_kernel(next(kernels), of_group, busbw_quantiles, time_quantiles)
        else:
            bandwidths = (
                busbw_of_times(kernel, times[row]) if kernel.by_formula else written[row]
                for row, kernel in zip(rows, kernels, strict=True)
            )
            busbw = _quantiles(_joined(bandwidths), busbw_quantiles)
            exec_time = _quantiles(of_group, time_quantiles)
        found["busbw"].append(busbw)
        found["exec_time"].append(exec_time)
        # Rounded, because the order of a sum must not show.
        found["exec_time_mean_us"].append(round(float(of_group.mean()), 3) if of_group.size else None)
    firsts = pa.array([rows[0] for rows in groups], pa.int64())
    columns = [samples[name].combine_chunks().take(firsts) for name in keys]
    lists, number = pa.list_(pa.float64()), pa.float64()
    types = [pa.int64(), lists, lists, number]
    columns += [pa.array(values, kind) for values, kind in zip(found.values(), types, strict=True)]
    return pa.table(columns, names=[*keys, *found])


def _rows_of_groups(columns: Sequence[pa.ChunkedArray]) -> list[Ints]:
    """The rows of each combination of values, in the order of the first of them. Numbers stand for the values: a tuple
    of Python objects for each of a million rows would take most of the memory."""
    group_of = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        both = group_of * len(encoded.dictionary) + encoded.indices.to_numpy()
        group_of = np.unique(both, return_inverse=True)[1]
    if not group_of.size:
        return []
    rows = np.argsort(group_of, kind="stable")
    groups = np.split(rows, np.flatnonzero(np.diff(group_of[rows])) + 1)
    return sorted(groups, key=lambda rows: int(rows[0]))


class Kernel(NamedTuple):
    """What a bandwidth follows from, besides the time; `by_formula` when none was written that differs from it."""

    coll: str | None
    n_ranks: int | None
    coll_msg_size_bytes: int | None
    by_formula: bool


def busbw_of_times(kernel: Kernel, times_us: Array) -> Floats:
    """Bus bandwidths in GB/s as the plugin prints them, for the times above 0; the same as `busbw_gbs` in SQL.

    The operations and their order are the same, too, so that all agree exactly. Empty where there is no formula.
    """
    coll, n_ranks, size_bytes, _ = kernel
    if coll is None or size_bytes is None or not has_bandwidth(coll) or (n_ranks is not None and n_ranks <= 1):
        return np.empty(0)
    times = times_us if times_us.size and times_us.min() > 0 else times_us[times_us > 0]
    size = float(size_bytes)
    gathers = coll in ("AllGather", "AllGatherV", "ReduceScatter")
    if gathers or coll == "AllReduce":
        if n_ranks is None:
            return np.empty(0)
        bandwidths = (size * n_ranks if gathers else size) / times
        bandwidths /= 1000
        bandwidths *= (1 if gathers else 2) * (n_ranks - 1)
        bandwidths /= n_ranks
    else:
        bandwidths = size / times
        bandwidths /= 1000
    bandwidths *= 1e6
    bandwidths += 0.5
    np.floor(bandwidths, out=bandwidths)
    bandwidths /= 1e6
    return bandwidths


class _Values:
    """The values of a column, each a Python object that is made when it is asked for."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._values = column.combine_chunks()

    def __getitem__(self, row: int) -> Any:
        return self._values[row].as_py()


class _Lists:
    """The lists of a column, each an array that is made when it is asked for; empty for null."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks()
        self._values: Array = lists.values.to_numpy(zero_copy_only=False)
        self._ends: Array = lists.offsets.to_numpy()

    def __getitem__(self, row: int) -> Array:
        return self._values[self._ends[row] : self._ends[row + 1]]


def _joined(arrays: Iterable[Array]) -> Array:
    """All values in one array. A few arrays at a time: each takes a hundred bytes besides what it holds."""
    remaining = iter(arrays)
    joined = []
    while batch := list(islice(remaining, _JOINED_AT_ONCE)):
        joined.append(batch[0] if len(batch) == 1 else np.concatenate(batch))
    return joined[0] if len(joined) == 1 else np.concatenate(joined)


def _of_one_kernel(
    kernel: Kernel, times: Array, busbw_quantiles: Sequence[float], time_quantiles: Sequence[float]
) -> tuple[list[float | None], list[float | None]]:
    """Quantiles of bandwidths and of times. The longer the time, the lower the bandwidth: both follow from the same few
    places in the order of the times."""
    last = times.size - 1
    if last < 0 or times.min() <= 0:
        return _quantiles(busbw_of_times(kernel, times), busbw_quantiles), _quantiles(times, time_quantiles)
    of_times = [_places(quantile, last) for quantile in time_quantiles]
    of_bandwidths = [_places(quantile, last) for quantile in busbw_quantiles]
    places = [place for low, high, _ in of_times for place in (low, high)]
    mirrored = [last - place for low, high, _ in of_bandwidths for place in (low, high)]
    found = _at_places(times, [*places, *mirrored])
    bandwidths = busbw_of_times(kernel, found[len(places) :])
    exec_time = _between(found[: len(places)], of_times)
    return _between(bandwidths, of_bandwidths) if bandwidths.size else [None] * len(of_bandwidths), exec_time


def _quantiles(values: Array, quantiles: Sequence[float]) -> list[float | None]:
    """Quantiles with linear interpolation; None of no value."""
    if not values.size:
        return [None] * len(quantiles)
    of_values = [_places(quantile, values.size - 1) for quantile in quantiles]
    return _between(_at_places(values, [place for low, high, _ in of_values for place in (low, high)]), of_values)


def _at_places(values: Array, places: list[int]) -> Array:
    """What stands at some places, from 0, once the values are in order. Whole numbers close together are counted."""
    if values.dtype.kind == "i":
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest < _COUNTED_RANGE * values.size:
            upto = np.cumsum(np.bincount(values - lowest))
            return lowest + np.searchsorted(upto, places, side="right")
    ordered: Array = np.partition(values, sorted(set(places)))
    return ordered[places]


def _places(quantile: float, last: int) -> tuple[int, int, float]:
    """The places on either side of a quantile, from 0 to `last`, and how far it is from the one to the other."""
    position = quantile * last
    return math.floor(position), math.ceil(position), position - math.floor(position)


def _between(ends: Array, of: list[tuple[int, int, float]]) -> list[float | None]:
    """The quantiles between the values at their two places each."""
    values = ends.tolist()
    return [low + (high - low) * share for low, high, (_, _, share) in zip(values[::2], values[1::2], of, strict=True)]
