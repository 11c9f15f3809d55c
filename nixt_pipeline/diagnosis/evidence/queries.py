"""The SQL of `blocks` and `observations`: temporary tables of one launch's usable collectives, and the aggregates over
them."""

# What is observed: a whole launch, or one era of it (`eras`).
WHOLE_LAUNCH = """
CREATE OR REPLACE TEMP VIEW observed_communicators AS FROM communicators;
CREATE OR REPLACE TEMP VIEW observed_processes AS FROM processes;
CREATE OR REPLACE TEMP VIEW observed_cells AS FROM ordered_cells;
CREATE OR REPLACE TEMP VIEW recorded_cells AS FROM cells;
CREATE OR REPLACE TEMP VIEW observed_p2p AS FROM plausible_events WHERE kind = 'p2p';
"""
# Reads the tables `era_communicators`, `era_numbers` and `era_records`. The first operation of each rank in an era is
# its number 1 there.
ONE_ERA = """
CREATE OR REPLACE TEMP VIEW observed_communicators AS
SELECT * FROM communicators
WHERE comm_key IN (SELECT comm_key FROM era_communicators);
CREATE OR REPLACE TEMP VIEW observed_processes AS FROM processes WHERE process IN (SELECT name FROM era_records);
CREATE OR REPLACE TEMP VIEW observed_cells AS
SELECT c.*
FROM ordered_cells AS c
LEFT JOIN era_numbers AS n ON n.comm_key = c.comm_key AND n.coll = c.coll
WHERE n.comm_key IS NULL OR (c.coll_sn > n.since AND c.coll_sn <= n.up_to);
CREATE OR REPLACE TEMP VIEW recorded_cells AS
SELECT c.*
FROM cells AS c
LEFT JOIN era_numbers AS n ON n.comm_key = c.comm_key AND n.coll = c.coll
WHERE n.comm_key IS NULL OR (c.coll_sn > n.since AND c.coll_sn <= n.up_to);
CREATE OR REPLACE TEMP VIEW observed_p2p AS
SELECT e.* REPLACE (
    e.coll_sn - min(e.coll_sn) OVER (PARTITION BY e.comm_key, e.rank) + 1 AS coll_sn
)
FROM plausible_events AS e
JOIN (
    SELECT DISTINCT writer_of(p.process, p.hostname, p.pid) AS writer, r.since, r.up_to
    FROM processes AS p JOIN era_records AS r ON r.name = p.process
) AS w USING (writer)
WHERE e.kind = 'p2p' AND e.dump_timestamp_us > w.since AND e.dump_timestamp_us <= w.up_to;
"""

# Five strings and numbers are joined by their hash: by their values it costs several times as much.
COMMUNICATORS = """
CREATE OR REPLACE TEMP TABLE diagnosed_communicators AS
SELECT
    (row_number() OVER (ORDER BY id, comm_name, n_ranks, nnodes) - 1)::INTEGER AS comm,
    comm_key,
    -- A rack is one node to NCCL: within it, what stays on a host and what does not are two shapes.
    hash(n_ranks, nnodes, nnodes > 1 OR hosts_seen > 1) AS shape,
    id, comm_name, n_ranks, nnodes, hosts_seen, coll_type, parallel_role, first_dump_us, last_dump_us
FROM observed_communicators
WHERE incarnation = $incarnation AND n_ranks > 1
"""

# Numbered in their order; `writer` finds the process of a record, and `name` tells the ranks of one process id apart.
PROCESSES = """
CREATE OR REPLACE TEMP TABLE diagnosed_processes AS
SELECT
    row_number() OVER (ORDER BY p.hostname, p.pid, p.global_rank, p.process) - 1 AS process,
    writer_of(p.process, p.hostname, p.pid) AS writer, p.hostname, p.pid, p.process AS name, p.global_rank
FROM observed_processes AS p
WHERE p.incarnation = $incarnation AND p.hostname IS NOT NULL AND p.pid IS NOT NULL
"""

# `member` finds the process of the rank that a cell names.
MEMBERS = """
CREATE OR REPLACE TEMP TABLE diagnosed_members AS
SELECT k.comm, m.rank, hash(m.rank, m.hostname, m.pid) AS member, p.process, p.hostname
FROM membership AS m
JOIN diagnosed_communicators AS k ON k.comm_key = m.comm_key
JOIN diagnosed_processes AS p ON p.name = coalesce(m.process, m.hostname || '-pid' || m.pid)
WHERE m.incarnation = $incarnation
"""

