"""`run_kernels`: what a run is compared by, one row for each kernel, some kilobytes in all.

A kernel is described by structure: function, placement and shape of the communicator, role, message size. Never by a
communicator's id, which is new in every run. The fleet reads this result and never a run's events.
"""

import pyarrow as pa

from nixt_pipeline.analysis.base import Analysis
from nixt_pipeline.analysis.columns import PAYLOAD_BYTES, RECORDS, count, derived, event
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.inspector.taxonomy import F64, I64, RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings

# Stretches into which a run is cut, by the progress of each communicator. Twenty are enough for a variance, and each
# holds many operations, so that neighbours in time, which resemble one another, mostly share a block.
BLOCKS = 20
# Kernels, by time, for which the groups of hosts are kept: the rest of a run is below a per cent.
KERNELS_WITH_GROUPS = 50

# Times are whole microseconds, of which a fast kernel takes a few dozen: a plain median moves in steps of per cents.
# The median of grouped data takes each time as the class [time - 0.5, time + 0.5) (`statistics.median_grouped`).
_GROUPED_MEDIAN = """
            sum(n)::BIGINT AS cells, round(sum(wait_us) / sum(n), 3) AS wait_us,
            round(
                arg_min(transfer_us - 0.5 + (total / 2 - (upto - n)) / n, transfer_us) FILTER (WHERE upto * 2 >= total),
                3
            ) AS transfer_us"""

