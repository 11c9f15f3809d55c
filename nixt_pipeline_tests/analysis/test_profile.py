"""The profile of a run: one row of counts for checks."""

from typing import Any

import pytest

from nixt_pipeline.analysis.profile import PROFILE_COLUMNS, run_profile
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.taxonomy import schema
from nixt_pipeline_tests.analysis.conftest import START_US, StoredRun, StoreRun, event


def profile(run: StoredRun) -> dict[str, Any]:
    """The one row of the profile."""
    table = run_profile(run.con, run.settings)
    assert table.schema.equals(schema(PROFILE_COLUMNS), check_metadata=True)
    [row] = table.to_pylist()
    assert isinstance(row, dict)
    return row


def test_a_run_without_records_has_a_profile_of_zeros(store_run: StoreRun) -> None:
    row = profile(store_run([]))
    nulls = {name for name, value in row.items() if value is None}
    assert nulls == {"capture_rate", "capture_rate_min", "dropped_by_plugin", "clock_spread_us", "format_version_list"}
    assert {value for name, value in row.items() if name not in nulls} == {0}


def test_a_healthy_run_breaks_no_rule(store_run: StoreRun) -> None:
    run = store_run(
        [event(rank=r, coll_sn=sn, dump_timestamp_us=START_US + sn) for r in range(2) for sn in range(3)]
        + [event(kind="p2p", coll="Send", p2p_peer=1, coll_sn=1)]
    )
    row = profile(run)
    good = {
        "files": 1, "rows": 7, "rows_collective": 6, "rows_p2p": 1, "gpu_timed": 7, "bandwidth_compared": 7,
        "incarnations": 1, "communicators": 1, "processes_seen": 2, "processes_expected": 2, "hosts_seen": 1,
        "cells": 3, "complete_cells": 3, "capture_rate": 1.0, "capture_rate_min": 1.0, "format_versions": 1,
        "format_version_list": "v4.0", "git_revs": 1, "key_sets": 2, "dropped_by_plugin": None, "clock_spread_us": None,
    }  # fmt: skip
    assert {name: row[name] for name in good} == good
    assert {value for name, value in row.items() if name not in good} == {0}


@pytest.mark.parametrize(
    ("values", "broken"),
    [
        ({"id": None}, {"null_id": 1}),
        ({"coll": None}, {"null_coll": 1}),
        ({"coll_sn": None}, {"null_coll_sn": 1}),
        (
            {"coll_msg_size_bytes": None, "coll_busbw_gbs": None, "coll_algobw_gbs": None},
            {"null_coll_msg_size_bytes": 1},
        ),
        ({"rank": 2}, {"rank_out_of_range": 1}),
        ({"nnodes": 3}, {"nnodes_out_of_range": 1}),
        ({"p2p_peer": 2}, {"peer_out_of_range": 1}),
        ({"flags": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE)}, {"implausible_timestamps": 1}),
        ({"flags": int(RecordFlag.UNKNOWN_FUNCTION)}, {"unknown_functions": 1}),
        ({"flags": int(RecordFlag.SIZE_REPAIRED)}, {"sizes_repaired": 1}),
        ({"flags": int(RecordFlag.VALUE_OUT_OF_RANGE)}, {"values_out_of_range": 1}),
        ({"flags": int(RecordFlag.BANDWIDTH_INVALID)}, {"bandwidth_not_finite": 1}),
        ({"coll_exec_time_us": None, "flags": int(RecordFlag.TIME_ZERO)}, {"unusable_times": 1, "times_zero": 1}),
        ({"coll_exec_time_us": None, "flags": int(RecordFlag.TIME_WRAPPED)}, {"unusable_times": 1, "times_wrapped": 1}),
        (
            {"coll_exec_time_us": None, "flags": int(RecordFlag.TIME_NEGATIVE)},
            {"unusable_times": 1, "times_negative": 1},
        ),
        ({"coll_timing_source": "collective_cpu"}, {"gpu_timed": 0, "cpu_timed": 1}),
        ({"coll_timing_source": None}, {"gpu_timed": 0, "other_timed": 1}),
        # The default record is 1 MB in 100 us, 10 GB/s.
        ({"coll_busbw_gbs": 10.002}, {"bandwidth_mismatches": 1}),
        ({"coll_busbw_gbs": 10.0005}, {"bandwidth_mismatches": 0}),
        ({"coll_exec_time_us": 0.1}, {"bandwidth_impossible": 1}),  # 10 TB/s
    ],
)
def test_a_record_that_breaks_a_rule_is_counted_under_that_rule(
    values: dict[str, Any], broken: dict[str, int], store_run: StoreRun
) -> None:
    row = profile(store_run([event(pid=7, **values)]))
    assert {name: row[name] for name in broken} == broken
    rules = [
        name for name in row if name.startswith(("null_", "times_", "bandwidth_m", "bandwidth_i")) or "_out_" in name
    ]
    assert sum(row[name] for name in rules if name not in broken) == 0


