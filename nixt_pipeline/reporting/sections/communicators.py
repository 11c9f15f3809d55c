"""The communicators of the run."""

from nixt_pipeline.quantities import count
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_rows
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import SectionView, Spec, table_view


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
        Spec("Role", "parallel_role", lambda role: "unknown" if role is None else plain(role)),
        Spec("Role from", "parallel_role_source"),
        Spec("Ranks seen", "ranks"),
        Spec("NCCL nodes", "nnodes", count, numeric=True),
        Spec("Hosts", "hosts_seen", count, numeric=True),
        Spec("Launch", "incarnation", count, numeric=True),
        Spec("Records", "records", count, numeric=True),
    )
    notes = (
        "The log does not contain the parallel role. It is derived from the framework's name, or guessed from the "
        "shape; the table says which.",
    )
    view = table_view("Communicators with most records", rows, columns, total=table.num_rows, source="communicators")
    return SectionView("communicators", title, notes=notes, tables=(view,))
