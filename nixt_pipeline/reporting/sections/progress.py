"""Waiting and transfer by sequence number: the same curves as over time, without any host's clock."""

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from nixt_pipeline.quantities import count, duration
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import WAIT_AND_TRANSFER
from nixt_pipeline.reporting.rows import Row
from nixt_pipeline.reporting.sections.launches import first_launches, not_drawn, prefixes
from nixt_pipeline.reporting.sections.waiting import Axis, KernelWaiting, band, draw_kernel
from nixt_pipeline.reporting.views import FigureView, SectionView


@dataclass(frozen=True)
class Progress:
    """A kernel by stretches of sequence numbers. `edges` are the first numbers of the stretches and the end of the
    last; stretches without a complete collective are gaps."""

    kernel: KernelWaiting
    edges: tuple[float, ...]


def progress_of(table: pa.Table) -> tuple[Progress, ...]:
    """`waiting_by_progress` by launch and kernel."""
    kernels: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        kernels[row["incarnation"], row["rank_by_bytes"]].append(row)
    prefix = prefixes(launch for launch, _ in kernels)
    return tuple(_progress(prefix[launch], rows) for (launch, _), rows in sorted(kernels.items()))


def _progress(prefix: str, rows: list[Row]) -> Progress:
    first, last = min(row["first_sn"] for row in rows), max(row["last_sn"] for row in rows)
    stretches = max(row["stretch"] for row in rows) + 1
    width = (last - first + 1) / stretches
    by_stretch = {row["stretch"]: row for row in rows}
    kernel = KernelWaiting(
        prefix + rows[0]["label"],
        band(by_stretch, range(stretches), "transfer_time"),
        band(by_stretch, range(stretches), "wait"),
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
        reading=_reading(data),
        legend=WAIT_AND_TRANSFER,
    )
    return SectionView("", "", notes=not_drawn(launches), figures=(figure,))


def _reading(data: tuple[Progress, ...]) -> str:
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
