"""Send and Recv: which operation of a sender meets which of its receiver, and what both spent on them.

Edges lie within a communicator, so that passes over communicators bound the memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa

from nixt_pipeline.arrays import Array
from nixt_pipeline.diagnosis.evidence.alike import UNKNOWN, Pace
from nixt_pipeline.diagnosis.evidence.p2p_order import find_order
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.stalls import Stall
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables
from nixt_pipeline.settings import Thresholds

# Matching this many Sends with their Recvs takes a third of the default memory limit.
_SENDS_PER_PASS = 3_000_000
# Times of operations that ended together: a microsecond of rounding at either end, or so much of the time, when one of
# them moves its bytes a little faster.
_SAME_TIME_US = 2
_SAME_TIME_SHARE = 0.05
# Where jobs send in groups, most operations are in one; by chance, one in twenty looks so.
_SENDS_LOOKED_AT, _GROUPED = 100_000, 0.15
# The share of the ranks that send or receive of which the place of every operation must be known.
_NUMBERED_ENOUGH = 0.9

_SENDS = """
SELECT coalesce(sum(t.records), 0)::BIGINT
FROM kernel_times AS t
WHERE t.incarnation = $incarnation AND t.kind = 'p2p' AND t.coll = 'Send'
"""

# The operations of each end of each edge; `writer` is the hash of the process.
_RECORDED = """
    SELECT
        k.comm, e.coll = 'Send' AS sends, e.rank, e.p2p_peer AS peer, e.writer,
        e.coll_sn::BIGINT AS sn, e.coll_msg_size_bytes AS size_bytes, e.coll_exec_time_us AS time_us,
        e.dump_timestamp_us AS dump_us
    FROM observed_p2p AS e
    JOIN diagnosed_communicators AS k ON k.comm_key = e.comm_key
    WHERE e.hostname IS NOT NULL AND e.pid IS NOT NULL
        AND e.coll_sn IS NOT NULL AND e.coll IN ('Send', 'Recv') AND e.p2p_peer >= 0
        AND k.comm % $passes = $pass
"""
_SINGLE_OPERATIONS = f"""
CREATE OR REPLACE TEMP TABLE p2p_operations AS
SELECT *, time_us AS spent_us, false AS fused FROM ({_RECORDED})
"""

# Those of one group (`ncclGroupStart`, a batch_isend_irecv) run at the same time, and a fused one gives each the time
# of the whole: they follow one another, last equally long, and no two go the same way. `spent_us` is the share of an
# operation in the time of its group. A time that operations with several peers have in common is not that of a
# transfer between two of them.
_GROUPED_OPERATIONS = f"""
CREATE OR REPLACE TEMP TABLE p2p_operations AS
WITH runs AS (
    SELECT *, coalesce(sum(differs::INTEGER) OVER (PARTITION BY comm, rank, writer ORDER BY sn), 0) AS run
    FROM (
        SELECT
            *,
            coalesce(
                abs(time_us - lag(time_us) OVER before)
                    > {_SAME_TIME_US} + {_SAME_TIME_SHARE} * lag(time_us) OVER before,
                true
            ) AS differs
        FROM ({_RECORDED})
        WINDOW before AS (PARTITION BY comm, rank, writer ORDER BY sn)
    )
),
grouped AS (
    SELECT *, row_number() OVER (PARTITION BY comm, rank, writer, run, peer, sends ORDER BY sn) AS turn FROM runs
)
SELECT
    * EXCLUDE (run, turn, differs),
    time_us / count(*) OVER one AS spent_us,
    min(peer) OVER one < max(peer) OVER one
        AND max(time_us) OVER one - min(time_us) OVER one <= {_SAME_TIME_US} AS fused
