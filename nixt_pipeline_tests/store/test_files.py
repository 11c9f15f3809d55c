import os
import socket
from pathlib import Path

from nixt_pipeline.store.files import temporary_path

NO_PROCESS = 2**22 + 1  # beyond the largest process id of Linux


def test_what_killed_processes_left_goes_and_what_others_write_stays(tmp_path: Path) -> None:
    mine, elsewhere = f".tmp-{socket.gethostname()}-", ".tmp-another-machine-"
    for name in ("catalog.duckdb", "catalog.duckdb.wal"):
        (tmp_path / f"{mine}{NO_PROCESS}-{name}").touch()
    kept = {
        f"{mine}{os.getpid()}-catalog.duckdb",
        f"{elsewhere}{NO_PROCESS}-catalog.duckdb",
        f"{mine}{NO_PROCESS}-other",
    }
    for name in kept:
        (tmp_path / name).touch()
    assert temporary_path(tmp_path / "catalog.duckdb").name == f"{mine}{os.getpid()}-catalog.duckdb"
    assert {path.name for path in tmp_path.iterdir()} == kept
