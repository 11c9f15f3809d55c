"""A simulated synchronous training job, and what an Inspector plugin would have written about it, byte for byte.

The physics is the one that makes Inspector logs easy to misread: a collective starts when its last rank arrives and
moves at the speed of its slowest link, so that a rank that arrives early reports a long time and the one that all wait
for a short time. Nothing in it measures a real network.

Nothing is read from the clock: the same seed gives the same bytes.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal

import numpy as np

from nixt_pipeline.arrays import Floats, Ints
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.operations import algobw_gbs, busbw_gbs

EPOCH_US = 1_756_587_600_000_000  # 2025-08-30 21:00:00 UTC
DUMP_INTERVAL_US = 100_000  # NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS of the simulated job
RING_RECORDS = 1024  # what a 2.30 plugin remembers of a communicator between two dumps
WRITE_US = 4  # time between two records of one dump pass
FIRST_PID = 20_000
NEVER_US = 1e15  # the clock of a rank that hangs: what ends later than this is never recorded

LAUNCH_US = 3.0  # standard deviation of the delay before a kernel starts on one GPU
COMPUTE_JITTER, TRANSFER_JITTER = 0.005, 0.02  # relative standard deviations
LATENCY_US = {"nvlink": 12.0, "network": 25.0}
LINK_GBS = {"nvlink": 320.0, "network": 42.0}

# Communicators' names: as the framework gave them, or none given ("unknown"), or a plugin that does not write them.
Names = Literal["given", "unknown", "absent"]


@dataclass(frozen=True)
class Workload:
    """What one training step consists of; sizes in bytes, times in microseconds on a healthy GPU."""

    microbatches: int = 4
    layers: int = 2  # tensor-parallel layers per stage and microbatch; each is one AllGather and one ReduceScatter
    tensor_bytes: int = 2 * 2**20
    activation_bytes: int = 8 * 2**20
    gradient_bucket_bytes: tuple[int, ...] = (24_379_392, 16_777_216, 6_291_456)
    loss_bytes: int = 16_384
    layer_us: float = 10_000.0  # computation between two tensor-parallel collectives
    bucket_us: float = 600.0
    optimizer_us: float = 15_000.0


@dataclass(frozen=True)
class Member:
    """One rank of one communicator, with the parts of its records that never change.

    Plugins up to 2.29 do not write a communicator's name, which `comm_name` None stands for.
    """

    comm_id: str
    comm_name: str | None
    rank: int
    n_ranks: int
    nnodes: int
    hostname: str
    pid: int

    @cached_property
    def before_timestamp(self) -> str:
        """The record up to the dump timestamp."""
        name, release = f'"comm_name":"{self.comm_name}",', "v2.30.7-1"
        if self.comm_name is None:
            name, release = "", "v2.28.9-1"
        return (
            f'{{"header":{{"id":"{self.comm_id}",{name}"rank":{self.rank},'
            f'"n_ranks":{self.n_ranks},"nnodes":{self.nnodes}}},"metadata":{{"inspector_output_format_version":"v4.0",'
            f'"git_rev":"{release}","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":'
        )

    @cached_property
    def after_timestamp(self) -> str:
        """The record between the dump timestamp and the measurement."""
        return f',"hostname":"{self.hostname}","pid":{self.pid}}},'


@dataclass(frozen=True, slots=True)
class Record:
    """One operation of one rank, before it is known when it is dumped; `end_us` counts from the start of the job."""

    member: Member
    function: str
    sn: int
    peer: int | None
    size: int
    exec_us: int
    end_us: float


def format_record(record: Record, dump_us: int, timing_source: str = "kernel_gpu") -> str:
    """The line for one operation: Send or Recv when it has a `peer` (a rank of the communicator), else a collective.

    Times in microseconds, sizes in bytes, bandwidths in GB/s by the plugin's formulas.
    """
    member, function, sn, peer, size, exec_us = (
        record.member, record.function, record.sn, record.peer, record.size, record.exec_us
    )  # fmt: skip
    kind, counterpart = ("coll", "") if peer is None else ("p2p", f'"p2p_peer":{peer},')
    algobw = algobw_gbs(function, size, member.n_ranks, exec_us) or 0.0  # no time, no bandwidth: written as 0
    busbw = busbw_gbs(function, size, member.n_ranks, exec_us) or 0.0
    return (
        f"{member.before_timestamp}{dump_us}{member.after_timestamp}"
        f'"{kind}_perf":{{"{kind}":"{function}","{kind}_sn":{sn},{counterpart}"{kind}_msg_size_bytes":{size},'
        f'"{kind}_exec_time_us":{exec_us},"{kind}_timing_source":"{timing_source}","{kind}_algobw_gbs":{algobw:.6f},'
        f'"{kind}_busbw_gbs":{busbw:.6f}}}}}\n'
    )


@dataclass(frozen=True)
class Communicators:
    """The communicators of one kind: row g of `ranks` holds the global ranks of communicator g in order."""

    ranks: Ints
    members: tuple[tuple[Member, ...], ...]
    link: str


class Job:
    """The simulation: a clock for every rank, moved on by computation and by communication.

    Ranks are numbered along tensor parallelism first, then data, then pipeline stages, and fill the hosts in order. A
    fault is planted by changing, between steps, what is public here: `slowdown` (computation takes this many times as
    long), `network` and `nvlink` (a link's share of its healthy speed) and `clock`, each with one value per rank.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        gpus_per_host: int,
        tensor_size: int,
        stages: int,
        seed: int,
        workload: Workload,
        names: Names = "given",
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.hosts, self.stages, self.workload, self.names = hosts, stages, workload, names
        self.clock: Floats = np.zeros(len(hosts) * gpus_per_host)
        self.slowdown: Floats = np.ones_like(self.clock)
        self.network: Floats = np.ones_like(self.clock)
        self.nvlink: Floats = np.ones_like(self.clock)
        self.compute_jitter = COMPUTE_JITTER
        self.host_of: Ints = np.repeat(np.arange(len(hosts)), gpus_per_host)
        self.sequence: defaultdict[tuple[str, str], count[int]] = defaultdict(count)
        self.records: list[list[Record]] = [[] for _ in self.clock]

        grid = np.arange(len(self.clock)).reshape(stages, -1, tensor_size)  # stage, data-parallel index, tensor index
        self.tensor = self._communicators("TP", grid.reshape(-1, tensor_size))
        self.data = self._communicators("DP", grid.transpose(0, 2, 1).reshape(-1, grid.shape[1]))
        self.pipeline = self._communicators("PP", grid.reshape(stages, -1).T)
        self.world = self._communicators("WORLD", grid.reshape(1, -1))

    def _communicators(self, name: str, ranks: Ints) -> Communicators:
        rows = []
        for group, row in enumerate(ranks):
            comm_id = f"0x{int(self.random.integers(2**52, 2**56)):x}"  # 14 hex digits, as much as the plugin prints
            label = {"given": f"{name} Group {group}", "unknown": "unknown", "absent": None}[self.names]
            nnodes = len(set(self.host_of[row]))
            rows.append(
                tuple(
                    Member(comm_id, label, rank, len(row), nnodes, self.hosts[host], FIRST_PID + process)
                    for rank, (process, host) in enumerate(zip(row.tolist(), self.host_of[row].tolist(), strict=True))
                )
            )
        inside_hosts = name != "WORLD" and all(members[0].nnodes == 1 for members in rows)
        return Communicators(ranks, tuple(rows), "nvlink" if inside_hosts else "network")

    def _part(self, items: int, stage: int | None) -> slice:
        """The part of `items` things in rank order that belongs to a stage; everything for None."""
        return slice(None) if stage is None else slice(items * stage // self.stages, items * (stage + 1) // self.stages)

    def compute(self, duration_us: float, stage: int | None = None) -> None:
        """Let the ranks of one stage (default: all) compute."""
        part = self._part(len(self.clock), stage)
        noise = 1 + self.compute_jitter * np.abs(self.random.standard_normal(self.clock[part].shape))
        self.clock[part] += duration_us * self.slowdown[part] * noise

    def _transfer(self, ranks: Ints, wire: float, link: str) -> tuple[Floats, list[list[int]]]:
        """When each row of `ranks` is done, and how long each of its ranks was in the kernel, waiting included."""
        share = (self.nvlink if link == "nvlink" else self.network)[ranks].min(axis=1)
        arrival = self.clock[ranks] + LAUNCH_US * np.abs(self.random.standard_normal(ranks.shape))
        noise = 1 + TRANSFER_JITTER * np.abs(self.random.standard_normal(len(ranks)))
        end = arrival.max(axis=1) + (LATENCY_US[link] + wire / (LINK_GBS[link] * share) / 1e3) * noise
        return end, (end[:, None] - arrival).astype(np.int64).tolist()

    def _record(self, member: Member, function: str, sn: int, peer: int | None, size: int, us: int, end: float) -> None:
        if end < NEVER_US:
            self.records[member.pid - FIRST_PID].append(Record(member, function, sn, peer, size, us, end))

    def collective(self, comms: Communicators, coll: str, size: int, stage: int | None = None) -> None:
        """Run a collective on every communicator (of one stage); all of its ranks leave it together."""
        part, n_ranks = self._part(len(comms.ranks), stage), comms.ranks.shape[1]
        if n_ranks == 1:  # NCCL turns it into a copy, which Inspector does not see
            return
        ranks = comms.ranks[part]
        wire = size * (n_ranks - 1) * (2 / n_ranks if coll == "AllReduce" else 1)  # bytes that a rank sends in a ring
        end, exec_us = self._transfer(ranks, wire, comms.link)
        self.clock[ranks] = end[:, None]
        for members, end_us, times in zip(comms.members[part], end.tolist(), exec_us, strict=True):
            sn = next(self.sequence[members[0].comm_id, coll])
            for member, time in zip(members, times, strict=True):
                self._record(member, coll, sn, None, size, time, end_us)

    def send(self, source: int, target: int) -> None:
        """Send activations or gradients between stages; the sender computes on, the receiver waits."""
        comms, size = self.pipeline, self.workload.activation_bytes
        end, exec_us = self._transfer(comms.ranks[:, [source, target]], size, comms.link)
        self.clock[comms.ranks[:, target]] = end
        for members, end_us, times in zip(comms.members, end.tolist(), exec_us, strict=True):
            for function, rank, peer, time in (("Send", source, target, times[0]), ("Recv", target, source, times[1])):
                member = members[rank]
                sn = 1 + next(self.sequence[member.comm_id, f"p2p of rank {rank}"])  # starts at 1, unlike NCCL's
                self._record(member, function, sn, peer, size, time, end_us)

    def layers(self, stage: int) -> None:
        """The forward or the backward pass of one microbatch through one stage."""
        for _ in range(self.workload.layers):
            self.compute(self.workload.layer_us, stage)
            self.collective(self.tensor, "AllGather", self.workload.tensor_bytes, stage)
            self.collective(self.tensor, "ReduceScatter", self.workload.tensor_bytes, stage)

    def step(self) -> None:
        """One training step: all forward passes, all backward passes, gradients, optimizer, loss."""
        for order in (range(self.stages), range(self.stages - 1, -1, -1)):
            for _ in range(self.workload.microbatches):
                for position, stage in enumerate(order):
                    if position > 0:
                        self.send(order[position - 1], stage)
                    self.layers(stage)
        for size in self.workload.gradient_bucket_bytes:
            self.compute(self.workload.bucket_us)
            self.collective(self.data, "ReduceScatter", size)
        for size in self.workload.gradient_bucket_bytes:
            self.collective(self.data, "AllGather", size)
        self.compute(self.workload.optimizer_us)
        self.collective(self.world, "AllReduce", self.workload.loss_bytes)


@dataclass(frozen=True)
class Recorder:
    """How one process's plugin writes its log: the dump thread wakes every interval and drains what it remembers.

    Of each communicator it remembers the newest `capacity` operations of a kind; what is older is overwritten without a
    word. The host's clock is off by `clock_offset_us` at the start and runs away by `clock_drift_ppm` microseconds per
    second.
    """

    phase_us: int
    interval_us: int = DUMP_INTERVAL_US
    capacity: int = RING_RECORDS
    clock_offset_us: float = 0.0
    clock_drift_ppm: float = 0.0
    timing_source: str = "kernel_gpu"

    def clock_us(self, job_us: float) -> int:
        """What the host's clock shows at a moment of the job, in Unix microseconds."""
        return EPOCH_US + int(job_us + self.clock_offset_us + self.clock_drift_ppm * job_us / 1e6)

    def log(self, records: Iterable[Record]) -> tuple[str, int]:
        """The log of one process, and how many records are in it. Communicators are drained one after the other."""
        in_order = sorted(records, key=lambda record: record.end_us)
        passes = grouped(in_order, lambda record: int((record.end_us - self.phase_us) // self.interval_us) + 1)
        lines = []
        for number, waiting in passes.items():
            dump_us = self.clock_us(self.phase_us + number * self.interval_us)
            for written, record in enumerate(self._remembered(waiting)):
                lines.append(format_record(record, dump_us + written * WRITE_US, self.timing_source))
        return "".join(lines), len(lines)

    def _remembered(self, waiting: list[Record]) -> list[Record]:
        """What is left of the records since the last pass, in the order in which the communicators are drained."""
        rings = grouped(waiting, lambda r: (r.member.comm_name or "", r.member.comm_id, r.peer is not None))
        return [record for ring in sorted(rings) for record in rings[ring][-self.capacity :]]
