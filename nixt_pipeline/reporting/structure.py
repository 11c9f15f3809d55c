"""The sections that show what a job communicates: functions, sizes, communicators, and what else records differ in."""

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.reporting import (
    drawing,
    payload,
    shapes,
)
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import type_legend
from nixt_pipeline.reporting.palette import DECADE_COLOURS
from nixt_pipeline.reporting.quality import SHOWN_ROWS
from nixt_pipeline.reporting.rows import Order, first_rows
from nixt_pipeline.reporting.text import count, duration, gbs, percent, plain, shorten, size
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, table_view


def payload_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Bytes by function and placement."""
    data = payload.payload_bars(table)
    order: tuple[Order, ...] = (
        ("payload_bytes", "descending"),
        ("kind", "ascending"),
        ("coll", "ascending"),
        ("coll_type", "ascending"),
    )
    rows = first_rows(table, SHOWN_ROWS, *order)
    columns = (
        Spec("Function", "coll"),
        Spec("Placement", "coll_type"),
        Spec("Kind", "kind"),
        Spec("Records", "records", count, numeric=True),
        Spec("Collectives", "collectives", count, numeric=True),
        Spec("Observed payload", "payload_bytes", size, numeric=True),
        Spec("Share of payload", "share_of_payload", percent, numeric=True),
        Spec("Share of records", "share_of_records", percent, numeric=True),
        Spec("Median time", "exec_time_p50_us", duration, numeric=True),
        Spec("Median bandwidth, GB/s", "busbw_p50_gbs", gbs, numeric=True),
        Spec("Unusable times", "unusable_times", count, numeric=True),
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
                drawing.draw_payload(data),
                "Shares of the payload of the whole run, by function, coloured by placement.",
                anchor="figure-payload",
                title="Bytes by function and placement",
                reading=reading,
                legend=type_legend(segment.coll_type for _, segments in data.bars for segment in segments),
                source="summary_histogram",
            ),
        )
    notes = ("Payload is summed over the records of all ranks: what was observed, and at most what the job sent.",)
    tables = (table_view("By function and placement", rows, columns, total=table.num_rows, source="summary_histogram"),)
    return SectionView("", "", notes=notes, figures=drawn, tables=tables)


def sizes_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Calls by shape of the communicator and message size."""
    data = shapes.heat_map(table)
    order: tuple[Order, ...] = (
        ("records", "descending"),
        ("coll", "ascending"),
        ("n_ranks", "ascending"),
        ("coll_msg_size_bytes", "ascending"),
    )
    rows = first_rows(table, SHOWN_ROWS, *order)
    columns = (
        Spec("Ranks", "n_ranks", count, numeric=True),
        Spec("NCCL nodes", "nnodes", count, numeric=True),
        Spec("Placement", "coll_type"),
        Spec("Function", "coll"),
        Spec("Message size", "coll_msg_size_bytes", size, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Collectives", "collectives", count, numeric=True),
        Spec("Observed payload", "payload_bytes", size, numeric=True),
    )
    drawn: tuple[FigureView, ...] = ()
    if data.cells:
        cut = (
            f" The {len(data.rows)} of {count(data.total_rows)} shapes with most records."
            if data.total_rows > len(data.rows)
            else ""
        )
        decades = sorted({drawing.decade_of(records) for _, _, records in data.cells})
        total = pc.sum(table["records"]).as_py()
        drawn = (
            FigureView(
                drawing.draw_heat_map(data),
                f"Records by communicator shape (ranks r / NCCL nodes n), function and message size.{cut}",
                anchor="figure-sizes",
                title="Calls by topology and size",
                reading=(
                    f"{plain(rows[0]['coll'])} of {size(rows[0]['coll_msg_size_bytes'])} is recorded most often: "
                    f"{percent(rows[0]['records'] / total)} of {count(total)} records."
                ),
                legend=(
                    *(LegendEntry(drawing.decade_label(decade), DECADE_COLOURS[decade]) for decade in decades),
                    *type_legend(coll_type for _, coll_type in data.rows),
                ),
                source="resource_correlation",
            ),
        )
    tables = (table_view("By records", rows, columns, total=table.num_rows, source="resource_correlation"),)
    return SectionView("", "", figures=drawn, tables=tables)


def others_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Bandwidth by any other attribute of the records that has several values."""
    # An attribute with one value correlates with nothing.
    distinct = table.group_by(["attribute", "value"]).aggregate([])
    values = distinct.group_by("attribute").aggregate([([], "count_all")])
    single = values.filter(pc.equal(values["count_all"], 1))["attribute"].combine_chunks()
    is_single = pc.is_in(distinct["attribute"], value_set=single)
    same = [
        f"{row['attribute']} is {shorten(plain(row['value']), 60)}"
        for row in sorted(distinct.filter(is_single).to_pylist(), key=lambda row: row["attribute"])
    ]
    several = table.filter(pc.invert(pc.is_in(table["attribute"], value_set=single)))
    order: tuple[Order, ...] = (
        ("attribute", "ascending"),
        ("coll", "ascending"),
        ("coll_type", "ascending"),
        ("records", "descending"),
        ("value", "ascending"),
    )
    rows = first_rows(several, SHOWN_ROWS, *order)
    columns = (
        Spec("Attribute", "attribute"),
        Spec("Value", "value"),
        Spec("Function", "coll"),
        Spec("Placement", "coll_type"),
        Spec("Records", "records", count, numeric=True),
        Spec("Bandwidth p25, GB/s", "busbw_p25_gbs", gbs, numeric=True),
        Spec("p50", "busbw_p50_gbs", gbs, numeric=True),
        Spec("p75", "busbw_p75_gbs", gbs, numeric=True),
        Spec("Time p50", "exec_time_p50_us", duration, numeric=True),
    )
    notes = (f"The same in every record, so nothing to compare: {'; '.join(same)}.",) if same else ()
    table_of = table_view("Bandwidth by attribute", rows, columns, total=several.num_rows, source="other_correlation")
    tables = (table_of,) if rows else ()
    return SectionView("", "", notes=notes, tables=tables)


def communicators_section(content: RunContent) -> SectionView:
    """Communicators with their role and how it was told."""
    table = content.tables.get("communicators")
    title = "Communicators"
    if table is None or table.num_rows == 0:
        return SectionView("communicators", title, state="empty")
    rows = first_rows(table, SHOWN_ROWS, ("records", "descending"), ("id", "ascending"))
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    columns = (
        Spec("Communicator", "id"),
        Spec("Name", "comm_name"),
        Spec("Placement", "coll_type"),
        Spec("Role", "parallel_role", lambda role: "not told" if role is None else plain(role)),
        Spec("Role told by", "parallel_role_source"),
        Spec("Ranks seen", "ranks"),
        Spec("NCCL nodes", "nnodes", count, numeric=True),
        Spec("Hosts", "hosts_seen", count, numeric=True),
        Spec("Launch", "incarnation", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
    )
    notes = (
        "The log does not name the parallel role. It is told from the name the framework gave, or guessed from the "
        "shape; the table says which.",
    )
    view = table_view("Communicators with most records", rows, columns, total=table.num_rows, source="communicators")
    return SectionView("communicators", title, notes=notes, tables=(view,))
