"""A run that was ingested while it grew is diagnosed like one that was ingested at once."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import nixt_pipeline as nixt
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.conftest import FIXTURES

JOB = FIXTURES / "job_2.30.7_8ranks"


def diagnosed(directory: Path, settings: Settings) -> dict[str, Any]:
    run = nixt.ingest_run(directory, settings).run
    return nixt.diagnose_run(run, settings).to_json()


@pytest.mark.slow
@hypothesis_settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.floats(0.1, 1), min_size=8, max_size=8), min_size=1, max_size=2))
def test_a_run_that_arrives_in_pieces_is_diagnosed_like_one_that_arrives_at_once(
    tmp_path: Path, settings: Settings, arrivals: list[list[float]]
) -> None:
    """At each arrival, every log has reached some share of its bytes, be it in the middle of a record; at last, all."""
    shutil.rmtree(tmp_path / "in", ignore_errors=True)
    shutil.rmtree(settings.data_dir, ignore_errors=True)
    (tmp_path / "in").mkdir()
    logs = {path.name: path.read_bytes() for path in sorted(JOB.glob("*.log"))}
    stamp = 1_000_000_000
    written = dict.fromkeys(logs, 0)
    for shares in [*arrivals, [1.0] * len(logs)]:
        for (name, content), share in zip(logs.items(), shares, strict=True):
            written[name] = max(written[name], int(share * len(content)))
            (tmp_path / "in" / name).write_bytes(content[: written[name]])
            stamp += 1_000_000_000
            os.utime(tmp_path / "in" / name, ns=(stamp, stamp))
        in_pieces = diagnosed(tmp_path / "in", settings)
    shutil.rmtree(settings.data_dir)
    assert in_pieces == diagnosed(tmp_path / "in", settings)
