import json
import os
import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from nixt_pipeline.defs.lost_runs import end_lost_runs

LOCAL = {".dagster/grpc_info": json.dumps({"host": "localhost", "socket": "/tmp/x"})}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp() as instance:
        yield instance


@dg.job
def nothing() -> None: ...


def started_run(instance: dg.DagsterInstance, pid: int, tags: dict[str, str]) -> str:
    run = instance.create_run_for_job(nothing, tags=tags, status=dg.DagsterRunStatus.STARTED)
    data = EngineEventData({"pid": dg.MetadataValue.text(str(pid))})
    instance.report_engine_event(f"Started process for run (pid: {pid}).", run, data)
    return run.run_id


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_run_whose_process_is_gone_is_marked_as_failed(instance: dg.DagsterInstance) -> None:
    run_id = started_run(instance, dead_pid(), LOCAL)
    assert end_lost_runs(instance) == [run_id]
    assert status(instance, run_id) == dg.DagsterRunStatus.FAILURE
    assert end_lost_runs(instance) == []


def test_a_run_whose_process_lives_goes_on(instance: dg.DagsterInstance) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        run_id = started_run(instance, process.pid, LOCAL)
        assert end_lost_runs(instance) == []
        assert status(instance, run_id) == dg.DagsterRunStatus.STARTED


def test_a_process_older_than_the_run_is_another_with_its_number(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    monkeypatch.setattr(psutil.Process, "create_time", lambda self: 0.0)
    assert end_lost_runs(instance) == []
    run_id = started_run(instance, os.getpid(), LOCAL)
    assert end_lost_runs(instance) == [run_id]


def test_runs_of_other_machines_are_left_alone(instance: dg.DagsterInstance) -> None:
    started_run(instance, dead_pid(), {".dagster/grpc_info": json.dumps({"host": "code-server", "port": 4000})})
    started_run(instance, dead_pid(), {})
    assert end_lost_runs(instance) == []