SQL = """
WITH launch AS (
    -- A directory of several launches is represented by the one that wrote most; they are never pooled.
    SELECT incarnation FROM communicators GROUP BY incarnation ORDER BY sum(records) DESC, incarnation LIMIT 1
),
comms AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY c.id, c.comm_name, c.n_ranks, c.nnodes) AS comm,
        c.comm_key,
        c.n_ranks, hash(c.n_ranks, c.nnodes, c.parallel_role) AS shape
    FROM communicators AS c
    JOIN launch AS l ON l.incarnation = c.incarnation
),
groups AS (
    SELECT k.comm, list(DISTINCT m.hostname ORDER BY m.hostname) AS hosts
    FROM membership AS m
    JOIN comms AS k ON k.comm_key = m.comm_key
    WHERE m.hostname IS NOT NULL
    GROUP BY k.comm
),
seen AS MATERIALIZED (
    SELECT
        k.comm, k.shape, hash(k.shape, c.coll) AS family, hash(k.shape, c.coll, c.coll_msg_size_bytes) AS kernel,
        c.coll, c.coll_sn, c.n_ranks, CASE WHEN c.occurrence = 1 THEN c.ranks_seen END AS captured,
        c.min_exec_time_us AS transfer_us, c.wait_us / nullif(c.n_ranks - 1, 0) AS wait_us,
        coalesce(
            c.complete AND c.n_ranks > 1 AND c.ranks_gpu_timed = c.n_ranks AND NOT c.size_mismatch
            AND c.coll IN (SELECT unnest($sync_collectives)), false
        ) AS usable
    FROM cells AS c
    JOIN comms AS k ON k.comm_key = c.comm_key
    WHERE c.coll_sn IS NOT NULL
),
streams AS (
    SELECT
        comm, coll, any_value(family) AS family, any_value(n_ranks) AS n_ranks,
        min(coll_sn) AS first_sn, max(coll_sn) - min(coll_sn) + 1 AS expected, sum(captured) AS captured
    FROM seen
    GROUP BY comm, coll
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
    JOIN streams AS s ON s.comm = c.comm AND s.coll = c.coll
    WHERE c.usable
),
blocks AS (
    SELECT
        kernel,
        list(block ORDER BY block) AS block, list(cells ORDER BY block) AS block_cells,
        list(transfer_us ORDER BY block) AS block_transfer_us, list(wait_us ORDER BY block) AS block_wait_us
    FROM (
        SELECT
            kernel, block,{grouped_median}
        FROM (
            SELECT
                *,
                sum(n) OVER (PARTITION BY kernel, block ORDER BY transfer_us) AS upto,
                sum(n) OVER (PARTITION BY kernel, block) AS total
            FROM (
                SELECT kernel, block, transfer_us, count(*) AS n, sum(wait_us) AS wait_us
                FROM usable
                GROUP BY kernel, block, transfer_us
            )
        )
        GROUP BY kernel, block
    )
    GROUP BY kernel
),
host_groups AS (
    SELECT
        kernel,
        list(hosts ORDER BY hosts) AS group_hosts,
        list(transfer_us ORDER BY hosts) AS group_transfer_us, list(wait_us ORDER BY hosts) AS group_wait_us
    FROM (
        SELECT
            kernel, hosts,{grouped_median}
        FROM (
            SELECT
                *,
                sum(n) OVER (PARTITION BY kernel, hosts ORDER BY transfer_us) AS upto,
                sum(n) OVER (PARTITION BY kernel, hosts) AS total
            FROM (
                SELECT
                    u.kernel, array_to_string(g.hosts, ' ') AS hosts, u.transfer_us,
                    count(*) AS n, sum(u.wait_us) AS wait_us
                FROM usable AS u
                JOIN groups AS g ON g.comm = u.comm
                GROUP BY u.kernel, g.hosts, u.transfer_us
            )
        )
        GROUP BY kernel, hosts
    )
    GROUP BY kernel
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
transfers AS (
    SELECT
        kernel,
        count(*) AS cells, median(transfer_us) AS transfer_p50_us, sum(transfer_us) AS transfer_us,
        avg(wait_us) AS wait_us, avg(transfer_us) AS transfer_mean_us,
        quantile_cont(transfer_us, 0.25) AS p25_us, quantile_cont(transfer_us, 0.75) AS p75_us
    FROM usable
    GROUP BY kernel
),
shapes AS (SELECT shape, count(*) AS communicators FROM comms GROUP BY shape),
operations AS (SELECT kernel, count(*) AS operations FROM seen GROUP BY kernel),
recorded AS (
    SELECT
        any_value(t.run) AS run, t.kind, t.coll, any_value(t.coll_type) AS coll_type, t.n_ranks, t.nnodes,
        t.parallel_role, t.coll_msg_size_bytes,
        hash(t.n_ranks, t.nnodes, t.parallel_role) AS shape,
        sum(t.records)::BIGINT AS records, sum(t.records * t.coll_msg_size_bytes::DOUBLE) AS payload_bytes,
        sum(t.records * t.coll_exec_time_us) AS rank_time_us,
        sum(t.records) FILTER (WHERE t.coll_exec_time_us IS NOT NULL) AS timed,
        sum(t.records * t.coll_exec_time_us * t.coll_exec_time_us) AS time_squares,
        sum(t.records) FILTER (WHERE t.coll_busbw_gbs IS NOT NULL) AS with_busbw,
        sum(t.records * t.coll_busbw_gbs) AS busbw_sum,
        sum(t.records * t.coll_busbw_gbs * t.coll_busbw_gbs) AS busbw_squares,
        string_agg(DISTINCT t.coll_timing_source, ' ' ORDER BY t.coll_timing_source) AS timing_sources,
        string_agg(DISTINCT t.git_rev, ' ' ORDER BY t.git_rev) AS git_revs
    FROM kernel_times AS t
    JOIN launch AS l ON l.incarnation = t.incarnation
    GROUP BY t.kind, t.coll, t.n_ranks, t.nnodes, t.parallel_role, t.coll_msg_size_bytes
),
kernels AS (
    SELECT
        *,
        CASE WHEN kind = 'collective' THEN hash(shape, coll, coll_msg_size_bytes) END AS kernel,
        row_number() OVER (
            ORDER BY rank_time_us DESC NULLS LAST, payload_bytes DESC, coll, n_ranks, nnodes, parallel_role
        ) AS number
    FROM recorded
)
SELECT
    r.run, r.kind, r.coll, r.coll_type, r.n_ranks, r.nnodes, r.parallel_role, r.coll_msg_size_bytes,
    r.records, o.operations, p.communicators, r.payload_bytes, r.rank_time_us,
    v.cells, c.capture_rate, v.cells / o.operations AS usable_share,
    v.transfer_p50_us, round(v.transfer_us, 3) AS transfer_us, round(v.wait_us, 3) AS wait_us,
    busbw_gbs(r.coll, r.coll_msg_size_bytes, r.n_ranks, v.transfer_p50_us) AS transfer_busbw_gbs,
    r.busbw_sum / r.with_busbw AS busbw_mean_gbs,
    sqrt(greatest(r.busbw_squares / r.with_busbw - (r.busbw_sum / r.with_busbw) ** 2, 0))
        / nullif(r.busbw_sum / r.with_busbw, 0) AS busbw_cv,
    r.rank_time_us / r.timed AS exec_time_mean_us,
    sqrt(greatest(r.time_squares / r.timed - (r.rank_time_us / r.timed) ** 2, 0))
        / nullif(r.rank_time_us / r.timed, 0) AS exec_time_cv,
    sqrt(s.over_time + s.between_comms) / nullif(v.transfer_mean_us, 0) AS transfer_cv,
    0.7413 * (v.p75_us - v.p25_us) / nullif(v.transfer_p50_us, 0) AS transfer_robust_cv,
    s.over_time AS transfer_variance_over_time, s.between_comms AS transfer_variance_between_communicators,
    r.timing_sources, r.git_revs,
    b.block, b.block_cells, b.block_transfer_us, b.block_wait_us,
    CASE WHEN r.number <= $kernels_with_groups THEN g.group_hosts END AS group_hosts,
    CASE WHEN r.number <= $kernels_with_groups THEN g.group_transfer_us END AS group_transfer_us,
    CASE WHEN r.number <= $kernels_with_groups THEN g.group_wait_us END AS group_wait_us
FROM kernels AS r
LEFT JOIN transfers AS v ON v.kernel = r.kernel
LEFT JOIN variances AS s ON s.kernel = r.kernel
LEFT JOIN blocks AS b ON b.kernel = r.kernel
LEFT JOIN host_groups AS g ON g.kernel = r.kernel
LEFT JOIN operations AS o ON o.kernel = r.kernel
LEFT JOIN families AS c ON r.kind = 'collective' AND c.family = hash(r.shape, r.coll)
LEFT JOIN shapes AS p ON p.shape = r.shape
ORDER BY r.number
"""


