import json
from typing import Any

import pytest

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.fields import RejectedError
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.inspector.records import ForeignError, RecordTyper
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.records import EPOCH_US, collective, marker, send

NAMES = [column.name for column in taxonomy.EVENT_COLUMNS]


def typed(line: str, typer: RecordTyper | None = None) -> dict[str, Any]:
    row = (typer or RecordTyper(7, Thresholds())).type(json.loads(line), len(line), 0)
    assert row.event is not None
    return dict(zip(NAMES, row.event, strict=True))


def changed(**body: Any) -> str:
    record = json.loads(collective())
    record["coll_perf"].update(body)
    return json.dumps(record)


def in_lists(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def typed_with(header: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """A record with keys added to its header, and with parts of its own."""
    record = json.loads(collective()) | parts
    record["header"] |= header or {}
    row = RecordTyper(7, Thresholds()).type(record, 1, 0)
    assert row.event is not None
    return dict(zip(NAMES, row.event, strict=True))


def test_a_collective_fills_the_columns_under_the_plugins_own_names() -> None:
    row = typed(collective(sn=3))
    assert row == {
        "kind": "collective",
        "id": "0xabc",
        "comm_name": "TP Group 0",
        "rank": 0,
        "n_ranks": 4,
        "nnodes": 1,
        "hostname": "node-01",
        "pid": 100,
        "inspector_output_format_version": "v4.0",
        "git_rev": "v2.30.7-1",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": EPOCH_US,
        "coll": "AllReduce",
        "coll_algo": None,
        "coll_proto": None,
        "coll_sn": 3,
        "p2p_peer": None,
        "coll_msg_size_bytes": 1_000_000,
        "coll_exec_time_us": 100.0,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": None,  # 1 MB in 100 us is 10 GB/s: what the formula gives is not stored
        "coll_busbw_gbs": None,
        "flags": 0,
        "extra": None,
        "file_id": 7,
        "record_bytes": len(collective(sn=3)),
    }


def test_a_p2p_record_uses_the_same_columns_and_names_its_peer() -> None:
    row = typed(send(sn=5, peer=1))
    assert (row["kind"], row["coll"], row["coll_sn"], row["p2p_peer"]) == ("p2p", "Send", 5, 1)


@pytest.mark.parametrize("name", ["unknown", ""])
def test_unknown_and_absent_communicator_names_are_one(name: str) -> None:
    assert typed(collective(name=name))["comm_name"] is None
    assert typed(collective(name=None))["comm_name"] is None


@pytest.mark.parametrize(
    ("written", "stored", "flag"),
    [
        (0, None, RecordFlag.TIME_ZERO),
        (-5, None, RecordFlag.TIME_NEGATIVE),
        (2**64 - 278, None, RecordFlag.TIME_WRAPPED),
        (5663.0, 5663.0, None),
        (61974.5, 61974.5, None),
        ("42", 42.0, None),
    ],
)
def test_only_usable_times_are_stored(written: Any, stored: float | None, flag: RecordFlag | None) -> None:
    row = typed(collective(time_us=written))
    assert row["coll_exec_time_us"] == stored
    if flag:
        assert row["flags"] & flag
        assert row["coll_busbw_gbs"] is None


def test_what_a_column_cannot_hold_stands_in_extra() -> None:
    extra = json.loads(typed(collective(time_us=2**64 - 278))["extra"])
    assert extra["coll_perf.coll_exec_time_us"] == 2**64 - 278


def test_the_size_of_an_unknown_data_type_is_repaired_and_its_bandwidth_void() -> None:
    row = typed(collective(size=2**64 - 131072, busbw=4.5e14))
    assert row["coll_msg_size_bytes"] == 131072
    assert row["flags"] & RecordFlag.SIZE_REPAIRED
    assert row["coll_busbw_gbs"] is None


@pytest.mark.parametrize("busbw", [float("inf"), float("nan"), "nan", None, "", -1.0])
def test_a_bandwidth_that_is_no_number_is_missing_and_the_record_stays(busbw: Any) -> None:
    row = typed(changed(coll_busbw_gbs=busbw))
    assert row["coll_busbw_gbs"] is None
    assert row["flags"] & RecordFlag.BANDWIDTH_INVALID


def test_a_bandwidth_that_the_formula_does_not_give_is_stored() -> None:
    row = typed(collective(busbw=14.0))
    assert (row["coll_algobw_gbs"], row["coll_busbw_gbs"], row["flags"]) == (10.0, 14.0, 0)


def test_a_record_without_bandwidths_has_none() -> None:
    record = json.loads(collective())
    del record["coll_perf"]["coll_busbw_gbs"]
    row = typed(json.dumps(record))
    assert (row["coll_algobw_gbs"], row["coll_busbw_gbs"], row["flags"]) == (10.0, None, RecordFlag.BANDWIDTH_ABSENT)


def test_bandwidth_without_meaning_is_null_not_zero() -> None:
    single = typed(collective(n_ranks=1, busbw=0.0))
    assert (single["coll_busbw_gbs"], single["coll_algobw_gbs"]) == (None, 10.0)
    unknown = typed(collective(coll="AlltoAll", busbw=0.0, algobw=0.0))
    assert unknown["coll"] == "AlltoAll"
    assert unknown["flags"] == RecordFlag.UNKNOWN_FUNCTION | RecordFlag.BANDWIDTH_UNDEFINED


@pytest.mark.parametrize("sn", [9007199254740993, 2**62 - 1])
def test_sequence_numbers_are_exact(sn: int) -> None:
    row = typed(collective(sn=sn))
    assert (row["coll_sn"], row["flags"], row["extra"]) == (sn, 0, None)


@pytest.mark.parametrize("sn", [2**62, 2**63, 2**64 - 1])
def test_a_number_of_more_operations_than_a_job_can_do_is_null_and_flagged(sn: int) -> None:
    row = typed(collective(sn=sn))
    assert (row["coll_sn"], row["flags"]) == (None, RecordFlag.SN_IMPLAUSIBLE)
    assert json.loads(row["extra"]) == {"coll_perf.coll_sn": sn}


@pytest.mark.parametrize("size", [2**48 + 1, 2**63, 2**64 - 2**48])
def test_a_size_that_no_memory_can_hold_is_null_and_flagged(size: int) -> None:
    row = typed(collective(size=size, busbw=0.0, algobw=0.0))
    assert row["coll_msg_size_bytes"] is None
    assert row["flags"] == RecordFlag.SIZE_IMPLAUSIBLE | RecordFlag.BANDWIDTH_UNDEFINED
    assert json.loads(row["extra"]) == {"coll_perf.coll_msg_size_bytes": size}


def test_a_sequence_number_beyond_64_bits_costs_its_column_not_the_record() -> None:
    row = typed(collective(sn=2**64))
    assert row["coll_sn"] is None
    assert row["flags"] & RecordFlag.VALUE_OUT_OF_RANGE


@pytest.mark.parametrize("at_us", [0, 10, 1_756_587_600, EPOCH_US * 1000])
def test_implausible_times_are_flagged(at_us: int) -> None:
    assert typed(collective(at_us=at_us))["flags"] & RecordFlag.TIMESTAMP_IMPLAUSIBLE


def test_unknown_keys_are_kept() -> None:
    record = json.loads(changed(graphCaptured=True))
    record["header"]["local_rank"] = 1
    record["note"] = "x"
    extra = json.loads(typed(json.dumps(record))["extra"])
    assert extra == {"coll_perf.graphCaptured": True, "header.local_rank": 1, "note": "x"}


def test_bare_lines_belong_to_the_marker_that_counts_them() -> None:
    typer = RecordTyper(0, Thresholds())
    bare = json.dumps({"coll_perf": json.loads(collective())["coll_perf"]})
    with pytest.raises(RejectedError, match="no dump_stats marker"):
        typed(bare, typer)
    marked = typer.type(json.loads(marker(2, dropped=9)), 1, 0)
    assert marked.auxiliary is not None
    assert 9 in marked.auxiliary
    assert typed(bare, typer)["hostname"] == "node-01"
    assert typed(bare, typer)["id"] == "0xabc"
    with pytest.raises(RejectedError):
        typed(bare, typer)


def test_what_is_no_part_of_a_record_uses_up_no_marker() -> None:
    typer = RecordTyper(0, Thresholds())
    typer.type(json.loads(marker(1)), 1, 0)
    typer.lost_line(b"[1,0]<stdout>:")  # in front of each line when mpirun printed it
    typer.lost_line(b"node-01:12:34 [0] NCCL INFO Connected all rings")
    assert typed(json.dumps({"coll_perf": json.loads(collective())["coll_perf"]}), typer)["id"] == "0xabc"


def test_a_lost_line_uses_up_the_marker() -> None:
    typer = RecordTyper(0, Thresholds())
    typer.type(json.loads(marker(1)), 1, 0)
    typer.lost_line(b'{"coll_perf":{"coll":"AllRe')
    with pytest.raises(RejectedError):
        typed(json.dumps({"coll_perf": json.loads(collective())["coll_perf"]}), typer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coll": None}, "coll_perf.coll is missing"),
        ({"coll": 5}, "coll_perf.coll is int, expected a string"),
        ({"coll_exec_time_us": "soon"}, "coll_perf.coll_exec_time_us is 'soon', expected a number"),
        ({"coll_sn": True}, "coll_perf.coll_sn is True, expected a number"),
    ],
)
def test_a_rejection_names_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RejectedError, match=message):
        typed(changed(**change))


