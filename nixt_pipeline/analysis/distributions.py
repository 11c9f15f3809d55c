"""Quantiles of times and bandwidths over records that are grouped by place or by time.

DuckDB only gathers the execution times of each kernel of a group in a list. Within a kernel the bandwidth is a function
of the time, so that it is computed here, a list at once, which takes a fraction of the time that SQL takes row by row.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nixt_pipeline.inspector.operations import has_bandwidth

Floats = NDArray[np.float64]

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


def summarise(samples: pa.Table, keys: Sequence[str], quantiles: Sequence[float]) -> pa.Table:
    """One row for each combination of `keys` in `samples`, whose rows have the columns of `SAMPLES` besides.

    Its columns are the keys, `records`, `busbw` (a list: the bandwidth in GB/s at each of `quantiles`, null without
    any) and `exec_time_p50_us`. Quantiles are those of `quantile_cont`, but for the last bit.
    """
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, key in enumerate(zip(*(samples[name].to_pylist() for name in keys), strict=True)):
        groups[key].append(row)
    kernels = list(zip(*(samples[name].to_pylist() for name in _KERNEL_COLUMNS), strict=True))
    times, written = _lists(samples["times_us"]), _lists(samples["written_busbw_gbs"])
    records = samples["records"].to_numpy()
    found: dict[str, list[Any]] = {"records": [], "busbw": [], "exec_time_p50_us": []}
    for rows in groups.values():
        bandwidths = [
            busbw_of_times(coll, n_ranks, size, times[row]) if by_formula else written[row]
            for row in rows
            for coll, n_ranks, size, by_formula in [kernels[row]]
        ]
        found["records"].append(int(records[rows].sum()))
        found["busbw"].append(_quantiles(bandwidths, quantiles))
        found["exec_time_p50_us"].append(_quantiles([times[row] for row in rows], [0.5])[0])
    columns = [
        pa.array([key[place] for key in groups], samples.schema.field(name).type) for place, name in enumerate(keys)
    ]
    types = [pa.int64(), pa.list_(pa.float64()), pa.float64()]
    columns += [pa.array(values, kind) for values, kind in zip(found.values(), types, strict=True)]
    return pa.table(columns, names=[*keys, *found])


_KERNEL_COLUMNS = ("coll", "n_ranks", "coll_msg_size_bytes", "by_formula")


def busbw_of_times(coll: str | None, n_ranks: int | None, size_bytes: int | None, times_us: NDArray[Any]) -> Floats:
    """Bus bandwidths in GB/s as the plugin prints them, for the times above 0; the same as `busbw_gbs` in SQL.

    The operations and their order are the same, too, so that all agree exactly. Empty where there is no formula.
    """
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


def _lists(column: pa.ChunkedArray) -> list[NDArray[Any]]:
    """The lists of a column as arrays; empty for null."""
    arrays = []
    for chunk in column.chunks:
        values, ends = chunk.values.to_numpy(), chunk.offsets.to_numpy()
        arrays += [values[start:end] for start, end in pairwise(ends)]
    return arrays


def _quantiles(parts: Sequence[NDArray[Any]], quantiles: Sequence[float]) -> list[float | None]:
    """Quantiles of all values in `parts`, with linear interpolation; None of no value."""
    values = np.concatenate(parts)
    if not values.size:
        return [None] * len(quantiles)
    positions = [quantile * (values.size - 1) for quantile in quantiles]
    values.partition([place for position in positions for place in {math.floor(position), math.ceil(position)}])
    found: list[float | None] = []
    for position in positions:
        low, high = float(values[math.floor(position)]), float(values[math.ceil(position)])
        found.append(low + (high - low) * (position - math.floor(position)))
    return found
