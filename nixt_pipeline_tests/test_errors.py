"""One tree of errors, and exit codes that keep findings, mistakes and defects apart."""

import errno
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import nixt_pipeline
from nixt_pipeline import errors
from nixt_pipeline.cli import main
from nixt_pipeline.errors import NixtError, storage_error

# How the decoder tells itself what becomes of a line; neither leaves it.
INTERNAL = {"RejectedError", "ForeignError"}


def test_every_error_of_the_package_is_in_the_tree_and_in_its_picture() -> None:
    found = {}
    for module in pkgutil.walk_packages(nixt_pipeline.__path__, "nixt_pipeline."):
        if not module.name.startswith("nixt_pipeline.defs"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.name:
                    found[name] = value
    tree = {name for name, value in found.items() if issubclass(value, NixtError)}
    public = {name for name in found if name.endswith("Error") and not name.startswith("_")}
    assert public - tree - INTERNAL == {"InputError"}  # click's own
    assert [name for name in sorted(tree) if name not in str(errors.__doc__)] == []


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (NixtError("the store is on the moon; fetch it"), 2, "Error: the store is on the moon"),
        (KeyError("schema"), 70, "Please report it"),
        (KeyboardInterrupt(), 130, "Interrupted"),
    ],
)
def test_a_defect_is_never_taken_for_findings(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, said: str
) -> None:
    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr("nixt_pipeline.cli.runs.run_with_records", fails)
    result = CliRunner().invoke(main, ["diagnose", "run-1", "--fail-on", "P1"])
    assert result.exit_code == code
    assert said in result.stderr
    assert ("Traceback" in result.stderr) == (code == 70)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_who_has_read_enough_ends_a_command_quietly(form: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "nixt_pipeline.cli", "sql", "FROM range(20000)", "--format", form]
    ended = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_a_full_disk_and_a_missing_permission_have_different_remedies(tmp_path: Path) -> None:
    full = storage_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path / "new" / "a.parquet")
    assert full is not None
    assert "make room" in str(full)
    refused = storage_error(OSError(errno.EACCES, "Permission denied"), tmp_path / "new" / "a.parquet")
    assert refused is not None
    assert "make room" not in str(refused)
    assert all(word in str(refused) for word in (f"{tmp_path} belongs to", "mode d", "umask 002", "GROUP"))
    assert storage_error(OSError(errno.ENOENT, "No such file"), tmp_path) is None
    # DuckDB's errors have no number.
    assert storage_error(RuntimeError("IO Error: Cannot open file: Read-only file system"), tmp_path) is not None
