"""What each figure shows, as data: pure functions from a result to a small dataclass that `drawing` turns into SVG.

Figures stay small whatever the size of the run: they aggregate, or keep the extremes and say how many there were.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from nixt_pipeline.inspector.operations import COLL_TYPES, format_bytes
from nixt_pipeline.reporting.text import shorten, unique_labels

Row = dict[str, Any]

MAX_KERNELS = 12
MAX_ECDF_PANELS = 10
MAX_TIME_PANELS = 8
MAX_LAUNCHES = 3
# A function that runs once per step leaves every other bin empty; a longer silence shows as a gap.
MAX_BRIDGED_BINS = 3
MAX_ENTITIES = 12
MAX_RANGE_PANELS = 4
MAX_SHAPES = 24
MAX_SIZES = 16
LABEL_CHARACTERS = 42
SHORT_LABEL_CHARACTERS = 24
# Beyond this ratio between the largest and the smallest value a linear axis hides the small ones.
LOG_AXIS_RATIO = 20.0


@dataclass(frozen=True)
class KernelBar:
    """One hot kernel; shares are of the payload of the whole run."""

    label: str
    coll_type: str | None
    share: float
    cumulative: float


@dataclass(frozen=True)
class KernelBars:
    """The hottest kernels of `total`."""

    kernels: tuple[KernelBar, ...]
    total: int


@dataclass(frozen=True)
class Curve:
    """A cumulative distribution: `quantiles[i]` of the samples are at or below `values[i]`."""

    measure: str
    values: tuple[float, ...]
    quantiles: tuple[float, ...]
    samples: int

    def at(self, quantile: float) -> float:
        """The value at the quantile that is nearest to `quantile`."""
        nearest = min(range(len(self.quantiles)), key=lambda index: abs(self.quantiles[index] - quantile))
        return self.values[nearest]


@dataclass(frozen=True)
class EcdfPanel:
    """The distributions of one kernel; `capture_rate` says of which part of its operations."""

    label: str
    coll_type: str | None
    curves: tuple[Curve, ...]
    capture_rate: float | None = None


@dataclass(frozen=True)
class EcdfFigure:
    """Panels share one axis of absolute values, from `low` to `high`."""

    panels: tuple[EcdfPanel, ...]
    log_axis: bool
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class TimePanel:
    """Bandwidth over time of one function and placement. Lists run parallel; None marks a gap."""

    coll: str
    coll_type: str | None
    seconds: tuple[float, ...]
    p25: tuple[float | None, ...]
    p50: tuple[float | None, ...]
    p75: tuple[float | None, ...]
    transfer: tuple[float | None, ...]


@dataclass(frozen=True)
class TimeFigure:
    """One launch; `seconds` of its panels count from `start_us`."""

    start_us: int
    end_us: int
    panels: tuple[TimePanel, ...]


@dataclass(frozen=True)
class LastArrival:
    """How often an entity arrived last, of the complete collectives it took part in."""

    label: str
    observed: float
    expected: float
    cells: int

    @property
    def excess(self) -> float:
        """Share of collectives beyond what chance alone gives."""
        return self.observed - self.expected


@dataclass(frozen=True)
class LastArrivals:
    """The entities with the largest excess, of `total`."""

    rows: tuple[LastArrival, ...]
    total: int


@dataclass(frozen=True)
class Range:
    """Bandwidth of one entity, GB/s."""

    label: str
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class RangePanel:
    """Entities by median, lowest first; when `total` is larger these are the lowest and the highest."""

    coll: str
    coll_type: str | None
    ranges: tuple[Range, ...]
    total: int


@dataclass(frozen=True)
class HeatMap:
    """Records by communicator shape and function (rows) and message size (columns)."""

    rows: tuple[tuple[str, str | None], ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]
    total_rows: int
    sizes_grouped: bool


def kernel_bars(hot_kernels: pa.Table, limit: int = MAX_KERNELS) -> KernelBars:
    """The kernels that carry most of the observed payload, from `hot_kernels`."""
    rows = sorted(hot_kernels.to_pylist(), key=lambda row: row["rank_by_bytes"])
    top = [row for row in rows if row["share_of_payload"] is not None][:limit]
    labels = unique_labels((row["label"] for row in top), LABEL_CHARACTERS)
    return KernelBars(
        tuple(
            KernelBar(label, row["coll_type"], row["share_of_payload"], row["cumulative_share_of_payload"])
            for label, row in zip(labels, top, strict=True)
        ),
        len(rows),
    )


def ecdf_figure(
    ecdf: pa.Table, limit: int = MAX_ECDF_PANELS, capture_rates: Mapping[str, float | None] | None = None
) -> EcdfFigure:
    """One panel for each kernel of `bandwidth_ecdf` or `time_ecdf`, in its order; `capture_rates` are by label.

    The axis is logarithmic when the central 98 % of the values span more than `LOG_AXIS_RATIO`; it spans what all
    panels show, so that curves can be compared.
    """
    kernels: dict[str, dict[str, list[Row]]] = {}
    for row in ecdf.to_pylist():
        if row["value"] is not None:
            kernels.setdefault(row["label"], {}).setdefault(row["measure"], []).append(row)
    chosen = list(kernels.items())[:limit]
    labels = unique_labels((label for label, _ in chosen), LABEL_CHARACTERS)
    panels = tuple(
        EcdfPanel(
            label,
            next(iter(measures.values()))[0]["coll_type"],
            tuple(_curve(measure, rows) for measure, rows in sorted(measures.items())),
            (capture_rates or {}).get(name),
        )
        for label, (name, measures) in zip(labels, chosen, strict=True)
    )
    central = [
        value
        for panel in panels
        for curve in panel.curves
        for value, quantile in zip(curve.values, curve.quantiles, strict=True)
        if 0.01 <= quantile <= 0.99 and value > 0
    ]
    if not central:
        return EcdfFigure(panels, log_axis=False)
    log_axis = max(central) / min(central) > LOG_AXIS_RATIO
    return EcdfFigure(panels, log_axis, min(central) / 1.1 if log_axis else 0.0, max(central) * 1.06)


def _curve(measure: str, rows: list[Row]) -> Curve:
    rows = sorted(rows, key=lambda row: row["quantile"])
    values, quantiles = tuple(row["value"] for row in rows), tuple(row["quantile"] for row in rows)
    return Curve(measure, values, quantiles, rows[0]["samples"])


def time_figures(temporal: pa.Table, limit: int = MAX_TIME_PANELS) -> tuple[TimeFigure, ...]:
    """One figure for each launch (incarnation) in `temporal_correlation`, earliest first."""
    launches: dict[int | None, list[Row]] = {}
    for row in sorted(temporal.to_pylist(), key=lambda row: row["bin_start_us"]):
        launches.setdefault(row["incarnation"], []).append(row)
    return tuple(_time_figure(launch, limit) for launch in launches.values())


def _bin_end(row: Row) -> int:
    return int(row["bin_start_us"] + row["bin_width_us"])


def _time_figure(rows: list[Row], limit: int) -> TimeFigure:
    start_us = rows[0]["bin_start_us"]
    groups: dict[tuple[str, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["coll"], row["coll_type"]].append(row)
    by_records = sorted(groups, key=lambda key: (-sum(row["records"] for row in groups[key]), key[0], key[1] or ""))
    chosen = sorted(by_records[:limit], key=lambda key: (type_order(key[1]), key[0]))
    panels = tuple(_time_panel(coll, coll_type, groups[coll, coll_type], start_us) for coll, coll_type in chosen)
    return TimeFigure(start_us, max(map(_bin_end, rows)), panels)


def _time_panel(coll: str, coll_type: str | None, rows: list[Row], start_us: int) -> TimePanel:
    """The series of one panel, drawn at the middle of each bin, with a None where more than a few bins are missing."""
    seconds: list[float] = []
    series: dict[str, list[float | None]] = {
        name: [] for name in ("busbw_p25_gbs", "busbw_p50_gbs", "busbw_p75_gbs", "transfer_busbw_p50_gbs")
    }
    for before, row in pairwise([None, *rows]):
        assert row is not None
        middle = (row["bin_start_us"] + row["bin_width_us"] / 2 - start_us) / 1e6
        if before is not None and row["bin_start_us"] - _bin_end(before) > MAX_BRIDGED_BINS * row["bin_width_us"]:
            seconds.append((seconds[-1] + middle) / 2)
            for values in series.values():
                values.append(None)
        seconds.append(middle)
        for name, values in series.items():
            values.append(row[name])
    return TimePanel(coll, coll_type, tuple(seconds), *(tuple(values) for values in series.values()))


def last_arrivals(
    spatial: pa.Table, level: str, within_host: Container[str] = (), limit: int = MAX_ENTITIES
) -> LastArrivals:
    """Who arrived last more often than chance, from `spatial_correlation` at `level` (`host` or `process`).

    `within_host` names the placements whose communicators all sit on one host: between hosts they say nothing, because
    a host that holds every rank is last by definition.
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    domain = common_domain(spatial)
    for row in spatial.to_pylist():
        cells, expected = row["cells"] or 0, row["expected_last_arrivals"] or 0.0
        compared = level == "process" or row["coll_type"] not in within_host
        if row["level"] == level and cells and compared:
            entity = sums[entity_name(row).replace(domain, "", 1)]
            entity[0] += row["last_arrivals"] or 0
            entity[1] += expected
            entity[2] += cells
    rows = [LastArrival(name, last / cells, due / cells, int(cells)) for name, (last, due, cells) in sums.items()]
    rows.sort(key=lambda row: (-row.excess, row.label))
    return LastArrivals(_relabelled(rows[:limit]), len(rows))


