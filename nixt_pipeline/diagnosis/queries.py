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
    c.last_dump_us
FROM cells AS c
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM c.id AND k.comm_name IS NOT DISTINCT FROM c.comm_name
    AND k.n_ranks = c.n_ranks AND k.nnodes IS NOT DISTINCT FROM c.nnodes
WHERE c.incarnation = $incarnation AND c.complete AND c.coll IN (SELECT unnest($sync))
    AND c.ranks_gpu_timed = c.n_ranks AND c.ranks_seen = c.n_ranks AND NOT c.size_mismatch AND c.occurrence = 1
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
)
SELECT
    comm, coll, cells,
    CASE WHEN cells * 2 >= hi - lo + 1 THEN lo ELSE family_lo END::DOUBLE AS lo,
    CASE WHEN cells * 2 >= hi - lo + 1 THEN hi ELSE family_hi END::DOUBLE AS hi
FROM own
"""

BLOCKED_CELLS = """
CREATE OR REPLACE TEMP TABLE blocked_cells AS
SELECT
    u.*,
    floor((u.coll_sn - s.lo) * $blocks / (s.hi - s.lo + 1))::INTEGER AS block,
    -- Each recorded collective stands for those of its block that were not recorded by everybody.
    (s.hi - s.lo + 1) / $blocks / count(*) OVER (PARTITION BY u.comm, u.coll, block) AS weight
FROM usable_cells AS u
JOIN series AS s USING (comm, coll)
"""

OCCUPATION = """
SELECT
    e.hostname, e.pid, b.block,
    sum(b.weight * (e.coll_exec_time_us - b.min_exec_time_us)) AS wait_us,
    sum(b.weight * b.min_exec_time_us) AS transfer_us
FROM collectives AS e
JOIN diagnosed_communicators AS k
    ON k.id IS NOT DISTINCT FROM e.id AND k.comm_name IS NOT DISTINCT FROM e.comm_name
    AND k.n_ranks = e.n_ranks AND k.nnodes IS NOT DISTINCT FROM e.nnodes
JOIN blocked_cells AS b ON b.comm = k.comm AND b.coll = e.coll AND b.coll_sn = e.coll_sn
WHERE e.incarnation = $incarnation AND e.hostname IS NOT NULL AND e.pid IS NOT NULL
GROUP BY ALL
"""

LAST_ARRIVALS = """
SELECT
    comm, block, min_hostname, min_pid, count(*) AS cells
FROM blocked_cells
WHERE max_exec_time_us - min_exec_time_us > greatest($floor_us, $share * min_exec_time_us)
    AND min_hostname IS NOT NULL AND min_pid IS NOT NULL
GROUP BY ALL
"""

TRANSFERS = """
SELECT
    comm, coll, coll_msg_size_bytes AS size_bytes, block,
    median(min_exec_time_us) AS transfer_us, count(*) AS cells, sum(weight) AS stands_for
FROM blocked_cells
GROUP BY ALL
ORDER BY ALL
"""

BLOCK_ENDS = "SELECT comm, block, max(last_dump_us) AS until_us FROM blocked_cells GROUP BY ALL ORDER BY ALL"

# The k-th Send on a directed edge meets the k-th Recv at its other end, if neither end lost a record: the numbers of
# the two ends are no common count. Edges lie within a communicator, so that passes over communicators bound the memory.
EDGES = """
WITH ops AS (
    SELECT
        k.comm, e.coll, e.rank, e.p2p_peer AS peer, e.hostname, e.pid, e.coll_sn, e.coll_msg_size_bytes,
        e.coll_exec_time_us,
        row_number() OVER (PARTITION BY k.comm, e.rank, e.p2p_peer, e.coll ORDER BY e.coll_sn) AS number
    FROM p2p AS e
    JOIN diagnosed_communicators AS k
        ON k.id IS NOT DISTINCT FROM e.id AND k.comm_name IS NOT DISTINCT FROM e.comm_name
        AND k.n_ranks = e.n_ranks AND k.nnodes IS NOT DISTINCT FROM e.nnodes
    WHERE e.incarnation = $incarnation AND e.hostname IS NOT NULL AND e.pid IS NOT NULL
        AND e.coll_sn < 4611686018427387904
        AND k.comm % $passes = $pass
),
lossless AS (
    SELECT comm, rank
    FROM ops
    GROUP BY comm, rank
    HAVING count(*) = max(coll_sn) - min(coll_sn) + 1 AND min(coll_sn) <= 1
),
matched AS (
    SELECT
        s.comm, s.hostname AS source_host, s.pid AS source_pid, r.hostname AS target_host, r.pid AS target_pid,
        s.coll_msg_size_bytes AS size_bytes, s.number,
        s.coll_exec_time_us AS send_us, r.coll_exec_time_us AS recv_us,
        max(s.number) OVER (PARTITION BY s.comm, s.rank, s.peer) AS total
    FROM ops AS s
    JOIN ops AS r
        ON r.comm = s.comm AND r.rank = s.peer AND r.peer = s.rank AND r.number = s.number
        AND r.coll_msg_size_bytes = s.coll_msg_size_bytes
    SEMI JOIN lossless AS a ON a.comm = s.comm AND a.rank = s.rank
    SEMI JOIN lossless AS b ON b.comm = r.comm AND b.rank = r.rank
    WHERE s.coll = 'Send' AND r.coll = 'Recv' AND s.coll_exec_time_us IS NOT NULL AND r.coll_exec_time_us IS NOT NULL
)
SELECT
    comm, source_host, source_pid, target_host, target_pid, size_bytes,
    floor((number - 1) * $blocks / total)::INTEGER AS block,
    median(least(send_us, recv_us)) AS transfer_us, count(*) AS operations,
    sum(least(send_us, recv_us)) AS sum_transfer_us,
    sum(send_us - least(send_us, recv_us)) AS send_wait_us, sum(recv_us - least(send_us, recv_us)) AS recv_wait_us
FROM matched
GROUP BY ALL
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
