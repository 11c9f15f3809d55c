"""Sends and Recvs by the two processes that they join."""

from nixt_pipeline.analysis.base import Analysis, Highlights, Row, Shares
from nixt_pipeline.analysis.columns import PAYLOAD_BYTES, event
from nixt_pipeline.inspector.taxonomy import BOOL, I64, RUN, STRING, Column, Role, count, derived

_SHARES = Shares(
    parameters="""
    SELECT numbers.pass, passes
    FROM (
        SELECT coalesce(sum(records), 0)::BIGINT // $records_per_share + 1 AS passes
        FROM kernel_times WHERE kind = 'p2p'
    )
    CROSS JOIN range(passes) AS numbers (pass)
    """,
    sql="""
    SELECT
        comm_key, coll AS side,
        CASE coll WHEN 'Send' THEN rank ELSE p2p_peer END AS source_rank,
        CASE coll WHEN 'Send' THEN p2p_peer ELSE rank END AS target_rank,
        coll_msg_size_bytes,
        count(*) AS records,
        quantile_cont(coll_exec_time_us, 0.5) AS time_p50_us
    FROM stored_events
    WHERE kind = 'p2p' AND coll IN ('Send', 'Recv') AND p2p_peer IS NOT NULL
        AND hash(hostname, pid) % $passes::UBIGINT = $pass::UBIGINT
    GROUP BY ALL
    """,
)

SQL = """
WITH edges AS (
    SELECT
        c.comm_key, c.incarnation, c.id, c.comm_name, c.n_ranks, c.nnodes,
        source_rank, target_rank, coll_msg_size_bytes,
        coalesce(sum(s.records) FILTER (side = 'Send'), 0) AS send_records,
        coalesce(sum(s.records) FILTER (side = 'Recv'), 0) AS recv_records,
        -- A rank is in one process; after a restart in the same communicator it can be two, of which one is taken.
        min(time_p50_us) FILTER (side = 'Send') AS send_time_p50_us,
        min(time_p50_us) FILTER (side = 'Recv') AS recv_time_p50_us
    FROM shares AS s
    JOIN communicators AS c ON c.comm_key = s.comm_key
    GROUP BY ALL
),
places AS (
    SELECT comm_key, rank, arg_min(hostname, pid) AS hostname, min(pid) AS pid,
        arg_min(coalesce(process, hostname || '-pid' || pid), pid) AS process
    FROM membership
    GROUP BY ALL
)
SELECT
    (SELECT any_value(run) FROM communicators) AS run,
    e.incarnation, e.id, e.comm_name, e.n_ranks, e.nnodes, e.source_rank, e.target_rank,
    s.hostname AS source_hostname, s.pid AS source_pid, s.process AS source_process,
    t.hostname AS target_hostname, t.pid AS target_pid, t.process AS target_process,
    s.hostname = t.hostname AS same_host,
    e.coll_msg_size_bytes, e.send_records, e.recv_records,
    greatest(e.send_records, e.recv_records) * e.coll_msg_size_bytes::DOUBLE AS payload_bytes,
    e.send_time_p50_us, e.recv_time_p50_us,
    CASE WHEN e.send_time_p50_us IS NOT NULL AND e.recv_time_p50_us IS NOT NULL
        THEN least(e.send_time_p50_us, e.recv_time_p50_us)
    END AS shorter_time_us,
    CASE
        WHEN e.send_time_p50_us > e.recv_time_p50_us THEN 'Send'
        WHEN e.send_time_p50_us < e.recv_time_p50_us THEN 'Recv'
    END AS waiting_side
FROM edges AS e
LEFT JOIN places AS s ON s.comm_key = e.comm_key AND s.rank = e.source_rank
LEFT JOIN places AS t ON t.comm_key = e.comm_key AND t.rank = e.target_rank
ORDER BY ALL
"""


def _highlights(rows: list[Row]) -> Highlights:
    slowest = max((row["shorter_time_us"] for row in rows if row["shorter_time_us"]), default=None)
    return {"P2P edges": len(rows), "slowest edge us": slowest}


ANALYSIS = Analysis(
    name="p2p_edges",
    version="2",
    title="P2P edges",
    question="Which processes send to which, how much, and which side waits for the other?",
    reading=(
        "Both ends of a message are timed until the data have passed, so the end that came first has the longer time. "
        "Where the Recv is longer, the receiver waited for the sender, as in a pipeline; where the Send is longer, the "
        "receiver was not ready. The shorter of the two medians is the closest to the transfer. An end without records "
        "was not captured, or its peer is not known."
    ),
    columns=(
        RUN,
        *event("incarnation", "id", "comm_name", "n_ranks", "nnodes"),
        Column("source_rank", event("rank")[0].type, Role.IDENTIFIER, "", "Sending rank inside the communicator"),
        Column("target_rank", event("rank")[0].type, Role.IDENTIFIER, "", "Receiving rank inside the communicator"),
        Column("source_hostname", STRING, Role.IDENTIFIER, "", "Sending host; null when that rank left no record"),
        Column("source_pid", I64, Role.IDENTIFIER, "", "Sending process id on that host"),
        Column(
            "source_process",
            STRING,
            Role.DERIVED,
            "",
            "<hostname>-pid<pid> of the sender, with its rank if it has several",
        ),
        Column("target_hostname", STRING, Role.IDENTIFIER, "", "Receiving host; null when that rank left no record"),
        Column("target_pid", I64, Role.IDENTIFIER, "", "Receiving process id on that host"),
        Column("target_process", STRING, Role.DERIVED, "", "The same of the receiver"),
        Column("same_host", BOOL, Role.DERIVED, "", "Whether both ends are on one host"),
        *event("coll_msg_size_bytes"),
        count("send_records", "records", "Stored Sends"),
        count("recv_records", "records", "Stored Recvs"),
        PAYLOAD_BYTES,
        derived("send_time_p50_us", "us", "Median time of the Sends, waiting included"),
        derived("recv_time_p50_us", "us", "Median time of the Recvs, waiting included"),
        derived("shorter_time_us", "us", "The shorter of the two medians: the closest to the transfer"),
        Column("waiting_side", STRING, Role.DERIVED, "", "Send or Recv: the end whose median is longer"),
    ),
    key=("incarnation", "id", "comm_name", "n_ranks", "nnodes", "source_rank", "target_rank", "coll_msg_size_bytes"),
    sql=SQL,
    shares=_SHARES,
    highlights=_highlights,
)
