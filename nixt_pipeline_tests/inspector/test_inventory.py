import gzip
import json
import os
from pathlib import Path

from nixt_pipeline.inspector.inventory import Inventory, grew, take_inventory
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log


def test_a_log_is_described_without_being_read_through(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "n1" / "gpu-01.cluster-pid42.log",
        collective(at_us=EPOCH_US),
        "x" * 200_000,
        collective(at_us=EPOCH_US + 9),
    )
    (file,) = take_inventory(tmp_path, "run", (), 100).files
    assert (file.path, file.size_bytes) == ("n1/gpu-01.cluster-pid42.log", path.stat().st_size)
    assert (file.hostname, file.pid, file.compression) == ("gpu-01.cluster", 42, "none")
    assert (file.first_dump_us, file.last_dump_us) == (EPOCH_US, EPOCH_US + 9)


def test_names_of_forks_and_compressed_files_tell_host_and_pid(tmp_path: Path) -> None:
    (tmp_path / "h-pid7-1756587600.log").write_text(collective())
    (tmp_path / "h-pid8.log.gz").write_bytes(gzip.compress(collective().encode()))
    (tmp_path / "merged.log").write_text(collective())
    found = {
        file.path: (file.pid, file.compression, file.first_dump_us)
        for file in take_inventory(tmp_path, "r", (), 100).files
    }
    assert found == {
        "h-pid7-1756587600.log": (7, "none", EPOCH_US),
        "h-pid8.log.gz": (8, "gzip", EPOCH_US),
        "merged.log": (None, "none", EPOCH_US),
    }


def test_sidecars_markers_and_hidden_files_are_no_logs_and_binaries_are_foreign(tmp_path: Path) -> None:
    for name in ("run.json", "_SUCCESS", ".hidden.log", "model.pt", "a.log"):
        (tmp_path / name).touch()
    assert [(file.path, file.foreign) for file in take_inventory(tmp_path, "r", ("_SUCCESS",), 100).files] == [
        ("a.log", False),
        ("model.pt", True),
    ]


def test_the_fingerprint_follows_content_and_the_inventory_survives_json(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a-pid1.log", collective())
    before = take_inventory(tmp_path, "r", (), 100)
    assert Inventory.from_json(before.to_json()) == before
    stamp = path.stat()
    path.write_text(collective(sn=1) + "\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert take_inventory(tmp_path, "r", (), 100).fingerprint != before.fingerprint


def test_links_in_circles_end(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "a-pid1.log", collective())
    (tmp_path / "run" / "loop").symlink_to(tmp_path / "run")
    assert [file.path for file in take_inventory(tmp_path / "run", "r", (), 100).files] == ["a-pid1.log"]


def test_a_link_out_to_a_directory_that_holds_this_one_is_not_followed(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "a-pid1.log", collective())
    write_log(tmp_path / "other-run" / "b-pid1.log", collective())
    (tmp_path / "run" / "up").symlink_to("..")
    (tmp_path / "run" / "everything").symlink_to("/")
    assert [file.path for file in take_inventory(tmp_path / "run", "r", (), 100).files] == ["a-pid1.log"]


def test_the_store_is_no_input_when_it_lies_among_the_logs(tmp_path: Path) -> None:
    write_log(tmp_path / "a-pid1.log", collective())
    write_log(tmp_path / "data" / "store" / "manifest.json", "{}")
    files = take_inventory(tmp_path, "r", (), 100, left_out=(tmp_path / "data", tmp_path / "reports")).files
    assert [file.path for file in files] == ["a-pid1.log"]


def test_a_name_that_is_not_utf8_is_shown_and_found_again(tmp_path: Path) -> None:
    name = os.fsdecode(b"h\xff-pid1.log")
    write_log(tmp_path / name, collective())
    inventory = take_inventory(tmp_path, "r", (), 100)
    (file,) = Inventory.from_json(inventory.to_json()).files
    assert (file.path, file.hostname, file.location) == (r"h\xff-pid1.log", r"h\xff", name)


def test_a_time_beyond_64_bits_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text('"dump_timestamp_us":9999999999999999999')
    (file,) = take_inventory(tmp_path, "r", (), 100).files
    assert (file.first_dump_us, file.last_dump_us) == (None, None)


def test_an_end_within_an_object_is_none_to_go_on_from(tmp_path: Path) -> None:
    pretty = json.dumps(json.loads(collective()), indent=2) + "\n"
    for text, goes_on in ((collective() + "\n", True), (pretty, False), (pretty[:-2], False)):
        (tmp_path / "a-pid1.log").write_text(text)
        (file,) = take_inventory(tmp_path, "r", (), 100).files
        assert grew(tmp_path / "a-pid1.log", file.size_bytes, file.fingerprint) == goes_on
