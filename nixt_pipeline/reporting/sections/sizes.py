"""Message sizes and communicator shapes."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.quantities import count, percent, size
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import DECADE_COLOURS, INK, colour_of
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, table_view

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


def heat_map(resource: pa.Table) -> HeatMap:
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
    return HeatMap(names, tuple(map(format_bytes, columns)), cells, len(counts), grouped)


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


_FEW_SIZES = 5


def draw_heat_map(data: HeatMap) -> str:
    """Squares coloured by the decade of the number of records; nothing drawn where there are none."""
    from matplotlib.patches import Rectangle

    if not data.cells:
        return canvas.nothing("heat-map")

    def draw(axes: canvas.Axes) -> None:
        for row, column, records in data.cells:
            colour = DECADE_COLOURS[decade_of(records)]
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor=INK, linewidth=0.5))
        canvas.name_rows(axes, [label for label, _ in data.rows])
        for position, (_, coll_type) in enumerate(data.rows):
            beside: dict[str, Any] = {"clip_on": False, "transform": axes.get_yaxis_transform()}
            axes.plot([-0.03], [position], marker="s", markersize=5, color=colour_of(coll_type), **beside)
        axes.tick_params(axis="y", pad=13)
        axes.set_xlim(-0.5, len(data.columns) - 0.5)
        many = len(data.columns) > _FEW_SIZES
        slanted: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if many else {}
        axes.set_xticks(range(len(data.columns)), data.columns, **slanted)
        axes.set_xlabel("message size" + (", from this size up" if data.sizes_grouped else ""))
        axes.grid(True)

    alt = f"{len(data.cells)} combinations of {len(data.rows)} communicator shapes and {len(data.columns)} sizes"
    return canvas.chart("heat-map", 1.2 + 0.22 * len(data.rows), draw, alt)


def decade_of(records: int) -> int:
    """Index into `DECADE_COLOURS`."""
    return min(len(str(records)), len(DECADE_COLOURS)) - 1


def decade_label(decade: int) -> str:
    """`100–999 records`; the last decade is open."""  # noqa: RUF002
    open_ended = decade == len(DECADE_COLOURS) - 1
    return f"{10**decade:,}{'+' if open_ended else f'–{10 ** (decade + 1) - 1:,}'} records"  # noqa: RUF001


def sizes_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Calls by shape of the communicator and message size."""
    data = heat_map(table)
    rows = first_rows(table, SHOWN_ROWS, "-records", "coll", "n_ranks", "coll_msg_size_bytes")
    columns = columns_of(
        "n_ranks nnodes coll_type coll coll_msg_size_bytes records collectives payload_bytes",
        coll_msg_size_bytes="Message size",
    )
    drawn: tuple[FigureView, ...] = ()
    if data.cells:
        shown, total_rows = len(data.rows), data.total_rows
        cut = f" The {shown} of {count(total_rows)} shapes with most records." if total_rows > shown else ""
        decades = sorted({decade_of(records) for _, _, records in data.cells})
        total = pc.sum(table["records"]).as_py()
        drawn = (
            FigureView(
                draw_heat_map(data),
                f"Records by communicator shape (ranks r / NCCL nodes n), function and message size.{cut}",
                anchor="figure-sizes",
                title="Calls by topology and size",
                reading=(
                    f"{plain(rows[0]['coll'])} of {size(rows[0]['coll_msg_size_bytes'])} is recorded most often: "
                    f"{percent(rows[0]['records'] / total)} of {count(total)} records."
                ),
                legend=(
                    *(LegendEntry(decade_label(decade), DECADE_COLOURS[decade]) for decade in decades),
                    *type_legend(coll_type for _, coll_type in data.rows),
                ),
            ),
        )
    tables = (table_view("By records", rows, columns, total=table.num_rows, source="resource_correlation"),)
    return SectionView("", "", figures=drawn, tables=tables)
