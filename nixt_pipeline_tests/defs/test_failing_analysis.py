"""Analyses that fail or give a wrong result, and what is made of the rest by a real `dagster job execute`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from nixt_pipeline.defs.home import prepare_home, ui_environment
from nixt_pipeline.defs.partitions import PARTITION_NAME
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline_tests.defs.conftest import RUN, drop_job

# A code location in which two analyses fail, one counts everything twice, and one has a figure that cannot be drawn.
_BROKEN = """
from nixt_pipeline.analysis import ANALYSES
from nixt_pipeline.defs import analyses

for analysis in ANALYSES:
    if analysis.name in ("hot_kernels", "run_kernels"):
        object.__setattr__(analysis, "sql", "SELECT error('planted')")
        object.__setattr__(analysis, "shares", None)
    if analysis.name == "coverage":
        object.__setattr__(analysis, "sql", f"FROM ({analysis.sql}) UNION ALL FROM ({analysis.sql})")
analyses.pictures = lambda: {"summary_histogram": lambda table: 1 / 0}

from nixt_pipeline.definitions import defs
"""


@pytest.mark.slow
def test_what_is_missing_is_told_and_the_report_is_made_of_the_rest(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    directory = drop_job(settings.landing_dir)
    (tmp_path / "broken.py").write_text(_BROKEN)
    home = prepare_home(settings)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.add_dynamic_partitions(PARTITION_NAME, [RUN])
    environment = ui_environment(settings) | {
        "NIXT_LANDING_DIR": str(settings.landing_dir),
        "NIXT_DATA_DIR": str(settings.data_dir),
        "NIXT_REPORTS_DIR": str(settings.reports_dir),
        "NIXT_WORKERS": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    config = {"ops": {"raw_log_inventory": {"config": {"directory": str(directory)}}}}
    command = [sys.executable, "-m", "dagster", "job", "execute", "-f", str(tmp_path / "broken.py"), "-j", "ingest_run"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    command += ["-c", str(tmp_path / "config.json"), "--tags", json.dumps({"dagster/partition": RUN})]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]

    page = (layout.report_dir(RUN, settings) / "index.html").read_text(encoding="utf-8")
    # hot_kernels and coverage; run_kernels is no section of the report.
    assert page.count("<strong>Not computed.</strong>") == 2
    assert "planted" in page
    assert "every_row_is_one_group: " in page
    assert not layout.results_path("coverage", RUN, settings).exists()
    assert 'id="payload"' in page
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (run,) = instance.get_run_ids()
        checks = [
            entry.dagster_event.asset_check_evaluation_data
            for entry in instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
            if entry.dagster_event is not None
        ]
    errors = {
        (check.asset_key.to_user_string(), check.check_name)
        for check in checks
        if not check.passed and check.severity == dg.AssetCheckSeverity.ERROR
    }
    assert errors == {
        *((name, "the_analysis_could_be_computed") for name in ("hot_kernels", "run_kernels")),
        ("coverage", "every_row_is_one_group"),
    }
