"""What each figure shows, as data: pure functions from a result to a small dataclass that `drawing` turns into SVG.

Figures stay small whatever the size of the run: they aggregate, or keep the extremes and say how many there were.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inspector.operations import COLL_TYPES
from nixt_pipeline.reporting.rows import Row, as_floats, first_rows, matching
from nixt_pipeline.reporting.text import unique_labels

MAX_KERNELS = 12
MAX_ECDF_PANELS = 10
MAX_TIME_PANELS = 8
# A function that runs once per step leaves every other bin empty; a longer silence shows as a gap.
MAX_BRIDGED_BINS = 3
MAX_ENTITIES = 12
MAX_RANGE_PANELS = 4
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


def kernel_bars(hot_kernels: pa.Table, limit: int = MAX_KERNELS) -> KernelBars:
    """The kernels that carry most of the observed payload, from `hot_kernels`."""
    shared = hot_kernels.filter(pc.is_valid(hot_kernels["share_of_payload"]))
    top = first_rows(shared, limit, ("rank_by_bytes", "ascending"))
    labels = unique_labels((row["label"] for row in top), LABEL_CHARACTERS)
    return KernelBars(
        tuple(
            KernelBar(label, row["coll_type"], row["share_of_payload"], row["cumulative_share_of_payload"])
            for label, row in zip(labels, top, strict=True)
        ),
        hot_kernels.num_rows,
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
    launches = (
        matching(temporal, {"incarnation": number}) for number in pc.unique(temporal["incarnation"]).to_pylist()
    )
    return tuple(sorted((_time_figure(launch, limit) for launch in launches), key=lambda figure: figure.start_us))


def _bin_end(row: Row) -> int:
    return int(row["bin_start_us"] + row["bin_width_us"])


def _time_figure(launch: pa.Table, limit: int) -> TimeFigure:
    start_us = pc.min(launch["bin_start_us"]).as_py()
    end_us = pc.max(pc.add(launch["bin_start_us"], launch["bin_width_us"])).as_py()
    chosen = sorted(most_recorded(launch, limit), key=lambda key: (type_order(key[1]), key[0]))
    panels = tuple(
        _time_panel(coll, coll_type, _series(launch, coll, coll_type), start_us) for coll, coll_type in chosen
    )
    return TimeFigure(start_us, end_us, panels)


def most_recorded(table: pa.Table, limit: int) -> list[tuple[str, str | None]]:
    """The functions and placements with most records in a result that has them by either."""
    sums = table.group_by(["coll", "coll_type"]).aggregate([("records", "sum")])
    rows = first_rows(sums, limit, ("records_sum", "descending"), ("coll", "ascending"), ("coll_type", "ascending"))
    return [(row["coll"], row["coll_type"]) for row in rows]


def _series(launch: pa.Table, coll: str, coll_type: str | None) -> list[Row]:
    bins = matching(launch, {"coll": coll, "coll_type": coll_type})
    return first_rows(bins, bins.num_rows, ("bin_start_us", "ascending"))


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
    spatial: pa.Table, level: str, within_host: Collection[str] = (), limit: int = MAX_ENTITIES
) -> LastArrivals:
    """Who arrived last more often than chance, from `spatial_correlation` at `level` (`host` or `process`).

    `within_host` names the placements whose communicators all sit on one host: between hosts they say nothing, because
    a host that holds every rank is last by definition.
    """
    counted = at_level(spatial, level)
    if level != "process":
        counted = between_hosts(counted, within_host)
    counted = counted.filter(pc.greater(counted["cells"], 0))
    names = ("last_arrivals", "expected_last_arrivals", "cells")
    sums = counted.group_by("entity").aggregate([(name, "sum") for name in names])
    last, expected, cells = (as_floats(pc.fill_null(sums[f"{name}_sum"], 0)) for name in names)
    excess = pc.divide(pc.subtract(last, expected), cells)
    rows = first_rows(sums.append_column("excess", excess), limit, ("excess", "descending"), ("entity", "ascending"))
    found = [
        LastArrival(
            row["entity"],
            (row["last_arrivals_sum"] or 0) / row["cells_sum"],
            (row["expected_last_arrivals_sum"] or 0) / row["cells_sum"],
            row["cells_sum"],
        )
        for row in rows
    ]
    return LastArrivals(_relabelled(found), sums.num_rows)


def at_level(spatial: pa.Table, level: str) -> pa.Table:
    """The rows of `spatial_correlation` at a level, with `entity`: the process or host, without the domain that all
    hosts share, or a placeholder when the log does not name it."""
    rows = spatial.filter(pc.equal(spatial["level"], level))
    name = pc.cast(rows["process" if level == "process" else "hostname"], pa.string())
    domain = common_domain(spatial)
    if domain:
        name = pc.replace_substring(name, domain, "", max_replacements=1)
    return rows.append_column("entity", pc.fill_null(name, "(not named)"))


def between_hosts(rows: pa.Table, within_host: Collection[str]) -> pa.Table:
    """The rows of placements that are not in `within_host`."""
    return rows.filter(pc.invert(pc.is_in(rows["coll_type"], value_set=pa.array(within_host, pa.string()))))


def _relabelled(rows: Sequence[LastArrival]) -> tuple[LastArrival, ...]:
    labels = unique_labels((row.label for row in rows), LABEL_CHARACTERS)
    return tuple(LastArrival(label, r.observed, r.expected, r.cells) for label, r in zip(labels, rows, strict=True))


def range_panels(spatial: pa.Table, level: str, limit: int = MAX_ENTITIES) -> tuple[RangePanel, ...]:
    """Bandwidth ranges by host or process for the functions and placements with most records."""
    rows = at_level(spatial, level)
    timed = rows.filter(pc.is_valid(rows["busbw_p50_gbs"]))
    return tuple(_range_panel(*key, timed, limit) for key in most_recorded(timed, MAX_RANGE_PANELS))


def _range_panel(coll: str, coll_type: str | None, timed: pa.Table, limit: int) -> RangePanel:
    rows = matching(timed, {"coll": coll, "coll_type": coll_type})
    order = rows.take(pc.sort_indices(rows, sort_keys=[("busbw_p50_gbs", "ascending"), ("entity", "ascending")]))
    half = limit // 2
    highest = max(half, rows.num_rows - (limit - half))
    shown = [*order.slice(0, half).to_pylist(), *order.slice(highest).to_pylist()]
    labels = unique_labels((row["entity"] for row in shown), SHORT_LABEL_CHARACTERS)
    ranges = tuple(
        Range(label, row["busbw_p10_gbs"], row["busbw_p50_gbs"], row["busbw_p90_gbs"])
        for label, row in zip(labels, shown, strict=True)
    )
    return RangePanel(coll, coll_type, ranges, rows.num_rows)


def common_domain(spatial: pa.Table) -> str:
    """The domain that every host name ends with, from its first dot on; "" when they differ: labels do without it."""
    domains = {name[len(name.partition(".")[0]) :] for name in pc.unique(spatial["hostname"].drop_null()).to_pylist()}
    return domains.pop() if len(domains) == 1 else ""


def type_order(coll_type: str | None) -> int:
    """Position of a placement class in displays; unknown ones last."""
    return COLL_TYPES.index(coll_type) if coll_type in COLL_TYPES else len(COLL_TYPES)


def types_present(coll_types: Iterable[str | None]) -> list[str]:
    """The placement classes that occur, in display order, for a legend."""
    present = set(coll_types)
    return [name for name in COLL_TYPES if name in present]