# Communicators of which it is not known which rank of a process is in them.
UNSURE = """
SELECT DISTINCT k.comm
FROM identities AS i
JOIN diagnosed_communicators AS k ON k.comm_key = comm_key(i.id, i.common_name, i.n_ranks, i.common_nnodes)
WHERE NOT i.certain
"""
UNSURE_SERIES = "SELECT DISTINCT hash(comm, coll, place) AS series FROM blocks WHERE comm IN (SELECT unnest($unsure))"

# Times of a CPU are no kernel times, and sizes that differ are a bug.
USABLE = "c.ranks_seen <= c.n_ranks AND c.ranks_gpu_timed = c.ranks_seen AND NOT c.size_mismatch"
_SYNCHRONISING = f"""
SELECT
    k.comm, c.coll, c.coll_sn::BIGINT AS coll_sn, c.coll_msg_size_bytes::BIGINT AS coll_msg_size_bytes,
    c.min_exec_time_us, c.max_exec_time_us,
    hash(c.min_rank, c.min_hostname, c.min_pid) AS last_member, c.last_dump_us, c.complete, c.ranks_seen,
    {USABLE} AS usable
FROM observed_cells AS c
JOIN diagnosed_communicators AS k ON k.comm_key = c.comm_key
WHERE ends_together(c.coll)
    AND c.coll_sn IS NOT NULL
"""
USABLE_CELLS = (
    f"CREATE OR REPLACE TEMP TABLE usable_cells AS SELECT * EXCLUDE (usable) FROM ({_SYNCHRONISING}) WHERE usable"
)

# Of the synchronising collectives of each communicator: how many anybody recorded, and how many of them are looked at;
# the records that the numbers tell of, and those that are looked at.
LOOKED_AT = """
WITH numbered AS (
    SELECT
        comm_key, coll, count(*) AS cells,
        (max(coll_sn) - min(coll_sn) + 1 + count(*) FILTER (occurrence > 1)) * any_value(n_ranks) AS records
    FROM recorded_cells
    WHERE incarnation = $incarnation AND n_ranks > 1 AND coll_sn IS NOT NULL AND ends_together(coll)
    GROUP BY comm_key, coll
),
used AS (SELECT comm, count(*) AS cells, sum(ranks_seen) AS records FROM usable_cells GROUP BY comm)
SELECT
    k.comm, sum(n.cells)::DOUBLE, coalesce(any_value(u.cells), 0)::DOUBLE,
    sum(n.records)::DOUBLE, coalesce(any_value(u.records), 0)::DOUBLE
FROM numbered AS n
JOIN diagnosed_communicators AS k USING (comm_key)
LEFT JOIN used AS u USING (comm)
GROUP BY k.comm
"""

# A communicator that was recorded by halves may have lost its last numbers: its alike say how far they went.
SERIES = """
CREATE OR REPLACE TEMP TABLE usable_series AS
WITH own AS (
    SELECT
        u.comm, u.coll, k.shape, k.n_ranks, min(u.coll_sn) AS lo, max(u.coll_sn) AS hi, count(*) AS cells,
        bool_and(u.complete) AND count(*) = max(u.coll_sn) - min(u.coll_sn) + 1 AS nothing_missing,
        min(min(u.coll_sn)) OVER (PARTITION BY k.shape, u.coll) AS family_lo,
        max(max(u.coll_sn)) OVER (PARTITION BY k.shape, u.coll) AS family_hi
    FROM usable_cells AS u JOIN diagnosed_communicators AS k USING (comm)
    GROUP BY u.comm, u.coll, k.shape, k.n_ranks
),
long AS (
    SELECT
        comm, coll, shape, n_ranks, cells,
        bool_and(nothing_missing) OVER (PARTITION BY shape, coll) AS nothing_missing,
        CASE WHEN cells * 2 >= hi - lo + 1 THEN lo ELSE family_lo END::DOUBLE AS lo,
        CASE WHEN cells * 2 >= hi - lo + 1 THEN hi ELSE family_hi END::DOUBLE AS hi
    FROM own
),
-- How often the rarest regular collective came: once in a step, or in each layer of one.
pulse AS (SELECT min(hi - lo + 1) FILTER (cells >= $least) AS pulse FROM long)
SELECT
    l.*, coalesce(p.pulse, 0) AS pulse,
    -- Whole times as often, give or take what is lost at either end.
    CASE WHEN abs((hi - lo + 1) / pulse - round((hi - lo + 1) / pulse)) < 0.1
        THEN greatest(round((hi - lo + 1) / pulse), 1) ELSE 1 END::BIGINT AS per_pulse,
    -- Equally long parts of a step; where nothing is missing, they need not be told apart.
    CASE WHEN nothing_missing THEN 1
        ELSE list_max(list_filter(range(1, $most_places + 1), lambda parts: per_pulse % parts = 0)) END AS places
FROM long AS l CROSS JOIN pulse AS p
"""

