"""A whole job: its launches, what is wrong with it, what Inspector was told; and writing its logs and its truth."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.independent.clocks import EPOCH_US, Clock
from evaluation.independent.faults import Fault
from evaluation.independent.launch import Launch, Timeline, run
from evaluation.independent.plugin import Plugin, log_files
from evaluation.independent.records import Completed, completed
from evaluation.independent.truth import TrueFault, assess

# How long after a stop a watchdog ends the job (PyTorch's default is ten minutes; many shorten it).
WATCHDOG_US = 60e6


@dataclass(frozen=True)
class Attempt:
    """A launch in the job's directory. `pause_us`: since the end of the one before; `killed_after`: the share of its
    time after which all of its processes are killed, if they are."""

    launch: Launch
    faults: tuple[Fault, ...] = ()
    pause_us: float = 0.0
    killed_after: float | None = None


@dataclass(frozen=True)
class Job:
    """All of a job. `sleeps`: its processes sleep before they destroy their communicators, so that all is written."""

    kind: str
    seed: int
    workload: str
    attempts: tuple[Attempt, ...]
    plugin: Plugin
    clocks: dict[str, Clock]
    sleeps: bool
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its directory."""
        return f"{self.kind}-{self.seed}"


def write_job(job: Job, directory: Path) -> dict[str, Any]:
    """Write the logs into `directory/nccl-inspector-<number>` and `directory/truth.json`; returns the truth.

    Equal jobs give equal bytes.
    """
    records: list[Completed] = []
    faults: list[TrueFault] = []
    processes: dict[str, None] = {}
    communicators: dict[str, list[int]] = {}
    begin_us, walls_us = 0.0, []
    for attempt in job.attempts:
        timeline = run(attempt.launch, attempt.faults)
        if attempt.faults:
            twin = run(attempt.launch)
            faults += [_since(assess(fault, timeline, twin, job.plugin), begin_us) for fault in attempt.faults]
        begin_us += attempt.pause_us
        lost_us = _lost_us(job, attempt, timeline, begin_us)
        p2p = not job.plugin.has_slots
        records += completed(timeline, begin_us, lost_us, job.plugin.minimum_bytes, p2p)
        processes.update(dict.fromkeys(gpu.process for gpu in attempt.launch.cluster.gpus))
        communicators.update({group.id: list(group.ranks) for group in timeline.communicators})
        walls_us.append(timeline.wall_us)
        begin_us += timeline.wall_us + (WATCHDOG_US if _hangs(attempt) else 0.0)
    logs = directory / f"nccl-inspector-{910_000 + job.seed}"
    logs.mkdir(parents=True, exist_ok=True)
    lines = 0
    for file, content in log_files(records, processes, job.plugin, job.clocks, job.seed).items():
        (logs / file).write_bytes(content)
        lines += content.count(b"\n")
    truth = {**_truth(job, faults, walls_us, lines), "communicators": communicators}
    (directory / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return truth


def _hangs(attempt: Attempt) -> bool:
    return any(fault.what in ("hang", "dead") for fault in attempt.faults)


def _lost_us(job: Job, attempt: Attempt, timeline: Timeline, begin_us: float) -> dict[int, float]:
    """When each rank's dump thread writes nothing of the launch any more, in us since the job's begin."""
    end_us = begin_us + timeline.wall_us
    if attempt.killed_after is not None:
        end_us = begin_us + attempt.killed_after * timeline.wall_us
    elif _hangs(attempt):
        end_us += WATCHDOG_US
    elif job.sleeps:
        end_us += max(1e6, 2 * job.plugin.interval_us)
    lost_us = {gpu.rank: end_us for gpu in attempt.launch.cluster.gpus}
    for fault in attempt.faults:
        if fault.what == "dead":
            lost_us.update({rank: begin_us + timeline.halts_us(rank) for rank in fault.ranks})
    return lost_us


def _since(fault: TrueFault, begin_us: float) -> TrueFault:
    return TrueFault(
        fault.fault,
        fault.onset_us + begin_us,
        fault.until_us + begin_us,
        fault.cost_share,
        fault.cost_share_since_onset,
        fault.ideal,
    )


def _truth(job: Job, faults: list[TrueFault], walls_us: list[float], lines: int) -> dict[str, Any]:
    launch = job.attempts[0].launch
    plugin = job.plugin
    return {
        "name": job.name,
        "kind": job.kind,
        "seed": job.seed,
        "workload": job.workload,
        "gpus": [{"rank": gpu.rank, "host": gpu.host, "process": gpu.process} for gpu in launch.cluster.gpus],
        "launches": len(job.attempts),
        "wall_s": [round(wall_us / 1e6, 2) for wall_us in walls_us],
        "steps": [attempt.launch.steps for attempt in job.attempts],
        "records": lines,
        "log": {
            "plugin": "2.28" if plugin.has_slots else "2.30",
            "interval_us": int(plugin.interval_us),
            "missing": sorted(plugin.missing),
            "cut": sorted(plugin.cut),
            "lost_by_peer": plugin.lost_by_peer,
            "tail_lost": not job.sleeps,
        },
        "notes": list(job.notes),
        "faults": [fault.to_json(launch.cluster, EPOCH_US) for fault in faults],
    }
