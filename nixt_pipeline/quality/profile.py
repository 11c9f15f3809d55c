"""The profile of a run: one row of exact counts over all of its records, which the rules about values are judged on.

A column named `null_*`, `*_out_of_range` or the like counts the records that break the rule, so that 0 is good.
"""

import duckdb
import numpy as np
import pyarrow as pa

from nixt_pipeline.analysis.base import number_of_passes
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.settings import Settings

# A digest takes a small part of the memory of a record: this many usual passes are one here.
_DIGEST_PASSES = 2

# Equal records are equal in these few numbers, too: what else is written in the line is compared only where they are.
_DIGESTS = """
SELECT hash(dump_timestamp_us, coll_sn, coll_exec_time_us, rank, pid) AS digest
FROM stored_events
WHERE digest % $passes::UBIGINT = $pass::UBIGINT
"""

# The file and the derived columns do not count.
_EXACT_DUPLICATES = """
SELECT
    count(*) - count(DISTINCT hash(
        kind, id, comm_name, rank, n_ranks, nnodes, hostname, pid, inspector_output_format_version, git_rev,
        rec_mechanism, dump_timestamp_us, coll, coll_algo, coll_proto, coll_sn, p2p_peer, coll_msg_size_bytes,
        coll_exec_time_us, coll_timing_source, coll_algobw_gbs, coll_busbw_gbs, flags, extra
    ))
FROM events AS e
SEMI JOIN suspects AS s ON s.digest = hash(e.dump_timestamp_us, e.coll_sn, e.coll_exec_time_us, e.rank, e.pid)
"""

SQL = """
WITH of_membership AS (
    SELECT
        (sum(records) > sum(records_p2p))::INTEGER + (sum(records_p2p) > 0)::INTEGER AS kinds,
        sum(records) FILTER (WHERE id IS NULL) AS null_id,
        sum(records) FILTER (WHERE rank IS NULL) AS null_rank,
        sum(records) FILTER (WHERE n_ranks IS NULL) AS null_n_ranks,
        sum(records) FILTER (WHERE nnodes IS NULL) AS null_nnodes,
        sum(records) FILTER (WHERE hostname IS NULL) AS null_hostname,
        sum(records) FILTER (WHERE pid IS NULL) AS null_pid,
        sum(records) FILTER (WHERE rank NOT BETWEEN 0 AND n_ranks - 1) AS rank_out_of_range,
        sum(records) FILTER (WHERE nnodes NOT BETWEEN 1 AND n_ranks) AS nnodes_out_of_range
    FROM membership
),
of_times AS (
    SELECT
        sum(records) FILTER (WHERE coll IS NULL) AS null_coll,
        sum(records) FILTER (WHERE coll_msg_size_bytes IS NULL) AS null_coll_msg_size_bytes,
        sum(records) FILTER (WHERE coll_busbw_gbs > $max_plausible_busbw_gbs) AS bandwidth_impossible,
        sum(records) FILTER (WHERE
            abs(coll_busbw_gbs - busbw_gbs(coll, coll_msg_size_bytes, n_ranks, coll_exec_time_us))
            > $bandwidth_mismatch_gbs
        ) AS bandwidth_mismatches,
        sum(records) FILTER (WHERE coll_timing_source IN ('kernel_cpu', 'collective_cpu')) AS cpu_timed,
        sum(records) FILTER (WHERE
            coalesce(coll_timing_source, '') NOT IN ('kernel_gpu', 'kernel_cpu', 'collective_cpu')
        ) AS other_timed,
        count(DISTINCT inspector_output_format_version) AS format_versions,
        count(DISTINCT git_rev) AS git_revs
    FROM kernel_times
),
of_events AS (
    SELECT
        count(*) - count(dump_timestamp_us) AS null_dump_timestamp_us,
        count(*) - count(coll_sn) AS null_coll_sn,
        count(*) FILTER (WHERE p2p_peer NOT BETWEEN 0 AND n_ranks - 1) AS peer_out_of_range,
        $exact_duplicates AS exact_duplicates
    FROM stored_events
),
of_flags AS (
    SELECT
        sum(n) FILTER (WHERE flags & $timestamp_implausible != 0) AS implausible_timestamps,
        sum(n) FILTER (WHERE flags & $unknown_function != 0) AS unknown_functions,
        sum(n) FILTER (WHERE flags & $value_out_of_range != 0) AS values_out_of_range,
        sum(n) FILTER (WHERE flags & $bandwidth_invalid != 0) AS bandwidth_not_finite
    FROM (SELECT flags, count(*) AS n FROM stored_events GROUP BY flags)
),
of_keys AS (
    SELECT count(*) AS key_sets
    FROM (
        SELECT DISTINCT * EXCLUDE (extra), json_keys(extra)
        FROM (
            SELECT DISTINCT
                kind, inspector_output_format_version, coll_timing_source IS NULL, coll_algo IS NULL,
                coll_proto IS NULL, extra
            FROM stored_events
        )
    )
),
unusable AS (
    SELECT coalesce(sum(records) FILTER (WHERE coll_exec_time_us IS NULL) / sum(records), 0) AS unusable_share
    FROM kernel_times
)
SELECT coalesce(COLUMNS(* EXCLUDE (unusable_share)), 0)::BIGINT, unusable_share
FROM of_membership, of_times, of_events, of_flags, of_keys, unusable
"""


def event_profile(con: duckdb.DuckDBPyConnection, settings: Settings) -> pa.Table:
    """The profile of one run: exactly one row, also for a run without records; `con` comes from `open_run`."""
    limits = settings.thresholds.quality
    profile: pa.Table = con.sql(
        SQL,
        params={
            "timestamp_implausible": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE),
            "unknown_function": int(RecordFlag.UNKNOWN_FUNCTION),
            "value_out_of_range": int(
                RecordFlag.VALUE_OUT_OF_RANGE | RecordFlag.SN_IMPLAUSIBLE | RecordFlag.SIZE_IMPLAUSIBLE
            ),
            "bandwidth_invalid": int(RecordFlag.BANDWIDTH_INVALID),
            "max_plausible_busbw_gbs": limits.max_plausible_busbw_gbs,
            "bandwidth_mismatch_gbs": limits.bandwidth_mismatch_gbs,
            "exact_duplicates": _exact_duplicates(con),
        },
    ).to_arrow_table()
    return profile


def _exact_duplicates(con: duckdb.DuckDBPyConnection) -> int:
    """Stored records that are equal to another one. NumPy sorts digests several times as fast as DuckDB groups them."""
    passes = -(-number_of_passes(con) // _DIGEST_PASSES)
    duplicates = 0
    for number in range(passes):
        table = con.sql(_DIGESTS, params={"passes": passes, "pass": number}).to_arrow_table()
        digests = np.sort(table["digest"].to_numpy())
        repeated = digests[1:][digests[1:] == digests[:-1]]
        if repeated.size:
            con.register("suspects", pa.table({"digest": np.unique(repeated)}))
            [(count,)] = con.sql(_EXACT_DUPLICATES).fetchall()
            con.unregister("suspects")
            duplicates += int(count)
    return duplicates