def _parameters(_settings: Settings) -> dict[str, object]:
    return {
        "sync_collectives": list(SYNC_COLLECTIVES),
        "blocks": BLOCKS,
        "kernels_with_groups": KERNELS_WITH_GROUPS,
    }


def _list(name: str, of: pa.DataType, unit: str, meaning: str) -> Column:
    return Column(name, pa.list_(of), Role.DERIVED, unit, meaning)


RUN_KERNELS = Analysis(
    name="run_kernels",
    version="1",
    title="Kernels of the run",
    question="By which numbers is this run compared with others?",
    reading=(
        "One row for each kernel, described by structure. Transfer is the time of the last rank to arrive, waiting "
        "what the others spent beyond it; both over collectives that every rank logged with GPU times. Blocks are "
        "time blocks of a communicator's progress; a group is the hosts of one communicator."
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
        _list("block_transfer_us", F64, "us", "Median transfer in each block"),
        _list("block_wait_us", F64, "us", "Mean wait of a rank for each operation in each block"),
        _list("group_hosts", STRING, "", "Hosts of one communicator, separated by spaces; null for rare kernels"),
        _list("group_transfer_us", F64, "us", "Median transfer of each group of hosts"),
        _list("group_wait_us", F64, "us", "Mean wait of a rank for each operation of each group of hosts"),
    ),
    key=("kind", "coll", "n_ranks", "nnodes", "parallel_role", "coll_msg_size_bytes"),
    in_report=False,
    sql=SQL.format(grouped_median=_GROUPED_MEDIAN),
    parameters=_parameters,
)
