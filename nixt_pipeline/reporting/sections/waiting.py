"""Waiting and transfer over time: how many GPUs did which, and how long each took in the hot kernels."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import duration, number, percent, utc
from nixt_pipeline.reporting.canvas import (
    LABEL_CHARACTERS,
    Axes,
    chart,
    duration_axis,
    gaps,
    mark_moments,
    number_axis,
    time_unit,
)
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import WAIT_AND_TRANSFER
from nixt_pipeline.reporting.palette import TRANSFER_COLOUR, WAIT_COLOUR
from nixt_pipeline.reporting.rows import Row
from nixt_pipeline.reporting.sections.launches import launch_section
from nixt_pipeline.reporting.views import FigureView, SectionView

Band = tuple[tuple[float | None, ...], tuple[float | None, ...], tuple[float | None, ...]]

# Below ten microseconds a wait is the resolution of the times.
_LOWEST_US = 10.0


@dataclass(frozen=True)
class KernelWaiting:
    """A kernel over time: p25, p50 and p75 by bin, in microseconds; None where nothing was recorded."""

    label: str
    transfer: Band
    wait: Band


@dataclass(frozen=True)
class Waiting:
    """One launch. `seconds` are the starts of its bins, `waiting` and `transferring` how many GPUs on average did so
    in collectives that every rank recorded."""

    start_us: int
    width_us: int
    seconds: tuple[float, ...]
    waiting: tuple[float, ...]
    transferring: tuple[float, ...]
    kernels: tuple[KernelWaiting, ...]

    @property
    def end_s(self) -> float:
        """Where the last bin ends."""
        return self.seconds[-1] + self.width_us / 1e6


def waiting_of(table: pa.Table) -> tuple[Waiting, ...]:
    """`waiting_over_time` by launch, earliest first; bins without any collective are there, too."""
    launches: dict[int, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        launches[row["incarnation"]].append(row)
    return tuple(_launch(rows) for _, rows in sorted(launches.items()))


def _launch(rows: list[Row]) -> Waiting:
    width = rows[0]["bin_width_us"]
    start, last = min(row["bin_start_us"] for row in rows), max(row["bin_start_us"] for row in rows)
    bins = range(start, last + 1, width)
    totals: dict[int, list[float]] = {moment: [0.0, 0.0] for moment in bins}
    by_kernel: dict[int, dict[int, Row]] = defaultdict(dict)
    for row in rows:
        totals[row["bin_start_us"]][0] += row["wait_rank_time_us"]
        totals[row["bin_start_us"]][1] += row["transfer_rank_time_us"]
        if row["rank_by_bytes"] is not None:
            by_kernel[row["rank_by_bytes"]][row["bin_start_us"]] = row
    kernels = tuple(
        KernelWaiting(
            next(iter(found.values()))["label"], band(found, bins, "transfer_time"), band(found, bins, "wait")
        )
        for _, found in sorted(by_kernel.items())
    )
    return Waiting(
        start,
        width,
        tuple((moment - start) / 1e6 for moment in bins),
        tuple(totals[moment][0] / width for moment in bins),
        tuple(totals[moment][1] / width for moment in bins),
        kernels,
    )


def band(found: Mapping[int, Row], bins: range, name: str) -> Band:
    """p25, p50 and p75 of a time in each of the `bins`, of which `found` has those with records."""
    low, middle, high = (
        tuple(found[moment][f"{name}_p{quantile}_us"] if moment in found else None for moment in bins)
        for quantile in (25, 50, 75)
    )
    return low, middle, high


def waiting_section(content: RunContent, table: pa.Table) -> SectionView:
    """A figure for each launch: all collectives together, then each hot kernel."""
    return launch_section(content, table, "waiting", waiting_of, _view)


def _view(launch: Waiting, name: str, onsets_us: Sequence[int]) -> FigureView:
    return FigureView(
        draw_waiting(launch, name, onsets_us),
        f"from {utc(launch.start_us)}. First all collectives that every rank recorded, then each hot kernel: lines are "
        "medians, bands p25 to p75, on a logarithmic axis.",
        title="waiting and transfer over time",
        reading=_reading(launch),
        legend=WAIT_AND_TRANSFER,
    )


def _reading(launch: Waiting) -> str:
    shares = [
        wait / (wait + moved)
        for wait, moved in zip(launch.waiting, launch.transferring, strict=True)
        if wait + moved > 0
    ]
    third = max(1, len(shares) // 3)
    first, last = sum(shares[:third]) / third, sum(shares[-third:]) / third
    return (
        f"Of the GPUs' time in these collectives, waiting is {percent(first)} in the first third of the log and "
        f"{percent(last)} in the last."
    )


@dataclass(frozen=True)
class Axis:
    """What a kernel's times are drawn over: edges and middles of the bins, moments to mark."""

    label: str
    edges: tuple[float, ...]
    moments: tuple[float, ...]

    @property
    def middles(self) -> list[float]:
        """Where the values of the bins are drawn."""
        return [(low + high) / 2 for low, high in pairwise(self.edges)]


