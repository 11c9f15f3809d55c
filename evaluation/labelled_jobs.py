"""Simulated training jobs with planted faults, written as logs, with labels that say what a diagnosis should find."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evaluation.faults import Fault, Plant
from evaluation.faulty_job import FaultyJob
from nixt_pipeline.simulation.job import (
    COMPUTE_JITTER,
    DUMP_INTERVAL_US,
    FIRST_PID,
    NEVER_US,
    RING_RECORDS,
    Names,
    Record,
    Recorder,
    Workload,
)


@dataclass(frozen=True)
class Shape:
    """How many GPUs there are and how the job is spread over them; the rest is data parallel."""

    hosts: int
    gpus_per_host: int
    tensor_size: int
    stages: int

    @property
    def gpus(self) -> int:
        """All GPUs of the job."""
        return self.hosts * self.gpus_per_host

    @property
    def data_size(self) -> int:
        """Ranks of a data-parallel communicator."""
        return self.gpus // (self.tensor_size * self.stages)


@dataclass(frozen=True)
class Recording:
    """How the job was recorded: the plugin's generation and losses, names, clocks."""

    names: Names = "given"
    p2p: bool = True  # 2.28 and 2.29 do not record Send and Recv
    capacity: int = RING_RECORDS  # 1 for 2.28 and 2.29, which remember the newest operation only
    dump_interval_us: int = DUMP_INTERVAL_US
    random_loss: float = 0.0
    clock_offset_us: float = 0.0  # standard deviation over hosts
    clock_drift_ppm: float = 0.0  # standard deviation over hosts
    timing_source: str = "kernel_gpu"
    killed: bool = False  # at some moment: what was not written by then is lost
    cut_files: float = 0.0  # the share of the files that end somewhere in their second half


@dataclass(frozen=True)
class Scenario:
    """One kind of job. `faults` are planted with these strengths; everything else is the life of a healthy job.

    Faults begin in the middle of the job, or with it (`from_start`). `host_spread` is the relative standard deviation
    of the hosts' steady speeds, `last_stage` how many times as much the last pipeline stage computes, and
    `congested_share` the share of the network operations that take five times as long. A job with `pauses` evaluates
    and writes checkpoints; one with `warm_up` has a first step that is many times slower; with a `second_half` it does
    something else there.
    """

    name: str
    shape: Shape
    workload: Workload
    steps: int
    faults: tuple[tuple[type[Plant], float], ...] = ()
    recording: Recording = field(default_factory=Recording)
    compute_jitter: float = COMPUTE_JITTER
    from_start: bool = False
    host_spread: float = 0.0
    last_stage: float = 1.0
    congested_share: float = 0.0
    second_half: Workload | None = None
    pauses: bool = False
    warm_up: bool = False


@dataclass(frozen=True)
class Label:
    """What is true of a written job.

    `cost_share` is the part of the job's duration that it would not have needed without its faults, 1 when it never
    ends. `timed` is false where times are no GPU times and nothing can be concluded.
    """

    scenario: str
    seed: int
    hosts: tuple[str, ...]
    processes: tuple[str, ...]
    faults: tuple[Fault, ...]
    cost_share: float
    timed: bool
    operations: int
    records: int

    @property
    def loss(self) -> float:
        """The share of the operations that no record tells of."""
        return 1 - self.records / self.operations


def _prepare(job: FaultyJob, scenario: Scenario, random: np.random.Generator) -> None:
    """Give the job what is peculiar to it and no fault."""
    spread = 1 + scenario.host_spread * random.standard_normal((2, len(job.hosts)))
    job.slowdown *= spread[0, job.host_of]
    job.network *= spread[1, job.host_of]
    job.slowdown[job.pipeline.ranks[:, -1]] *= scenario.last_stage
    job.compute_jitter, job.congested_share = scenario.compute_jitter, scenario.congested_share


