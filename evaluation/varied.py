"""Labelled jobs that differ in everything: shape, workload, recording, faults and their strength are drawn by seed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evaluation import faults, hangs
from evaluation.faults import Plant
from evaluation.labelled_jobs import Recording, Scenario, Shape
from nixt_pipeline.simulation.job import RING_RECORDS, Names, Workload

MIB = 2**20
# Records of one job, at most: larger jobs tell nothing more about the rules.
_RECORDS = 90_000

SLOW: tuple[type[Plant], ...] = (
    faults.SlowGpu, faults.SlowComputeHost, faults.IntermittentLateness, faults.HesitatingSteps, faults.ComputeDecay,
    faults.LateWindow, faults.SlowNicHost, faults.SlowNicProcess, faults.NicDecay, faults.SlowRail,
    faults.SlowNvlinkHost, faults.FabricWindow, faults.SlowFabric,
)  # fmt: skip
HUNG: tuple[type[Plant], ...] = (
    hangs.HangTensor, hangs.HangData, hangs.HangPipeline, hangs.HangEmbedding, hangs.HangWorld
)  # fmt: skip
STOPPED: tuple[type[Plant], ...] = (hangs.HangTensor, hangs.HangData, hangs.HangPipeline, faults.ProcessSilent)
_OF_THE_NETWORK = (
    faults.SlowNicHost, faults.SlowNicProcess, faults.NicDecay, faults.SlowRail, faults.FabricWindow, faults.SlowFabric
)  # fmt: skip


def _shape(random: np.random.Generator) -> Shape:
    """8 to 128 GPUs, with at least two hosts in every pipeline stage."""
    while True:
        hosts, per_host = int(random.choice([2, 3, 4, 6, 8, 12, 16])), int(random.choice([2, 4, 8]))
        tensor, stages = int(random.choice([1, 2, 4, 8])), int(random.choice([1, 1, 2, 2, 4]))
        if per_host % tensor == 0 and hosts % stages == 0 and hosts // stages >= 2 and hosts * per_host >= 8:
            return Shape(hosts, per_host, tensor, stages)


def _workload(shape: Shape, random: np.random.Generator) -> Workload:
    """A step of which communication takes between a tenth and a half."""
    gradients = random.uniform(50e6, 400e6) / shape.data_size
    shares = random.dirichlet(np.full(int(random.integers(1, 4)), 3.0))
    return Workload(
        microbatches=int(random.integers(1, 5)),
        layers=int(random.integers(1, 3)),
        tensor_bytes=int(random.choice([4, 8, 16, 32])) * MIB,
        activation_bytes=int(random.choice([4, 8, 16])) * MIB,
        gradient_bucket_bytes=tuple(max(int(share * gradients), 1_500_000) for share in shares),
        loss_bytes=16_384,
        layer_us=float(random.uniform(1_000, 8_000)),
        bucket_us=float(random.uniform(200, 1_000)),
        optimizer_us=float(random.uniform(1_000, 10_000)),
    )


def _recording(random: np.random.Generator, lossy: bool) -> Recording:
    """A plugin of 2.28, 2.29 or 2.30, with random losses when `lossy`."""
    offset_us, drift_ppm = float(random.choice([0, 0, 2e4, 5e5])), float(random.choice([0, 0, 20]))
    if random.random() < 0.2:
        slot = Recording(
            names="absent", p2p=False, capacity=1, dump_interval_us=int(random.choice([500, 2_000, 10_000]))
        )
        return replace(slot, clock_offset_us=offset_us, clock_drift_ppm=drift_ppm)
    names: Names = "unknown" if random.random() < 0.3 else "given"
    loss = float(random.uniform(0.01, 0.5)) if lossy else 0.0
    interval = int(random.choice([10_000, 100_000, 500_000]))
    return Recording(names, True, RING_RECORDS, interval, loss, offset_us, drift_ppm)


def _steps(shape: Shape, workload: Workload, random: np.random.Generator) -> int:
    tensor = 4 * workload.microbatches * workload.layers if shape.tensor_size > 1 else 0
    pipeline = 2 * 2 * workload.microbatches if shape.stages > 1 else 0
    per_step = shape.gpus * (tensor + pipeline + 2 * len(workload.gradient_bucket_bytes) + 1)
    return int(np.clip(_RECORDS // per_step, 30, random.integers(40, 200)))


def _possible(shape: Shape, recording: Recording, plants: tuple[type[Plant], ...]) -> list[type[Plant]]:
    """The faults that such a job can have and such a recording can show at all."""
    impossible: set[type[Plant]] = set()
    if shape.tensor_size == 1:
        impossible |= {faults.SlowNvlinkHost, hangs.HangTensor}
    if shape.stages == 1 or not recording.p2p:
        impossible.add(hangs.HangPipeline)
    if shape.stages == 1:
        impossible.add(hangs.HangEmbedding)
    if shape.data_size == shape.gpus:  # with one communicator, a hang looks like the end of the job
        impossible |= {hangs.HangData, hangs.HangPipeline}
    return [plant for plant in plants if plant not in impossible]


def _job(name: str, random: np.random.Generator, plants: tuple[type[Plant], ...], number: int, lossy: bool) -> Scenario:
    shape = _shape(random)
    workload, recording = _workload(shape, random), _recording(random, lossy)
    chosen: list[tuple[type[Plant], float]] = []
    for _ in range(number):
        plant = _possible(shape, recording, plants)[int(random.integers(len(_possible(shape, recording, plants))))]
        decays = plant in (faults.ComputeDecay, faults.NicDecay, faults.IntermittentLateness, faults.HesitatingSteps)
        strength = float(random.choice([1.6, 2, 4] if decays else [1.2, 1.3, 1.6, 2, 4]))
        chosen.append((plant, 0 if plant in (*STOPPED, *HUNG) else strength))
    return Scenario(
        name,
        shape,
        workload,
        _steps(shape, workload, random),
        tuple(chosen),
        recording,
        compute_jitter=float(random.choice([0.005, 0.005, 0.02, 0.05])),
        host_spread=float(random.choice([0, 0.003, 0.01])),
        congested_share=float(random.choice([0, 0, 0.01])),
        pauses=bool(random.random() < 0.2),
        warm_up=bool(random.random() < 0.3),
        last_stage=float(random.choice([1, 1, 1.1])),
    )


def _two(name: str, random: np.random.Generator) -> Scenario:
    """Two faults of different media, so that neither hides the other."""
    late = (faults.SlowGpu, faults.SlowComputeHost)
    job = _job(name, random, late, 1, lossy=False)
    while job.shape.hosts // job.shape.stages < 3:
        job = _job(name, random, late, 1, lossy=False)
    others: list[type[Plant]] = [faults.SlowNvlinkHost, faults.SlowGpu] if job.shape.tensor_size > 1 else list(late)
    second = others[int(random.integers(len(others)))]
    return replace(job, faults=(*job.faults, (second, float(random.choice([1.6, 2, 4])))))


def _killed(job: Scenario, random: np.random.Generator) -> Scenario:
    interval_us = int(random.choice([500, 2_000, 10_000, 100_000]))
    return replace(job, recording=replace(job.recording, killed=True, dump_interval_us=interval_us))


def _cut(job: Scenario) -> Scenario:
    return replace(job, recording=replace(job.recording, cut_files=0.05))


_KINDS: dict[str, Callable[[str, np.random.Generator], Scenario]] = {
    "varied-healthy": lambda name, random: _job(name, random, SLOW, 0, lossy=False),
    "varied-healthy-lossy": lambda name, random: _job(name, random, SLOW, 0, lossy=True),
    "varied-slow": lambda name, random: _job(name, random, SLOW, 1, lossy=False),
    "varied-slow-lossy": lambda name, random: _job(name, random, SLOW, 1, lossy=True),
    "varied-stopped": lambda name, random: _job(name, random, STOPPED, 1, lossy=False),
    "varied-stopped-lossy": lambda name, random: _job(name, random, STOPPED, 1, lossy=True),
    "varied-two": _two,
    "varied-hung": lambda name, random: _job(name, random, HUNG, 1, lossy=False),
    "varied-hung-lossy": lambda name, random: _job(name, random, HUNG, 1, lossy=True),
    "varied-hung-cut": lambda name, random: _cut(_job(name, random, HUNG, 1, lossy=False)),
    "varied-healthy-killed": lambda name, random: _killed(_job(name, random, SLOW, 0, lossy=False), random),
    "varied-healthy-cut": lambda name, random: _cut(_job(name, random, SLOW, 0, lossy=True)),
}
NAMES = tuple(_KINDS)


def varied(name: str, seed: int) -> Scenario:
    """The job of the kind `name` (one of `NAMES`) that belongs to `seed`."""
    return _KINDS[name](name, np.random.default_rng([seed, NAMES.index(name)]))
