"""Dagster runs whose process is gone: killed, out of memory, the machine restarted.

Dagster's run monitoring notices such runs on Kubernetes and the like, but not where runs are processes of this machine.
There a lost run would stay "started" forever, and hold a place in the queue and its training run's turn.
"""

import json
from collections.abc import Iterator

import dagster as dg
import psutil

_GRPC_TAG = ".dagster/grpc_info"


def end_lost_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark as failed every started run whose process on this machine is gone; returns their ids."""
    if instance.run_launcher.supports_check_run_worker_health:
        return []
    lost = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        pids = list(_pids(instance, run)) if _is_local(run) else []
        if pids and not any(_is_alive(pid, record.create_timestamp.timestamp()) for pid in pids):
            instance.report_run_failed(
                run, f"The run's process (pid {pids[-1]}) is gone: killed, or the machine restarted"
            )
            lost.append(run.run_id)
    return lost


def _is_local(run: dg.DagsterRun) -> bool:
    """Whether the run was started by a code server on this machine, which then is reached through a socket file."""
    return "socket" in json.loads(run.tags.get(_GRPC_TAG, "{}"))


def _pids(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[int]:
    """The processes that the run's log names."""
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
        if pid is not None and str(pid.value).isdigit():
            yield int(str(pid.value))


def _is_alive(pid: int, run_created_s: float) -> bool:
    """Whether the process still runs; one that began before the run was created is another with the same number.

    A minute is allowed for, in which the clock may have been set.
    """
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() > run_created_s - 60
    except psutil.NoSuchProcess:
        return False
