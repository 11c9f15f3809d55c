"""Records that a container runtime cut into pieces."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nixt_pipeline.inspector.file_summary import FileSummary
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.inspector.examples import decode
from nixt_pipeline_tests.records import collective

LINES = [collective(sn=number) for number in range(3)]


def cri(line: str, size: int, stream: str = "stdout") -> list[str]:
    pieces = [line[start : start + size] for start in range(0, len(line), size)]
    tags = ["P"] * (len(pieces) - 1) + ["F"]
    return [f"2025-08-30T21:00:00.1Z {stream} {tag} {piece}" for tag, piece in zip(tags, pieces, strict=True)]


def docker(line: str, size: int, stream: str = "stdout", key: str = "log") -> list[str]:
    text = line + "\n"
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return [json.dumps({key: piece, "stream": stream, "time": "2025-08-30T21:00:00Z"}) for piece in pieces]


def read(tmp_path: Path, settings: Settings, lines: list[str]) -> FileSummary:
    path = tmp_path / "a-pid1.log"
    path.write_text("\n".join(lines) + "\n")
    summary, _ = decode(path, settings)
    parts = (summary.bytes_stored, summary.bytes_rejected, summary.bytes_foreign, summary.bytes_blank)
    assert summary.bytes_read == sum(parts) == path.stat().st_size
    return summary


@pytest.mark.parametrize("size", [60, 100, 333])
def test_pieces_become_one_record_again(tmp_path: Path, settings: Settings, size: int) -> None:
    for cut in (cri, docker):
        summary = read(tmp_path, settings, [piece for line in LINES for piece in cut(line, size)])
        assert (summary.records_collective, summary.lines_rejected, summary.stateful) == (3, 0, True)


@pytest.mark.parametrize("prefix", ["2025-08-30T21:00:00Z\tnccl.rank0\t{}", "[0] nccl: [[1756587600.1, {{}}], {}]"])
def test_pieces_behind_a_prefix_become_one_record_again(tmp_path: Path, settings: Settings, prefix: str) -> None:
    lines = [prefix.format(piece) for line in LINES for piece in docker(line, 150)]
    summary = read(tmp_path, settings, lines)
    assert (summary.records_collective, summary.lines_rejected) == (3, 0)


def test_streams_that_take_turns_are_kept_apart(tmp_path: Path, settings: Settings) -> None:
    for cut in (cri, docker):
        first, second = cut(LINES[0], 200), cut(LINES[1], 200, "stderr")
        assert len(first) == len(second)
        turns = [piece for pair in zip(first, second, strict=True) for piece in pair]
        assert read(tmp_path, settings, turns).records_collective == 2


def test_a_missing_piece_costs_its_record_only(tmp_path: Path, settings: Settings) -> None:
    summary = read(tmp_path, settings, [*docker(LINES[0], 200)[:1], *docker(LINES[1], 200), *docker(LINES[2], 10**6)])
    assert (summary.records_collective, summary.lines_rejected) == (2, 1)
    summary = read(tmp_path, settings, [*cri(LINES[1], 200), *cri(LINES[0], 200)[:1]])
    assert (summary.records_collective, summary.lines_rejected) == (1, 1)


def test_pieces_without_end_are_given_up(tmp_path: Path, settings: Settings) -> None:
    lines = [json.dumps({"log": '{"header":' if number == 0 else "x}"}) for number in range(300)]
    summary = read(tmp_path, settings, [*lines, LINES[0]])
    assert summary.records_collective == 1


_DOCUMENT = json.dumps({"events": [{"message": LINES[0]}, {"message": LINES[1][:99]}, {"x": 1}]})
_ANY_LINES = [
    LINES[0],
    *docker(LINES[1], 150)[:2],
    *cri(LINES[2], 150)[1:],
    cri(LINES[2], 150)[0],
    _DOCUMENT,
    json.dumps({"log": 5}),
    "prefix " + LINES[0],
    "{",
    "",
    "x",
]


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.sampled_from(_ANY_LINES), max_size=12))
def test_every_byte_has_one_place_whatever_is_missing(tmp_path: Path, settings: Settings, lines: list[str]) -> None:
    whole = sum(line in (LINES[0], "prefix " + LINES[0], _DOCUMENT) for line in lines)
    assert read(tmp_path, settings, lines).records_collective >= whole
