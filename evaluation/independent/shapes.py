"""Drawing the machines and the work of a job: which workload, how large, how fast its network."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.independent.data_parallel import Ddp, Fsdp
from evaluation.independent.launch import Workload
from evaluation.independent.machines import Cluster, Communicators, Gpu
from evaluation.independent.megatron import Megatron
from evaluation.independent.mixture import Mixture, Routing

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
_QUARTER_MIB = 1 << 18


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


def draw_shape(name: str, draws: np.random.Generator, placement: str) -> Shape:
    """Draw a job of a workload. `placement`: plain, one-process (for each host), containers (for each GPU), or rack."""
    sizes = {"megatron": _MEGATRON, "megatron-interleaved": _INTERLEAVED}.get(name) or _SIZES[name]
    hosts, per_host, *parallel = (int(number) for number in sizes[int(draws.integers(len(sizes)))])
    cluster = draw_cluster(hosts, per_host, draws, placement)
    nvlink_gbs = float(draws.choice(_NVLINK_GBS))
    nic_gbs = min(float(draws.choice(_NIC_GBS)), nvlink_gbs / 2)
    # Steps of a quarter of a second to a second, of which communication would take 10 to 35 % if nothing overlapped.
    step_us, share = float(draws.uniform(250e3, 1e6)), float(draws.uniform(0.1, 0.35))
    time_us, computing_us = step_us * share, step_us * (1 - share)
    steps = int(draws.integers(60, 100))
    drawn = int(draws.integers(1 << 30))
    ranks = list(range(hosts * per_host))
    by_host = [list(range(first, first + per_host)) for first in range(0, len(ranks), per_host)]
    bus = min(nic_gbs * per_host, nvlink_gbs) if placement != "rack" else min(nic_gbs * 2 * per_host, nvlink_gbs)

    def made(workload: Callable[[Communicators], Workload], *families: str) -> Shape:
        return Shape(name, cluster, nvlink_gbs, nic_gbs, steps, step_us, workload, families)

    if name.startswith("ddp"):
        buckets = 1 if name == "ddp-one-bucket" else int(draws.integers(5, 11))
        sizes_bytes = tuple(_size(time_us * bus / 2 / buckets) for _ in range(buckets))
        loss_every = 0 if buckets == 1 else int(draws.choice([1, 5]))
        times = {"forward_us": computing_us / 3, "backward_us": computing_us * 2 / 3}
        work = {"bucket_bytes": sizes_bytes, "loss_every": loss_every, **times}
        return made(lambda make: Ddp.over(make, make.ranks, **work), "world")
    if name in ("fsdp", "hsdp"):
        layers = int(draws.integers(4, 7))
        groups = [ranks] if name == "fsdp" else by_host
        reach = bus if name == "fsdp" else nvlink_gbs
        per_byte = 3 * (len(groups[0]) - 1) / reach + (2 / nic_gbs if name == "hsdp" else 0)
        shard_bytes, layer_us = _size(time_us / layers / per_byte), computing_us / layers / 3
        families = ("shard",) if name == "fsdp" else ("shard", "replica")
        return made(lambda make: Fsdp.over(make, groups, layers, shard_bytes, layer_us), *families)
    if name == "moe":
        experts = int(draws.choice([2, 4]))
        groups = [ranks[first : first + experts] for first in range(0, len(ranks), experts)]
        routing = Routing(experts, int(draws.integers(1, 4)), drawn, drifts=bool(draws.random() < 0.7))
        layer_us = computing_us / routing.layers / 3
        token_bytes = _size(time_us * 0.4 / routing.layers / 4 / experts * nvlink_gbs)
        gradient = {
            "expert_gradient_bytes": _size(time_us * 0.3 * nic_gbs / 2),
            "dense_gradient_bytes": _size(time_us * 0.3 * bus / 2),
        }
        grouped = bool(draws.random() < 0.75)
        moe = {"attend_us": layer_us * 0.6, "expert_us": layer_us * 0.4, "token_bytes": token_bytes, **gradient}
        return made(
            lambda make: Mixture.over(make, groups, routing, grouped=grouped, **moe), "expert", "expert data", "world"
        )
    return made(*_megatron(name, parallel, draws, time_us, computing_us, nvlink_gbs, nic_gbs))


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


def _megatron(
    name: str,
    parallel: list[int],
    draws: np.random.Generator,
    time_us: float,
    computing_us: float,
    nvlink_gbs: float,
    nic_gbs: float,
) -> tuple[Callable[[Communicators], Workload], *tuple[str, ...]]:
    tp, pp, dp = parallel
    chunks = 2 if name == "megatron-interleaved" else 1
    batches = 4 if pp > 1 else int(draws.integers(2, 4))
    layers = 1 if pp > 1 else 2
    passes = batches * chunks * layers
    work = {
        "batches": batches,
        "chunks": chunks,
        "layers": layers,
        "layer_us": computing_us / passes / 3,
        "heavy_last": float(draws.choice([0.0, 0.15])) if pp > 1 else 0.0,
        "sequence": bool(draws.random() < 0.5),
        "tensor_bytes": _size(time_us * 0.4 / passes / 4 * nvlink_gbs),
        "activation_bytes": _size(time_us * 0.2 / batches / chunks / 2 * nic_gbs),
        "buckets": (buckets := int(draws.integers(2, 7))),
        "bucket_bytes": _size(time_us * 0.4 / buckets / 2 * nic_gbs / max(1, dp - 1)),
        "embedding_bytes": _size(time_us * 0.05 * nic_gbs),
    }
    families = ("tensor", "data", *(("pipeline", "embedding") if pp > 1 else ()))
    return (lambda make: Megatron.over(make, tp, pp, dp, **work), *families)


def _size(kilobytes: float) -> int:
    """Bytes for us times GB/s, in whole quarters of a MiB and at least one MiB."""
    return max(4, round(kilobytes * 1e3 / _QUARTER_MIB)) * _QUARTER_MIB
