"""For which host the others waited, over the run."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row
from nixt_pipeline.analysis.columns import LEAST_BYTES, MIN_MESSAGE_BYTES, event, large_messages
from nixt_pipeline.analysis.temporal_correlation import SPANS
from nixt_pipeline.analysis.waiting import BINS
from nixt_pipeline.inspector.taxonomy import RUN, count, derived

SQL = f"""
WITH {SPANS},
cut AS (SELECT {LEAST_BYTES} AS min_message_bytes),
places AS (
    SELECT
        comm_key,
        hostname, count(DISTINCT rank) AS ranks,
        count(*) OVER (PARTITION BY comm_key) AS hosts
    FROM membership
    WHERE hostname IS NOT NULL
    GROUP BY comm_key, hostname
),
-- Where all ranks share a host, it is last by definition.
spanning AS (SELECT DISTINCT comm_key FROM places WHERE hosts > 1),
waits AS (
    SELECT
        c.incarnation,
        bin_start(c.first_dump_us, s.start_us, s.bin_width_us) AS bin_start_us,
        s.bin_width_us, p.comm_key, c.n_ranks, c.min_hostname AS hostname,
        -- Ranks with equal shortest times arrived together, within the clock's microsecond: nobody was last.
        count(*) FILTER (c.min_exec_time_us < c.second_min_exec_time_us) AS decided,
        count(*) AS cells,
        sum(c.wait_us) FILTER (c.min_exec_time_us < c.second_min_exec_time_us) AS wait_us,
        sum(c.sum_exec_time_us) AS rank_time_us
    FROM cells AS c
    JOIN spans AS s ON s.incarnation = c.incarnation
    JOIN spanning AS p ON p.comm_key = c.comm_key
    CROSS JOIN cut
    WHERE c.complete AND ends_together(c.coll) AND c.first_dump_us IS NOT NULL
        -- In a small collective of the whole job, a loss or a flag, whoever ends the step is waited for by design.
        AND c.coll_msg_size_bytes >= cut.min_message_bytes
    GROUP BY ALL
),
by_communicator AS (
    SELECT
        incarnation, bin_start_us, bin_width_us, comm_key, n_ranks,
        sum(decided) AS decided, sum(cells) AS cells
    FROM waits
    GROUP BY ALL
),
due AS (
    SELECT
        w.incarnation, w.bin_start_us, w.bin_width_us, p.hostname,
        sum(w.cells) AS cells,
        sum(w.decided * p.ranks / w.n_ranks) AS expected_last_arrivals
    FROM by_communicator AS w
    JOIN places AS p ON p.comm_key = w.comm_key
    GROUP BY ALL
),
late AS (
    SELECT incarnation, bin_start_us, hostname, sum(decided) AS last_arrivals, sum(wait_us) AS caused_wait_us
    FROM waits
    GROUP BY ALL
),
totals AS (SELECT incarnation, bin_start_us, sum(rank_time_us) AS rank_time_us FROM waits GROUP BY ALL)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    d.incarnation, d.bin_start_us, d.bin_width_us, cut.min_message_bytes, d.hostname, d.cells,
    coalesce(l.last_arrivals, 0) AS last_arrivals,
    round(d.expected_last_arrivals, 6) AS expected_last_arrivals,
    round(coalesce(l.caused_wait_us, 0), 3) AS caused_wait_us,
    coalesce(l.caused_wait_us, 0) / nullif(t.rank_time_us, 0) AS share_of_rank_time
FROM due AS d
CROSS JOIN cut
JOIN totals AS t ON t.incarnation = d.incarnation AND t.bin_start_us = d.bin_start_us
LEFT JOIN late AS l
    ON l.incarnation = d.incarnation AND l.bin_start_us = d.bin_start_us AND l.hostname = d.hostname
ORDER BY d.incarnation, d.bin_start_us, d.hostname
"""


def _highlights(rows: list[Row]) -> Highlights:
    caused: dict[str, float] = {}
    for row in rows:
        caused[row["hostname"]] = caused.get(row["hostname"], 0.0) + row["caused_wait_us"]
    return {"GPU-seconds waited for the worst host": max(caused.values(), default=0.0) / 1e6, "hosts": len(caused)}


ANALYSIS = Analysis(
    name="host_lateness",
    version="1",
    title="Lateness of hosts over time",
    question="For which host did the others wait, and when did that begin?",
    reading=(
        "Counted are complete collectives of communicators that span hosts. A host that the others wait for can itself "
        "be held up by another, for instance by the pipeline stage before it: it is late then by no fault of its own, "
        "and the findings say so. Times are write times, late by up to one dump interval."
    ),
    columns=(
        RUN,
        *event("incarnation"),
        count("bin_start_us", "us", "Unix time at which the bin starts"),
        count("bin_width_us", "us", "Width of the bin: about 1/60 of the incarnation's span"),
        MIN_MESSAGE_BYTES,
        *event("hostname"),
        count("cells", "collectives", "Complete collectives across hosts that it took part in"),
        count("last_arrivals", "collectives", "Of those, collectives in which one of its ranks alone came last"),
        derived("expected_last_arrivals", "collectives", "Last arrivals if all ranks were last equally often"),
        derived("caused_wait_us", "us", "Rank-time that others waited in the collectives in which it came last"),
        derived("share_of_rank_time", "", "The same as a share of the rank-time of all these collectives in the bin"),
    ),
    key=("incarnation", "bin_start_us", "hostname"),
    fractions=("share_of_rank_time",),
    sql=SQL,
    parameters=lambda settings: large_messages(settings) | {"bins": BINS},
    highlights=_highlights,
)