def _axis(data: Waiting, onsets_us: Sequence[int]) -> Axis:
    unit, scale = time_unit(data.end_s)
    moments = ((onset - data.start_us) / 1e6 for onset in onsets_us)
    return Axis(
        f"{unit} since the start",
        tuple(second / scale for second in (*data.seconds, data.end_s)),
        tuple(moment / scale for moment in moments if 0 <= moment <= data.end_s),
    )


def draw_waiting(data: Waiting, name: str, onsets_us: Sequence[int] = ()) -> str:
    """GPUs waiting and transferring, then a panel for each kernel with the times of both."""
    kernels = (
        draw_kernel(kernel, f"{name}-{position}", _axis(data, onsets_us))
        for position, kernel in enumerate(data.kernels, start=1)
    )
    return draw_total(data, f"{name}-all", onsets_us) + "".join(kernels)


def draw_total(data: Waiting, name: str, onsets_us: Sequence[int] = ()) -> str:
    """How many GPUs waited and transferred, stacked."""
    axis = _axis(data, onsets_us)

    def draw(axes: Axes) -> None:
        both = [wait + moved for wait, moved in zip(data.waiting, data.transferring, strict=True)]
        axes.stairs(both, axis.edges, fill=True, color=WAIT_COLOUR)
        axes.stairs(data.transferring, axis.edges, fill=True, color=TRANSFER_COLOUR)
        mark_moments(axes, axis.moments)
        axes.set_xlim(0, axis.edges[-1])
        axes.set_ylim(0, max(both) * 1.05 or 1.0)
        number_axis(axes, "x")
        number_axis(axes, "y")
        axes.grid(True, axis="y")
        axes.set_xlabel(axis.label)
        axes.set_ylabel("GPUs, on average")

    alt = f"At most {number(max(data.waiting))} GPUs waiting at once, on average of a bin"
    return chart(name, 2.0, draw, alt, "All collectives: GPUs waiting and transferring")


def draw_kernel(kernel: KernelWaiting, name: str, axis: Axis) -> str:
    """Median and quartiles of waiting and transfer in each bin."""

    def draw(axes: Axes) -> None:
        for (low, middle, high), colour in ((kernel.wait, WAIT_COLOUR), (kernel.transfer, TRANSFER_COLOUR)):
            axes.fill_between(axis.middles, gaps(low), gaps(high), color=colour, alpha=0.35, linewidth=0)
            axes.plot(axis.middles, gaps(middle), color=colour, linewidth=1.5, marker=".", markersize=2.5)
        mark_moments(axes, axis.moments)
        axes.set_xlim(axis.edges[0], axis.edges[-1])
        known = [value for value in (*kernel.wait[2], *kernel.transfer[2]) if value is not None]
        axes.set_ylim(0, max(known, default=1.0) * 1.5)
        number_axis(axes, "x")
        duration_axis(axes, "y", _LOWEST_US)
        axes.grid(True, axis="y")
        axes.set_xlabel(axis.label)
        axes.set_ylabel("time per collective")

    waits = [value for value in kernel.wait[1] if value is not None]
    title = shorten(kernel.label, LABEL_CHARACTERS)
    return chart(name, 2.0, draw, f"{title}: median waits up to {duration(max(waits, default=0.0))}", title)
