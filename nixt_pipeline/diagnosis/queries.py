"""The SQL of `observations`: temporary tables of one launch's usable collectives, and the aggregates over them.

Every text runs on a connection of `store.catalog.open_run`, in the order in which `observe` uses them.
"""

COMMUNICATORS = """
CREATE OR REPLACE TEMP TABLE diagnosed_communicators AS
SELECT
    row_number() OVER (ORDER BY id, comm_name, n_ranks, nnodes) - 1 AS comm,
    id, comm_name, n_ranks, nnodes, coll_type, parallel_role, first_dump_us, last_dump_us
FROM communicators
WHERE incarnation = $incarnation AND n_ranks > 1
"""

# Times of a CPU are no kernel times, sizes that differ are a bug, and a replayed CUDA graph has no order of its own.
USABLE_CELLS = """
CREATE OR REPLACE TEMP TABLE usable_cells AS
SELECT
    k.comm, c.coll, c.coll_sn, c.coll_msg_size_bytes, c.min_exec_time_us, c.max_exec_time_us, c.min_hostname, c.min_pid,
    c.last_dump_us, c.complete, c.ranks_seen
FROM cells AS c
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM c.id AND k.comm_name IS NOT DISTINCT FROM c.comm_name
    AND k.n_ranks = c.n_ranks AND k.nnodes IS NOT DISTINCT FROM c.nnodes
WHERE c.incarnation = $incarnation AND c.coll IN (SELECT unnest($sync))
    AND c.ranks_seen <= c.n_ranks AND c.ranks_gpu_timed = c.ranks_seen
    AND NOT c.size_mismatch AND c.occurrence = 1
    AND c.coll_sn < 4611686018427387904  -- more is a broken record, and arithmetic on it would overflow
"""

# A communicator that was recorded by halves may have lost its last numbers: its alike say how far they went.
SERIES = """
CREATE OR REPLACE TEMP TABLE series AS
WITH own AS (
    SELECT
        u.comm, u.coll, k.n_ranks, k.nnodes, min(u.coll_sn) AS lo, max(u.coll_sn) AS hi, count(*) AS cells,
        min(min(u.coll_sn)) OVER (PARTITION BY k.n_ranks, k.nnodes, u.coll) AS family_lo,
        max(max(u.coll_sn)) OVER (PARTITION BY k.n_ranks, k.nnodes, u.coll) AS family_hi
    FROM usable_cells AS u JOIN diagnosed_communicators AS k USING (comm)
    GROUP BY u.comm, u.coll, k.n_ranks, k.nnodes
),
long AS (
    SELECT
        comm, coll, cells,
        CASE WHEN cells * 2 >= hi - lo + 1 THEN lo ELSE family_lo END::DOUBLE AS lo,
        CASE WHEN cells * 2 >= hi - lo + 1 THEN hi ELSE family_hi END::DOUBLE AS hi
    FROM own
),
-- The rarest regular collective comes once in a step.
pulse AS (SELECT min(hi - lo + 1) FILTER (cells >= $least) AS pulse FROM long)
SELECT
    l.*, coalesce(p.pulse, 0) AS pulse,
    -- Whole times as often, give or take what is lost at either end.
    CASE WHEN abs((hi - lo + 1) / pulse - round((hi - lo + 1) / pulse)) < 0.1
        THEN greatest(round((hi - lo + 1) / pulse), 1) ELSE 1 END::BIGINT AS per_step
FROM long AS l CROSS JOIN pulse AS p
"""

# Of the records that the synchronising collectives should have, how many there are.
RECORDED_SHARE = """
SELECT coalesce(sum(u.ranks_seen) / sum(s.expected), 1)
FROM (SELECT comm, coll, sum(ranks_seen) AS ranks_seen FROM usable_cells GROUP BY comm, coll) AS u
JOIN (
    SELECT comm, coll, (hi - lo + 1) * n_ranks AS expected
    FROM series JOIN diagnosed_communicators USING (comm)
) AS s USING (comm, coll)
"""

# Where most collectives of a block are complete (`whole`), only those are used; elsewhere, those that most ranks
# recorded. Each stands for those of its block that are left out or were not recorded.
BLOCKED_CELLS = """
CREATE OR REPLACE TEMP TABLE blocked_cells AS
WITH placed AS (
    SELECT u.*, floor((u.coll_sn - s.lo) * $blocks / (s.hi - s.lo + 1))::INTEGER AS block,
        (s.hi - s.lo + 1) / $blocks AS in_block
    FROM usable_cells AS u
    JOIN series AS s USING (comm, coll)
),
judged AS (
    SELECT *, count(*) FILTER (complete) OVER in_series * 2 >= count(*) OVER in_series AS whole
    FROM placed
    WINDOW in_series AS (PARTITION BY comm, coll, block)
),
chosen AS (
    SELECT *
    FROM judged
    WHERE complete OR NOT whole
    QUALIFY whole OR row_number() OVER (PARTITION BY comm, coll, block ORDER BY ranks_seen DESC, coll_sn) <= $most
)
SELECT *, in_block / count(*) OVER (PARTITION BY comm, coll, block) AS weight
FROM chosen
"""

