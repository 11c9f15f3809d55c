"""The kinds of jobs, and drawing one of a kind from a seed."""

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evaluation.independent.clocks import Clock
from evaluation.independent.fabric import Congestion
from evaluation.independent.faults import Fault
from evaluation.independent.jobs import Attempt, Job
from evaluation.independent.launch import Launch, run
from evaluation.independent.machines import Cluster, Gpu
from evaluation.independent.pace import Habits
from evaluation.independent.plugin import Plugin
from evaluation.independent.shapes import AS_DRAWN, WORKLOADS, Scale, Shape, draw_shape

_NVLINK_WORK, _RAIL_WORK = ("megatron", "hsdp", "megatron-interleaved"), ("megatron", "hsdp", "moe")
_WORKLOADS_OF = {
    "slow-nvlink": _NVLINK_WORK,
    "slow-path": _RAIL_WORK,
    "mismatch": ("ddp", "hsdp", "megatron", "moe"),
    "late-one-process": ("ddp", "fsdp"),
    "healthy-experts": ("moe",),
    "healthy-losses": ("megatron", "moe", "ddp", "hsdp"),
}
_NAMES: tuple[dict[str, str], ...] = (
    {},
    {
        "tensor": "TENSOR_MODEL_PARALLEL_GROUP",
        "pipeline": "PIPELINE_MODEL_PARALLEL_GROUP",
        "data": "DATA_PARALLEL_GROUP_WITH_CP",
        "embedding": "EMBEDDING_GROUP",
        "expert": "EXPERT_MODEL_PARALLEL_GROUP",
        "expert data": "EXPERT_DATA_PARALLEL_GROUP",
    },
    {"tensor": "TP Group {n}", "pipeline": "PP Group {n}", "data": "DP Group {n}", "world": "WORLD Group {n}"},
    {"shard": "mesh_fsdp:{n}", "replica": "mesh_dp_replicate:{n}", "world": "default_pg:0", "expert": "mesh_ep:{n}"},
)


def draw_job(kind: str, seed: int, scale: Scale = AS_DRAWN) -> Job:
    """The job of a kind, a seed and a scale. Raises KeyError for an unknown kind."""
    plant = KINDS[kind]
    draws = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    name = str(draws.choice(_WORKLOADS_OF.get(kind, WORKLOADS)))
    launches = kind in ("restart", "healthy-launches")
    placement = str(draws.choice(["plain", "rack", "containers", "one-process"], p=[0.74, 0.12, 0.08, 0.06]))
    if kind == "late-one-process" or (placement == "one-process" and name not in ("ddp", "fsdp")):
        placement = "one-process" if kind == "late-one-process" else "plain"
    if launches and draws.random() < 0.5:
        name, placement = "ddp", "plain"
    shape = draw_shape(name, draws, placement, scale)
    launch = Launch(
        cluster=shape.cluster,
        workload=shape.workload,
        steps=shape.steps,
        seed=int(draws.integers(1, 1 << 31)),
        nvlink_gbs=shape.nvlink_gbs,
        nic_gbs=shape.nic_gbs,
        names=_NAMES[int(draws.integers(len(_NAMES)))],
        habits=_draw_habits(shape, draws),
    )
    job = Job(
        kind=kind,
        seed=seed,
        workload=name if placement == "plain" else f"{name}, {placement}",
        attempts=(Attempt(launch),),
        plugin=_draw_plugin(draws),
        clocks=_draw_clocks(shape.cluster, draws),
        sleeps=bool(draws.random() < 0.7),
    )
    return plant(job, shape, draws)


def _draw_plugin(draws: np.random.Generator) -> Plugin:
    if draws.random() < 0.2:
        return Plugin(ring=1, interval_us=float(draws.choice([500.0, 2e3, 10e3])))
    return Plugin(interval_us=float(draws.choice([10e3, 100e3, 500e3, 1e6])))


def _draw_habits(shape: Shape, draws: np.random.Generator) -> Habits:
    """What a healthy job does now and then; each of it in a part of the jobs."""
    chances = draws.random(6)
    everybody = frozenset(gpu.rank for gpu in shape.cluster.gpus)
    return Habits(
        warm_up=int(draws.integers(1, 5)),
        loader_stalls=0.002 if chances[0] < 0.3 else 0.0,
        collections=40 if chances[1] < 0.3 else 0,
        checkpoints=int(draws.integers(20, 50)) if chances[2] < 0.3 else 0,
        checkpoint_by=everybody,
        evaluations=int(draws.integers(20, 50)) if chances[3] < 0.25 else 0,
        lengthening=0.25 if chances[4] < 0.1 else 0.0,
        uneven=0.02 if chances[5] < 0.15 else 0.0,
    )


