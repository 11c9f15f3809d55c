"""Other correlations."""

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import SectionView, table_view


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
    rows = first_rows(several, SHOWN_ROWS, "attribute", "coll", "coll_type", "-records", "value")
    columns = columns_of(
        "attribute value coll coll_type records busbw_p25_gbs busbw_p50_gbs busbw_p75_gbs exec_time_p50_us"
    )
    notes = (f"The same in every record, so nothing to compare: {'; '.join(same)}.",) if same else ()
    table_of = table_view("Bandwidth by attribute", rows, columns, total=several.num_rows, source="other_correlation")
    tables = (table_of,) if rows else ()
    return SectionView("", "", notes=notes, tables=tables)
