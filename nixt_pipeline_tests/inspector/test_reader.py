import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from nixt_pipeline.inspector.decompression import compression_of
from nixt_pipeline.inspector.reader import Line, LogReader

TEXT = b'{"a":1}\n{"b":2}\n'


def read(path: Path, content: bytes, max_line_bytes: int = 1 << 20) -> tuple[list[Line], LogReader]:
    path.write_bytes(content)
    reader = LogReader(path, max_line_bytes, max_ratio=200)
    return list(reader), reader


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("bzip2", bz2.compress(TEXT)),
        ("xz", lzma.compress(TEXT)),
        ("zstd", bytes(pa.compress(TEXT, codec="zstd"))),
        ("zstd", b"\x50\x2a\x4d\x18\x02\0\0\0xx" + bytes(pa.compress(TEXT, codec="zstd"))),  # as pzstd writes it
        ("lz4", bytes(pa.compress(TEXT, codec="lz4"))),
    ],
)
def test_every_compression_is_told_by_its_first_bytes(tmp_path: Path, name: str, content: bytes) -> None:
    assert compression_of(content) == name
    lines, reader = read(tmp_path / "x.log", content)
    assert lines == [Line(0, 1, b'{"a":1}\n'), Line(8, 2, b'{"b":2}\n')]
    assert (reader.problem, reader.content_bytes) == (None, 16)


def test_copies_have_one_digest_whatever_their_compression(tmp_path: Path) -> None:
    _, plain = read(tmp_path / "a", TEXT)
    _, zipped = read(tmp_path / "b", gzip.compress(TEXT))
    _, other = read(tmp_path / "c", TEXT[:-1])
    assert plain.digest == zipped.digest != other.digest


def test_gzip_members_are_one_stream_and_padding_is_no_member(tmp_path: Path) -> None:
    lines, reader = read(tmp_path / "x", gzip.compress(b"a\nb") + gzip.compress(b"c\n") + b"\0" * 100)
    assert [line.data for line in lines] == [b"a\n", b"bc\n"]
    assert reader.problem is None


