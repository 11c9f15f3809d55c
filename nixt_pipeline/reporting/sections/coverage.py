"""How much of the job the records cover."""

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count, percent
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.coverage import coverage_by_type
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Order, Row, first_rows
from nixt_pipeline.reporting.views import Fact, SectionView, Spec, TableView, table_view


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
    columns = (
        Spec("Communicator", "id"),
        Spec("Name", "comm_name"),
        Spec("Placement", "coll_type"),
        Spec("Function", "coll"),
        Spec("Ranks seen", "ranks"),
        Spec("Hosts", "hosts_seen", count, numeric=True),
        Spec("Operations due", "sn_expected", count, numeric=True),
        Spec("Operations seen", "sn_seen", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Capture rate", "capture_rate", percent, numeric=True),
        Spec("Seen by all ranks", "complete_share", percent, numeric=True),
        Spec("Lost by its own count", "dropped_by_plugin", count, numeric=True),
    )
    table = content.tables["coverage"]
    gaps, rows = _incomplete(table)
    notes = (
        () if gaps else ("Every communicator was captured completely, from its first recorded operation to its last.",)
    )
    tables = [_coverage_by_type_table(table)]
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
    order: tuple[Order, ...] = (("rate", "ascending"), ("id", "ascending"), ("coll", "ascending"))
    rows = first_rows(rated, SHOWN_ROWS, *order)
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    return gaps.num_rows, rows


def _coverage_by_type_table(coverage: pa.Table) -> TableView:
    columns = (
        Spec("Placement", "coll_type"),
        Spec("Function", "coll"),
        Spec("Communicators", "communicators", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
        Spec("Capture rate", "capture_rate", percent, numeric=True),
    )
    return table_view("Capture rate by placement and function", coverage_by_type(coverage), columns, SHOWN_ROWS)
