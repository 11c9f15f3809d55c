"""What log collectors make of a record, and that the record is found in it."""

import base64
import gzip
import html
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nixt_pipeline.inspector.decoder import decode_line
from nixt_pipeline.inspector.envelopes import as_record, header_hint
from nixt_pipeline_tests.records import collective, send

LINE = collective(sn=7)
RECORD: dict[str, Any] = json.loads(LINE)
FLAT = {f"{section}.{key}": value for section, keys in RECORD.items() for key, value in keys.items()}


def records(line: str) -> list[Any]:
    return [fragment.value for fragment in decode_line(line.encode()) if fragment.value is not None]


def reasons(line: str) -> list[str]:
    return [fragment.reason for fragment in decode_line(line.encode()) if fragment.value is None]


def dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def key_values(value: Any) -> Any:
    """A value as OpenTelemetry types it."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": key_values(item)} for key, item in value.items()]}}
    return {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}


@pytest.mark.parametrize(
    "line",
    [
        dumps({"line": LINE, "labels": {"job": "x"}}),  # logcli
        dumps({"textPayload": LINE + "\n", "severity": "INFO"}),
        dumps({"jsonPayload": RECORD, "insertId": "1"}),
        dumps({"preview": False, "result": {"_raw": LINE}}),
        dumps({"schema": None, "payload": dumps({"message": LINE})}),
        dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": LINE}}]}]}]}),
        dumps({"resourceLogs": [{"logRecords": [{"body": key_values(RECORD)}]}]}),
        dumps({"MESSAGE": list(LINE.encode())}),
        dumps({"MESSAGE": list(b"\x1b[36m" + LINE.encode() + b"\x1b[0m")}),
        dumps({"Records": [{"kinesis": {"data": base64.b64encode(LINE.encode()).decode()}}]}),
        dumps({"attributes": {"@timestamp": "t", "zone": {"a": [1, {"b": None}]}, **RECORD}}),
        dumps([1756587600.1, {"log": "[rank0] " + LINE, "stream": "stdout"}]),
        dumps(FLAT),
        dumps({"@timestamp": "t", **{f"nccl.{key}": value for key, value in FLAT.items()}}),
        dumps({"fields": {key: [value] for key, value in FLAT.items()}}),
        dumps({"_source": {key.replace(".", "_", 1): value for key, value in FLAT.items()}}),
        dumps({section: dumps(keys) for section, keys in RECORD.items()}),  # sections as text, as in columns
        "2025-08-30T21:00:00+00:00\tnccl.rank0\t" + dumps({"message": LINE}),
        f"nccl: [1756587600.1, {dumps({'log': LINE})}]",
        f"[pod/trainer-0/pytorch] {dumps({'log': LINE})}",
        f"node-01:/var/log/nccl.log:12:{dumps({'log': LINE})}",
        f"<134>1 2025-08-30T21:00:00Z node-01 nccl 20000 - - {dumps({'msg': LINE})}",
        "2025-08-30T21:00:00Z,gpu-01," + '"' + LINE.replace('"', '""') + '",info',
        f"ts=2025-08-30 level=info msg={dumps(LINE)} caller=main.go:1",
        f'2025-08-30 21:00:00 nccl.rank0: {{"log"=>{dumps(LINE)}, "stream"=>"stdout"}}',
        dumps({"outer": dumps({"inner": dumps({"log": LINE})})}),
        dumps({f"nccl.{section}": keys for section, keys in RECORD.items()}),
        dumps({"event": {f"nccl_{section}": dumps(keys) for section, keys in RECORD.items()}}),
        dumps({"header": RECORD["header"], **{k: v for k, v in FLAT.items() if not k.startswith("header")}}),
        dumps({"coll_perf": RECORD["coll_perf"], **{k: v for k, v in FLAT.items() if not k.startswith("coll")}}),
        dumps({"attributes": [{"key": key, "value": key_values(value)} for key, value in FLAT.items()]}),
        dumps({"attributes": [{"key": key, "value": key_values(keys)} for key, keys in RECORD.items()]}),
        html.escape(f"<event><msg>{LINE}</msg></event>").replace("&lt;", "<").replace("&gt;", ">"),
        dumps({"xml": f"<msg>{LINE.replace(chr(34), '&#34;')}</msg>"}),
        dumps({"request": "/log?d=" + quote(LINE)}),
        "GET /log?d=" + quote_plus(LINE) + "&level=info HTTP/1.1",
        dumps({"payload": LINE.encode().hex()}),
        dumps({"payload": "\\x" + LINE.encode().hex().upper()}),
        f"rank0 {LINE.encode().hex()}",
        dumps({"awslogs": {"data": base64.b64encode(gzip.compress(dumps({"log": LINE}).encode(), mtime=0)).decode()}}),
        f"rank0 {base64.b64encode(gzip.compress(LINE.encode(), mtime=0)).decode()}",
        dumps({"data": base64.urlsafe_b64encode((LINE + " ?>?>~~").encode()).decode().rstrip("=")}),
    ],
    ids=lambda line: line[:40],
)
def test_the_record_in_an_envelope_is_found(line: str) -> None:
    (record,) = records(line)
    wanted = {key: value for key, value in record.items() if key in RECORD}
    assert wanted == RECORD
    assert reasons(line) == []


def test_all_records_in_one_document_are_found_in_order() -> None:
    lines = [collective(sn=0), collective(sn=1), send()]
    hits = [{"_source": {"message": line}} for line in lines]
    assert records(dumps({"hits": {"hits": hits}})) == [json.loads(line) for line in lines]
    mixed = [{"event": json.loads(lines[0])}, {"message": lines[1]}, {"message": "driver loaded"}, {"x": lines[2]}]
    assert records(dumps({"events": mixed})) == [json.loads(line) for line in lines]
    glued = "".join(dumps({"log": line}) for line in lines)
    assert records(glued) == [json.loads(line) for line in lines]


def test_every_byte_of_a_document_belongs_to_one_of_its_records() -> None:
    line = dumps({"events": [{"message": collective(sn=number)} for number in range(7)]}).encode()
    fragments = list(decode_line(line))
    assert [fragments[0].start, fragments[-1].end] == [0, len(line)]
    assert all(earlier.end == later.start for earlier, later in pairwise(fragments))


def test_what_stands_in_an_envelope_and_is_no_record_is_said_in_words() -> None:
    assert reasons(dumps({"result": {"_raw": LINE[:200]}})) == [
        "record cut short or malformed, as text under `result._raw`"
    ]
    half = {"events": [{"message": LINE}, {"message": send()[:-5]}]}
    assert (records(dumps(half)), len(reasons(dumps(half)))) == ([RECORD], 1)
    assert "under `log`" in reasons(dumps({"log": 'coll_sn and "coll_perf": are keys'}))[0]


def test_a_record_that_stands_there_in_several_forms_is_one() -> None:
    assert records(dumps({"event": {"original": LINE}, "nccl": RECORD})) == [RECORD]
    shortened = dumps({"short_message": LINE[:80], "full_message": LINE})
    assert (records(shortened), reasons(shortened)) == ([RECORD], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (repr(RECORD), "Inspector's keys in single quotes (a Python dictionary), which is not JSON"),
        (LINE.replace('"', "%%"), "words of Inspector's, but no JSON object with them"),
        (LINE[:-30].replace('"', "&quot;"), "record cut short or malformed, as escaped text"),
        (quote(LINE[:-30]), "record cut short or malformed, as escaped text"),
    ],
)
def test_what_is_no_json_says_what_was_seen(line: str, reason: str) -> None:
    assert reasons(line) == [reason]


def test_a_header_of_another_name_is_named() -> None:
    renamed = {"labels": RECORD["header"], "coll_perf": RECORD["coll_perf"]}
    assert header_hint(renamed) == "; `labels` has the keys of a header and must be called `header`"
    assert header_hint({"labels": {"rank": 1}, "coll_perf": RECORD["coll_perf"]}) == ""


def test_codes_that_colour_a_terminal_hide_no_record() -> None:
    coloured = LINE.replace('"coll_perf"', '\x1b[31m"coll_perf"\x1b[0m')
    for line in (f"\x1b[2m21:00:00\x1b[0m \x1b[32mINFO\x1b[0m {coloured}", dumps({"log": coloured})):
        assert records(line) == [RECORD]
    data = f"\x1b[2m21:00:00\x1b[0m {coloured}{coloured}\x1b[m".encode()
    fragments = list(decode_line(data))
    assert [fragment.is_label for fragment in fragments] == [True, False, False]
    assert [data[fragment.start : fragment.end] for fragment in fragments] == [
        b"\x1b[2m21:00:00\x1b[0m ",
        coloured.encode(),
        coloured.encode() + b"\x1b[m",
    ]


def test_gzip_in_a_text_unfolds_no_further_than_a_log_would() -> None:
    bomb = base64.b64encode(gzip.compress(b'{"coll_perf":' + b" " * 1_000_000 + LINE.encode(), mtime=0)).decode()
    (reason,) = reasons(dumps({"data": bomb}))
    assert reason.endswith("as text under `data`")


def test_numbers_of_many_digits_keep_every_digit_in_an_envelope() -> None:
    line = dumps({"event": {**RECORD, "coll_perf": {**RECORD["coll_perf"], "coll_sn": 10**25 + 1}}})
    assert records(line)[0]["coll_perf"]["coll_sn"] == 10**25 + 1


_KEYS = st.text(alphabet="abcdef_@.- ", min_size=1, max_size=8)
_OTHERS = st.dictionaries(_KEYS, st.one_of(st.none(), st.integers(), st.text(max_size=10)), max_size=3)
_WRAPPERS: list[Callable[[Any, str, dict[str, Any]], Any]] = [
    lambda value, key, others: {**others, key: value},
    lambda value, key, others: {key: value, **{other: item for other, item in others.items() if other != key}},
    lambda value, key, others: [others, value],
    lambda value, key, others: {**others, key: value if isinstance(value, str) else dumps(value)},
]


@given(st.lists(st.tuples(st.sampled_from(_WRAPPERS), _KEYS, _OTHERS), min_size=1, max_size=5))
def test_however_a_record_is_wrapped_it_is_found_once(
    layers: list[tuple[Callable[[Any, str, dict[str, Any]], Any], str, dict[str, Any]]],
) -> None:
    value: Any = RECORD
    for wrap, key, others in layers:
        value = wrap(value, key, others)
    assert records(dumps(value)) == [RECORD]


@pytest.mark.parametrize(
    "line",
    [
        '{"a":' * 900 + dumps(LINE) + "}" * 900,
        "[" * 100_000,
        "{" * 300_000 + LINE,
        '{"log":"{\\"header\\":' * 20_000,
        '"' + "\\" * 200_000 + '{\\"coll_perf\\":',
        '""' * 100_000 + '{""coll_perf"":' * 10_000,
        dumps({"log": [{"coll_perf": "x"}] * 20_000}),
        "[0] " * 100_000 + dumps({"log": LINE}),
    ],
    ids=range(8),
)
def test_hostile_nesting_takes_no_longer_than_its_bytes(line: str) -> None:
    # Minutes to hours each, if every beginning were tried against all that follows.
    assert len(list(decode_line(line.encode()))) <= 20_001


def test_an_object_with_a_word_of_inspectors_is_no_record() -> None:
    assert as_record({"coll_perf": 5, "header": {}}) is None
    assert as_record({"coll_perf": "no json"}) is None
    assert as_record({"message": "coll_perf"}) is None
