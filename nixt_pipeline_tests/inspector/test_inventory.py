import bz2
import gzip
import json
import lzma
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nixt_pipeline.inspector.inventory import INVENTORY, Inventory, grew, take_inventory
from nixt_pipeline.inspector.opening import open_regular
from nixt_pipeline.settings import load_settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log


def listed(directory: Path, **settings: Any) -> Inventory:
    """The inventory of a directory from which links may lead anywhere unless `settings` say otherwise."""
    return take_inventory(directory, "r", load_settings(**{"follow_links": "anywhere"} | settings))


def test_a_log_is_described_without_being_read_through(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "n1" / "gpu-01.cluster-pid42.log",
        collective(at_us=EPOCH_US),
        "x" * 200_000,
        collective(at_us=EPOCH_US + 9),
    )
    (file,) = listed(tmp_path).files
    assert (file.path, file.size_bytes) == ("n1/gpu-01.cluster-pid42.log", path.stat().st_size)
    assert (file.hostname, file.pid, file.compression) == ("gpu-01.cluster", 42, "none")
    assert (file.first_dump_us, file.last_dump_us) == (EPOCH_US, EPOCH_US + 9)


def test_names_of_forks_and_compressed_files_tell_host_and_pid(tmp_path: Path) -> None:
    (tmp_path / "h-pid7-1756587600.log").write_text(collective())
    (tmp_path / "h-pid8.log.gz").write_bytes(gzip.compress(collective().encode()))
    (tmp_path / "merged.log").write_text(collective())
    found = {file.path: (file.pid, file.compression, file.first_dump_us) for file in listed(tmp_path).files}
    assert found == {
        "h-pid7-1756587600.log": (7, "none", EPOCH_US),
        "h-pid8.log.gz": (8, "gzip", EPOCH_US),
        "merged.log": (None, "none", EPOCH_US),
    }


def test_sidecars_and_markers_are_no_files_of_the_run_and_binaries_are_foreign(tmp_path: Path) -> None:
    for name in ("run.json", "_SUCCESS", "model.pt", "a.log"):
        (tmp_path / name).touch()
    assert [(file.path, file.foreign) for file in listed(tmp_path).files] == [
        ("a.log", None),
        ("model.pt", "no log by its name (.pt)"),
    ]


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(9), "a core dump or a program"),
        (gzip.compress(b"\x7fELF\x02\x01\x01" + bytes(9), mtime=0), "a core dump or a program"),
        (pickle.dumps({"step": 1}), "a pickle"),
        (pickle.dumps(["a", "b"], protocol=2), "a pickle"),
        ((64).to_bytes(8, "little") + b'{"weight":{"dtype":"F32"}}', "safetensors"),
        # The size of an event, a checksum, field 1 (wall_time) as a double.
        ((24).to_bytes(8, "little") + b"\xa3\x7f\x4b\x22" + b"\x09" + bytes(8), "TensorBoard events"),
        (b"PAR1\x15\x04", "Parquet"),
    ],
)
def test_what_is_no_log_by_its_content_is_not_read_whatever_its_name(
    tmp_path: Path, beginning: bytes, kind: str
) -> None:
    (tmp_path / "node-01-pid7.log").write_bytes(beginning + b"\n" + collective().encode())
    (file,) = listed(tmp_path).files
    assert file.foreign == f"no log by its content ({kind})"
    assert not file.is_log


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_log_is_no_foreign_content_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "node-01-pid7.log").write_bytes(collective().encode(encoding))
    (file,) = listed(tmp_path).files
    assert file.is_log


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".node-01-pid1.log.Xa3f9Q", "a hidden file, as rsync writes while it copies"),
        (".rsync-partial/node-01-pid1.log", "in the hidden folder .rsync-partial"),
        ("n1/.cache/x", "in the hidden folder .cache"),
        (".hidden.log", "a hidden file"),
        (".node-01-pid1.log.swp", "an editor's swap file"),
        ("node-01-pid1.log~", "an editor's copy"),
        ("node-01-pid1.log.part", "an unfinished copy"),
        (".nfs000000000a1b2c3d00000004", None),
        ("node-01-pid1.log", None),
    ],
)
def test_leftovers_are_listed_with_the_reason_why_they_are_not_read(
    tmp_path: Path, path: str, reason: str | None
) -> None:
    write_log(tmp_path / path, collective(host="node-07", pid=7))
    (file,) = listed(tmp_path).files
    assert (file.path, file.ignored, file.is_log) == (path, reason, reason is None)
    if reason:
        assert (file.hostname, file.pid) == ("node-07", 7)