# The number of steps, or a multiple of it where each layer does it.
PULSE = "SELECT coalesce(max(pulse), 0)::DOUBLE FROM usable_series"

# Of the records that the synchronising collectives should have, how many there are.
RECORDED_SHARE = """
SELECT coalesce(sum(u.ranks_seen) / sum(s.expected), 1)
FROM (SELECT comm, coll, sum(ranks_seen) AS ranks_seen FROM usable_cells GROUP BY comm, coll) AS u
JOIN (
    SELECT comm, coll, (hi - lo + 1) * n_ranks AS expected FROM usable_series
) AS s USING (comm, coll)
"""

# Where most collectives of a block are complete (`whole`), only those are used; elsewhere, those that most ranks
# recorded. Each stands for those at its place in the steps of its block that are left out or were not recorded: ranks
# wait at one place and not at the next, and which of them are there is chance.
# The last number of a broken series near 2^62 is rounded to its end: it belongs to the last block.
_BLOCK = "least(floor((coll_sn - s.lo) * $blocks / (s.hi - s.lo + 1)), $blocks - 1)::INTEGER"
_PLACE = "(coll_sn % s.per_pulse * s.places // s.per_pulse)::INTEGER"
BLOCKS = f"""
CREATE OR REPLACE TEMP TABLE blocks AS
WITH counted AS (
    SELECT
        comm, coll, {_BLOCK} AS block, {_PLACE} AS place, (s.hi - s.lo + 1) / $blocks AS in_block,
        s.shape, s.places, count(*) AS cells, count(*) FILTER (complete) AS complete
    FROM usable_cells JOIN usable_series AS s USING (comm, coll)
    GROUP BY comm, coll, block, place, in_block, s.shape, s.places
),
judged AS (
    SELECT
        * EXCLUDE (in_block, shape, places),
        in_block / count(DISTINCT place) OVER (PARTITION BY shape, coll, places) AS at_place,
        sum(complete) OVER of_block * 2 >= sum(cells) OVER of_block AND min(complete) OVER of_block > 0 AS whole,
        greatest($most // count(*) OVER of_block, 1) AS most
    FROM counted
    WINDOW of_block AS (PARTITION BY comm, coll, block)
)
SELECT
    comm, coll, block, place, at_place, whole, most,
    at_place / CASE WHEN whole THEN complete ELSE least(cells, most) END AS weight
FROM judged
"""
BLOCKED_CELLS = f"""
CREATE OR REPLACE TEMP TABLE blocked_cells AS
WITH placed AS (
    SELECT u.*, {_BLOCK} AS block, {_PLACE} AS place FROM usable_cells AS u JOIN usable_series AS s USING (comm, coll)
),
judged AS (
    SELECT p.*, b.at_place, b.whole, b.most, b.weight FROM placed AS p JOIN blocks AS b USING (comm, coll, block, place)
)
SELECT * EXCLUDE (most) FROM judged WHERE whole AND complete
UNION ALL
SELECT * EXCLUDE (most)
FROM judged
WHERE NOT whole
QUALIFY row_number() OVER (PARTITION BY comm, coll, block, place ORDER BY ranks_seen DESC, coll_sn) <= most
"""