def test_a_truncated_gzip_gives_everything_before_the_cut(tmp_path: Path) -> None:
    whole = b"".join(b"line %d\n" % number for number in range(5000))
    packed = gzip.compress(whole)
    lines, reader = read(tmp_path / "x", packed[: len(packed) // 2])
    text = b"".join(line.data for line in lines)
    assert whole.startswith(text)
    assert len(text) > len(whole) // 4
    assert reader.problem == "truncated gzip"


def test_a_corrupt_gzip_gives_everything_before_the_damage(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 1  # the checksum: all content is intact
    lines, reader = read(tmp_path / "x", bytes(packed))
    assert b"".join(line.data for line in lines) == TEXT
    assert reader.problem is not None
    assert reader.problem.startswith("corrupt gzip")


def test_data_after_a_gzip_member_is_reported(tmp_path: Path) -> None:
    lines, reader = read(tmp_path / "x", gzip.compress(TEXT) + b"plain text\n")
    assert [line.data for line in lines[2:]] == [b"plain text\n"]
    assert reader.problem == "gzip followed by other data"


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_stream_does_not_cost_those_after_it(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    damaged = bytearray(compress(b"first\n" * 1000))
    damaged[len(damaged) // 2] ^= 0xFF
    lines, reader = read(tmp_path / "x", bytes(damaged) + compress(TEXT))
    assert b"".join(line.data for line in lines).endswith(TEXT)
    assert reader.problem is not None
    assert reader.problem.startswith("corrupt")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_zeros_after_a_stream_are_no_damage(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    lines, reader = read(tmp_path / "x", compress(TEXT) + b"\0" * 5000)
    assert (len(lines), reader.problem) == (2, None)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_other_data_after_a_frame_does_not_cost_the_frame(tmp_path: Path, codec: str) -> None:
    lines, reader = read(tmp_path / "x", bytes(pa.compress(TEXT, codec=codec)) + b"something else\n")
    assert (len(lines), reader.content_bytes) == (2, 16)
    assert reader.problem is not None


def test_a_truncated_zstd_gives_every_block_before_the_cut(tmp_path: Path) -> None:
    # A block holds at most 128 KiB; the numbers make lines that do not compress to nothing.
    whole = b"".join(b"%d\n" % (number * number) for number in range(30_000))
    packed = bytes(pa.compress(whole, codec="zstd"))
    lines, _ = read(tmp_path / "x", packed[:-5])
    text = b"".join(line.data for line in lines)
    assert whole.startswith(text)
    assert len(whole) - len(text) <= 128 << 10


def test_a_hostile_xz_gets_no_more_memory_than_an_honest_one_needs(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    demanding = lzma.compress(TEXT, filters=filters)
    lines, reader = read(tmp_path / "x", demanding)
    assert (lines, reader.problem) == ([], "corrupt xz: Memory usage limit exceeded")


@pytest.mark.parametrize(("name", "compress"), [("bzip2", bz2.compress), ("xz", lzma.compress)])
def test_other_truncated_streams_are_reported(tmp_path: Path, name: str, compress: object) -> None:
    assert callable(compress)
    _, reader = read(tmp_path / "x", compress(TEXT * 100)[:-10])
    assert reader.problem == f"truncated {name}"


@pytest.mark.parametrize(
    ("content", "mark_bytes"),
    [
        (b"\xef\xbb\xbf" + TEXT, 3),
        (TEXT.decode().encode("utf-16"), 3),
        (TEXT.decode().encode("utf-16-le"), 0),
        (TEXT.decode().encode("utf-16-be"), 0),
        (TEXT.decode().encode("utf-32"), 3),
        (TEXT.decode().encode("utf-32-le"), 0),
    ],
)
def test_other_encodings_come_out_as_utf8(tmp_path: Path, content: bytes, mark_bytes: int) -> None:
    lines, reader = read(tmp_path / "x", content)
    assert b"".join(line.data for line in lines) == TEXT
    assert lines[0].offset == mark_bytes
    assert (reader.blank_bytes, reader.content_bytes) == (mark_bytes, mark_bytes + len(TEXT))


def test_a_zero_byte_before_a_record_does_not_make_a_file_utf16(tmp_path: Path) -> None:
    assert read(tmp_path / "x", b"\0" + TEXT)[0][0] == Line(0, 1, b'\0{"a":1}\n')


def test_the_last_line_may_lack_its_end_and_a_file_may_be_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "x", b"a\nb")[0] == [Line(0, 1, b"a\n"), Line(2, 2, b"b")]
    assert read(tmp_path / "y", b"")[0] == []


def test_lines_across_chunks_keep_their_offsets(tmp_path: Path) -> None:
    first, second = b"x" * (1 << 20) + b"\n", b"y\n"
    lines, _ = read(tmp_path / "x", first + second, max_line_bytes=1 << 22)
    assert [(line.offset, line.number, len(line.data)) for line in lines] == [(0, 1, len(first)), (len(first), 2, 2)]


def test_an_endless_line_comes_in_pieces_cut_between_records(tmp_path: Path) -> None:
    for between in (b"", b"\r", b", "):
        record = b'{"header":1}' + between
        lines, _ = read(tmp_path / "x", record * 10, max_line_bytes=50)
        assert b"".join(line.data for line in lines) == record * 10
        assert {len(line.data) % len(record) for line in lines} == {0}
        assert max(len(line.data) for line in lines) <= 50


def test_a_bomb_is_read_no_further_than_the_limit(tmp_path: Path) -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    (tmp_path / "x").write_bytes(bomb)
    reader = LogReader(tmp_path / "x", 1 << 20, max_ratio=2)
    assert sum(len(line.data) for line in reader) <= 2 * (4 << 20)
    assert reader.problem == "decompresses to more than 2 times its size; the rest was not read"