def test_of_a_folder_of_snapshots_only_the_folder_is_named(tmp_path: Path) -> None:
    write_log(tmp_path / ".snapshot" / "hourly" / "node-01-pid1.log", collective())
    assert [(file.path, file.is_log) for file in listed(tmp_path).files] == [(".snapshot", False)]


def archived(directory: Path, name: str, mode: str) -> None:
    log = write_log(directory.parent / "node-01-pid1.log", collective())
    if mode == "zip":
        with zipfile.ZipFile(directory / name, "w") as target:
            target.write(log, "logs/node-01-pid1.log")
        return
    plain = directory.parent / "plain.tar"
    with tarfile.open(plain, "w") as target:
        target.add(log, "logs/node-01-pid1.log")
    pack: dict[str, Callable[[bytes], bytes]] = {
        "tar": bytes,
        "gzip": gzip.compress,
        "bzip2": bz2.compress,
        "xz": lzma.compress,
        "zstd": lambda text: bytes(pa.compress(text, codec="zstd", asbytes=True)),
    }
    (directory / name).write_bytes(pack[mode](plain.read_bytes()))


@pytest.mark.parametrize(
    ("name", "mode", "kind"),
    [
        ("a.tar", "tar", "tar"),
        ("a.tgz", "gzip", "tar, gzip"),
        ("a.tar.gz", "gzip", "tar, gzip"),
        ("a.tar.bz2", "bzip2", "tar, bzip2"),
        ("a.tar.xz", "xz", "tar, xz"),
        ("a.tar.zst", "zstd", "tar, zstd"),
        ("a.zip", "zip", "zip"),
        ("node-01-pid1.log", "gzip", "tar, gzip"),  # whatever the name says
    ],
)
def test_an_archive_is_left_alone_with_a_reason_whatever_its_kind(
    tmp_path: Path, name: str, mode: str, kind: str
) -> None:
    (tmp_path / "in").mkdir()
    archived(tmp_path / "in", name, mode)
    (file,) = listed(tmp_path / "in").files
    assert file.ignored == f"an archive ({kind}): unpack it to have the logs in it read"


def test_a_compressed_log_is_no_archive_even_if_its_name_says_so(tmp_path: Path) -> None:
    (tmp_path / "h-pid8.tar.gz").write_bytes(gzip.compress(collective().encode()))
    (file,) = listed(tmp_path).files
    assert file.is_log


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lzma.compress(collective().encode(), lzma.FORMAT_ALONE), "compressed with lzma, which is not read: unpack it"),
        (b"LZIP\x01\x0c" + bytes(20), "compressed with lzip, which is not read: unpack it"),
        (gzip.compress(gzip.compress(collective().encode())), "compressed twice (gzip within gzip): unpack it once"),
        (bz2.compress(lzma.compress(collective().encode())), "compressed twice (xz within bzip2): unpack it once"),
    ],
)
def test_what_is_compressed_in_a_way_that_is_not_read_says_so(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "h-pid8.log").write_bytes(content)
    (file,) = listed(tmp_path).files
    assert (file.ignored or "").startswith(reason)


@pytest.mark.parametrize("content", [bytes(64), f"]{collective()}".encode("utf-32-le"), collective().encode("utf-16")])
def test_zeros_are_no_sign_of_a_compression(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "h-pid8.log").write_bytes(content)
    (file,) = listed(tmp_path).files
    assert file.ignored is None