FROM grouped
WINDOW one AS (PARTITION BY comm, rank, writer, run, turn)
"""

# A rank is lossless when its numbers have no gap; `share` of its operations was recorded.
_RANKS = """
CREATE OR REPLACE TEMP TABLE p2p_ranks AS
SELECT
    comm, rank, count(*) = max(sn) - min(sn) + 1 AND min(sn) <= 1 AS lossless,
    count(*) / (max(sn) - least(min(sn), 1) + 1) AS share
FROM p2p_operations
GROUP BY comm, rank
"""

# What `p2p_order.find_order` looks at: code 2 * peer is a Send to it, 2 * peer + 1 a Recv from it.
_LOSSY_OPERATIONS = """
SELECT comm, rank, sn, 2 * peer::BIGINT + (NOT sends)::INTEGER AS code
FROM p2p_operations SEMI JOIN (FROM p2p_ranks WHERE NOT lossless) USING (comm, rank)
WHERE sn >= 1
ORDER BY comm, rank, sn
"""

# Each operation with its `number` on its edge. Where nothing was lost, it is counted; elsewhere it follows from the
# order in which the rank repeats its operations (table `p2p_positions`).
_NUMBERED = """
CREATE OR REPLACE TEMP TABLE p2p_numbered AS
SELECT
    * EXCLUDE (sn), 0::BIGINT AS before, NULL::BIGINT AS in_period,
    row_number() OVER (PARTITION BY comm, rank, peer, sends ORDER BY sn) AS number
FROM p2p_operations SEMI JOIN (FROM p2p_ranks WHERE lossless) USING (comm, rank)
UNION ALL BY NAME
SELECT o.* EXCLUDE (sn), p.before, p.in_period, (o.sn - 1) // p.period * p.in_period + p.before + 1 AS number
FROM p2p_operations AS o
JOIN (FROM p2p_ranks WHERE NOT lossless) AS r ON r.comm = o.comm AND r.rank = o.rank
JOIN p2p_positions AS p ON p.comm = o.comm AND p.rank = o.rank AND p.residue = (o.sn - 1) % p.period
WHERE o.sn >= 1
"""

# How far each process got at each end of each edge.
_ENDS = """
CREATE OR REPLACE TEMP TABLE p2p_ends AS
SELECT
    comm, rank, peer, sends, writer, max(number) AS reached, max(number) FILTER (time_us IS NOT NULL) AS timed,
    regr_slope(number, dump_us) AS per_us, exp(avg(ln(greatest(size_bytes, 1)))) AS size_bytes
FROM p2p_numbered
GROUP BY comm, rank, peer, sends, writer
"""

# Time in Send and Recv of each process. Of a rank that lost records, those at one position of its period stand for all
# at that position in their block.
_OCCUPATION = """
WITH totals AS (SELECT comm, rank, peer, sends, max(timed) AS total FROM p2p_ends GROUP BY comm, rank, peer, sends),
blocked AS (
    SELECT n.*, t.total, floor((n.number - 1) * $blocks / t.total)::INTEGER AS block
    FROM p2p_numbered AS n
    JOIN totals AS t ON t.comm = n.comm AND t.rank = n.rank AND t.peer = n.peer AND t.sends = n.sends
    WHERE n.time_us IS NOT NULL
),
sums AS (
    SELECT
        comm, rank, peer, sends, before, writer, block,
        CASE WHEN any_value(in_period) IS NULL THEN sum(spent_us)
            ELSE avg(spent_us) * any_value(total) / max(in_period) / $blocks
        END AS time_us
    FROM blocked
    GROUP BY comm, rank, peer, sends, before, writer, block
)
SELECT hash(s.comm, s.rank, s.peer, s.sends, s.before) AS series, p.process, s.block, s.time_us
FROM sums AS s JOIN diagnosed_processes AS p ON p.writer = s.writer
"""

# Of a rank that lost records and does not repeat its operations (an evaluation comes in between), only the order of all
# of them is known: those recorded in a block stand for the others of it. Left out, it would seem to compute instead.
_UNORDERED_OCCUPATION = """
WITH unordered AS (SELECT * FROM p2p_operations ANTI JOIN p2p_numbered USING (comm, rank)),
blocked AS (
    SELECT
        u.*, t.total, least(greatest(floor((u.sn - 1) * $blocks / t.total), 0), $blocks - 1)::INTEGER AS block
    FROM unordered AS u
    JOIN (SELECT comm, rank, max(sn) AS total FROM unordered GROUP BY comm, rank) AS t USING (comm, rank)
    WHERE u.time_us IS NOT NULL
)
SELECT
    hash(b.comm, b.rank) AS series, p.process, b.block, avg(b.spent_us) * any_value(b.total) / $blocks AS time_us
