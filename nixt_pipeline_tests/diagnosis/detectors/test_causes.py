"""Verbose records of four ranks on two hosts; rank 3 comes 10 ms late to every AllReduce of 1 ms."""

import json
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

LATE_RANK = 3


def verbose(sn: int, rank: int, lag_us: int) -> str:
    """A record whose kernel started `lag_us` after its launch."""
    end_us = EPOCH_US + sn * 50_000
    time_us = 1_000 if rank == LATE_RANK else 11_000
    line = collective(
        sn=sn, rank=rank, nnodes=2, host=f"node-{rank // 2}", pid=100 + rank, time_us=time_us, at_us=end_us
    )
    record = json.loads(line)
    started_us = end_us - time_us
    event = {"channel_id": 0, "kernel_start_ts": started_us, "kernel_stop_ts": end_us, "kernel_record_ts": end_us}
    record["coll_perf"]["event_trace_ts"] = {
        "coll_start_ts": started_us - lag_us, "coll_stop_ts": started_us, "kernel_events": [event]
    }  # fmt: skip
    return json.dumps(record, separators=(",", ":"))


@pytest.mark.parametrize(("lag_us", "cause"), [(20, "its CPU is late"), (10_020, "its GPU is late")])
def test_launches_tell_whether_the_cpu_or_the_gpu_is_late(
    lag_us: int, cause: str, tmp_path: Path, settings: Settings
) -> None:
    for rank in range(4):
        lines = [verbose(sn, rank, lag_us if rank == LATE_RANK else 20) for sn in range(60)]
        write_log(tmp_path / "job" / f"node-{rank // 2}-pid{100 + rank}.log", *lines)
    run = nixt.ingest_run(tmp_path / "job", settings).run
    (finding,) = (f for f in nixt.diagnose_run(run, settings).findings if f.severity != "info")
    assert (finding.kind, finding.processes) == ("late-arrival", ("node-1-pid103",))
    assert cause in finding.evidence
    assert "those of the ranks that wait 20 us" in finding.evidence