def _relabelled(rows: Sequence[LastArrival]) -> tuple[LastArrival, ...]:
    labels = unique_labels((row.label for row in rows), LABEL_CHARACTERS)
    return tuple(LastArrival(label, r.observed, r.expected, r.cells) for label, r in zip(labels, rows, strict=True))


def range_panels(spatial: pa.Table, level: str, limit: int = MAX_ENTITIES) -> tuple[RangePanel, ...]:
    """Bandwidth ranges by host or process for the functions and placements with most records."""
    groups: dict[tuple[str, str | None], list[Row]] = defaultdict(list)
    for row in spatial.to_pylist():
        if row["level"] == level and row["busbw_p50_gbs"] is not None:
            groups[row["coll"], row["coll_type"]].append(row)
    by_records = sorted(groups, key=lambda key: (-sum(row["records"] for row in groups[key]), key[0], key[1] or ""))
    domain = common_domain(spatial)
    return tuple(_range_panel(*key, groups[key], domain, limit) for key in by_records[:MAX_RANGE_PANELS])


def _range_panel(coll: str, coll_type: str | None, rows: list[Row], domain: str, limit: int) -> RangePanel:
    rows = sorted(rows, key=lambda row: (row["busbw_p50_gbs"], entity_name(row)))
    shown = rows if len(rows) <= limit else rows[: limit // 2] + rows[-(limit - limit // 2) :]
    labels = unique_labels((entity_name(row).replace(domain, "", 1) for row in shown), SHORT_LABEL_CHARACTERS)
    ranges = tuple(
        Range(label, row["busbw_p10_gbs"], row["busbw_p50_gbs"], row["busbw_p90_gbs"])
        for label, row in zip(labels, shown, strict=True)
    )
    return RangePanel(coll, coll_type, ranges, len(rows))


def heat_map(resource: pa.Table, size_label: Callable[[int], str] = format_bytes) -> HeatMap:
    """Records by shape, function and size, from `resource_correlation`: the shapes with most records.

    Sizes are grouped by powers of two, of four, ... when there are more distinct ones than columns.
    """
    rows = [row for row in resource.to_pylist() if row["coll_msg_size_bytes"] is not None]
    sizes = {row["coll_msg_size_bytes"] for row in rows}
    step = 0
    while len({_size_class(size, step) for size in sizes}) > MAX_SIZES:
        step += 1
    grouped = step > 0
    counts: dict[tuple[Any, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        column = _size_class(row["coll_msg_size_bytes"], step)
        counts[row["n_ranks"], row["nnodes"], row["coll"], row["coll_type"]][column] += row["records"]
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


def _size_class(size: int, step: int) -> int:
    """The size itself (step 0), or the largest power of 2^step that it reaches."""
    return size if step == 0 or size == 0 else 1 << ((size.bit_length() - 1) // step * step)


def shape_label(n_ranks: int | None, nnodes: int | None, coll: str) -> str:
    """`32r/4n AllGather`: ranks and NCCL nodes of the communicator, and the function."""
    ranks = "?" if n_ranks is None else n_ranks
    nodes = "?" if nnodes is None else nnodes
    return f"{ranks}r/{nodes}n {shorten(coll, 16)}"


def entity_name(row: Row) -> str:
    """The process of a process row, the host of a host row; a placeholder when the log does not name it."""
    name = row["process"] if row["level"] == "process" else row["hostname"]
    return "(not named)" if name is None else str(name)


def common_domain(spatial: pa.Table) -> str:
    """The domain that every host name ends with, from its first dot on; "" when they differ: labels do without it."""
    domains = {name[len(name.partition(".")[0]) :] for name in set(spatial["hostname"].to_pylist()) if name is not None}
    return domains.pop() if len(domains) == 1 else ""


def type_order(coll_type: str | None) -> int:
    """Position of a placement class in displays; unknown ones last."""
    return COLL_TYPES.index(coll_type) if coll_type in COLL_TYPES else len(COLL_TYPES)


def types_present(coll_types: Iterable[str | None]) -> list[str]:
    """The placement classes that occur, in display order, for a legend."""
    present = set(coll_types)
    return [name for name in COLL_TYPES if name in present]