# Time in collectives of each process in blocks whose collectives are complete. All records of a block count but those
# of the collectives that were left out, which are few: joining the chosen ones would take a hundred times the memory.
# `carried_us` is what of it was waited before already (see `overlap`).
LEFT_OUT = f"""
CREATE OR REPLACE TEMP TABLE left_out AS
SELECT k.comm_key, coll, coll_sn
FROM (SELECT * FROM ({_SYNCHRONISING}) WHERE NOT (usable AND complete)) AS c
JOIN diagnosed_communicators AS k USING (comm)
"""
OCCUPATION = f"""
WITH records AS (
    SELECT
        comm_key, coll, coll_sn, writer,
        coll_exec_time_us AS time_us
    FROM ordered_records
),
placed AS (
    SELECT s.comm, s.coll, r.writer, {_BLOCK} AS block, {_PLACE} AS place, r.time_us
    FROM records AS r
    JOIN (
        SELECT k.comm_key, s.* FROM usable_series AS s JOIN diagnosed_communicators AS k USING (comm)
    ) AS s ON s.comm_key = r.comm_key AND s.coll = r.coll
    ANTI JOIN left_out AS l ON l.comm_key = r.comm_key AND l.coll = r.coll AND l.coll_sn = r.coll_sn
    WHERE r.coll_sn BETWEEN s.lo AND s.hi
),
transfers AS (
    SELECT c.comm, c.coll, c.block, c.place, f.fresh, f.most_us, avg(c.min_exec_time_us) AS shortest_us
    FROM blocked_cells AS c JOIN fresh_shares AS f ON f.comm = c.comm
    WHERE c.whole AND f.fresh < 1
    GROUP BY c.comm, c.coll, c.block, c.place, f.fresh, f.most_us
),
sums AS (
    SELECT
        t.comm, t.coll, t.block, t.place, t.writer, sum(t.time_us) AS time_us,
        coalesce(sum(least((1 - m.fresh) * (t.time_us - m.shortest_us), m.most_us)), 0) AS carried_us
    FROM placed AS t
    LEFT JOIN transfers AS m ON m.comm = t.comm AND m.coll = t.coll AND m.block = t.block AND m.place = t.place
    GROUP BY t.comm, t.coll, t.block, t.place, t.writer
)
SELECT
    hash(t.comm, t.coll, t.place) AS series, p.process, t.block, b.weight * t.time_us AS time_us,
    b.weight * t.carried_us AS carried_us
FROM sums AS t
JOIN blocks AS b ON b.whole AND b.comm = t.comm AND b.coll = t.coll AND b.block = t.block AND b.place = t.place
JOIN diagnosed_processes AS p ON p.writer = t.writer
"""

SERIES_OF = """
SELECT hash(b.comm, b.coll, b.place) AS series, any_value(s.shape) AS shape, any_value(b.comm) AS comm
FROM blocks AS b JOIN usable_series AS s USING (comm, coll)
GROUP BY series
ORDER BY series
"""

# What each process must have spent something in, recorded or not: all places of the series of its communicators. Where
# it has no record at all, it spent what others did on its host: in the same series (`beside` it), or in one `alike`.
MEMBER_SERIES = """
WITH places AS (
    SELECT DISTINCT s.shape, s.coll, s.places, b.place
    FROM blocks AS b JOIN usable_series AS s USING (comm, coll)
)
SELECT
    hash(s.comm, s.coll, f.place) AS series, p.process, hash(s.comm, s.coll, f.place, p.hostname) AS beside,
    hash(s.shape, s.coll, s.places, f.place, p.hostname) AS alike
FROM usable_series AS s
JOIN places AS f ON f.shape = s.shape AND f.coll = s.coll AND f.places = s.places
JOIN diagnosed_members AS p ON p.comm = s.comm
ORDER BY ALL
"""

# The single records of the other blocks.
PARTIAL_RECORDS = """
SELECT
    hash(b.comm, b.coll, b.place) AS series, b.coll_sn, b.block, b.at_place, f.fresh, f.most_us, p.process,
    e.coll_exec_time_us AS time_us
FROM ordered_records AS e
JOIN (
    SELECT * FROM diagnosed_communicators SEMI JOIN (FROM blocks WHERE NOT whole) USING (comm)
) AS k ON k.comm_key = e.comm_key
JOIN (FROM blocked_cells WHERE NOT whole) AS b ON b.comm = k.comm AND b.coll = e.coll AND b.coll_sn = e.coll_sn
JOIN fresh_shares AS f ON f.comm = b.comm
JOIN diagnosed_processes AS p ON p.writer = e.writer
ORDER BY ALL
"""

