"""Who may read the store may ask it: nothing that only asks needs permission to write."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.api import analyse_run, ingest_run
from nixt_pipeline.cli import main
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

ROOT = Path(__file__).parent.parent
DIRECTORIES = ("landing_dir", "data_dir", "reports_dir")
pytestmark = pytest.mark.slow


def write_job(directory: Path) -> None:
    for rank in (0, 1):
        records = [
            collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank, time_us=1000 + n % 3, at_us=EPOCH_US + n * 1000)
            for n in range(30)
        ]
        write_log(directory / f"a-pid{100 + rank}.log", *records)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Four runs in folders that cannot be written to, one of them changed since; and a directory that is in none."""
    root = tmp_path_factory.mktemp("read-only")
    settings = load_settings(
        landing_dir=root / "landing", data_dir=root / "data", reports_dir=root / "reports", workers=1
    )
    for run in ("one", "two", "not-analysed", "changed"):
        write_job(settings.landing_dir / run)
        ingest_run(settings.landing_dir / run, settings)
    for run in ("one", "two"):
        analyse_run(run, settings)
    for run in ("changed", "new"):
        write_log(settings.landing_dir / run / "more-pid7.log", collective(sn=1))
    settings.reports_dir.mkdir()
    directories = [getattr(settings, name) for name in DIRECTORIES]
    directories += [path for path in settings.data_dir.rglob("*") if path.is_dir()]
    for directory in directories:
        directory.chmod(0o555)
    yield settings
    for directory in directories:
        directory.chmod(0o755)


# What lets root pass over permissions (linux/capability.h), as bits of the first word of a set.
DAC_OVERRIDE, DAC_READ_SEARCH = 1 << 1, 1 << 2


@contextmanager
def permissions_hold() -> Iterator[None]:
    """Meanwhile root, too, is refused what the permissions of files refuse: this thread and those that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3; this thread
    kept = (ctypes.c_uint32 * 6)()  # twice effective, permitted, inheritable
    assert libc.capget(header, kept) == 0
    without = (ctypes.c_uint32 * 6)(*kept)
    without[0] &= ~(DAC_OVERRIDE | DAC_READ_SEARCH)
    assert libc.capset(header, without) == 0
    try:
        yield
    finally:
        assert libc.capset(header, kept) == 0


def as_reader(settings: Settings, *arguments: str) -> Result:
    """A command as a user who may only read."""
    environment = {f"NIXT_{name.upper()}": str(getattr(settings, name)) for name in DIRECTORIES} | {"NIXT_WORKERS": "1"}
    warn_once.cache_clear()
    with permissions_hold():
        return CliRunner().invoke(main, arguments, env=environment)


def process_of_reader(settings: Settings, *command: str) -> subprocess.CompletedProcess[str]:
    """A process of a user who may only read; root stays root without the privilege to pass over permissions."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NIXT_WORKERS": "1"}
    for name in DIRECTORIES:
        environment[f"NIXT_{name.upper()}"] = str(getattr(settings, name))
    prefix = []
    if os.geteuid() == 0:
        prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"]
    return subprocess.run([*prefix, sys.executable, *command], env=environment, capture_output=True, text=True)


def contents(settings: Settings) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in settings.data_dir.rglob("*") if path.is_file()}


COMMANDS = {
    "runs": ["runs"],
    "sql": ["sql", "SELECT count(*) FROM events"],
    "hosts": ["hosts", "--all"],
    "baselines": ["baselines"],
    "retention": ["retention"],
    "check": ["check"],
    "check what is sound": ["check", "--repair"],
    "diagnose": ["diagnose", "one"],
    "diagnose without cells": ["diagnose", "not-analysed"],
    "compare": ["compare", "one", "two", "--fail-on", "regressed"],
    "compare without results": ["compare", "one", "not-analysed"],
    "report as text": ["report", "one", "--format", "md"],
}


def test_root_too_is_refused_here(stored: Settings) -> None:
    """Otherwise nothing below would show anything."""
    with permissions_hold(), pytest.raises(PermissionError):
        (stored.data_dir / "new").touch()


def test_questions_are_answered_and_nothing_is_written(stored: Settings) -> None:
    before = contents(stored)
    directory = str(stored.landing_dir / "one")
    of_directory = {
        "diagnose a stored directory": ["diagnose", directory],
        "report a stored directory": ["report", directory, "--format", "md"],
    }
    for name, arguments in {**COMMANDS, **of_directory}.items():
        result = as_reader(stored, *arguments)
        assert result.exit_code == 0, f"{name}: {result.stderr}"
        assert result.stdout, name
    program = "import nixt_pipeline as nixt; print(nixt.open_run('one').findings().verdict)"
    assert process_of_reader(stored, "-c", program).stdout == "none-found\n"
    assert contents(stored) == before


def test_what_has_to_write_names_the_directory_its_group_and_the_umask(stored: Settings) -> None:
    changed, new = str(stored.landing_dir / "changed"), str(stored.landing_dir / "new")
    for arguments in (["ingest", changed], ["report", "one"], ["diagnose", changed], ["diagnose", new], ["demo"]):
        result = as_reader(stored, *arguments)
        assert result.exit_code == 2
        assert_names_the_permission(result.stderr)
    refused = process_of_reader(stored, "-m", "nixt_pipeline.cli", "ingest", new)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert_names_the_permission(refused.stderr)


def assert_names_the_permission(message: str) -> None:
    assert "Permission denied: " in message
    for word in ("belongs to", "GROUP", "umask 002", "NIXT_DATA_DIR"):
        assert word in message
    assert "make room" not in message
    assert "Traceback" not in message


def test_a_run_that_may_not_be_read_is_left_out_and_named(stored: Settings) -> None:
    (events,) = stored.data_dir.glob("store/run=two/gen-*/events/*.parquet")
    (manifest,) = stored.data_dir.glob("store/run=not-analysed/manifest.json")
    for path in (events, manifest):
        path.chmod(0)
    try:
        query = "SELECT DISTINCT run FROM events ORDER BY run"
        result = process_of_reader(stored, "-m", "nixt_pipeline.cli", "sql", query, "--format", "csv")
        refused = process_of_reader(stored, "-m", "nixt_pipeline.cli", "diagnose", "two")
    finally:
        for path in (events, manifest):
            path.chmod(0o644)
    assert (result.returncode, result.stdout.split()) == (0, ["run", "changed", "one"]), result.stderr
    assert result.stderr.count("Permission denied") == 2
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr
    assert "Permission denied" in refused.stderr
