"""The communicators of the run."""

from nixt_pipeline.quantities import count
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.views import SectionView, table_view


def communicators_section(content: RunContent) -> SectionView:
    """Communicators with their role and how it was told."""
    table = content.tables.get("communicators")
    title = "Communicators"
    if table is None or table.num_rows == 0:
        return SectionView("communicators", title, state="empty")
    rows = first_rows(table, SHOWN_ROWS, "-records", "id")
    for row in rows:
        row["ranks"] = f"{count(row['ranks_seen'])} of {count(row['n_ranks'])}"
    columns = columns_of(
        "id comm_name coll_type parallel_role parallel_role_source ranks nnodes hosts_seen incarnation records"
    )
    notes = (
        "The log does not contain the parallel role. It is derived from the framework's name, or guessed from the "
        "shape; the table says which.",
    )
    view = table_view("Communicators with most records", rows, columns, total=table.num_rows, source="communicators")
    return SectionView("communicators", title, notes=notes, tables=(view,))
