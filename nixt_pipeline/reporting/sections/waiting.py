"""Waiting and transfer over time: how many GPUs did which, and how long each took in the hot kernels; and the same by
sequence number, without any host's clock."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from nixt_pipeline.grouping import grouped
from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, duration, number, percent, utc
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import WAIT_AND_TRANSFER
from nixt_pipeline.reporting.palette import TRANSFER_COLOUR, WAIT_COLOUR
from nixt_pipeline.reporting.rows import Row
from nixt_pipeline.reporting.sections.launches import first_launches, launch_section, not_drawn, prefixes
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
    launches = grouped(table.to_pylist(), lambda row: row["incarnation"])
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
            next(iter(found.values()))["label"], _band(found, bins, "transfer_time"), _band(found, bins, "wait")
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


def _band(found: Mapping[int, Row], bins: range, name: str) -> Band:
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
    unit, scale = canvas.time_unit(data.end_s)
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

    def draw(axes: canvas.Axes) -> None:
        both = [wait + moved for wait, moved in zip(data.waiting, data.transferring, strict=True)]
        axes.stairs(both, axis.edges, fill=True, color=WAIT_COLOUR)
        axes.stairs(data.transferring, axis.edges, fill=True, color=TRANSFER_COLOUR)
        canvas.mark_moments(axes, axis.moments)
        axes.set_xlim(0, axis.edges[-1])
        axes.set_ylim(0, max(both) * 1.05 or 1.0)
        canvas.number_axis(axes, "x")
        canvas.number_axis(axes, "y")
        axes.grid(True, axis="y")
        axes.set_xlabel(axis.label)
        axes.set_ylabel("GPUs, on average")

    alt = f"At most {number(max(data.waiting))} GPUs waiting at once, on average of a bin"
    return canvas.chart(name, 2.0, draw, alt, "All collectives: GPUs waiting and transferring")


def draw_kernel(kernel: KernelWaiting, name: str, axis: Axis) -> str:
    """Median and quartiles of waiting and transfer in each bin."""

    def draw(axes: canvas.Axes) -> None:
        for (low, middle, high), colour in ((kernel.wait, WAIT_COLOUR), (kernel.transfer, TRANSFER_COLOUR)):
            axes.fill_between(axis.middles, canvas.gaps(low), canvas.gaps(high), color=colour, alpha=0.35, linewidth=0)
            axes.plot(axis.middles, canvas.gaps(middle), color=colour, linewidth=1.5, marker=".", markersize=2.5)
        canvas.mark_moments(axes, axis.moments)
        axes.set_xlim(axis.edges[0], axis.edges[-1])
        known = [value for value in (*kernel.wait[2], *kernel.transfer[2]) if value is not None]
        axes.set_ylim(0, max(known, default=1.0) * 1.5)
        canvas.number_axis(axes, "x")
        canvas.duration_axis(axes, "y", _LOWEST_US)
        axes.grid(True, axis="y")
        axes.set_xlabel(axis.label)
        axes.set_ylabel("time per collective")

    waits = [value for value in kernel.wait[1] if value is not None]
    title = shorten(kernel.label, canvas.LABEL_CHARACTERS)
    return canvas.chart(name, 2.0, draw, f"{title}: median waits up to {duration(max(waits, default=0.0))}", title)


@dataclass(frozen=True)
class Progress:
    """A kernel by stretches of sequence numbers. `edges` are the first numbers of the stretches and the end of the
    last; stretches without a complete collective are gaps."""

    kernel: KernelWaiting
    edges: tuple[float, ...]


def progress_of(table: pa.Table) -> tuple[Progress, ...]:
    """`waiting_by_progress` by launch and kernel."""
    kernels = grouped(table.to_pylist(), lambda row: (row["incarnation"], row["rank_by_bytes"]))
    prefix = prefixes(launch for launch, _ in kernels)
    return tuple(_progress(prefix[launch], rows) for (launch, _), rows in sorted(kernels.items()))


def _progress(prefix: str, rows: list[Row]) -> Progress:
    first, last = min(row["first_sn"] for row in rows), max(row["last_sn"] for row in rows)
    stretches = max(row["stretch"] for row in rows) + 1
    width = (last - first + 1) / stretches
    by_stretch = {row["stretch"]: row for row in rows}
    kernel = KernelWaiting(
        prefix + rows[0]["label"],
        _band(by_stretch, range(stretches), "transfer_time"),
        _band(by_stretch, range(stretches), "wait"),
    )
    return Progress(kernel, tuple(first + position * width for position in range(stretches + 1)))


def progress_section(_content: RunContent, table: pa.Table) -> SectionView:
    """A panel for each kernel."""
    earliest, launches = first_launches(table)
    data = progress_of(earliest)
    panels = (draw_progress(item, f"progress-{position}") for position, item in enumerate(data, start=1))
    figure = FigureView(
        "".join(panels),
        "Lines are medians, bands p25 to p75, on a logarithmic axis. The sequence number is that of the communicator's "
        "function, equal on all ranks.",
        anchor="figure-progress",
        title="Waiting and transfer by sequence number",
        reading=_longest(data),
        legend=WAIT_AND_TRANSFER,
    )
    return SectionView("", "", notes=not_drawn(launches), figures=(figure,))


def _longest(data: tuple[Progress, ...]) -> str:
    """Where the transfers of a kernel are longest against their own shortest stretch."""
    found = []
    for item in data:
        known = [(value, position) for position, value in enumerate(item.kernel.transfer[1]) if value]
        if known:
            (lowest, _), (highest, position) = min(known), max(known)
            found.append((highest / lowest, item, lowest, highest, position))
    if not found:
        return "No transfer has a usable time."
    _, item, lowest, highest, position = max(found, key=lambda entry: entry[0])
    return (
        f"{item.kernel.label}: median transfers take from {duration(lowest)} to {duration(highest)}, the longest from "
        f"collective {count(item.edges[position])} on."
    )


def draw_progress(data: Progress, name: str) -> str:
    """Waiting and transfer over the sequence numbers of one kernel."""
    return draw_kernel(data.kernel, name, Axis("sequence number", data.edges, ()))