def _draw_clocks(cluster: Cluster, draws: np.random.Generator) -> dict[str, Clock]:
    """A clock for each machine: within some ms mostly, now and then seconds off, or set while the job runs."""
    machines = {gpu.host: gpu.rank // 4 if gpu.pid == 1 else gpu.host for gpu in cluster.gpus}
    drawn: dict[object, Clock] = {}
    for machine in dict.fromkeys(machines.values()):
        clock = Clock(float(draws.normal(0.0, 3000.0)), float(draws.normal(0.0, 5e-6)))
        far, is_set = draws.random(2)
        if far < 0.05:
            clock = replace(clock, offset_us=float(draws.uniform(-40e6, 40e6)))
        if is_set < 0.04:
            clock = replace(
                clock, stepped_at_us=float(draws.uniform(5e6, 60e6)), step_us=float(draws.uniform(-20e6, 20e6))
            )
        drawn[machine] = clock
    return {host: drawn[machine] for host, machine in machines.items()}


Plant = Callable[[Job, Shape, np.random.Generator], Job]


def _with(job: Job, fault: Fault) -> Job:
    return replace(job, attempts=(replace(job.attempts[0], faults=(fault,)),))


def _since(shape: Shape, draws: np.random.Generator) -> tuple[int, int]:
    """From somewhere in the first half until the end, or in a quarter of the jobs until later."""
    first = int(shape.steps * draws.uniform(0.15, 0.5))
    last = int(shape.steps * draws.uniform(0.75, 0.95)) if draws.random() < 0.25 else shape.steps
    return first, last


def _gpu(shape: Shape, draws: np.random.Generator) -> frozenset[int]:
    return frozenset({int(draws.integers(len(shape.cluster.gpus)))})


def _machine(shape: Shape, draws: np.random.Generator) -> frozenset[int]:
    """The GPUs of one machine, whatever its containers are called."""
    gpus = shape.cluster.gpus
    per_machine = 1 + max(gpu.slot for gpu in gpus)
    first = int(draws.integers(len(gpus) // per_machine)) * per_machine
    return frozenset(range(first, first + per_machine))


def _late_gpu(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    return _with(
        job, Fault("late", _gpu(shape, draws), *_since(shape, draws), strength=float(draws.uniform(1.08, 1.6)))
    )


def _late_host(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    strength = float(draws.uniform(1.06, 1.5))
    return _with(job, Fault("late", _machine(shape, draws), *_since(shape, draws), strength=strength))


def _ramp(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _machine(shape, draws) if draws.random() < 0.5 else _gpu(shape, draws)
    return _with(job, Fault("ramp", ranks, *_since(shape, draws), strength=float(draws.uniform(1.2, 1.7))))


def _every_nth(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _machine(shape, draws) if draws.random() < 0.5 else _gpu(shape, draws)
    pause_us = shape.step_us * float(draws.uniform(0.2, 1.5))
    first, last = _since(shape, draws)
    return _with(job, Fault("pause", ranks, first, last, pause_us=pause_us, every=int(draws.integers(3, 11))))


def _window(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _machine(shape, draws) if draws.random() < 0.5 else _gpu(shape, draws)
    first = int(shape.steps * draws.uniform(0.1, 0.6))
    last = first + int(shape.steps * draws.uniform(0.1, 0.35))
    return _with(job, Fault("late", ranks, first, last, strength=float(draws.uniform(1.25, 2.0))))


def _unlogged(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _gpu(shape, draws)
    fault = Fault("late", ranks, *_since(shape, draws), strength=float(draws.uniform(1.2, 1.6)))
    missing = frozenset(gpu.process for gpu in shape.cluster.gpus if gpu.rank in ranks)
    return replace(_with(job, fault), plugin=replace(job.plugin, missing=missing))


def _slow_nic(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _machine(shape, draws) if draws.random() < 0.5 else _gpu(shape, draws)
    return _with(job, _slow_link("nic", ranks, shape, draws))


def _slow_path(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    """A rail of all hosts, or the way between two domains."""
    domains = sorted({gpu.domain for gpu in shape.cluster.gpus})
    if draws.random() < 0.5 or len(domains) < 3:
        slot = int(draws.integers(1 + max(gpu.slot for gpu in shape.cluster.gpus)))
        ranks = frozenset(gpu.rank for gpu in shape.cluster.gpus if gpu.slot == slot)
        return _with(job, replace(_slow_link("rail", ranks, shape, draws), place=(slot,)))
    pair = tuple(int(domain) for domain in draws.choice(domains, 2, replace=False))
    ranks = frozenset(gpu.rank for gpu in shape.cluster.gpus if gpu.domain in pair)
    return _with(job, replace(_slow_link("path", ranks, shape, draws), place=pair))


def _slow_nvlink(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _machine(shape, draws) if draws.random() < 0.5 else _gpu(shape, draws)
    return _with(job, _slow_link("nvlink", ranks, shape, draws))


def _slow_fabric(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    return _with(job, _slow_link("fabric", frozenset(gpu.rank for gpu in shape.cluster.gpus), shape, draws))


def _slow_link(link: str, ranks: frozenset[int], shape: Shape, draws: np.random.Generator) -> Fault:
    return Fault("link", ranks, *_since(shape, draws), strength=float(draws.uniform(1.4, 4.0)), link=link)


def _flaps(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    ranks = _machine(shape, draws) if draws.random() < 0.5 else _gpu(shape, draws)
    lasting_us = shape.steps * shape.step_us
    begins = np.sort(draws.uniform(0.1, 0.9, int(draws.integers(2, 7)))) * lasting_us
    down = tuple((float(begin), float(begin + draws.uniform(0.5e6, 4e6))) for begin in begins)
    return _with(job, Fault("flap", ranks, 0, shape.steps, link="nic", down=down))


def _hang(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    return _with(job, _halt("hang", job, shape, draws))


def _dead(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    return _with(job, _halt("dead", job, shape, draws))


def _halt(what: str, job: Job, shape: Shape, draws: np.random.Generator) -> Fault:
    """A rank that stops before any operation of a step, in a family drawn first, so that rare ones come up as well."""
    launch = job.attempts[0].launch
    families = [family for family in shape.families if not (job.plugin.has_slots and family in ("pipeline", "expert"))]
    family, step = str(draws.choice(families)), int(launch.steps * draws.uniform(0.4, 0.9))
    programs = run(replace(launch, steps=step + 1)).programs
    counts = {
        rank: sum(
            task.step == step and task.parts[0].communicator.family == family for task in program.tasks if task.parts
        )
        for rank, program in programs.items()
    }
    rank = int(draws.choice([rank for rank, count in counts.items() if count]))
    ordinal = int(draws.integers(counts[rank]))
    return Fault(what, frozenset({rank}), step, launch.steps, family=family, ordinal=ordinal)


def _mismatch(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    family = {"ddp": "world", "hsdp": "replica", "megatron": "data", "moe": "world"}[job.workload.split(",")[0]]
    return _with(job, Fault("mismatch", _gpu(shape, draws), *_since(shape, draws)[:1], shape.steps, family=family))


def _restart(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    """It hangs; then it is started again, or goes on without the process that died."""
    first = job.attempts[0]
    if shape.name == "ddp" and draws.random() < 0.6:
        fault = _halt("dead", job, shape, draws)
        (rank,) = fault.ranks
        rest = replace(first.launch, cluster=shape.cluster.without(rank), seed=first.launch.seed + 1)
    else:
        fault = _halt("hang", job, shape, draws)
        rest = _again(first.launch, draws)
    pause_us = float(draws.uniform(5e6, 200e6))
    return replace(job, attempts=(replace(first, faults=(fault,)), Attempt(rest, pause_us=pause_us)))


def _again(launch: Launch, draws: np.random.Generator) -> Launch:
    """The same job started again: new processes, another number of steps."""
    gpus = tuple(replace(gpu, pid=gpu.pid if gpu.pid == 1 else gpu.pid + 5000) for gpu in launch.cluster.gpus)
    return replace(
        launch, cluster=Cluster(gpus), seed=launch.seed + 1, steps=int(launch.steps * draws.uniform(0.3, 1.2))
    )


def _healthy(job: Job, _shape: Shape, _draws: np.random.Generator) -> Job:
    return job


def _pauses(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    """Long checkpoints, of the first replica or of all, or many stalls and collections."""
    launch = job.attempts[0].launch
    gpus = shape.cluster.gpus
    writers = {
        "first machine": _first_machine(gpus),
        "all": frozenset(gpu.rank for gpu in gpus),
        "rank 0": frozenset({0}),
    }
    note = str(draws.choice(sorted(writers)))
    habits = replace(
        launch.habits,
        checkpoints=int(draws.integers(8, 20)),
        checkpoint_us=float(draws.uniform(1e6, 6e6)),
        checkpoint_by=writers[note],
        loader_stalls=float(draws.choice([0.0, 0.003])),
        collections=int(draws.choice([0, 30])),
        evaluations=int(draws.choice([0, 25])),
    )
    notes = (f"checkpoints by {note}",)
    return replace(job, attempts=(Attempt(replace(launch, habits=habits)),), notes=notes)


def _first_machine(gpus: tuple[Gpu, ...]) -> frozenset[int]:
    return frozenset(range(1 + max(gpu.slot for gpu in gpus)))


def _losses(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    """Sends and Recvs lost by peer, rings that overflow, files that are cut, processes without a log."""
    processes = sorted({gpu.process for gpu in shape.cluster.gpus})
    lost_by_peer = 0.0 if job.plugin.has_slots else float(draws.choice([0.0, 0.3, 0.6, 0.9]))
    chosen = [str(process) for process in draws.permutation(processes)]
    missing = frozenset(chosen[: int(draws.integers(0, 3))])
    cut = {process: float(draws.uniform(0.3, 0.98)) for process in chosen[3 : 3 + int(draws.integers(0, 3))]}
    plugin = replace(job.plugin, lost_by_peer=lost_by_peer, missing=missing, cut=cut)
    overflows = bool(draws.random() < 0.4) and not plugin.has_slots
    if overflows:
        # As 1,024 do not last for a minute, which would be most of this job.
        plugin = replace(plugin, ring=32, interval_us=2e6)
    ring = "ring overflows" if overflows else "ring suffices"
    notes = (f"{lost_by_peer:.0%} lost by peer", ring, f"{len(missing)} missing", f"{len(cut)} cut")
    return replace(job, plugin=plugin, notes=notes)


def _launches(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    """Started again after it ended or was killed, or going on with one process fewer or more, as planned."""
    first = job.attempts[0]
    pause_us = float(draws.uniform(1e6, 300e6))
    if shape.name == "ddp" and draws.random() < 0.6:
        smaller = replace(first.launch, cluster=shape.cluster.without(int(draws.integers(len(shape.cluster.gpus)))))
        order = (first.launch, smaller) if draws.random() < 0.5 else (smaller, first.launch)
        second = Attempt(replace(order[1], seed=first.launch.seed + 1), pause_us=pause_us)
        note = "shrinks" if order[1] is smaller else "grows"
        return replace(job, attempts=(Attempt(order[0]), second), sleeps=True, notes=(note,))
    killed = float(draws.uniform(0.5, 0.95)) if draws.random() < 0.5 else None
    attempts = (replace(first, killed_after=killed), Attempt(_again(first.launch, draws), pause_us=pause_us))
    return replace(job, attempts=attempts, notes=("killed and started again" if killed else "started again",))


def _congested(job: Job, shape: Shape, draws: np.random.Generator) -> Job:
    """Other jobs share the network: bursts of some seconds, everywhere at once."""
    launch = job.attempts[0].launch
    begins = draws.uniform(0.0, shape.steps * shape.step_us, int(draws.integers(5, 15)))
    bursts = tuple(
        Congestion(float(begin), float(begin + draws.uniform(0.3e6, 3e6)), float(draws.uniform(1.2, 3.0)))
        for begin in begins
    )
    return replace(job, attempts=(Attempt(replace(launch, congestions=bursts)),))


KINDS: dict[str, Plant] = {
    "late-gpu": _late_gpu,
    "late-host": _late_host,
    "thermal-ramp": _ramp,
    "late-every-nth-step": _every_nth,
    "late-window": _window,
    "late-without-log": _unlogged,
    "late-one-process": _late_gpu,
    "slow-nic": _slow_nic,
    "slow-path": _slow_path,
    "slow-nvlink": _slow_nvlink,
    "slow-fabric": _slow_fabric,
    "link-flaps": _flaps,
    "hang": _hang,
    "dead-process": _dead,
    "mismatch": _mismatch,
    "restart": _restart,
    "healthy": _healthy,
    "healthy-pauses": _pauses,
    "healthy-experts": _healthy,
    "healthy-losses": _losses,
    "healthy-launches": _launches,
    "healthy-congested": _congested,
}
