"""Records by communicator shape and message size, as data: the figure stays small however many sizes there are."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.reporting.text import shorten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SHAPES = 24
MAX_SIZES = 16


@dataclass(frozen=True)
class HeatMap:
    """Records by communicator shape and function (rows) and message size (columns)."""

    rows: tuple[tuple[str, str | None], ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]
    total_rows: int
    sizes_grouped: bool


def heat_map(resource: pa.Table, size_label: Callable[[int], str] = format_bytes) -> HeatMap:
    """Records by shape, function and size, from `resource_correlation`: the shapes with most records.

    Sizes are grouped by powers of two, of four, ... when there are more distinct ones than columns.
    """
    known = resource.filter(pc.is_valid(resource["coll_msg_size_bytes"]))
    classes, grouped = _size_classes(known["coll_msg_size_bytes"])
    counts: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    by_class = known.append_column("size_class", pa.array(classes, pa.uint64()))
    shape_and_size = ["n_ranks", "nnodes", "coll", "coll_type", "size_class"]
    for row in by_class.group_by(shape_and_size).aggregate([("records", "sum")]).to_pylist():
        counts[row["n_ranks"], row["nnodes"], row["coll"], row["coll_type"]][row["size_class"]] = row["records_sum"]
    by_records = sorted(counts, key=lambda key: (-sum(counts[key].values()), str(key)))
    shapes = sorted(by_records[:MAX_SHAPES], key=lambda key: (-(key[0] or 0), -(key[1] or 0), key[2]))
    columns = sorted({column for shape in shapes for column in counts[shape]})
    position = {column: index for index, column in enumerate(columns)}
    cells = tuple(
        (r, position[column], records)
        for r, shape in enumerate(shapes)
        for column, records in sorted(counts[shape].items())
    )
    names = tuple((shape_label(key[0], key[1], key[2]), key[3]) for key in shapes)
    return HeatMap(names, tuple(size_label(column) for column in columns), cells, len(counts), grouped)


def _size_classes(sizes: pa.ChunkedArray) -> tuple["NDArray[np.uint64]", bool]:
    """The sizes themselves, or the largest power of two, four, ... that each reaches, so that there are at most
    `MAX_SIZES` different ones; and whether they are such powers."""
    import numpy as np

    values = pc.cast(sizes, pa.uint64()).to_numpy()
    if len(np.unique(values)) <= MAX_SIZES:
        return values, False
    powers = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    exponents = np.searchsorted(powers, values, side="right") - 1  # -1 for 0
    step = 1
    while len(np.unique(exponents // step)) > MAX_SIZES:
        step += 1
    return np.where(exponents < 0, np.uint64(0), powers[exponents // step * step]), True


def shape_label(n_ranks: int | None, nnodes: int | None, coll: str) -> str:
    """`32r/4n AllGather`: ranks and NCCL nodes of the communicator, and the function."""
    ranks = "?" if n_ranks is None else n_ranks
    nodes = "?" if nnodes is None else nnodes
    return f"{ranks}r/{nodes}n {shorten(coll, 16)}"