def _simulate(job: FaultyJob, scenario: Scenario, plants: list[Plant], seed: int) -> float:
    """Run all steps; returns how long the job took, in microseconds."""
    random = np.random.default_rng(seed)
    _prepare(job, scenario, random)
    steady = job.slowdown.copy()
    for step in range(scenario.steps):
        if scenario.second_half is not None and step == scenario.steps // 2:
            job.workload = scenario.second_half
        if scenario.warm_up and step < 2:  # compiling and allocating take some ranks longer than others
            job.slowdown = steady * (random.uniform(4, 12, job.clock.shape) if step == 0 else 1)
        if scenario.pauses and step % 12 == 11:  # an evaluation, after which all come back within milliseconds
            job.clock += 2e6 + random.uniform(0, 2e3, job.clock.shape)
        if scenario.pauses and step % 15 == 14:  # a checkpoint, which the first rank writes
            job.clock += 3e5 + random.uniform(0, 2e4, job.clock.shape)
            job.clock[0] += 1e5
        for plant in plants:
            plant.before_step(step)
        job.step()
    return float(job.clock.max())


def _recorders(job: FaultyJob, recording: Recording, random: np.random.Generator) -> list[Recorder]:
    """One for each process; processes of a host share its clock."""
    offsets = job.clock_offset_us + recording.clock_offset_us * random.standard_normal(len(job.hosts))
    drifts = recording.clock_drift_ppm * random.standard_normal(len(job.hosts))
    return [
        Recorder(
            phase_us=int(random.integers(recording.dump_interval_us)),
            interval_us=recording.dump_interval_us,
            capacity=recording.capacity,
            clock_offset_us=float(offsets[host]),
            clock_drift_ppm=float(drifts[host]),
            timing_source=recording.timing_source,
        )
        for host in job.host_of
    ]


def _seen(job: FaultyJob, rank: int, recording: Recording, random: np.random.Generator) -> list[Record]:
    """The operations of a process that its plugin notices at all."""
    records = [
        record
        for record in job.records[rank]
        if record.end_us < min(NEVER_US, job.silent_from_us[rank]) and (record.peer is None or recording.p2p)
    ]
    if recording.random_loss == 0:
        return records
    kept = random.random(len(records)) >= recording.random_loss
    return [record for record, keep in zip(records, kept.tolist(), strict=True) if keep]


def write_labelled_job(directory: Path, scenario: Scenario, seed: int) -> Label:
    """Write one log per process, `<host>-pid<pid>.log`, into `directory` (created when missing).

    The same scenario and seed give the same bytes. Send and Recv that a plugin of the scenario's generation never
    records do not count as lost.
    """
    random = np.random.default_rng([seed, zlib.crc32(scenario.name.encode())])
    shape, recording = scenario.shape, scenario.recording
    hosts = tuple(f"gpu-{number}" for number in 101 + np.sort(random.permutation(3 * shape.hosts)[: shape.hosts]))
    job_seed, life_seed = random.integers(2**32, size=2).tolist()

    def new_job() -> FaultyJob:
        parallel = (shape.gpus_per_host, shape.tensor_size, shape.stages)
        return FaultyJob(hosts, *parallel, job_seed, scenario.workload, recording.names, recording.p2p)

    job = new_job()
    plants = [plant(job, strength, scenario.steps, random) for plant, strength in scenario.faults]
    if scenario.from_start:
        for plant in plants:
            plant.onset = 0
    took_us = _simulate(job, scenario, plants, life_seed)
    healthy_us = _simulate(new_job(), scenario, [], life_seed) if plants else took_us

    directory.mkdir(parents=True, exist_ok=True)
    recorders = _recorders(job, recording, random)
    killed_us = float(random.uniform(0.3, 0.9) * took_us) if recording.killed else np.inf
    written = 0
    for rank, recorder in enumerate(recorders):
        seen = _seen(job, rank, recording, random)
        if recording.killed:
            last_pass_us = killed_us - (killed_us - recorder.phase_us) % recorder.interval_us
            seen = [record for record in seen if record.end_us <= last_pass_us]
        text, records = recorder.log(seen)
        written += records
        if recording.cut_files and random.random() < recording.cut_files:
            text = text[: int(len(text) * random.uniform(0.5, 1))]
        (directory / f"{job.process(rank)}.log").write_text(text)
    return Label(
        scenario=scenario.name,
        seed=seed,
        hosts=hosts,
        processes=tuple(f"{hosts[host]}-pid{FIRST_PID + rank}" for rank, host in enumerate(job.host_of)),
        faults=tuple(plant.fault() for plant in plants),
        cost_share=1 - healthy_us / took_us,
        timed=recording.timing_source == "kernel_gpu",
        operations=sum(record.peer is None or recording.p2p for records in job.records for record in records),
        records=written,
    )
