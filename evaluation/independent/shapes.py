"""Drawing a job: its machines, how fast its links are, how long a step takes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.independent.launch import Workload
from evaluation.independent.machines import Cluster, Communicators, Gpu
from evaluation.independent.sizing import Means, size_workload

WORKLOADS = ("ddp", "ddp-one-bucket", "fsdp", "hsdp", "megatron", "megatron-interleaved", "moe")
# Hosts and GPUs of a host, by workload.
_SIZES = {
    "ddp": ((2, 8), (4, 4), (4, 8)),
    "ddp-one-bucket": ((2, 8), (4, 4)),
    "fsdp": ((2, 8), (4, 4)),
    "hsdp": ((2, 8), (4, 4)),
    "moe": ((2, 8), (4, 4)),
}
# Hosts, GPUs of a host, tp, pp, dp.
_MEGATRON = ((4, 4, 2, 2, 4), (4, 4, 4, 2, 2), (4, 8, 8, 1, 4), (8, 2, 2, 2, 4))
_INTERLEAVED = ((4, 4, 2, 4, 2), (8, 2, 2, 4, 2))
# GB/s of one GPU: NVLink of three generations as rings reach it; InfiniBand rails, RoCE, Ethernet that 8 GPUs share.
_NVLINK_GBS = (120.0, 230.0, 340.0)
_NIC_GBS = (45.0, 22.0, 11.0, 3.0)


@dataclass(frozen=True)
class Scale:
    """How much larger jobs are than those usually drawn: so many times the hosts, and so many steps if not as drawn."""

    hosts: int = 1
    steps: int | None = None


AS_DRAWN = Scale()


@dataclass(frozen=True)
class Shape:
    """Machines, network and work of a job.

    `step_us`: about how long a step takes; `families`: those of its communicators in which it can hang.
    """

    name: str
    cluster: Cluster
    nvlink_gbs: float
    nic_gbs: float
    steps: int
    step_us: float
    workload: Callable[[Communicators], Workload]
    families: tuple[str, ...]


def draw_shape(name: str, draws: np.random.Generator, placement: str, scale: Scale) -> Shape:
    """Draw a job of a workload. `placement`: plain, one-process (for each host), containers (for each GPU), or rack.

    More hosts are more replicas.
    """
    sizes = {"megatron": _MEGATRON, "megatron-interleaved": _INTERLEAVED}.get(name) or _SIZES[name]
    hosts, per_host, *parallel = (int(number) for number in sizes[int(draws.integers(len(sizes)))])
    hosts, parallel = hosts * scale.hosts, [*parallel[:-1], *(dp * scale.hosts for dp in parallel[-1:])]
    cluster = draw_cluster(hosts, per_host, draws, placement)
    nvlink_gbs = float(draws.choice(_NVLINK_GBS))
    nic_gbs = min(float(draws.choice(_NIC_GBS)), nvlink_gbs / 2)
    # Steps of a quarter of a second to a second, of which communication would take 10 to 35 % if nothing overlapped.
    step_us, share = float(draws.uniform(250e3, 1e6)), float(draws.uniform(0.1, 0.35))
    steps = int(draws.integers(60, 100))
    drawn = int(draws.integers(1 << 30))
    bus_gbs = min(nic_gbs * per_host * (2 if placement == "rack" else 1), nvlink_gbs)
    means = Means(
        hosts=hosts,
        per_host=per_host,
        parallel=tuple(parallel),
        nvlink_gbs=nvlink_gbs,
        nic_gbs=nic_gbs,
        bus_gbs=bus_gbs,
        communicating_us=step_us * share,
        computing_us=step_us * (1 - share),
        seed=drawn,
    )
    workload, families = size_workload(name, means, draws)
    return Shape(name, cluster, nvlink_gbs, nic_gbs, scale.steps or steps, step_us, workload, families)


def draw_cluster(hosts: int, per_host: int, draws: np.random.Generator, placement: str) -> Cluster:
    """Hosts with names and processes with ids; two hosts are one NVLink domain in a rack."""
    numbers = draws.choice(900, hosts, replace=False) + 100
    gpus: list[Gpu] = []
    for place, number in enumerate(numbers):
        first_pid = int(draws.integers(20_000, 40_000))
        for slot in range(per_host):
            host, pid = f"gpu-{number}", first_pid + slot
            if placement == "one-process":
                pid = first_pid
            if placement == "containers":
                host, pid = f"{int(draws.integers(1 << 48)):012x}", 1
            gpus.append(Gpu(len(gpus), host, pid, slot, place // 2 if placement == "rack" else place))
    return Cluster(tuple(gpus))
