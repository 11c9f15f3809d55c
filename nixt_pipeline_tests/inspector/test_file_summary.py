"""A file decoded in slices must give what it gives in one piece."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from nixt_pipeline.inspector.decompression import WHOLE, Span
from nixt_pipeline.inspector.file_summary import FileSummary, merge, settle
from nixt_pipeline.inspector.log_file import decode_file
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.inspector.examples import Collected
from nixt_pipeline_tests.records import EPOCH_US, collective, marker, send

LINES = (
    *(collective(sn=n, at_us=EPOCH_US + n) for n in range(4)),
    "",
    collective()[:100],
    "==> other.log <==",
    send(sn=1),
    send(sn=2),
    "noise",
    collective(sn=9) + collective(sn=10),
)
TEXT = "\n".join(LINES).encode()


def decode(
    path: Path, settings: Settings, spans: list[Span], by_template: bool = False
) -> tuple[FileSummary, list[int | None]]:
    sink = Collected()
    pieces = [decode_file(path, "x", 0, sink, settings, span=span, by_template=by_template) for span in spans]
    # Workers hand their summaries on as JSON.
    adapter = TypeAdapter(FileSummary)
    pieces = [adapter.validate_json(adapter.dump_json(piece)) for piece in pieces]
    return settle(merge(pieces)), sorted(sink.sequence_numbers, key=str)


def spans(cuts: list[int]) -> list[Span]:
    edges = [0, *sorted(cuts)]
    return [*(Span(start, end) for start, end in pairwise(edges)), Span(edges[-1], None)]


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(st.lists(st.integers(1, len(TEXT) + 5), max_size=4, unique=True), st.booleans())
def test_slices_add_up_to_the_whole(tmp_path: Path, settings: Settings, cuts: list[int], by_template: bool) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(TEXT)
    whole, records = decode(path, settings, [WHOLE])
    sliced, sliced_records = decode(path, settings, spans(cuts), by_template)
    assert sliced_records == records
    unlike: dict[str, Any] = {"content_digest": None, "counters": {}, "may_repeat": False}
    assert replace(sliced, **unlike) == replace(whole, **unlike)


def test_a_slice_of_noise_belongs_to_its_file(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "x.log"
    path.write_text(collective() + "\n" + "noise\n" * 10)
    summary, _ = decode(path, settings, spans([len(collective()) + 1]))
    assert (summary.status, summary.lines_rejected, summary.lines) == ("read", 10, 11)


def test_a_number_that_falls_from_one_slice_to_the_next_is_noticed(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "x.log"
    first = "".join(collective(sn=n) + "\n" for n in (1, 2))
    for later, may_repeat in (((3, 4), False), ((2, 3), True), ((1, 5), True)):
        path.write_text(first + "".join(collective(sn=n) + "\n" for n in later))
        assert decode(path, settings, spans([len(first)]))[0].may_repeat is may_repeat
    path.write_text(first + send(sn=1) + "\n" + collective(sn=2) + "\n")
    cuts = [len(first), len(first) + len(send(sn=1)) + 1]
    assert decode(path, settings, spans(cuts))[0].may_repeat is True


def test_a_stream_with_markers_says_that_it_must_not_be_sliced(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "x.log"
    bare = '{"coll_perf":{"coll":"AllReduce","coll_sn":1}}'
    path.write_text(marker(2) + "\n" + bare + "\n" + bare + "\n")
    assert decode(path, settings, [WHOLE])[0].stateful
    path.write_text(collective() + "\n")
    assert not decode(path, settings, [WHOLE])[0].stateful
