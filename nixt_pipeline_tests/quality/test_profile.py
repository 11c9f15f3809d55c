"""The profile of a run: one row of counts for checks."""

from typing import Any

import pytest

from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.quality.profile import event_profile
from nixt_pipeline_tests.analysis.conftest import START_US, StoredRun, StoreRun, event


def profile(run: StoredRun) -> dict[str, Any]:
    """The one row of the profile."""
    [row] = event_profile(run.con, run.settings).to_pylist()
    assert isinstance(row, dict)
    return row


def test_a_run_without_records_has_a_profile_of_zeros(store_run: StoreRun) -> None:
    assert set(profile(store_run([])).values()) == {0}


def test_a_healthy_run_breaks_no_rule(store_run: StoreRun) -> None:
    run = store_run(
        [event(rank=r, coll_sn=sn, dump_timestamp_us=START_US + sn) for r in range(2) for sn in range(3)]
        + [event(kind="p2p", coll="Send", p2p_peer=1, coll_sn=1)]
    )
    row = profile(run)
    good = {"kinds": 2, "format_versions": 1, "git_revs": 1, "key_sets": 2}
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
        ({"flags": int(RecordFlag.SN_IMPLAUSIBLE)}, {"values_out_of_range": 1}),
        ({"flags": int(RecordFlag.SIZE_IMPLAUSIBLE)}, {"values_out_of_range": 1}),
        ({"flags": int(RecordFlag.VALUE_OUT_OF_RANGE)}, {"values_out_of_range": 1}),
        ({"flags": int(RecordFlag.BANDWIDTH_INVALID)}, {"bandwidth_not_finite": 1}),
        # It is the only record.
        ({"coll_exec_time_us": None, "flags": int(RecordFlag.TIME_ZERO)}, {"unusable_share": 1}),
        ({"coll_timing_source": "collective_cpu"}, {"cpu_timed": 1, "other_timed": 0}),
        ({"coll_timing_source": None}, {"cpu_timed": 0, "other_timed": 1}),
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
        name for name in row if name.startswith(("null_", "unusable_", "bandwidth_m", "bandwidth_i")) or "_out_" in name
    ]
    assert sum(row[name] for name in rules if name not in broken) == 0


def test_a_repeated_number_makes_no_record_equal_to_another(store_run: StoreRun) -> None:
    twin = event(coll_sn=0)
    replay = event(coll_sn=0, dump_timestamp_us=START_US + 1)
    row = profile(store_run([twin, twin | {"file_id": 1, "record_bytes": 501}, replay]))
    assert row["exact_duplicates"] == 1


def test_records_of_different_communicators_are_not_duplicates_however_alike(store_run: StoreRun) -> None:
    # Write time, sequence number, time, rank and process agree: what records are first compared by.
    row = profile(store_run([event(id="0xa"), event(id="0xb"), event(id="0xb"), event(id="0xb", coll_sn=1)]))
    assert row["exact_duplicates"] == 1


def test_the_share_of_unusable_times_is_of_all_records(store_run: StoreRun) -> None:
    row = profile(store_run([event(coll_sn=sn, coll_exec_time_us=None if sn == 0 else 100.0) for sn in range(4)]))
    assert row["unusable_share"] == 0.25


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
    assert (row["format_versions"], row["key_sets"]) == (2, 3)