def test_a_list_in_place_of_a_number_is_named_however_deep_it_is() -> None:
    with pytest.raises(RejectedError, match=r"coll_sn is list, expected a number"):
        typed_with(coll_perf={"coll": "AllReduce", "coll_sn": in_lists(1, 900)})


def test_unknown_values_are_kept_as_deep_as_they_can_be() -> None:
    extra = typed_with(header={"fork": in_lists(1, 300)})["extra"]
    assert extra == '{"header.fork":' + "[" * 99 + '"left out: nested deeper than 100 levels"' + "]" * 99 + "}"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udce9\ud83d"])
def test_half_an_escaped_pair_becomes_a_replacement_character(text: str) -> None:
    row = typed_with(header={"comm_name": text, "x" + text: text})
    assert "\ufffd" in row["comm_name"]
    assert "\ufffd" in row["extra"]


def test_a_time_too_short_for_a_bandwidth_costs_nothing() -> None:
    assert typed(changed(coll_exec_time_us=1e-300))["coll_exec_time_us"] == 1e-300


def test_null_metadata_is_absent_metadata() -> None:
    row = typed_with(metadata=None)
    assert (row["id"], row["hostname"]) == ("0xabc", None)


def test_a_second_body_is_kept_as_unknown() -> None:
    assert typed_with(p2p_perf={"p2p": "Send"})["extra"] == '{"p2p_perf":{"p2p":"Send"}}'


def test_lookalikes_are_foreign() -> None:
    for line in ('{"summary": {}}', '{"header": {"rank": 0}, "coll_perf": {"coll": "AllReduce"}}'):
        with pytest.raises(ForeignError):
            typed(line)


def test_verbose_traces_keep_used_channels_only() -> None:
    record: dict[str, Any] = json.loads(collective())
    record["coll_perf"]["event_trace_ts"] = {
        "coll_start_ts": 5,
        "coll_stop_ts": 0,
        "kernel_events": [
            {"channel_id": 0, "kernel_start_ts": 10, "kernel_stop_ts": 20, "kernel_record_ts": 19},
            {"channel_id": 1, "kernel_start_ts": 0, "kernel_stop_ts": 0, "kernel_record_ts": 0},
        ],
    }
    row = RecordTyper(0, Thresholds()).type(record, 1, 0).channels
    assert row is not None
    channels = dict(zip([column.name for column in taxonomy.CHANNEL_COLUMNS], row, strict=True))
    assert (channels["start_ts"], channels["stop_ts"]) == (5, None)
    assert (channels["channel_id"], channels["kernel_start_ts"], channels["kernel_stop_ts"]) == ([0], [10], [20])
