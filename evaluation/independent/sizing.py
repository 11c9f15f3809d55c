"""Drawing how much work a job does, so that it takes as long as it should on the machines it has."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.independent.data_parallel import Ddp, Fsdp
from evaluation.independent.launch import Workload
from evaluation.independent.machines import Communicators
from evaluation.independent.megatron import Megatron, Passes
from evaluation.independent.mixture import Exchange, Mixture, Routing

_QUARTER_MIB = 1 << 18

# A workload on given communicators, and the families of communicators in which it can hang.
Sized = tuple[Callable[[Communicators], Workload], tuple[str, ...]]


@dataclass(frozen=True)
class Means:
    """What there is for a step: machines, their links in GB/s (`bus_gbs`: of all GPUs together), and time in us."""

    hosts: int
    per_host: int
    parallel: tuple[int, ...]
    nvlink_gbs: float
    nic_gbs: float
    bus_gbs: float
    communicating_us: float
    computing_us: float
    seed: int

    @property
    def ranks(self) -> list[int]:
        """All ranks."""
        return list(range(self.hosts * self.per_host))

    def in_groups(self, size: int) -> list[list[int]]:
        """The ranks in groups of neighbours."""
        return [self.ranks[first : first + size] for first in range(0, len(self.ranks), size)]


def size_workload(name: str, means: Means, draws: np.random.Generator) -> Sized:
    """Draw a workload whose communication and computing take about the time that there is for them."""
    if name.startswith("ddp"):
        return _ddp(means, draws, one_bucket=name == "ddp-one-bucket")
    if name in ("fsdp", "hsdp"):
        return _fsdp(means, draws, hybrid=name == "hsdp")
    if name == "moe":
        return _mixture(means, draws)
    return _megatron(means, draws, chunks=2 if name == "megatron-interleaved" else 1)


def _ddp(means: Means, draws: np.random.Generator, one_bucket: bool) -> Sized:
    buckets = 1 if one_bucket else int(draws.integers(5, 11))
    # The first one is cut short so that reducing begins early, the last one has what is left.
    parts = [1.0] if one_bucket else [0.4, *[1.0] * (buckets - 2), 0.7]
    bucket_bytes = tuple(_size(means.communicating_us * means.bus_gbs / 2 * part / sum(parts)) for part in parts)
    loss_every = 0 if one_bucket else int(draws.choice([1, 5]))
    forward_us, backward_us = means.computing_us / 3, means.computing_us * 2 / 3
    return lambda make: Ddp(make.make("world", make.ranks), bucket_bytes, forward_us, backward_us, loss_every), (
        "world",
    )


def _fsdp(means: Means, draws: np.random.Generator, hybrid: bool) -> Sized:
    layers = int(draws.integers(4, 7))
    groups = means.in_groups(means.per_host) if hybrid else [means.ranks]
    # Two gathers and a scatter of each layer, and a reduction between the replicas.
    per_byte = 3 * (len(groups[0]) - 1) / (means.nvlink_gbs if hybrid else means.bus_gbs)
    per_byte += 2 / means.nic_gbs if hybrid else 0.0
    shard_bytes, layer_us = _size(means.communicating_us / layers / per_byte), means.computing_us / layers / 3
    families = ("shard", "replica") if hybrid else ("shard",)
    return lambda make: Fsdp.over(make, groups, layers, shard_bytes, layer_us), families


def _mixture(means: Means, draws: np.random.Generator) -> Sized:
    experts = int(draws.choice([2, 4]))
    layers = int(draws.integers(1, 4))
    routing = Routing(experts, layers, means.seed, drifts=bool(draws.random() < 0.7))
    layer_us = means.computing_us / layers / 3
    work = Exchange(
        token_bytes=_size(means.communicating_us * 0.4 / layers / 4 / experts * means.nvlink_gbs),
        attend_us=layer_us * 0.6,
        expert_us=layer_us * 0.4,
        expert_gradient_bytes=_size(means.communicating_us * 0.3 * means.nic_gbs / 2),
        dense_gradient_bytes=_size(means.communicating_us * 0.3 * means.bus_gbs / 2),
        grouped=bool(draws.random() < 0.75),
    )
    groups = means.in_groups(experts)
    return lambda make: Mixture.over(make, groups, routing, work), ("expert", "expert data", "world")


def _megatron(means: Means, draws: np.random.Generator, chunks: int) -> Sized:
    tp, pp, dp = means.parallel
    batches = 4 if pp > 1 else int(draws.integers(2, 4))
    layers = 1 if pp > 1 else 2
    passes = batches * chunks * layers
    heavy_last = float(draws.choice([0.0, 0.15])) if pp > 1 else 0.0
    sequence = bool(draws.random() < 0.5)
    buckets = int(draws.integers(2, 7))
    time_us = means.communicating_us
    work = Passes(
        batches=batches,
        chunks=chunks,
        layers=layers,
        layer_us=means.computing_us / passes / 3,
        heavy_last=heavy_last,
        sequence=sequence,
        tensor_bytes=_size(time_us * 0.4 / passes / 4 * means.nvlink_gbs),
        activation_bytes=_size(time_us * 0.2 / batches / chunks / 2 * means.nic_gbs),
        buckets=buckets,
        bucket_bytes=_size(time_us * 0.4 / buckets / 2 * means.nic_gbs / max(1, dp - 1)),
        embedding_bytes=_size(time_us * 0.05 * means.nic_gbs),
    )
    families = ("tensor", "data", "pipeline", "embedding") if pp > 1 else ("tensor", "data")
    return lambda make: Megatron.over(make, tp, pp, dp, work), families


def _size(kilobytes: float) -> int:
    """Bytes for us times GB/s, in whole quarters of a MiB and at least one MiB."""
    return max(4, round(kilobytes * 1e3 / _QUARTER_MIB)) * _QUARTER_MIB
