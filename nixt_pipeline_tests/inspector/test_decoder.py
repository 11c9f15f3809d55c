import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nixt_pipeline.inspector.decoder import Fragment, decode_line, has_inspector_vocabulary, is_foreign_line
from nixt_pipeline_tests.records import collective

GOOD = collective().encode()
# Blanks, and what stands between the elements of an array.
BLANK = b" \t\r\n\v\f,[]"


def values(data: bytes) -> list[object]:
    return [fragment.value for fragment in decode_line(data)]


def test_one_object_is_one_fragment() -> None:
    (fragment,) = decode_line(b'{"header":{"id":"0x1"}}')
    assert fragment == Fragment(0, 23, {"header": {"id": "0x1"}})


def test_glued_objects_come_apart() -> None:
    fragments = list(decode_line(GOOD + GOOD + b"  " + GOOD))
    assert all(fragment.value for fragment in fragments)
    assert [fragment.start for fragment in fragments] == [0, len(GOOD), 2 * len(GOOD) + 2]


def test_a_torn_line_glued_to_a_good_one_costs_only_itself() -> None:
    torn = GOOD[:100]
    bad, good = decode_line(torn + GOOD)
    assert (bad.start, bad.end, bad.value, bad.reason) == (0, 100, None, "record cut short or malformed")
    assert good.start == 100
    assert good.value is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"2025-08-30T21:00:00Z node-01 [rank0]: ", b""),
        (b'2025-08-30\t{job="nccl"}\t', b""),
        (b"<msg><![CDATA[", b"]]></msg>"),
        (b"- msg: '", b"' [trailing]"),
    ],
)
def test_text_beside_a_whole_record_is_a_label(before: bytes, after: bytes) -> None:
    fragments = list(decode_line(before + GOOD + after))
    assert [fragment.is_label for fragment in fragments] == [True, False, True][: len(fragments)]
    assert sum(fragment.end - fragment.start for fragment in fragments) == len(before + GOOD + after)


def test_no_end_of_a_torn_record_is_a_label() -> None:
    for cut in range(1, len(GOOD)):
        for line in (GOOD[:cut] + GOOD, GOOD[cut:] + GOOD, b"node-01: " + GOOD[:cut]):
            assert not any(fragment.is_label for fragment in decode_line(line)), line


def test_many_torn_records_in_one_line_take_no_longer_than_their_bytes() -> None:
    # An hour each, if every beginning looked for its end in all that follows.
    assert values(b'{"header":' * 20_000 + GOOD)[-1] is not None
    assert sum(value is not None for value in values((GOOD[:200] + GOOD) * 500)) == 500
    assert values(b'{"header":' + b"nan(" * 500_000 + GOOD)[-1] is not None
    assert values(b'{"header":{"nan":"' + b'\\"' * 500_000) == [None]


@pytest.mark.parametrize(
    ("before", "between", "after", "others"),
    [
        (b"[", b",", b"]", 0),
        (b"[ ", b" , ", b" ]", 0),
        (b'{"records":[', b",", b"]}", 2),  # the wrapping is no record: what stands before and after
    ],
)
def test_records_in_an_array_are_records(before: bytes, between: bytes, after: bytes, others: int) -> None:
    found = values(before + GOOD + between + GOOD + after)
    assert [value is not None for value in found].count(True) == 2
    assert found.count(None) == others


@pytest.mark.parametrize("key", ["log", "MESSAGE", "message"])
def test_a_line_that_a_log_collector_wrapped_is_its_record(key: str) -> None:
    line = json.dumps({key: GOOD.decode() + "\n", "stream": "stdout"}).encode()
    assert list(decode_line(line)) == [Fragment(0, len(line), json.loads(GOOD))]


def test_keys_in_another_order_cost_no_record() -> None:
    record = json.loads(GOOD)
    line = json.dumps({key: record[key] for key in ("metadata", "header", "coll_perf")}).encode()
    assert [value is not None for value in values(line + line)] == [True, True]
    fork_first = b'{"job":1e30,' + line[1:]
    assert [value is not None for value in values(fork_first)] == [True]


def test_a_good_line_followed_by_a_torn_one_is_kept() -> None:
    good, bad = decode_line(GOOD + GOOD[:50])
    assert good.value is not None
    assert (bad.start, bad.value) == (len(GOOD), None)


@pytest.mark.parametrize("token", ["inf", "-inf", "nan", "-nan", "Infinity", "NaN", "-nan(0x8)", "1e400"])
def test_spellings_of_c_for_numbers_that_json_lacks(token: str) -> None:
    (value,) = values(b'{"header":{"x":' + token.encode() + b',"name":"inf nan"}}')
    assert isinstance(value, dict)
    assert not math.isfinite(value["header"]["x"])
    assert value["header"]["name"] == "inf nan"


def test_integers_beyond_64_bits_keep_every_digit() -> None:
    (value,) = values(b'{"coll_perf":{"coll_sn":123456789012345678901234567890}}')
    assert value == {"coll_perf": {"coll_sn": 123456789012345678901234567890}}


def test_a_number_beyond_64_bits_outside_a_record_does_not_break_the_line() -> None:
    (fragment,) = decode_line(b'{"x":{"y":1e300}}')
    assert fragment.value is None or fragment.value == {"x": {"y": 1e300}}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[1, 2]", "not a JSON object"),
        (b"hello", "not JSON"),
        (b"\0\0\0", "zero bytes (a file extended by a crash)"),
        (b'gpu","coll_busbw_gbs":1.5}}', "starts in the middle of a record"),
        (b'{"header":{"id":', "record cut short or malformed"),
    ],
)
def test_the_reason_says_what_is_wrong(data: bytes, reason: str) -> None:
    (fragment,) = decode_line(data)
    assert (fragment.value, fragment.reason) == (None, reason)


@pytest.mark.parametrize("lost", [b"", b"\0" * 5000])
def test_where_the_middle_was_lost_two_halves_are_no_record(lost: bytes) -> None:
    first = b'{"header":{"id":"0x1"},"metadata":{"pid":1},"coll_perf":{"coll_sn":5,"coll_exec_t'
    second = b'ime_us":4},"metadata":{"pid":1},"coll_perf":{"coll_sn":30}}'
    (fragment,) = decode_line(first + lost + second)
    assert (fragment.value, fragment.reason) == (None, "record cut short or malformed")


def test_deep_nesting_is_rejected_not_fatal() -> None:
    (fragment,) = decode_line(b'{"header":' + b"[" * 100_000)
    assert fragment.value is None


def test_vocabulary_and_separators() -> None:
    assert has_inspector_vocabulary(b'xx"coll_perf": {')
    assert not has_inspector_vocabulary(b'nccl_bus_bandwidth_gbs{coll_sn="1"} 5')
    assert is_foreign_line(b"==> /a/b.log <==")
    assert not is_foreign_line(b"==> half")


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_are_lost_or_counted_twice(before: bytes, after: bytes) -> None:
    data = (before + GOOD + after).replace(b"\n", b" ").strip()
    position = 0
    for fragment in decode_line(data):
        assert fragment.start >= position
        assert data[position : fragment.start].strip(BLANK) == b""
        position = fragment.end
    assert data[position:].strip(BLANK) == b""


@given(st.text(alphabet=st.characters(blacklist_characters='{}"\\\n', max_codepoint=255), max_size=40))
def test_text_around_a_record_never_costs_the_record(text: str) -> None:
    noise = text.encode("utf-8")
    assert sum(value is not None for value in values((noise + GOOD + noise).strip())) == 1
