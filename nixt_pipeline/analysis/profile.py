"""The profile of a run: one row of aggregates that data-quality checks are made of.

Expectations are validated against this one row, never against raw events. Each column's meaning below says what it
counts; a column named `null_*`, `*_out_of_range` or the like counts the records that break the rule, so that 0 is good.
"""

import duckdb
import numpy as np
import pyarrow as pa

from nixt_pipeline.analysis.base import number_of_passes, query
from nixt_pipeline.analysis.columns import count, derived
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.taxonomy import STRING, Column, Role
from nixt_pipeline.settings import Settings

# Changes whenever the profile would.
VERSION = "1"

# A digest takes a small part of the memory of a record: so many usual passes are one here.
_DIGEST_PASSES = 2

PROFILE_COLUMNS: tuple[Column, ...] = (
    count("rows", "records", "Stored records"),
    count("rows_collective", "records", "Of those, collectives"),
    count("rows_p2p", "records", "Of those, P2P operations"),
    count("null_id", "records", "Records without a communicator id"),
    count("null_rank", "records", "Records without a rank"),
    count("null_n_ranks", "records", "Records without the communicator's size"),
    count("null_nnodes", "records", "Records without the communicator's node count"),
    count("null_hostname", "records", "Records without a host"),
    count("null_pid", "records", "Records without a process id"),
    count("null_dump_timestamp_us", "records", "Records without a write time"),
    count("null_coll", "records", "Records without a function name"),
    count("null_coll_sn", "records", "Records without a sequence number"),
    count("null_coll_msg_size_bytes", "records", "Records without a message size"),
    count("rank_out_of_range", "records", "Records whose rank is not within 0 and n_ranks - 1"),
    count("nnodes_out_of_range", "records", "Records whose nnodes is not within 1 and n_ranks"),
    count("peer_out_of_range", "records", "P2P records whose peer is not within 0 and n_ranks - 1"),
    count("implausible_timestamps", "records", "Records whose write time is not a Unix time in microseconds"),
    count(
        "unknown_functions",
        "records",
        "Records of a function that NCCL does not have, or that the plugin calls Invalid",
    ),
    count("unusable_times", "records", "Records without a usable execution time, for any reason"),
    count("times_zero", "records", "Of those, execution time 0: below the resolution, or not measured"),
    count("times_wrapped", "records", "Of those, a CPU-timed difference below zero, written as almost 2^64"),
    count("times_negative", "records", "Of those, a negative number"),
    count(
        "sizes_repaired",
        "records",
        "Records whose message size was repaired (2^64 - count: a data type unknown to the plugin)",
    ),
    count("values_out_of_range", "records", "Records with a value that its column cannot hold"),
    count(
        "bandwidth_not_finite", "records", "Records whose written bandwidth is inf, nan, null, negative or no number"
    ),
    count("bandwidth_impossible", "records", "Records whose bus bandwidth exceeds max_plausible_busbw_gbs"),
    count("bandwidth_compared", "records", "Records with a written and a recomputed bus bandwidth"),
    count(
        "bandwidth_mismatches", "records", "Of those, records in which they differ by more than bandwidth_mismatch_gbs"
    ),
    count("gpu_timed", "records", "Records timed by the GPU (kernel_gpu)"),
    count(
        "cpu_timed", "records", "Records timed by the CPU (kernel_cpu or collective_cpu): launch delays are included"
    ),
    count("other_timed", "records", "Records with another timing source, or none"),
    count(
        "exact_duplicates",
        "records",
        "Stored records equal to another one in every field of the log line (64-bit hash)",
    ),
    count(
        "repeated_sequence_numbers",
        "records",
        "Collective records of a rank beyond the first with the same sequence number",
    ),
    count("size_mismatch_cells", "collectives", "Cells whose ranks reported different message sizes"),
    count("incarnations", "", "Launches found in the directory"),
    count("communicators", "", "Communicators with records"),
    count("communicators_incomplete", "", "Of those, communicators with fewer ranks than n_ranks"),
    count("missing_ranks", "ranks", "Ranks without any record, over all communicators"),
    count("processes_seen", "processes", "Processes (hostname, pid) with records, summed over incarnations"),
    count(
        "processes_expected",
        "processes",
        "Ranks of the largest communicator, summed over incarnations: at least this many ran",
    ),
    count("hosts_seen", "hosts", "Distinct hosts"),
    count("cells", "collectives", "Cells: distinct collectives"),
    count("complete_cells", "collectives", "Of those, cells in which every rank has a usable time"),
    derived(
        "capture_rate",
        "",
        "Expected pairs of rank and sequence number that were recorded, over all communicators; null without any",
    ),
    derived("capture_rate_min", "", "The lowest such rate of a communicator and function"),
    count(
        "dropped_by_plugin",
        "records",
        "Operations that the plugin says it lost (dump_stats); null when it says nothing",
    ),
    derived(
        "clock_spread_us",
        "us",
        "Median, over complete collectives across nodes, of last minus first write time: dump delay and clock offset",
    ),
    count("format_versions", "", "Distinct inspector_output_format_version"),
    Column(
        "format_version_list",
        STRING,
        Role.IDENTIFIER,
        "",
        "Their names in order, separated by commas; null without any",
    ),
    count("git_revs", "", "Distinct git_rev; more than one means that processes ran different plugins"),
    count(
        "key_sets", "", "Distinct pairs of kind and set of version and fields; more of them than kinds is schema drift"
    ),
    count("files", "files", "Files in the directory"),
    count("files_read", "files", "Of those, files read as Inspector logs"),
    count("files_unreadable", "files", "Of those, files that could not be read"),
    count("files_with_problems", "files", "Of those, files with a problem, e.g. a truncated gzip"),
    count("records_duplicate", "records", "Records left out of the store because they were in it already"),
    count("rejected_lines", "lines", "Lines that are not records"),
    count("foreign_lines", "lines", "Lines recognised as something else's"),
    count("bytes_read", "bytes", "Bytes after decompression"),
    count("bytes_unaccounted", "bytes", "Bytes read that are neither stored, duplicate, rejected, foreign nor blank"),
    derived("rejected_share", "", "Rejected bytes / bytes read; 0 when nothing was read"),
)

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
        coalesce(sum(records), 0) AS rows,
        coalesce(sum(records_p2p), 0) AS rows_p2p,
        rows - rows_p2p AS rows_collective,
        coalesce(sum(records) FILTER (WHERE id IS NULL), 0) AS null_id,
        coalesce(sum(records) FILTER (WHERE rank IS NULL), 0) AS null_rank,
        coalesce(sum(records) FILTER (WHERE n_ranks IS NULL), 0) AS null_n_ranks,
        coalesce(sum(records) FILTER (WHERE nnodes IS NULL), 0) AS null_nnodes,
        coalesce(sum(records) FILTER (WHERE hostname IS NULL), 0) AS null_hostname,
        coalesce(sum(records) FILTER (WHERE pid IS NULL), 0) AS null_pid,
        coalesce(sum(records) FILTER (WHERE rank NOT BETWEEN 0 AND n_ranks - 1), 0) AS rank_out_of_range,
        coalesce(sum(records) FILTER (WHERE nnodes NOT BETWEEN 1 AND n_ranks), 0) AS nnodes_out_of_range
    FROM membership
),
timed AS (
    SELECT *, busbw_gbs(coll, coll_msg_size_bytes, n_ranks, coll_exec_time_us) AS busbw_recomputed_gbs FROM kernel_times
),
of_times AS (
    SELECT
        coalesce(sum(records) FILTER (WHERE coll IS NULL), 0) AS null_coll,
        coalesce(sum(records) FILTER (WHERE coll_msg_size_bytes IS NULL), 0) AS null_coll_msg_size_bytes,
        coalesce(sum(records) FILTER (WHERE coll_exec_time_us IS NULL), 0) AS unusable_times,
        coalesce(sum(records) FILTER (WHERE coll_busbw_gbs > $max_plausible_busbw_gbs), 0) AS bandwidth_impossible,
        coalesce(sum(records) FILTER (WHERE coll_busbw_gbs - busbw_recomputed_gbs IS NOT NULL), 0)
            AS bandwidth_compared,
        coalesce(
            sum(records) FILTER (WHERE abs(coll_busbw_gbs - busbw_recomputed_gbs) > $bandwidth_mismatch_gbs), 0
        ) AS bandwidth_mismatches,
        coalesce(sum(records) FILTER (WHERE coll_timing_source = 'kernel_gpu'), 0) AS gpu_timed,
        coalesce(sum(records) FILTER (WHERE coll_timing_source IN ('kernel_cpu', 'collective_cpu')), 0) AS cpu_timed,
        coalesce(sum(records), 0) - gpu_timed - cpu_timed AS other_timed,
        count(DISTINCT inspector_output_format_version) AS format_versions,
        string_agg(DISTINCT inspector_output_format_version, ',' ORDER BY inspector_output_format_version)
            AS format_version_list,
        count(DISTINCT git_rev) AS git_revs
    FROM timed
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
        coalesce(sum(n) FILTER (WHERE flags & $timestamp_implausible != 0), 0) AS implausible_timestamps,
        coalesce(sum(n) FILTER (WHERE flags & $unknown_function != 0), 0) AS unknown_functions,
        coalesce(sum(n) FILTER (WHERE flags & $time_zero != 0), 0) AS times_zero,
        coalesce(sum(n) FILTER (WHERE flags & $time_wrapped != 0), 0) AS times_wrapped,
        coalesce(sum(n) FILTER (WHERE flags & $time_negative != 0), 0) AS times_negative,
        coalesce(sum(n) FILTER (WHERE flags & $size_repaired != 0), 0) AS sizes_repaired,
        coalesce(sum(n) FILTER (WHERE flags & $value_out_of_range != 0), 0) AS values_out_of_range,
        coalesce(sum(n) FILTER (WHERE flags & $bandwidth_invalid != 0), 0) AS bandwidth_not_finite
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
of_capture AS (
    SELECT
        sum(records_captured) / sum(records_expected) AS capture_rate,
        min(records_captured / records_expected) AS capture_rate_min
    FROM series
),
of_cells AS (
    SELECT
        count(*) AS cells,
        count(*) FILTER (WHERE complete) AS complete_cells,
        count(*) FILTER (WHERE size_mismatch) AS size_mismatch_cells,
        coalesce(sum(ranks_seen) FILTER (WHERE occurrence > 1), 0) AS repeated_sequence_numbers,
        quantile_cont(last_dump_us - first_dump_us, 0.5) FILTER (WHERE complete AND nnodes > 1) AS clock_spread_us
    FROM cells
),
of_communicators AS (
    SELECT
        count(*) AS communicators,
        count(*) FILTER (WHERE ranks_seen < n_ranks) AS communicators_incomplete,
        coalesce(sum(n_ranks - ranks_seen) FILTER (WHERE ranks_seen < n_ranks), 0) AS missing_ranks
    FROM communicators
),
of_processes AS (
    SELECT
        count(DISTINCT incarnation) AS incarnations, count(*) AS processes_seen, count(DISTINCT hostname) AS hosts_seen
    FROM processes
),
largest AS (
    SELECT coalesce(sum(n_ranks), 0) AS processes_expected
    FROM (SELECT max(n_ranks) AS n_ranks FROM communicators GROUP BY incarnation)
),
dropped AS (
    SELECT sum(dropped) AS dropped_by_plugin
    FROM (
        -- Each writer counts up from the start of its process: its highest count is its total.
        SELECT max(coalesce(coll_dropped_total, 0)) + max(coalesce(p2p_dropped_total, 0)) AS dropped
        FROM auxiliary
        WHERE record_kind = 'dump_stats'
        GROUP BY id, comm_name, n_ranks, nnodes, rank, hostname, pid
    )
),
of_files AS (
    SELECT
        count(*) AS files,
        count(*) FILTER (WHERE status = 'read') AS files_read,
        count(*) FILTER (WHERE status = 'unreadable') AS files_unreadable,
        count(problem) AS files_with_problems,
        coalesce(sum(records_duplicate), 0) AS records_duplicate,
        coalesce(sum(lines_rejected), 0) AS rejected_lines,
        coalesce(sum(lines_foreign), 0) AS foreign_lines,
        coalesce(sum(bytes_read), 0) AS bytes_read,
        coalesce(
            sum(bytes_read - bytes_stored - bytes_duplicate - bytes_rejected - bytes_foreign - bytes_blank), 0
        ) AS bytes_unaccounted,
        coalesce(sum(bytes_rejected) / nullif(sum(bytes_read), 0), 0) AS rejected_share
    FROM files
)
SELECT {columns}
FROM of_membership, of_times, of_events, of_flags, of_keys,
    of_capture, of_cells, of_communicators, of_processes, largest, dropped, of_files
""".replace("{columns}", ", ".join(column.name for column in PROFILE_COLUMNS))


def run_profile(con: duckdb.DuckDBPyConnection, settings: Settings) -> pa.Table:
    """The profile of one run; `con` comes from `open_run`.

    Returns exactly one row of `PROFILE_COLUMNS`, also for a run without records.
    """
    flags = {
        str(flag.name).lower(): int(flag)
        for flag in (
            RecordFlag.TIMESTAMP_IMPLAUSIBLE,
            RecordFlag.UNKNOWN_FUNCTION,
            RecordFlag.TIME_ZERO,
            RecordFlag.TIME_WRAPPED,
            RecordFlag.TIME_NEGATIVE,
            RecordFlag.SIZE_REPAIRED,
            RecordFlag.VALUE_OUT_OF_RANGE,
            RecordFlag.BANDWIDTH_INVALID,
        )
    }
    flags["value_out_of_range"] |= int(RecordFlag.SN_IMPLAUSIBLE | RecordFlag.SIZE_IMPLAUSIBLE)
    limits = {
        "max_plausible_busbw_gbs": settings.thresholds.quality.max_plausible_busbw_gbs,
        "bandwidth_mismatch_gbs": settings.thresholds.quality.bandwidth_mismatch_gbs,
    }
    found = {"exact_duplicates": _exact_duplicates(con)}
    return query(con, "run_profile", SQL, {**flags, **limits, **found}, PROFILE_COLUMNS)


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