def test_files_that_block_or_never_end_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("/proc/self/status")
    with (tmp_path / "b.log").open("wb") as file:
        file.truncate(8 << 40)
    os.mkfifo(tmp_path / "c.log")
    problems = {file.path: file.unreadable for file in listed(tmp_path).files}
    assert problems["a.log"] == "a view of the kernel, not a file"
    assert str(problems["b.log"]).startswith("sparse: 8,796,093,022,208 of its 8,796,093,022,208 bytes are holes")
    assert problems["c.log"] == "not a regular file"
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "c.log")


def test_a_link_out_of_the_directory_is_named_and_not_followed(tmp_path: Path) -> None:
    write_log(tmp_path / "other" / "b-pid1.log", collective())
    write_log(tmp_path / "run" / "a-pid1.log", collective())
    (tmp_path / "run" / "file-pid2.log").symlink_to(tmp_path / "other" / "b-pid1.log")
    (tmp_path / "run" / "folder").symlink_to(tmp_path / "other")
    (tmp_path / "run" / "inside-pid3.log").symlink_to("a-pid1.log")
    files = listed(tmp_path / "run", follow_links="within").files
    assert {file.path: file.is_log for file in files} == {
        "a-pid1.log": True,
        "file-pid2.log": False,
        "folder": False,
        "inside-pid3.log": True,
    }
    assert {file.unreadable for file in files if not file.is_log} == {
        "a link out of the directory; it is followed with NIXT_FOLLOW_LINKS=anywhere"
    }


def test_the_fingerprint_follows_content_and_the_inventory_survives_json(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a-pid1.log", collective())
    before = listed(tmp_path)
    assert INVENTORY.validate_json(INVENTORY.dump_json(before)) == before
    stamp = path.stat()
    path.write_text(collective(sn=1) + "\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert listed(tmp_path).fingerprint != before.fingerprint


def test_links_in_circles_end(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "a-pid1.log", collective())
    (tmp_path / "run" / "loop").symlink_to(tmp_path / "run")
    assert [file.path for file in listed(tmp_path / "run").files] == ["a-pid1.log"]


def test_a_link_out_to_a_directory_that_holds_this_one_is_not_followed(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "a-pid1.log", collective())
    write_log(tmp_path / "other-run" / "b-pid1.log", collective())
    (tmp_path / "run" / "up").symlink_to("..")
    (tmp_path / "run" / "everything").symlink_to("/")
    assert [file.path for file in listed(tmp_path / "run").files] == ["a-pid1.log"]


def test_the_store_is_no_input_when_it_lies_among_the_logs(tmp_path: Path) -> None:
    write_log(tmp_path / "a-pid1.log", collective())
    write_log(tmp_path / "data" / "store" / "manifest.json", "{}")
    files = listed(tmp_path, data_dir=tmp_path / "data").files
    assert [file.path for file in files] == ["a-pid1.log"]


def test_a_name_that_is_not_utf8_is_shown_and_found_again(tmp_path: Path) -> None:
    name = os.fsdecode(b"h\xff-pid1.log")
    write_log(tmp_path / name, collective())
    inventory = listed(tmp_path)
    (file,) = INVENTORY.validate_json(INVENTORY.dump_json(inventory)).files
    assert (file.path, file.hostname, file.location) == (r"h\xff-pid1.log", r"h\xff", name)


def test_a_time_beyond_64_bits_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text('"dump_timestamp_us":9999999999999999999')
    (file,) = listed(tmp_path).files
    assert (file.first_dump_us, file.last_dump_us) == (None, None)


def test_an_end_within_an_object_is_none_to_go_on_from(tmp_path: Path) -> None:
    pretty = json.dumps(json.loads(collective()), indent=2) + "\n"
    for text, goes_on in ((collective() + "\n", True), (pretty, False), (pretty[:-2], False)):
        (tmp_path / "a-pid1.log").write_text(text)
        (file,) = listed(tmp_path).files
        assert grew(tmp_path / "a-pid1.log", file.size_bytes, file.fingerprint) == goes_on
