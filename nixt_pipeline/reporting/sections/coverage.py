"""How much of the job the records cover."""

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count, percent
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.coverage import coverage_by_type
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, first_rows
from nixt_pipeline.reporting.views import Fact, SectionView, table_view


def coverage_parts(content: RunContent) -> SectionView:
    """Capture rate, missing ranks, and the communicators that were seen least."""
    coverage = content.coverage
    facts = (
        Fact("Capture rate (records seen of records due)", percent(coverage.capture_rate)),
        Fact("Collectives seen by every rank", f"{percent(coverage.complete_share)} of {count(coverage.cells)}"),
        Fact("Processes seen", f"{count(coverage.processes_seen)} of at least {count(coverage.processes_expected)}"),
        Fact("Ranks without any record", count(coverage.ranks_missing)),
        Fact(
            "Communicators with missing ranks",
            f"{count(coverage.communicators_incomplete)} of {count(coverage.communicators)}",
        ),
    )
    columns = columns_of(
        "id comm_name coll_type coll ranks hosts_seen sn_expected sn_seen records capture_rate"
        " complete_share dropped_by_plugin"
    )
    table = content.tables["coverage"]
    gaps, rows = _incomplete(table)
    notes = (
        () if gaps else ("Every communicator was captured completely, from its first recorded operation to its last.",)
    )
    by_type = columns_of("coll_type coll communicators records capture_rate")
    caption = "Capture rate by placement and function"
    tables = [table_view(caption, coverage_by_type(table), by_type, SHOWN_ROWS)]
    if gaps:
        caption = "Incompletely captured, least first"
        tables.append(table_view(caption, rows, columns, total=gaps, source="coverage"))
    return SectionView("coverage", "Coverage", facts=facts, notes=notes, tables=tuple(tables))


def _incomplete(coverage: pa.Table) -> tuple[int, list[Row]]:
    """How many rows of `coverage` have gaps, and the first of those that were captured least."""
    whole = pc.and_(
        pc.and_(pc.equal(coverage["capture_rate"], 1), pc.equal(coverage["complete_share"], 1)),
        pc.equal(coverage["ranks_seen"], coverage["n_ranks"]),
    )
    gaps = coverage.filter(pc.invert(pc.fill_null(whole, False)))
    rated = gaps.append_column("rate", pc.fill_null(gaps["capture_rate"], 1.0))
    rows = first_rows(rated, SHOWN_ROWS, "rate", "id", "coll")
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    return gaps.num_rows, rows