def test_equal_records_and_repeated_numbers_are_told_apart(store_run: StoreRun) -> None:
    twin = event(coll_sn=0)
    replay = event(coll_sn=0, dump_timestamp_us=START_US + 1)
    row = profile(store_run([twin, twin | {"file_id": 1, "record_bytes": 501}, replay]))
    assert (row["exact_duplicates"], row["repeated_sequence_numbers"]) == (1, 2)


def test_records_of_different_communicators_are_not_duplicates_however_alike(store_run: StoreRun) -> None:
    # Write time, sequence number, time, rank and process agree: what records are first compared by.
    row = profile(store_run([event(id="0xa"), event(id="0xb"), event(id="0xb"), event(id="0xb", coll_sn=1)]))
    assert row["exact_duplicates"] == 1


def test_missing_ranks_and_capture_are_summed_over_communicators(store_run: StoreRun) -> None:
    # Communicator a: one of four ranks, numbers 0 and 1. Communicator b: both ranks, numbers 0 to 2 with one hole.
    run = store_run(
        [event(n_ranks=4, coll_sn=sn) for sn in (0, 1)]
        + [event(id="0xb", rank=0, coll_sn=sn) for sn in (0, 2)]
        + [event(id="0xb", rank=1, coll_sn=sn) for sn in (0, 1, 2)]
    )
    row = profile(run)
    assert (row["communicators"], row["communicators_incomplete"], row["missing_ranks"]) == (2, 1, 3)
    assert (row["processes_seen"], row["processes_expected"]) == (2, 4)
    assert row["capture_rate"] == (2 + 5) / (8 + 6)
    assert row["capture_rate_min"] == 2 / 8


def test_the_clock_spread_is_the_median_spread_of_collectives_across_nodes(store_run: StoreRun) -> None:
    # The second node's clock is ahead by 5, 7 and 30 us; the collective within one node does not count.
    run = store_run(
        [
            event(rank=r, nnodes=2, coll_sn=sn, dump_timestamp_us=START_US + r * ahead)
            for sn, ahead in enumerate((5, 7, 30))
            for r in range(2)
        ]
        + [event(id="0xb", rank=r, dump_timestamp_us=START_US + r * 900) for r in range(2)]
    )
    assert profile(run)["clock_spread_us"] == 7


def test_versions_and_fields_that_differ_within_a_kind_are_drift(store_run: StoreRun) -> None:
    run = store_run(
        [
            event(coll_sn=0),
            event(coll_sn=1, inspector_output_format_version="v4.2", coll_algo="RING", coll_proto="LL"),
            event(coll_sn=2, extra='{"header.local_rank":1}'),
            event(coll_sn=3, extra='{"header.local_rank":2}'),
        ]
    )
    row = profile(run)
    assert (row["format_versions"], row["format_version_list"], row["key_sets"]) == (2, "v4.0,v4.2", 3)


def test_the_accounts_of_the_files_are_summed(store_run: StoreRun) -> None:
    def file(number: int, **values: Any) -> dict[str, Any]:
        counts = [name for name in FILE_COUNTS if name not in values]
        return {
            "file_id": number, "path": f"{number}.log", "size_bytes": 100, "mtime_ns": 0, "fingerprint": "f",
            "compression": "none", "status": "read", **dict.fromkeys(counts, 0), **values,
        }  # fmt: skip

    run = store_run(
        [],
        files=[
            file(0, bytes_read=1000, bytes_stored=900, bytes_rejected=100, lines_rejected=2, problem="truncated"),
            file(1, bytes_read=3000, bytes_stored=2990, bytes_blank=3, lines_foreign=1, records_duplicate=4),
            file(2, status="unreadable"),
        ],
    )
    row = profile(run)
    expected = {
        "files": 3, "files_read": 2, "files_unreadable": 1, "files_with_problems": 1, "records_duplicate": 4,
        "rejected_lines": 2, "foreign_lines": 1, "bytes_read": 4000, "bytes_unaccounted": 7, "rejected_share": 0.025,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


FILE_COUNTS = (
    "records_collective", "records_p2p", "records_auxiliary", "records_duplicate", "lines_rejected", "lines_foreign",
    "bytes_read", "bytes_stored", "bytes_duplicate", "bytes_rejected", "bytes_foreign", "bytes_blank",
)  # fmt: skip
