"""`run_kernels`: what a run is compared by, one row for each kernel, some kilobytes in all.

A kernel is described by structure: function, placement and shape of the communicator, role, message size. Never by a
communicator's id, which is new in every run. The fleet reads this result and never a run's events.
"""

import pyarrow as pa

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import PAYLOAD_BYTES, RECORDS, event
from nixt_pipeline.inspector.taxonomy import F64, I64, RUN, STRING, Column, Role, count, derived

# Blocks into which a run is cut, by the progress of each communicator. Twenty are enough for a variance, and each
# holds many operations, so that neighbours in time, which resemble one another, mostly share a block.
BLOCKS = 20
# Kernels, by time, that are described; the others are counted in one row. A job has some dozens.
MAX_KERNELS = 2_000
# Of the first of these, the communicators are described, those with the longest transfers; the rest of the kernels are
# below a per cent of a run.
KERNELS_WITH_COMMUNICATORS = 50
MAX_COMMUNICATORS = 1_000
# Time is a sum, so that a kernel's time is a mean: a median of all would not move when less than half of the
# communicators, or of the operations, became slower. What a fifth of the operations take counts in full. Rarer times
# count as at most the mean of these quantiles, or this many times their communicator's median in the block, so that a
# few that were stuck, or wait for a checkpoint, do not decide about the run, and one more of them does not either.
COMMON_QUANTILES = [q / 100 for q in range(80, 100, 2)]
LONGEST = 3

