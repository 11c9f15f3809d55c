import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nixt_pipeline.defs.webserver import serve_guarded


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_dagsters_databases_are_complete_before_the_daemon_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that create them at once have left two versions in one, which no process can open any more."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    versions = []

    def start(*_: Any, **__: Any) -> None:
        for database in sorted(tmp_path.rglob("*.db")):
            with sqlite3.connect(database) as connection:
                versions.append(
                    (database.name, connection.execute("SELECT version_num FROM alembic_version").fetchall())
                )
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", start)
    serve_guarded([], "127.0.0.1")
    assert {name for name, _ in versions} >= {"schedules.db", "runs.db", "index.db"}
    assert all(len(version) == 1 for _, version in versions)