FROM blocked AS b JOIN diagnosed_processes AS p ON p.writer = b.writer
GROUP BY b.comm, b.rank, p.process, b.block
"""

# The k-th Send on a directed edge meets the k-th Recv at its other end, if both ends agree how many a period has. Pairs
# stand for those of their block that were lost.
_PAIRS = """
WITH matched AS MATERIALIZED (
    SELECT
        s.comm, s.rank, s.peer, s.writer AS source, r.writer AS target, s.size_bytes, s.number,
        least(s.time_us, r.time_us) AS transfer_us
    FROM p2p_numbered AS s
    JOIN p2p_numbered AS r
        ON r.comm = s.comm AND r.rank = s.peer AND r.peer = s.rank AND r.number = s.number
        AND r.size_bytes = s.size_bytes AND coalesce(s.in_period = r.in_period, true)
    WHERE s.sends AND NOT r.sends AND s.time_us IS NOT NULL AND r.time_us IS NOT NULL AND NOT (s.fused OR r.fused)
),
totals AS (SELECT comm, rank, peer, max(number) AS total FROM matched GROUP BY comm, rank, peer),
blocked AS (
    SELECT m.*, t.total, floor((m.number - 1) * $blocks / t.total)::INTEGER AS block
    FROM matched AS m JOIN totals AS t ON t.comm = m.comm AND t.rank = m.rank AND t.peer = m.peer
),
summed AS (
    SELECT
        comm, source, target, size_bytes, block, median(transfer_us) AS transfer_us, count(*) AS pairs,
        max(total) / $blocks AS in_block
    FROM blocked
    GROUP BY comm, source, target, size_bytes, block
)
SELECT
    e.comm, s.process AS sender, t.process AS receiver, e.size_bytes, e.block, e.transfer_us,
    e.in_block * e.pairs / sum(e.pairs) OVER (PARTITION BY e.comm, e.source, e.target, e.block) AS stands_for, e.pairs
FROM summed AS e
JOIN diagnosed_processes AS s ON s.writer = e.source
JOIN diagnosed_processes AS t ON t.writer = e.target
"""

# Single operations that both ends found long.
_LONG = """
SELECT
    s.comm, a.process AS sender, b.process AS receiver, s.size_bytes,
    floor((s.number - 1) * $blocks / t.total)::INTEGER AS block, s.dump_us AS at_us,
    least(s.time_us, r.time_us) AS transfer_us
FROM (FROM p2p_numbered WHERE sends AND time_us >= $floor_us AND NOT fused) AS s
JOIN (FROM p2p_numbered WHERE NOT sends AND time_us >= $floor_us AND NOT fused) AS r
    ON r.comm = s.comm AND r.rank = s.peer AND r.peer = s.rank AND r.number = s.number
    AND r.size_bytes = s.size_bytes AND coalesce(s.in_period = r.in_period, true)
JOIN (SELECT comm, rank, peer, max(timed) AS total FROM p2p_ends WHERE sends GROUP BY comm, rank, peer) AS t
    ON t.comm = s.comm AND t.rank = s.rank AND t.peer = s.peer