SQL = """
WITH launch AS (
    -- A directory of several launches is represented by the one that wrote most; they are never pooled.
    SELECT incarnation FROM communicators GROUP BY incarnation ORDER BY sum(records) DESC, incarnation LIMIT 1
),
comms AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY c.id, c.comm_name, c.n_ranks, c.nnodes) AS comm,
        c.comm_key, c.comm_name, c.n_ranks, hash(c.n_ranks, c.nnodes, c.parallel_role) AS shape
    FROM communicators AS c
    JOIN launch AS l ON l.incarnation = c.incarnation
),
weighed AS MATERIALIZED (
    SELECT
        t.kind, t.coll, t.n_ranks, t.nnodes, t.parallel_role, t.coll_msg_size_bytes,
        sum(t.records)::BIGINT AS records, sum(t.records * t.coll_msg_size_bytes::DOUBLE) AS payload_bytes,
        sum(t.records * t.coll_exec_time_us) AS rank_time_us
    FROM kernel_times AS t
    JOIN launch AS l ON l.incarnation = t.incarnation
    GROUP BY t.kind, t.coll, t.n_ranks, t.nnodes, t.parallel_role, t.coll_msg_size_bytes
),
kernels AS MATERIALIZED (
    SELECT
        *,
        hash(n_ranks, nnodes, parallel_role) AS shape,
        CASE WHEN kind = 'collective'
            THEN hash(hash(n_ranks, nnodes, parallel_role), coll, coll_msg_size_bytes)
        END AS kernel,
        row_number() OVER (
            ORDER BY rank_time_us DESC NULLS LAST, payload_bytes DESC, coll, n_ranks, nnodes, parallel_role,
                coll_msg_size_bytes
        ) AS number
    FROM (
        SELECT * FROM weighed
        ORDER BY rank_time_us DESC NULLS LAST, payload_bytes DESC, coll, n_ranks, nnodes, parallel_role,
            coll_msg_size_bytes
        LIMIT $max_kernels
    )
),
seen AS MATERIALIZED (
    SELECT
        k.comm, hash(k.shape, c.coll) AS family, hash(k.shape, c.coll, c.coll_msg_size_bytes) AS kernel,
        c.coll_sn, c.n_ranks, CASE WHEN c.occurrence = 1 THEN c.ranks_seen END AS captured,
        c.min_exec_time_us AS transfer_us, c.wait_us / nullif(c.n_ranks - 1, 0) AS wait_us,
        coalesce(
            c.complete AND c.n_ranks > 1 AND c.ranks_gpu_timed = c.n_ranks AND NOT c.size_mismatch
            AND ends_together(c.coll), false
        ) AS usable
    FROM cells AS c
    JOIN comms AS k ON k.comm_key = c.comm_key
    WHERE c.coll_sn IS NOT NULL
),
streams AS MATERIALIZED (
    SELECT
        comm, family, any_value(n_ranks) AS n_ranks,
        min(coll_sn) AS first_sn, max(coll_sn) - min(coll_sn) + 1 AS expected, sum(captured) AS captured
    FROM seen
    GROUP BY comm, family
),
families AS (
    SELECT family, sum(captured) / sum(n_ranks::DOUBLE * expected) AS capture_rate
    FROM streams
    GROUP BY family
),
usable AS MATERIALIZED (
    SELECT
        c.kernel, c.comm, c.transfer_us, c.wait_us,
        ((c.coll_sn - s.first_sn)::HUGEINT * $blocks // s.expected)::INTEGER AS block
    FROM seen AS c
    JOIN streams AS s ON s.comm = c.comm AND s.family = c.family
    WHERE c.usable AND c.kernel IN (SELECT kernel FROM kernels)
),
transfers AS MATERIALIZED (
    SELECT
        kernel,
        count(*) AS cells, median(transfer_us) AS transfer_p50_us, sum(transfer_us) AS transfer_us,
        avg(wait_us) AS wait_us, avg(transfer_us) AS transfer_mean_us,
        quantile_cont(transfer_us, 0.25) AS p25_us, quantile_cont(transfer_us, 0.75) AS p75_us,
        list_avg(quantile_cont(transfer_us, $common_quantiles)) AS common_transfer_us,
        list_avg(quantile_cont(wait_us, $common_quantiles)) AS common_wait_us
    FROM usable
    GROUP BY kernel
),
parts AS MATERIALIZED (
    SELECT
        p.kernel, p.comm, p.block, p.cells,
        capped_sum(p.transfers_us, t.common_transfer_us, $longest) AS transfer_us,
        capped_sum(p.waits_us, t.common_wait_us, $longest) AS wait_us
    FROM (
        SELECT kernel, comm, block, count(*) AS cells, list(transfer_us) AS transfers_us, list(wait_us) AS waits_us
        FROM usable
        GROUP BY kernel, comm, block
    ) AS p
    JOIN transfers AS t ON t.kernel = p.kernel
),
blocks AS (
    SELECT
        kernel,
        list(block ORDER BY block) AS block, list(cells ORDER BY block) AS block_cells,
        -- Rounded twice, for a half must not go up or down by the order of a parallel sum.
        list(round(round(transfer_us / cells, 6), 3) ORDER BY block) AS block_transfer_us,
        list(round(round(wait_us / cells, 6), 3) ORDER BY block) AS block_wait_us,
        sum(transfer_us) / sum(cells) AS transfer_capped_us
    FROM (
        SELECT kernel, block, sum(cells)::BIGINT AS cells, sum(transfer_us) AS transfer_us, sum(wait_us) AS wait_us
        FROM parts
        GROUP BY kernel, block
    )
    GROUP BY kernel
),
hosts AS (
    SELECT k.comm, string_agg(DISTINCT m.hostname, ' ' ORDER BY m.hostname) AS hosts
    FROM membership AS m
    JOIN comms AS k ON k.comm_key = m.comm_key
    WHERE m.hostname IS NOT NULL
    GROUP BY k.comm
),
slowest AS (
    SELECT *
    FROM (
        SELECT
            p.kernel, p.comm, sum(p.cells)::BIGINT AS cells, sum(p.transfer_us) / sum(p.cells) AS transfer_us,
            sum(p.wait_us) / sum(p.cells) AS wait_us
        FROM parts AS p
        JOIN kernels AS k ON k.kernel = p.kernel AND k.number <= $kernels_with_communicators
        GROUP BY p.kernel, p.comm
    )
    QUALIFY row_number() OVER (PARTITION BY kernel ORDER BY transfer_us DESC, comm) <= $max_communicators
),
by_communicator AS (
    SELECT
        s.kernel,
        list(k.comm_name ORDER BY s.comm) AS comm_names, list(h.hosts ORDER BY s.comm) AS comm_hosts,
        list(s.cells ORDER BY s.comm) AS comm_cells, list(round(s.transfer_us, 3) ORDER BY s.comm) AS comm_transfer_us,
        list(round(s.wait_us, 3) ORDER BY s.comm) AS comm_wait_us
    FROM slowest AS s
    JOIN comms AS k ON k.comm = s.comm
    JOIN hosts AS h ON h.comm = s.comm
    GROUP BY s.kernel
),
-- The variance of the transfer: between communicators, and over time within them.
variances AS (
    SELECT
        kernel,
        sum(cells * variance) / sum(cells) AS over_time,
        greatest(sum(cells * mean_us * mean_us) / sum(cells) - (sum(cells * mean_us) / sum(cells)) ** 2, 0)
            AS between_comms
    FROM (
        SELECT kernel, comm, count(*) AS cells, avg(transfer_us) AS mean_us, var_pop(transfer_us) AS variance
        FROM usable
        GROUP BY kernel, comm
    )
    GROUP BY kernel
),
shapes AS (SELECT shape, count(*) AS communicators FROM comms GROUP BY shape),
operations AS (
    SELECT kernel, count(*) AS operations FROM seen WHERE kernel IN (SELECT kernel FROM kernels) GROUP BY kernel
),
recorded AS (
    SELECT
        k.number, any_value(t.run) AS run, any_value(t.coll_type) AS coll_type,
        sum(t.records) FILTER (WHERE t.coll_exec_time_us IS NOT NULL) AS timed,
        sum(t.records * t.coll_exec_time_us * t.coll_exec_time_us) AS time_squares,
        sum(t.records) FILTER (WHERE t.coll_busbw_gbs IS NOT NULL) AS with_busbw,
        sum(t.records * t.coll_busbw_gbs) AS busbw_sum,
        sum(t.records * t.coll_busbw_gbs * t.coll_busbw_gbs) AS busbw_squares,
        string_agg(DISTINCT t.coll_timing_source, ' ' ORDER BY t.coll_timing_source) AS timing_sources,
        string_agg(DISTINCT t.git_rev, ' ' ORDER BY t.git_rev) AS git_revs
    FROM kernel_times AS t
    JOIN launch AS l ON l.incarnation = t.incarnation
    JOIN kernels AS k ON
        k.kind = t.kind
        AND k.coll IS NOT DISTINCT FROM t.coll
        AND k.n_ranks IS NOT DISTINCT FROM t.n_ranks
        AND k.nnodes IS NOT DISTINCT FROM t.nnodes
        AND k.parallel_role IS NOT DISTINCT FROM t.parallel_role
        AND k.coll_msg_size_bytes IS NOT DISTINCT FROM t.coll_msg_size_bytes
    GROUP BY k.number
),
described AS (
    SELECT
        r.run, k.kind, k.coll, r.coll_type, k.n_ranks, k.nnodes, k.parallel_role, k.coll_msg_size_bytes,
        k.records, o.operations, p.communicators, k.payload_bytes, k.rank_time_us,
        v.cells, c.capture_rate, v.cells / o.operations AS usable_share,
        v.transfer_p50_us, round(v.transfer_us, 3) AS transfer_us, round(b.transfer_capped_us, 3) AS transfer_capped_us,
        round(v.wait_us, 3) AS wait_us,
        busbw_gbs(k.coll, k.coll_msg_size_bytes, k.n_ranks, v.transfer_p50_us) AS transfer_busbw_gbs,
        r.busbw_sum / r.with_busbw AS busbw_mean_gbs,
        sqrt(greatest(r.busbw_squares / r.with_busbw - (r.busbw_sum / r.with_busbw) ** 2, 0))
            / nullif(r.busbw_sum / r.with_busbw, 0) AS busbw_cv,
        k.rank_time_us / r.timed AS exec_time_mean_us,
        sqrt(greatest(r.time_squares / r.timed - (k.rank_time_us / r.timed) ** 2, 0))
            / nullif(k.rank_time_us / r.timed, 0) AS exec_time_cv,
        round(sqrt(s.over_time + s.between_comms) / nullif(v.transfer_mean_us, 0), 6) AS transfer_cv,
        0.7413 * (v.p75_us - v.p25_us) / nullif(v.transfer_p50_us, 0) AS transfer_robust_cv,
        round(s.over_time, 3) AS transfer_variance_over_time,
        round(s.between_comms, 3) AS transfer_variance_between_communicators,
        r.timing_sources, r.git_revs,
        b.block, b.block_cells, b.block_transfer_us, b.block_wait_us,
        n.comm_names, n.comm_hosts, n.comm_cells, n.comm_transfer_us, n.comm_wait_us, k.number
    FROM kernels AS k
    JOIN recorded AS r ON r.number = k.number
    LEFT JOIN transfers AS v ON v.kernel = k.kernel
    LEFT JOIN variances AS s ON s.kernel = k.kernel
    LEFT JOIN blocks AS b ON b.kernel = k.kernel
    LEFT JOIN by_communicator AS n ON n.kernel = k.kernel
    LEFT JOIN operations AS o ON o.kernel = k.kernel
    LEFT JOIN families AS c ON k.kind = 'collective' AND c.family = hash(k.shape, k.coll)
    LEFT JOIN shapes AS p ON p.shape = k.shape
),
-- What is not described is counted: a row without a function for each kind.
counted AS (
    SELECT
        (SELECT any_value(run) FROM communicators) AS run, kind, sum(records)::BIGINT AS records,
        sum(payload_bytes) AS payload_bytes, sum(rank_time_us) AS rank_time_us
    FROM (
        SELECT kind, records, payload_bytes, rank_time_us FROM weighed
        UNION ALL
        SELECT kind, -records, -payload_bytes, -rank_time_us FROM kernels
    )
    GROUP BY kind
    HAVING sum(records) > 0
)
SELECT * EXCLUDE (number)
FROM (FROM described UNION ALL BY NAME FROM counted)
ORDER BY number NULLS LAST, kind
"""


