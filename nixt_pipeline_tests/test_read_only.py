"""Who may read the store may ask it: nothing that only asks needs permission to write."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nixt_pipeline.api import analyse_run, ingest_run
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

ROOT = Path(__file__).parent.parent
NOBODY = 65534
pytestmark = pytest.mark.slow


@pytest.fixture
def stored(settings: Settings) -> Iterator[Settings]:
    for run in ("one", "two", "not-analysed"):
        for rank in (0, 1):
            records = [
                collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank, time_us=1000 + n % 3, at_us=EPOCH_US + n * 1000)
                for n in range(30)
            ]
            write_log(settings.landing_dir / run / f"a-pid{100 + rank}.log", *records)
        ingest_run(settings.landing_dir / run, settings)
        if run != "not-analysed":
            analyse_run(run, settings)
    settings.reports_dir.mkdir()
    directories = [settings.reports_dir, settings.data_dir, *(p for p in settings.data_dir.rglob("*") if p.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    yield settings
    for directory in directories:
        directory.chmod(0o755)


def as_reader(settings: Settings, *command: str) -> subprocess.CompletedProcess[str]:
    """A command as a user who may only read; root stays root without the privilege to pass over permissions."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NIXT_WORKERS": "1"}
    for name in ("landing_dir", "data_dir", "reports_dir"):
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


def test_questions_are_answered_and_nothing_is_written(stored: Settings) -> None:
    before = contents(stored)
    directory = str(stored.landing_dir / "one")
    of_directory = {
        "diagnose a stored directory": ["diagnose", directory],
        "report a stored directory": ["report", directory, "--format", "md"],
    }
    for name, arguments in {**COMMANDS, **of_directory}.items():
        result = as_reader(stored, "-m", "nixt_pipeline.cli", *arguments)
        assert result.returncode == 0, f"{name}: {result.stderr}"
        assert result.stdout, name
    program = "import nixt_pipeline as nixt; print(nixt.open_run('one').findings().verdict)"
    assert as_reader(stored, "-c", program).stdout.strip()
    assert contents(stored) == before


def test_what_has_to_write_names_the_directory_its_group_and_the_umask(stored: Settings) -> None:
    (stored.landing_dir / "one" / "more-pid7.log").write_text(collective(sn=1) + "\n")
    (stored.landing_dir / "new").mkdir()
    (stored.landing_dir / "new" / "more-pid7.log").write_text(collective(sn=1) + "\n")
    changed, new = str(stored.landing_dir / "one"), str(stored.landing_dir / "new")
    stored.landing_dir.chmod(0o555)
    for arguments in (["ingest", changed], ["report", "one"], ["diagnose", changed], ["diagnose", new], ["demo"]):
        result = as_reader(stored, "-m", "nixt_pipeline.cli", *arguments)
        assert result.returncode == 2
        assert "Permission denied: " in result.stderr
        assert all(word in result.stderr for word in ("belongs to", "GROUP", "umask 002", "NIXT_DATA_DIR"))
        assert "make room" not in result.stderr
        assert "Traceback" not in result.stderr


def test_a_run_that_may_not_be_read_is_left_out_and_named(stored: Settings) -> None:
    for pattern in ("store/run=two/gen-*/events/*.parquet", "store/run=not-analysed/manifest.json"):
        (path,) = stored.data_dir.glob(pattern)
        path.chmod(0)
    result = as_reader(stored, "-m", "nixt_pipeline.cli", "sql", "SELECT DISTINCT run FROM events", "--format", "csv")
    assert (result.returncode, result.stdout.split()) == (0, ["run", "one"]), result.stderr
    assert result.stderr.count("Permission denied") == 2
    refused = as_reader(stored, "-m", "nixt_pipeline.cli", "diagnose", "two")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr
    assert "Permission denied" in refused.stderr
