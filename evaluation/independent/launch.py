"""One launch of a job: what its ranks do, solved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evaluation.independent.fabric import Congestion, Fabric
from evaluation.independent.faults import Fault
from evaluation.independent.machines import Cluster, Communicator, Communicators
from evaluation.independent.pace import Habits, Pace
from evaluation.independent.streams import Program, Task, solve

# A worker process prefetches batches, so that the host thread only takes the next one.
_LOADING_US = 2000.0


class Workload(Protocol):
    """What one rank does in a step."""

    def train(self, program: Program, pace: Pace) -> None:
        """One training step."""

    def evaluate(self, program: Program, pace: Pace) -> None:
        """One batch of an evaluation."""


@dataclass(frozen=True)
class Launch:
    """What there is to run: the machines, the work and what interrupts it, before anything goes wrong."""

    cluster: Cluster
    workload: Callable[[Communicators], Workload]
    steps: int
    seed: int
    nvlink_gbs: float
    nic_gbs: float
    names: dict[str, str]
    habits: Habits
    congestions: tuple[Congestion, ...] = ()


@dataclass(frozen=True)
class Timeline:
    """A launch that was run. Times are in us since its begin."""

    launch: Launch
    fabric: Fabric
    programs: dict[int, Program]
    communicators: list[Communicator]

    @property
    def wall_us(self) -> float:
        """When the last task that ended did so."""
        ends = (task.end_us for program in self.programs.values() for task in program.tasks)
        return max(end for end in ends if end is not None)

    def begins_us(self, ranks: frozenset[int], step: int) -> float:
        """When the first of these ranks begins a step; the end of the launch for a step that nobody begins."""
        starts = (task.start_us for rank in ranks for task in self.programs[rank].tasks if task.step == step)
        return min((start for start in starts if start is not None), default=self.wall_us)

    def halts_us(self, rank: int) -> float:
        """When the last thing that a rank did ended."""
        ends = (task.end_us for task in self.programs[rank].tasks)
        return max((end for end in ends if end is not None), default=0.0)


def run(launch: Launch, faults: tuple[Fault, ...] = ()) -> Timeline:
    """Run a launch with faults. The same launch without them is its twin: every draw is the same."""
    made = Communicators(launch.cluster, launch.seed, launch.names)
    workload = launch.workload(made)
    programs = {
        gpu.rank: _program(gpu.rank, launch, workload, [fault for fault in faults if gpu.rank in fault.ranks])
        for gpu in launch.cluster.gpus
    }
    fabric = Fabric(launch.cluster, launch.nvlink_gbs, launch.nic_gbs, launch.seed, launch.congestions, faults)

    def compute_us(task: Task) -> float:
        factor = 1.0
        for fault in faults:
            if not fault.link and not task.on_host and task.rank in fault.ranks:
                factor *= fault.factor(task.step)
        return task.work_us * factor

    solve(programs.values(), compute_us, fabric.transfer_us)
    return Timeline(launch, fabric, programs, made.made)


def _program(rank: int, launch: Launch, workload: Workload, faults: list[Fault]) -> Program:
    program = Program(rank)
    for fault in faults:
        if fault.what in ("hang", "dead"):
            program.halt_before = (fault.family, fault.first_step, fault.ordinal)
        if fault.what == "mismatch":
            program.odd_from = (fault.family, fault.first_step)
    pace = Pace(rank, launch.habits, np.random.default_rng([launch.seed, rank]), launch.steps)
    for step in range(launch.steps):
        program.step = step
        pace.begin(step)
        paused_us = sum(fault.pause_us for fault in faults if fault.what == "pause" and fault.holds(step))
        program.host_works(pace.loading_us(_LOADING_US) + pace.checkpoint_us(step) + paused_us)
        if pace.evaluates(step):
            for _ in range(launch.habits.evaluation_batches):
                workload.evaluate(program, pace)
        workload.train(program, pace)
    return program