JOIN diagnosed_processes AS a ON a.writer = s.writer
JOIN diagnosed_processes AS b ON b.writer = r.writer
WHERE s.dump_us IS NOT NULL
ORDER BY at_us, s.comm, sender, receiver
"""

# How far both ends of each edge got, and which share of their rank's operations was recorded.
_PROGRESS = """
WITH ends AS (
    SELECT e.comm, e.rank, e.peer, e.sends, p.process, e.reached, r.share, e.per_us, e.size_bytes
    FROM p2p_ends AS e
    JOIN p2p_ranks AS r ON r.comm = e.comm AND r.rank = e.rank
    JOIN diagnosed_processes AS p ON p.writer = e.writer
)
SELECT
    s.comm, s.process AS sender, r.process AS receiver, s.reached AS sent, r.reached AS received,
    s.share AS share_of_sender, r.share AS share_of_receiver, s.per_us, s.size_bytes
FROM ends AS s
JOIN ends AS r ON r.comm = s.comm AND r.rank = s.peer AND r.peer = s.rank
WHERE s.sends AND NOT r.sends
"""


@dataclass(frozen=True)
class Edge:
    """Send and Recv from one process to another: how many operations each end completed, by its records, and which
    share of its operations each end recorded; at which pace the source sends."""

    comm: int
    source: Process
    target: Process
    sent: int
    received: int
    source_recorded: float
    target_recorded: float
    pace: Pace = UNKNOWN

    @property
    def lossless(self) -> bool:
        """Whether both ends recorded everything, so that their counts are exact."""
        return self.source_recorded >= 1 and self.target_recorded >= 1

    @property
    def operations(self) -> int:
        """How many operations were completed at both ends. Who lost records may have lost the last ones."""
        return min(self.sent, self.received) if self.lossless else max(self.sent, self.received)

    @property
    def lost(self) -> float:
        """How likely an operation that was completed left a record at neither end."""
        return max(0.0, 1 - self.source_recorded) * max(0.0, 1 - self.target_recorded)


@dataclass(frozen=True)
class Pairs:
    """Matched operations of one size on one edge in one block; `transfer_us` is the median of the shorter times."""

    comm: int
    source: Process
    target: Process
    size_bytes: int
    block: int
    transfer_us: float
    stands_for: float
    count: int


@dataclass(frozen=True)
class PointToPoint:
    """Send and Recv of one launch.

    `spent` has the columns series, process, block and time_us. `complete` says whether hardly a rank's operations are
    unknown: with some of them only, processes would differ by what was recorded of them. `stalls`: single operations
    that took much longer than usual.
    """

    edges: list[Edge]
    pairs: list[Pairs]
    spent: list[dict[str, Array]]
    complete: bool
    stalls: list[Stall]


def point_to_point(tables: LaunchTables, processes: Sequence[Process], limits: Thresholds) -> PointToPoint:
    """Look at the Sends and Recvs of a launch, whose processes are numbered in this order."""
    con, blocks = tables.con, tables.blocks
    [(sends,)] = con.sql(_SENDS, params={"incarnation": tables.incarnation}).fetchall()
    passes = 1 + sends // _SENDS_PER_PASS
    edges: list[Edge] = []
    pairs: list[Pairs] = []
    spent: list[dict[str, Array]] = []
    stalls: list[Stall] = []
    ranks, numbered = 0, 0
    operations = _GROUPED_OPERATIONS if _are_grouped(con, sends) else _SINGLE_OPERATIONS
    for number in range(passes):
        con.execute(operations, {"passes": passes, "pass": number})
        con.execute(_RANKS)
        positions, ordered = _positions(con)
        con.register("p2p_positions", positions)
        con.execute(_NUMBERED)
        con.unregister("p2p_positions")
        con.execute(_ENDS)
        for comm, source, target, *counts in con.sql(_PROGRESS).fetchall():
            sent, received, source_share, target_share, *pace = counts
            ends = (processes[source], processes[target])
            edges.append(Edge(comm, *ends, sent, received, source_share, target_share, Pace(*pace)))
        for comm, source, target, *values in con.sql(_PAIRS, params={"blocks": blocks}).fetchall():
            pairs.append(Pairs(comm, processes[source], processes[target], *values))
        stalls += _stalls(tables, processes, pairs, limits)
        for occupation in (_OCCUPATION, _UNORDERED_OCCUPATION):
            spent.append(con.sql(occupation, params={"blocks": blocks}).fetchnumpy())
        [(all_ranks, lossless)] = con.sql("SELECT count(*), count(*) FILTER (lossless) FROM p2p_ranks").fetchall()
        ranks += all_ranks
        numbered += lossless + ordered
    con.execute("DROP TABLE p2p_operations; DROP TABLE p2p_numbered")
    edges.sort(key=lambda edge: (edge.comm, edge.source, edge.target))
    pairs.sort(key=lambda pair: (pair.comm, pair.source, pair.target, pair.size_bytes, pair.block))
    return PointToPoint(edges, pairs, spent, bool(edges) and numbered >= _NUMBERED_ENOUGH * ranks, stalls)


def _stalls(
    tables: LaunchTables, processes: Sequence[Process], pairs: Iterable[Pairs], limits: Thresholds
) -> list[Stall]:
    """Operations that took much longer than the median of their size on their edge."""
    times: dict[tuple[int, Process, Process, int], list[float]] = defaultdict(list)
    for pair in pairs:
        times[pair.comm, pair.source, pair.target, pair.size_bytes].append(pair.transfer_us)
    asked = {"blocks": tables.blocks, "floor_us": limits.diagnosis.stall_floor_us}
    found = []
    for comm, sender, receiver, size, block, at_us, time_us in tables.con.sql(_LONG, params=asked).fetchall():
        ends = processes[sender], processes[receiver]
        usual_us = median(times.get((comm, *ends, size), [time_us]))
        if block > 0 and time_us >= limits.diagnosis.stall_ratio * usual_us:
            found.append(Stall(comm, ends, block, at_us, time_us - usual_us))
    return found


def _are_grouped(con: duckdb.DuckDBPyConnection, sends: int) -> bool:
    """Whether the job sends and receives in groups, by some of its communicators: telling groups takes ten times as
    long as reading, and where there are none, times that are equal by chance must not be taken for some."""
    con.execute(_GROUPED_OPERATIONS, {"passes": 1 + sends // _SENDS_LOOKED_AT, "pass": 0})
    [(share,)] = con.sql("SELECT avg((spent_us < time_us)::INTEGER) FROM p2p_operations").fetchall()
    return share is None or share >= _GROUPED


def _positions(con: duckdb.DuckDBPyConnection) -> tuple[pa.Table, int]:
    """The table `p2p_positions` of `_NUMBERED`: the order in which each rank that lost records repeats its
    operations; and of how many ranks all of it is known."""
    lossy = con.sql(_LOSSY_OPERATIONS).fetchnumpy()
    rows: list[dict[str, int]] = []
    periods: list[int] = []
    known = 0
    _, starts = np.unique(np.stack([lossy["comm"], lossy["rank"]]), axis=1, return_index=True)
    for start, end in pairwise([*sorted(starts.tolist()), len(lossy["sn"])]):
        numbers, codes = lossy["sn"][start:end].astype(np.int64), lossy["code"][start:end].astype(np.int64)
        order = find_order(numbers, codes, periods)
        if order is None:
            continue
        known += -1 not in order.codes
        periods = [order.period, *(period for period in periods if period != order.period)]
        comm, rank = int(lossy["comm"][start]), int(lossy["rank"][start])
        rows += [
            {
                "comm": comm, "rank": rank, "period": order.period, "residue": residue,
                "before": before, "in_period": in_period,
            }
            for residue, before, in_period in order.positions()
        ]  # fmt: skip
    columns = ("comm", "rank", "period", "residue", "before", "in_period")
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.int64()) for name in columns])), known
