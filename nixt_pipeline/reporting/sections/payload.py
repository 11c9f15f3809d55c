"""The communication structure: which functions carry the bytes, and where."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import percent, size
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend, type_order
from nixt_pipeline.reporting.palette import colour_of
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import FigureView, SectionView, table_view

MAX_FUNCTIONS = 24


@dataclass(frozen=True)
class Segment:
    """Part of a stacked bar."""

    coll_type: str | None
    payload_bytes: float


@dataclass(frozen=True)
class PayloadBars:
    """Observed payload by function, split by placement; largest function first, and a last bar for all
    beyond `MAX_FUNCTIONS`."""

    bars: tuple[tuple[str, tuple[Segment, ...]], ...]
    total_bytes: float


def payload_bars(summary: pa.Table) -> PayloadBars:
    """Observed payload by function and placement, from `summary_histogram`. Sizes the log does not give count as 0."""
    parts: dict[str, list[Segment]] = defaultdict(list)
    for row in summary.select(["coll", "coll_type", "payload_bytes"]).to_pylist():
        if row["payload_bytes"]:
            parts[row["coll"]].append(Segment(row["coll_type"], row["payload_bytes"]))
    totals = {coll: sum(segment.payload_bytes for segment in segments) for coll, segments in parts.items()}
    largest_first = sorted(parts, key=lambda coll: (-totals[coll], coll))
    shown = MAX_FUNCTIONS if len(parts) > MAX_FUNCTIONS + 1 else len(parts)
    bars = [(coll, _by_type(parts[coll])) for coll in largest_first[:shown]]
    others = largest_first[shown:]
    if others:
        rest = [segment for coll in others for segment in parts[coll]]
        bars.append((f"{len(others):,} other functions", _by_type(rest)))
    return PayloadBars(tuple(bars), sum(totals.values()))


def _by_type(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """One segment for each placement, in their order."""
    sums: dict[str | None, float] = defaultdict(float)
    for segment in segments:
        sums[segment.coll_type] += segment.payload_bytes
    return tuple(Segment(coll_type, sums[coll_type]) for coll_type in sorted(sums, key=type_order))


def draw_payload(data: PayloadBars) -> str:
    """Stacked bars: share of the observed payload by function and placement."""
    if not data.total_bytes:
        return canvas.nothing("payload")
    names = [shorten(coll, canvas.LABEL_CHARACTERS) for coll, _ in data.bars]
    totals = [sum(segment.payload_bytes for segment in segments) for _, segments in data.bars]

    def draw(axes: canvas.Axes) -> None:
        for position, (_, segments) in enumerate(data.bars):
            left = 0.0
            for segment in segments:
                share = segment.payload_bytes / data.total_bytes
                axes.barh(position, share, left=left, height=0.5, color=colour_of(segment.coll_type))
                left += share
        canvas.title_rows(axes, names, [f"{percent(total / data.total_bytes)}, {size(total)}" for total in totals])
        canvas.percent_axis(axes, max(totals) / data.total_bytes * 1.02)
        axes.set_xlabel("share of the observed payload")

    shares = (f"{name} {percent(total / data.total_bytes)}" for name, total in zip(names, totals, strict=True))
    return canvas.chart(
        "payload", 0.6 + 0.36 * len(data.bars), draw, "Share of the observed payload: " + ", ".join(shares)
    )


def payload_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Bytes by function and placement."""
    data = payload_bars(table)
    rows = first_rows(table, SHOWN_ROWS, "-payload_bytes", "kind", "coll", "coll_type")
    columns = columns_of(
        "coll coll_type kind records collectives payload_bytes share_of_payload share_of_records"
        " exec_time_p50_us busbw_p50_gbs unusable_times",
        exec_time_p50_us="Median time",
        busbw_p50_gbs="Median bandwidth, GB/s",
    )
    drawn: tuple[FigureView, ...] = ()
    if data.total_bytes:
        coll, segments = data.bars[0]
        largest = max(segments, key=lambda segment: segment.payload_bytes)
        share = sum(segment.payload_bytes for segment in segments) / data.total_bytes
        reading = (
            f"{shorten(coll, 24)} carries {percent(share)} of the observed {size(data.total_bytes)}, "
            f"most of it on {plain(largest.coll_type)} communicators."
        )
        drawn = (
            FigureView(
                draw_payload(data),
                "Shares of the payload of the whole run, by function, coloured by placement.",
                anchor="figure-payload",
                title="Bytes by function and placement",
                reading=reading,
                legend=type_legend(segment.coll_type for _, segments in data.bars for segment in segments),
            ),
        )
    notes = ("Payload is summed over the records of all ranks: what was observed, and at most what the job sent.",)
    tables = (table_view("By function and placement", rows, columns, total=table.num_rows, source="summary_histogram"),)
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)
