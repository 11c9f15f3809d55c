"""How much of each communicator's operations the log saw: what every other number rests on."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row, total
from nixt_pipeline.analysis.columns import RECORDS, event
from nixt_pipeline.inspector.taxonomy import RUN, U64, Column, Role, count, derived

SQL = """
WITH records_by_rank AS (
    SELECT
        comm_key, coll, rank, hostname, count(*) AS records
    FROM stored_events
    WHERE kind = 'collective'
    GROUP BY comm_key, coll, rank, hostname
),
seen AS (
    SELECT
        comm_key, coll,
        count(DISTINCT rank) AS ranks_seen,
        count(DISTINCT hostname) AS hosts_seen,
        sum(records) AS records,
        min(records) AS records_per_rank_min,
        max(records) AS records_per_rank_max
    FROM records_by_rank
    GROUP BY comm_key, coll
),
dropped AS (
    SELECT comm_key, sum(dropped) AS dropped_by_plugin
    FROM (
        -- Each writer counts up from the start of its process: its highest count is its total.
        SELECT comm_key, rank, hostname, pid, max(coll_dropped_total) AS dropped
        FROM auxiliary
        WHERE record_kind = 'dump_stats'
        GROUP BY comm_key, rank, hostname, pid
    )
    GROUP BY comm_key
)
SELECT
    c.run, c.incarnation, c.id, c.comm_name, c.n_ranks, c.nnodes, c.coll_type, s.coll,
    s.ranks_seen, s.hosts_seen, n.first_sn, n.last_sn, n.sn_expected, n.sn_seen, s.records,
    n.records_captured / n.records_expected AS capture_rate,
    coalesce(n.complete_cells, 0) AS complete_cells,
    coalesce(n.cells, 0) AS cells,
    n.complete_cells / n.cells AS complete_share,
    s.records_per_rank_min, s.records_per_rank_max, d.dropped_by_plugin
FROM seen AS s
JOIN communicators AS c ON c.comm_key = s.comm_key
LEFT JOIN series AS n ON n.comm_key = s.comm_key AND n.coll IS NOT DISTINCT FROM s.coll
LEFT JOIN dropped AS d ON d.comm_key = s.comm_key
ORDER BY c.incarnation, c.n_ranks DESC, c.nnodes DESC, c.comm_name, c.id, s.coll
"""


def _highlights(rows: list[Row]) -> Highlights:
    known = [row for row in rows if row["capture_rate"] is not None]
    expected = sum(row["n_ranks"] * row["sn_expected"] for row in known)
    captured = sum(row["capture_rate"] * row["n_ranks"] * row["sn_expected"] for row in known)
    return {
        "capture rate": captured / expected if expected else None,
        "complete share": total(rows, "complete_cells") / total(rows, "cells") if total(rows, "cells") else None,
        "communicators": len({(row["incarnation"], row["id"], row["comm_name"]) for row in rows}),
    }


ANALYSIS = Analysis(
    name="coverage",
    version="2",
    title="Coverage",
    question="How much of what each communicator did was recorded?",
    reading=(
        "The plugin drops records silently; gaps in the sequence numbers show it, but not what is missing before the "
        "first or after the last record. Below half of the records, comparing ranks compares samples; small messages "
        "that the plugin's size filter leaves out count as gaps, too."
    ),
    columns=(
        RUN,
        *event("incarnation", "id", "comm_name", "n_ranks", "nnodes", "coll_type", "coll"),
        count("ranks_seen", "ranks", "Distinct ranks with records of this function"),
        count("hosts_seen", "hosts", "Distinct hosts with records of this function"),
        Column("first_sn", U64, Role.COUNTER, "", "Lowest sequence number any rank recorded"),
        Column("last_sn", U64, Role.COUNTER, "", "Highest sequence number any rank recorded"),
        count("sn_expected", "collectives", "Collectives from the first to the last recorded one"),
        count("sn_seen", "collectives", "Of those, collectives that at least one rank recorded"),
        RECORDS,
        derived("capture_rate", "", "Pairs of rank and sequence number with a record / (n_ranks * sn_expected)"),
        count("complete_cells", "collectives", "Cells in which every rank has a usable time"),
        count("cells", "collectives", "Cells: distinct collectives, repetitions of a CUDA graph counted apart"),
        derived("complete_share", "", "complete_cells / cells"),
        count("records_per_rank_min", "records", "Fewest records among the ranks that were seen"),
        count("records_per_rank_max", "records", "Most records among the ranks that were seen"),
        count(
            "dropped_by_plugin",
            "records",
            "Collectives of any function that the plugin says it lost on this communicator; null when it says nothing",
        ),
    ),
    key=("incarnation", "id", "comm_name", "n_ranks", "nnodes", "coll"),
    fractions=("complete_share",),
    adds_up_to="collectives",
    sql=SQL,
    highlights=_highlights,
)
