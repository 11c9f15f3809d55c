"""Which communicator shapes carry which operations and message sizes."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row
from nixt_pipeline.analysis.columns import PAYLOAD_BYTES, RECORDS, event
from nixt_pipeline.inspector.taxonomy import RUN, count

SQL = """
WITH records_by_shape AS (
    SELECT
        any_value(run) AS run,
        kernel_key, n_ranks, nnodes, coll_type, kind, coll, coll_msg_size_bytes,
        sum(records) AS records,
        coalesce(sum(coll_msg_size_bytes::HUGEINT * records), 0)::DOUBLE AS payload_bytes
    FROM kernel_times
    GROUP BY kernel_key, n_ranks, nnodes, coll_type, kind, coll, coll_msg_size_bytes
),
cells_by_shape AS (
    SELECT kernel_key, count(*) AS collectives FROM cells GROUP BY kernel_key
)
SELECT
    r.run, r.n_ranks, r.nnodes, r.coll_type, r.kind, r.coll, r.coll_msg_size_bytes, r.records,
    CASE WHEN r.kind = 'collective' THEN coalesce(c.collectives, 0) END AS collectives,
    r.payload_bytes
FROM records_by_shape AS r
LEFT JOIN cells_by_shape AS c ON c.kernel_key = r.kernel_key
ORDER BY r.n_ranks DESC, r.nnodes DESC, r.kind, r.coll, r.coll_msg_size_bytes
"""


def _highlights(rows: list[Row]) -> Highlights:
    return {
        "communicator shapes": len({(row["n_ranks"], row["nnodes"]) for row in rows}),
        "message sizes": len({row["coll_msg_size_bytes"] for row in rows}),
    }


ANALYSIS = Analysis(
    name="resource_correlation",
    version="1",
    title="Communicator shapes",
    question="Which communicator shapes carry which operations and message sizes?",
    reading=(
        "Each row is one exact message size on one communicator shape; few filled rows mean few hot kernels. The "
        "class tells where the ranks sit, not which wire carried the bytes, and since version 2.30 the plugin leaves "
        "out messages below 8192 bytes by default: an absent size was perhaps only not recorded."
    ),
    columns=(
        RUN,
        *event("n_ranks", "nnodes", "coll_type", "kind", "coll", "coll_msg_size_bytes"),
        RECORDS,
        count(
            "collectives",
            "collectives",
            "Distinct collectives across ranks, at the largest size ranks gave; null for P2P",
        ),
        PAYLOAD_BYTES,
    ),
    key=("n_ranks", "nnodes", "kind", "coll", "coll_msg_size_bytes"),
    adds_up_to="events",
    sql=SQL,
    highlights=_highlights,
)