_OF_PROCESSES = """
FROM collectives AS e
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM e.id AND k.comm_name IS NOT DISTINCT FROM e.comm_name
    AND k.n_ranks = e.n_ranks AND k.nnodes IS NOT DISTINCT FROM e.nnodes
JOIN blocked_cells AS b ON b.comm = k.comm AND b.coll = e.coll AND b.coll_sn = e.coll_sn
WHERE e.incarnation = $incarnation AND e.hostname IS NOT NULL AND e.pid IS NOT NULL
"""

# Time in collectives of each process in blocks whose collectives are complete.
OCCUPATION = f"""
SELECT b.comm, b.coll, e.hostname, e.pid, b.block, sum(b.weight * e.coll_exec_time_us) AS time_us
{_OF_PROCESSES} AND b.whole
GROUP BY ALL
"""

# The single records of the other blocks. `position` is the place of a collective in its step, where steps are regular.
PARTIAL_RECORDS = f"""
SELECT
    b.comm, b.coll, b.coll_sn, b.block, b.in_block, e.hostname, e.pid, e.coll_exec_time_us AS time_us,
    b.coll_sn % s.per_step AS position
{_OF_PROCESSES.replace("WHERE", "JOIN series AS s ON s.comm = b.comm AND s.coll = b.coll WHERE")} AND NOT b.whole
ORDER BY ALL
"""

LAST_ARRIVALS = """
SELECT
    comm, block, min_hostname, min_pid, count(*) AS cells, sum(max_exec_time_us - min_exec_time_us) AS waited_us
FROM blocked_cells
WHERE max_exec_time_us - min_exec_time_us > greatest($floor_us, $share * min_exec_time_us)
    AND min_hostname IS NOT NULL AND min_pid IS NOT NULL
GROUP BY ALL
"""

# Of incomplete collectives, the one that came last may be missing: then the shortest time has waiting in it. Losses at
# random leave some with it in each block; a plugin with one slot (of 2.28 and 2.29, without names) may always lack it.
TRANSFERS = """
SELECT
    comm, coll, coll_msg_size_bytes AS size_bytes, block,
    coalesce(
        median(min_exec_time_us) FILTER (complete),
        min(min_exec_time_us) FILTER (ranks_seen > 1 AND k.comm_name IS NOT NULL)
    ) AS transfer_us,
    count(*) AS cells, sum(weight) AS stands_for
FROM blocked_cells JOIN diagnosed_communicators AS k USING (comm)
GROUP BY comm, coll, coll_msg_size_bytes, block
HAVING bool_or(complete) OR count(*) FILTER (ranks_seen > 1 AND k.comm_name IS NOT NULL) >= $least
ORDER BY ALL
"""

BLOCK_ENDS = "SELECT comm, block, max(last_dump_us) AS until_us FROM blocked_cells GROUP BY ALL ORDER BY ALL"

# The operations of each end of each edge; a rank is lossless when its numbers have no gap. Edges lie within a
# communicator, so that passes over communicators bound the memory.
P2P_OPERATIONS = """
CREATE OR REPLACE TEMP TABLE p2p_operations AS
SELECT
    k.comm, e.coll, e.rank, e.p2p_peer AS peer, e.hostname, e.pid, e.coll_sn AS sn,
    e.coll_msg_size_bytes AS size_bytes, e.coll_exec_time_us AS time_us,
    count(*) OVER of_rank = max(e.coll_sn) OVER of_rank - min(e.coll_sn) OVER of_rank + 1
        AND min(e.coll_sn) OVER of_rank <= 1 AS lossless
FROM p2p AS e
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM e.id AND k.comm_name IS NOT DISTINCT FROM e.comm_name
    AND k.n_ranks = e.n_ranks AND k.nnodes IS NOT DISTINCT FROM e.nnodes
WHERE e.incarnation = $incarnation AND e.hostname IS NOT NULL AND e.pid IS NOT NULL
    AND e.coll_sn < 4611686018427387904 AND e.coll IN ('Send', 'Recv') AND e.p2p_peer >= 0
    AND k.comm % $passes = $pass
WINDOW of_rank AS (PARTITION BY k.comm, e.rank)
"""

# What `p2p_order.find_order` looks at: code 2 * peer is a Send to it, 2 * peer + 1 a Recv from it.
LOSSY_OPERATIONS = """
SELECT comm, rank, sn, 2 * peer + (coll = 'Recv')::INTEGER AS code
FROM p2p_operations
WHERE NOT lossless AND sn >= 1
ORDER BY comm, rank, sn
"""

