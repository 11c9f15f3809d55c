"""How long each rank of each communicator spends in the hottest collectives, with the place where it runs."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row, Shares
from nixt_pipeline.analysis.columns import EXEC_TIME_P50, RECORDS, busbw, event
from nixt_pipeline.analysis.distributions import KERNEL, OF_HOSTS, SAMPLES
from nixt_pipeline.analysis.hot_kernels import LABEL
from nixt_pipeline.analysis.variation import HOTTEST
from nixt_pipeline.inspector.taxonomy import RUN, STRING, Column, Role, count, derived

# Each gives one map of communicators and ranks, with a value for every GPU of the job.
_KERNELS_SHOWN = 4

_SHARES = Shares(
    parameters=OF_HOSTS.format(columns="0 AS min_message_bytes"),
    sql=f"""
    WITH {HOTTEST}
    SELECT rank_by_bytes, comm_key, rank, hostname, pid, {SAMPLES}
    FROM (
        SELECT
            h.rank_by_bytes, e.comm_key, e.rank, e.hostname, e.pid,
            e.coll, e.n_ranks, e.nnodes, e.coll_msg_size_bytes, e.coll_exec_time_us, e.coll_busbw_gbs, e.flags
        FROM stored_events AS e
        JOIN hottest AS h ON h.kernel_key = e.kernel_key
        WHERE e.hostname BETWEEN $first_host AND $last_host OR ($first_host IS NULL AND e.hostname IS NULL)
    )
    GROUP BY rank_by_bytes, comm_key, rank, hostname, pid, {KERNEL}
    """,
    levels=(("rank_by_bytes", "comm_key", "rank", "hostname", "pid"),),
    busbw_quantiles=(0.5,),
    time_quantiles=(0, 0.25, 0.5, 0.75, 1),
)

SQL = f"""
WITH {HOTTEST},
members AS (
    SELECT
        hash(comm_key, rank, hostname, pid) AS member,
        coalesce(process, hostname || '-pid' || pid) AS process
    FROM membership
)
SELECT
    h.run, c.incarnation, h.rank_by_bytes, h.label, h.coll, h.coll_type, h.n_ranks, h.nnodes, h.coll_msg_size_bytes,
    c.id, c.comm_name, s.rank, s.hostname, s.pid, m.process,
    s.records, s.exec_time_mean_us, s.exec_time[1] AS exec_time_min_us, s.exec_time[2] AS exec_time_p25_us,
    s.exec_time[3] AS exec_time_p50_us, s.exec_time[4] AS exec_time_p75_us, s.exec_time[5] AS exec_time_max_us,
    s.busbw[1] AS busbw_p50_gbs,
    s.exec_time_mean_us
        - min(s.exec_time_mean_us) OVER (PARTITION BY c.incarnation, h.rank_by_bytes, c.id, c.comm_name)
        AS above_lowest_us
FROM shares AS s
JOIN hottest AS h ON h.rank_by_bytes = s.rank_by_bytes
JOIN communicators AS c ON c.comm_key = s.comm_key
LEFT JOIN members AS m ON m.member = hash(s.comm_key, s.rank, s.hostname, s.pid)
ORDER BY c.incarnation, h.rank_by_bytes, c.comm_name, c.id, s.rank, s.hostname, s.pid
"""


def _highlights(rows: list[Row]) -> Highlights:
    waits = [row["above_lowest_us"] for row in rows if row["above_lowest_us"] is not None]
    return {"ranks": len(rows), "longest mean waiting us": max(waits, default=None)}


ANALYSIS = Analysis(
    name="rank_times",
    version="2",
    title="Ranks of communicators",
    question="Within a communicator, which rank waits and which one is waited for, and where does it run?",
    reading=(
        "A rank counts inside its communicator only; host and process say where it really runs. The rank with the "
        "LOWEST time in its communicator is the one that the others wait for. A communicator whose ranks are all slow "
        "has slow transfers, and no rank of it stands out."
    ),
    columns=(
        RUN,
        *event("incarnation"),
        count("rank_by_bytes", "", "Rank of the kernel by observed message bytes"),
        LABEL,
        *event("coll", "coll_type", "n_ranks", "nnodes", "coll_msg_size_bytes", "id", "comm_name", "rank"),
        *event("hostname", "pid"),
        Column("process", STRING, Role.DERIVED, "", "<hostname>-pid<pid>, and its rank where that has several"),
        RECORDS,
        derived("exec_time_mean_us", "us", "Mean execution time, waiting included"),
        derived("exec_time_min_us", "us", "Shortest execution time"),
        derived("exec_time_p25_us", "us", "25th percentile of execution time, waiting included"),
        EXEC_TIME_P50,
        derived("exec_time_p75_us", "us", "75th percentile of execution time, waiting included"),
        derived("exec_time_max_us", "us", "Longest execution time"),
        *busbw(50),
        derived("above_lowest_us", "us", "Mean above the lowest mean of a rank of the communicator: its waiting"),
    ),
    key=("incarnation", "label", "id", "comm_name", "rank", "hostname", "pid"),
    sql=SQL,
    parameters=lambda _: {"kernels_shown": _KERNELS_SHOWN},
    shares=_SHARES,
    highlights=_highlights,
)
