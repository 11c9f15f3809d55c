"""The whole, as it runs for a user: a daemon in a process of its own, a job that finishes, and no hand that helps."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nixt_pipeline.defs.home import prepare_home, ui_environment
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.defs.conftest import RUN, drop_job

_PATIENCE_S = 300.0


@pytest.mark.slow
def test_a_finished_job_becomes_a_report_and_an_entry_in_the_overview(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (drop_job(settings.landing_dir) / "_SUCCESS").touch()
    home = prepare_home(settings)
    environment = ui_environment(settings) | {
        "NIXT_LANDING_DIR": str(settings.landing_dir),
        "NIXT_DATA_DIR": str(settings.data_dir),
        "NIXT_REPORTS_DIR": str(settings.reports_dir),
        "NIXT_WORKERS": "1",
        "NIXT_SENSOR_INTERVAL_S": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "nixt_pipeline.definitions"]
    with (tmp_path / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=log, start_new_session=True)
        try:
            overview = settings.reports_dir / "index.html"
            report = settings.reports_dir / RUN / "index.html"
            assert wait_for(report, RUN) and wait_for(overview, RUN), (tmp_path / "daemon.log").read_text()[-4000:]
        finally:
            daemon.terminate()
            daemon.wait(timeout=60)


def wait_for(path: Path, text: str) -> bool:
    """Look once a second until `path` contains `text`, or patience is over."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if path.exists() and text in path.read_text(encoding="utf-8"):
            return True
        time.sleep(1)
    return False