# Each operation with its `number` on its edge. Where nothing was lost, it is counted; elsewhere it follows from the
# order in which the rank repeats its operations (table `p2p_positions`).
P2P_NUMBERED = """
CREATE OR REPLACE TEMP TABLE p2p_numbered AS
SELECT
    *, 0::BIGINT AS before, NULL::BIGINT AS in_period,
    row_number() OVER (PARTITION BY comm, rank, peer, coll ORDER BY sn) AS number
FROM p2p_operations
WHERE lossless
UNION ALL BY NAME
SELECT o.*, p.before, p.in_period, (o.sn - 1)::BIGINT // p.period * p.in_period + p.before + 1 AS number
FROM p2p_operations AS o
JOIN p2p_positions AS p
    ON p.comm = o.comm AND p.rank = o.rank AND p.residue = (o.sn - 1)::BIGINT % p.period
WHERE NOT o.lossless AND o.sn >= 1
"""

# Time in Send and Recv of each process. Of a rank that lost records, those at one position of its period stand for all
# at that position in their block.
P2P_OCCUPATION = """
WITH blocked AS (
    SELECT
        *, max(number) OVER (PARTITION BY comm, rank, peer, coll) AS total,
        floor((number - 1) * $blocks / total)::INTEGER AS block
    FROM p2p_numbered
    WHERE time_us IS NOT NULL
)
SELECT
    comm, rank, peer, coll, before, hostname, pid, block,
    CASE WHEN bool_and(lossless) THEN sum(time_us) ELSE avg(time_us) * max(total) / max(in_period) / $blocks END
        AS time_us
FROM blocked
GROUP BY comm, rank, peer, coll, before, hostname, pid, block
ORDER BY ALL
"""

# The k-th Send on a directed edge meets the k-th Recv at its other end, if both ends agree how many a period has. Pairs
# stand for those of their block that were lost.
EDGES = """
WITH matched AS (
    SELECT
        s.comm, s.hostname AS source_host, s.pid AS source_pid, r.hostname AS target_host, r.pid AS target_pid,
        s.size_bytes, s.number, s.time_us AS send_us, r.time_us AS recv_us,
        max(s.number) OVER (PARTITION BY s.comm, s.rank, s.peer) AS total
    FROM p2p_numbered AS s
    JOIN p2p_numbered AS r
        ON r.comm = s.comm AND r.rank = s.peer AND r.peer = s.rank AND r.number = s.number
        AND r.size_bytes = s.size_bytes AND coalesce(s.in_period = r.in_period, true)
    WHERE s.coll = 'Send' AND r.coll = 'Recv' AND s.time_us IS NOT NULL AND r.time_us IS NOT NULL
),
blocked AS (
    SELECT
        *, floor((number - 1) * $blocks / total)::INTEGER AS block,
        total / $blocks / count(*) OVER (PARTITION BY comm, source_host, source_pid, target_host, target_pid, block)
            AS weight
    FROM matched
)
SELECT
    comm, source_host, source_pid, target_host, target_pid, size_bytes, block,
    median(least(send_us, recv_us)) AS transfer_us, sum(weight) AS stands_for, count(*) AS pairs
FROM blocked
GROUP BY comm, source_host, source_pid, target_host, target_pid, size_bytes, block
ORDER BY ALL
"""

# How far both ends of each edge got, and which share of their rank's operations was recorded.
P2P_PROGRESS = """
WITH recorded AS (
    SELECT comm, rank, count(*) / (max(sn) - least(min(sn), 1) + 1) AS share
    FROM p2p_operations
    GROUP BY comm, rank
),
ends AS (
    SELECT n.comm, n.rank, n.peer, n.coll, n.hostname, n.pid, max(n.number) AS reached, any_value(r.share) AS share
    FROM p2p_numbered AS n JOIN recorded AS r ON r.comm = n.comm AND r.rank = n.rank
    GROUP BY n.comm, n.rank, n.peer, n.coll, n.hostname, n.pid
)
SELECT s.comm, s.hostname, s.pid, r.hostname, r.pid, s.reached, r.reached, s.share, r.share
FROM ends AS s
JOIN ends AS r ON r.comm = s.comm AND r.rank = s.peer AND r.peer = s.rank
WHERE s.coll = 'Send' AND r.coll = 'Recv'
ORDER BY ALL
"""

MEMBERS = """
SELECT k.comm, m.rank, m.hostname, m.pid
FROM membership AS m
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM m.id AND k.comm_name IS NOT DISTINCT FROM m.comm_name
    AND k.n_ranks = m.n_ranks AND k.nnodes IS NOT DISTINCT FROM m.nnodes
WHERE m.incarnation = $incarnation AND m.hostname IS NOT NULL AND m.pid IS NOT NULL
ORDER BY ALL
"""