# Who came last shows only if it was recorded, with somebody who waited: the collectives in which that is so stand for
# those at their place that nobody can tell of, in their block and in those without any.
LAST_ARRIVALS = """
WITH waits AS (
    SELECT
        b.comm, b.block, b.last_member, b.max_exec_time_us - b.min_exec_time_us AS waited_us, b.min_exec_time_us,
        f.fresh, f.most_us,
        b.at_place / count(*) OVER (PARTITION BY b.comm, b.coll, b.place, b.block)
        * $blocks / count(DISTINCT b.block) OVER (PARTITION BY b.comm, b.coll, b.place)
        * k.n_ranks / b.ranks_seen AS weight
    FROM blocked_cells AS b JOIN diagnosed_communicators AS k USING (comm) JOIN fresh_shares AS f USING (comm)
    WHERE b.ranks_seen > 1
)
SELECT
    w.comm, w.block, p.process, count(*) AS cells,
    sum(w.weight * greatest(w.fresh * w.waited_us, w.waited_us - w.most_us)) AS waited_us,
    sum(w.weight * pow(greatest(w.fresh * w.waited_us, w.waited_us - w.most_us), 2)) AS squares_us2
FROM waits AS w
JOIN diagnosed_members AS p ON p.comm = w.comm AND p.member = w.last_member
WHERE w.waited_us > greatest($floor_us, $share * w.min_exec_time_us)
GROUP BY w.comm, w.block, p.process
ORDER BY ALL
"""

# Of incomplete collectives, the one that came last may be missing: then the shortest time has waiting in it. Losses at
# random leave some with it in each block; a plugin with one slot (of 2.28 and 2.29) may always lack it, and so do the
# collectives after the end of somebody's log: all of these lack as many ranks, more than those before.
# Of those functions and sizes that carry most bytes: sizes that never repeat have nothing to be compared with.
TRANSFERS = """
WITH operations AS (
    SELECT coll, coll_msg_size_bytes
    FROM blocked_cells
    WHERE coll_msg_size_bytes IS NOT NULL
    GROUP BY coll, coll_msg_size_bytes
    ORDER BY sum(weight * coll_msg_size_bytes) DESC, coll, coll_msg_size_bytes
    LIMIT $operations
),
seen AS (SELECT comm, max(ranks_seen) AS most_seen FROM blocked_cells GROUP BY comm)
SELECT
    comm, coll, coll_msg_size_bytes AS size_bytes, block,
    coalesce(
        median(min_exec_time_us) FILTER (complete),
        min(min_exec_time_us) FILTER (ranks_seen > 1 AND NOT $one_slot)
    ) AS transfer_us,
    count(*) AS cells, sum(weight) AS stands_for
FROM blocked_cells JOIN seen USING (comm) SEMI JOIN operations USING (coll, coll_msg_size_bytes)
GROUP BY comm, coll, coll_msg_size_bytes, block
HAVING
    bool_or(complete)
    OR (
        count(*) FILTER (ranks_seen > 1 AND NOT $one_slot) >= $least
        AND (max(ranks_seen) > min(ranks_seen) OR max(ranks_seen) = max(most_seen))
    )
ORDER BY ALL
"""

# What that leaves out: functions and sizes, and their share of the bytes.
NOT_COMPARED = """
WITH operations AS (
    SELECT coll, coll_msg_size_bytes, sum(weight * coll_msg_size_bytes) AS bytes
    FROM blocked_cells
    WHERE coll_msg_size_bytes IS NOT NULL
    GROUP BY coll, coll_msg_size_bytes
),
ranked AS (
    SELECT bytes, row_number() OVER (ORDER BY bytes DESC, coll, coll_msg_size_bytes) AS place FROM operations
)
SELECT
    count(*) FILTER (place > $operations),
    coalesce(sum(bytes) FILTER (place > $operations) / nullif(sum(bytes), 0), 0)::DOUBLE
FROM ranked
"""

# Records may be lost, but what a communicator is for shows in any.
SYNCHRONISED = "SELECT comm, coalesce(max(coll_msg_size_bytes), 0) FROM blocked_cells GROUP BY comm"

SPAN = "SELECT median(last_dump_us - first_dump_us) FROM observed_processes WHERE incarnation = $incarnation"