def _list(name: str, of: pa.DataType, unit: str, meaning: str) -> Column:
    return Column(name, pa.list_(of), Role.DERIVED, unit, meaning)


RUN_KERNELS = Analysis(
    name="run_kernels",
    version="3",
    title="Kernels of the run",
    question="By which numbers is this run compared with others?",
    reading=(
        "One row for each kernel, described by structure. Transfer is the time of the last rank to arrive, waiting "
        "what the others spent beyond it; both over collectives that every rank logged with GPU times. Blocks are "
        "time blocks of a communicator's progress. In the means of blocks and communicators, rare times count as "
        f"at most {LONGEST} times the median of their communicator in the block. Kernels beyond the {MAX_KERNELS:,} "
        "that take most time are one row of each kind, without a function."
    ),
    columns=(
        RUN,
        *event("kind", "coll", "coll_type", "n_ranks", "nnodes"),
        Column("parallel_role", STRING, Role.DERIVED, "", "Role of the communicator, as in communicators"),
        *event("coll_msg_size_bytes"),
        RECORDS,
        count("operations", "collectives", "Distinct collectives across ranks; null for P2P"),
        count("communicators", "", "Communicators of this shape and role"),
        PAYLOAD_BYTES,
        derived("rank_time_us", "us", "Sum of the execution times of all ranks, waiting included"),
        count("cells", "collectives", "Collectives that every rank logged with GPU times; null without any"),
        derived("capture_rate", "", "Recorded share of the expected records of its communicators and function"),
        derived("usable_share", "", "cells / operations"),
        derived("transfer_p50_us", "us", "Median time of the last rank to arrive, over the cells"),
        derived("transfer_us", "us", "Sum of these times"),
        derived("transfer_capped_us", "us", "Their mean, rare long ones counted as in blocks"),
        derived("wait_us", "us", "Mean time that another rank waited for the last one, for each operation"),
        derived("transfer_busbw_gbs", "GB/s", "Bus bandwidth from the median transfer"),
        derived("busbw_mean_gbs", "GB/s", "Mean bus bandwidth over all records, waiting included"),
        derived("busbw_cv", "", "Its coefficient of variation (population deviation / mean)"),
        derived("exec_time_mean_us", "us", "Mean execution time over all records, waiting included"),
        derived("exec_time_cv", "", "Its coefficient of variation (population deviation / mean)"),
        derived("transfer_cv", "", "Coefficient of variation of the transfer over the cells"),
        derived("transfer_robust_cv", "", "The same from the quartiles: 0.7413 (p75 - p25) / p50"),
        derived("transfer_variance_over_time", "us2", "Variance of the transfer within communicators"),
        derived("transfer_variance_between_communicators", "us2", "Variance of the communicators' mean transfers"),
        Column("timing_sources", STRING, Role.CONFIGURATION, "", "Where the times come from, separated by spaces"),
        Column("git_revs", STRING, Role.CONFIGURATION, "", "Builds of the plugin, separated by spaces"),
        _list("block", pa.int32(), "", f"Blocks with cells, of {BLOCKS}, from 0 on"),
        _list("block_cells", I64, "collectives", "Cells in each block"),
        _list("block_transfer_us", F64, "us", "Mean transfer in each block"),
        _list("block_wait_us", F64, "us", "Mean wait of a rank for each operation in each block"),
        _list("comm_names", STRING, "", "Names of its communicators with the longest transfers; null for rare kernels"),
        _list("comm_hosts", STRING, "", "Their hosts, separated by spaces"),
        _list("comm_cells", I64, "collectives", "Cells of each of these communicators"),
        _list("comm_transfer_us", F64, "us", "Mean transfer of each"),
        _list("comm_wait_us", F64, "us", "Mean wait of a rank for each operation of each"),
    ),
    key=("kind", "coll", "n_ranks", "nnodes", "parallel_role", "coll_msg_size_bytes"),
    in_report=False,
    sql=SQL,
    parameters=lambda _: {
        "blocks": BLOCKS,
        "longest": LONGEST,
        "common_quantiles": COMMON_QUANTILES,
        "max_kernels": MAX_KERNELS,
        "kernels_with_communicators": KERNELS_WITH_COMMUNICATORS,
        "max_communicators": MAX_COMMUNICATORS,
    },
)
