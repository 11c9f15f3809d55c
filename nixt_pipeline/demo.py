"""A synthetic training job's dump directory, in the exact bytes of the NCCL 2.30 Inspector plugin.

`write_demo_job` simulates a synchronous training job (tensor parallel inside a host, data parallel across hosts, two
pipeline stages when the number of hosts is even) and writes what Inspector would have written. The physics is the
one that makes Inspector logs easy to misread: a collective starts when its last rank arrives and moves at the speed of
its slowest link, so that a rank that arrives early reports a long time and the one that all wait for a short time.

Nothing is read from the clock: the same arguments give the same bytes.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nixt_pipeline.inspector.operations import algobw_gbs, busbw_gbs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EPOCH_US = 1_756_587_600_000_000  # 2025-08-30 21:00:00 UTC
DUMP_INTERVAL_US = 100_000  # NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS of the simulated job
WRITE_US = 4  # time between two records of one dump pass
FIRST_PID = 20_000

MICROBATCHES = 4
LAYERS = 2  # tensor-parallel layers per stage and microbatch; each is one AllGather and one ReduceScatter
TENSOR_BYTES = 2 * 2**20
ACTIVATION_BYTES = 8 * 2**20
GRADIENT_BUCKET_BYTES = (24_379_392, 16_777_216, 6_291_456)
LOSS_BYTES = 16_384

LAYER_US = 10_000.0  # computation between two tensor-parallel collectives, on a healthy GPU
BUCKET_US = 600.0
OPTIMIZER_US = 15_000.0
LAUNCH_US = 3.0  # standard deviation of the delay before a kernel starts on one GPU
COMPUTE_JITTER, TRANSFER_JITTER = 0.005, 0.02  # relative standard deviations
LATENCY_US = {"nvlink": 12.0, "network": 25.0}
LINK_GBS = {"nvlink": 320.0, "network": 42.0}


@dataclass(frozen=True)
class DemoJob:
    """What was written, and what is wrong with it (`fault`: a sentence, empty for a healthy job)."""

    directory: Path
    hosts: tuple[str, ...]
    files: int
    collective_records: int
    p2p_records: int
    bytes: int
    late_host: str | None
    late_from_step: int
    fault: str

    @property
    def records(self) -> int:
        """Records of both kinds."""
        return self.collective_records + self.p2p_records


@dataclass(frozen=True)
class Member:
    """One rank of one communicator, with the parts of its records that never change."""

    comm_id: str
    comm_name: str
    rank: int
    n_ranks: int
    nnodes: int
    hostname: str
    pid: int

    @cached_property
    def before_timestamp(self) -> str:
        """The record up to the dump timestamp."""
        return (
            f'{{"header":{{"id":"{self.comm_id}","comm_name":"{self.comm_name}","rank":{self.rank},'
            f'"n_ranks":{self.n_ranks},"nnodes":{self.nnodes}}},"metadata":{{"inspector_output_format_version":"v4.0",'
            f'"git_rev":"v2.30.7-1","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":'
        )

    @cached_property
    def after_timestamp(self) -> str:
        """The record between the dump timestamp and the measurement."""
        return f',"hostname":"{self.hostname}","pid":{self.pid}}},'


def format_record(
    member: Member, dump_us: int, function: str, sn: int, size: int, exec_us: int, peer: int | None = None
) -> str:
    """The line for one operation: Send or Recv when a `peer` (a rank of the communicator) is given, else a collective.

    Times in microseconds, `size` in bytes, bandwidths in GB/s by the plugin's formulas.
    """
    kind, counterpart = ("coll", "") if peer is None else ("p2p", f'"p2p_peer":{peer},')
    algobw = algobw_gbs(function, size, member.n_ranks, exec_us) or 0.0  # no time, no bandwidth: written as 0
    busbw = busbw_gbs(function, size, member.n_ranks, exec_us) or 0.0
    return (
        f"{member.before_timestamp}{dump_us}{member.after_timestamp}"
        f'"{kind}_perf":{{"{kind}":"{function}","{kind}_sn":{sn},{counterpart}"{kind}_msg_size_bytes":{size},'
        f'"{kind}_exec_time_us":{exec_us},"{kind}_timing_source":"kernel_gpu","{kind}_algobw_gbs":{algobw:.6f},'
        f'"{kind}_busbw_gbs":{busbw:.6f}}}}}\n'
    )


@dataclass(frozen=True)
class _Communicators:
    """The communicators of one kind: row g of `ranks` holds the global ranks of communicator g in order."""

    ranks: Ints
    members: tuple[tuple[Member, ...], ...]
    latency_us: float
    link_gbs: Floats


@dataclass(frozen=True, slots=True)
class _Record:
    """One operation of one rank, before it is known when it is dumped."""

    member: Member
    function: str
    sn: int
    peer: int | None
    size: int
    exec_us: int
    end_us: float


class _Job:
    """The simulation: a clock for every rank, moved on by computation and by communication."""

    def __init__(self, hosts: tuple[str, ...], gpus_per_host: int, seed: int, slow_network_host: str | None) -> None:
        self.random = np.random.default_rng(seed)
        self.hosts = hosts
        self.stages = 2 if len(hosts) % 2 == 0 else 1
        self.clock: Floats = np.zeros(len(hosts) * gpus_per_host)
        self.slowdown: Floats = np.ones_like(self.clock)
        self.host_of: Ints = np.repeat(np.arange(len(hosts)), gpus_per_host)
        # A network card at a sixteenth of its speed: a link that fell back to its slowest mode.
        self.network: Floats = np.where([host == slow_network_host for host in hosts], 1 / 16, 1.0)
        self.sequence: defaultdict[tuple[str, str], count[int]] = defaultdict(count)
        self.records: list[list[_Record]] = [[] for _ in self.clock]

        grid = np.arange(len(self.clock)).reshape(self.stages, -1, gpus_per_host)  # stage, host in stage, GPU
        self.tensor = self._communicators("TP", grid.reshape(-1, gpus_per_host))
        self.data = self._communicators("DP", grid.transpose(0, 2, 1).reshape(-1, grid.shape[1]))
        self.pipeline = self._communicators("PP", grid.reshape(self.stages, -1).T)
        self.world = self._communicators("WORLD", grid.reshape(1, -1))

    def _communicators(self, name: str, ranks: Ints) -> _Communicators:
        rows = []
        for group, row in enumerate(ranks):
            comm_id = f"0x{int(self.random.integers(2**52, 2**56)):x}"  # 14 hex digits, as much as the plugin prints
            label, nnodes = f"{name} Group {group}", len(set(self.host_of[row]))
            rows.append(
                tuple(
                    Member(comm_id, label, rank, len(row), nnodes, self.hosts[host], FIRST_PID + process)
                    for rank, (process, host) in enumerate(zip(row.tolist(), self.host_of[row].tolist(), strict=True))
                )
            )
        link = "nvlink" if name == "TP" else "network"
        speed = np.ones(len(ranks)) if name == "TP" else self.network[self.host_of[ranks]].min(axis=1)
        return _Communicators(ranks, tuple(rows), LATENCY_US[link], LINK_GBS[link] * speed)

    def _part(self, items: int, stage: int | None) -> slice:
        """The part of `items` things in rank order that belongs to a stage; everything for None."""
        return slice(None) if stage is None else slice(items * stage // self.stages, items * (stage + 1) // self.stages)

    def compute(self, duration_us: float, stage: int | None = None) -> None:
        """Let the ranks of one stage (default: all) compute."""
        part = self._part(len(self.clock), stage)
        noise = 1 + COMPUTE_JITTER * np.abs(self.random.standard_normal(self.clock[part].shape))
        self.clock[part] += duration_us * self.slowdown[part] * noise

    def _transfer(self, ranks: Ints, wire: float, latency_us: float, gbs: Floats) -> tuple[Floats, list[list[int]]]:
        """When each row of `ranks` is done, and how long each of its ranks was in the kernel, waiting included."""
        arrival = self.clock[ranks] + LAUNCH_US * np.abs(self.random.standard_normal(ranks.shape))
        noise = 1 + TRANSFER_JITTER * np.abs(self.random.standard_normal(len(ranks)))
        end = arrival.max(axis=1) + (latency_us + wire / gbs / 1e3) * noise
        return end, (end[:, None] - arrival).astype(np.int64).tolist()

    def collective(self, comms: _Communicators, coll: str, size: int, stage: int | None = None) -> None:
        """Run a collective on every communicator (of one stage); all of its ranks leave it together."""
        part, n_ranks = self._part(len(comms.ranks), stage), comms.ranks.shape[1]
        if n_ranks == 1:  # NCCL turns it into a copy, which Inspector does not see
            return
        ranks = comms.ranks[part]
        wire = size * (n_ranks - 1) * (2 / n_ranks if coll == "AllReduce" else 1)  # bytes that a rank sends in a ring
        end, exec_us = self._transfer(ranks, wire, comms.latency_us, comms.link_gbs[part])
        self.clock[ranks] = end[:, None]
        for members, end_us, times in zip(comms.members[part], end.tolist(), exec_us, strict=True):
            sn = next(self.sequence[members[0].comm_name, coll])
            for member, time in zip(members, times, strict=True):
                self.records[member.pid - FIRST_PID].append(_Record(member, coll, sn, None, size, time, end_us))

    def send(self, source: int, target: int) -> None:
        """Send activations or gradients between stages; the sender computes on, the receiver waits."""
        comms, size = self.pipeline, ACTIVATION_BYTES
        end, exec_us = self._transfer(comms.ranks[:, [source, target]], size, comms.latency_us, comms.link_gbs)
        self.clock[comms.ranks[:, target]] = end
        for members, end_us, times in zip(comms.members, end.tolist(), exec_us, strict=True):
            for function, rank, peer, time in (("Send", source, target, times[0]), ("Recv", target, source, times[1])):
                member = members[rank]
                sn = 1 + next(self.sequence[member.comm_name, f"p2p of rank {rank}"])  # starts at 1, unlike NCCL's
                self.records[member.pid - FIRST_PID].append(_Record(member, function, sn, peer, size, time, end_us))

    def layers(self, stage: int) -> None:
        """The forward or the backward pass of one microbatch through one stage."""
        for _ in range(LAYERS):
            self.compute(LAYER_US, stage)
            self.collective(self.tensor, "AllGather", TENSOR_BYTES, stage)
            self.collective(self.tensor, "ReduceScatter", TENSOR_BYTES, stage)

    def step(self) -> None:
        """One training step: all forward passes, all backward passes, gradients, optimizer, loss."""
        for order in (range(self.stages), range(self.stages - 1, -1, -1)):
            for _ in range(MICROBATCHES):
                for position, stage in enumerate(order):
                    if position > 0:
                        self.send(order[position - 1], stage)
                    self.layers(stage)
        for size in GRADIENT_BUCKET_BYTES:
            self.compute(BUCKET_US)
            self.collective(self.data, "ReduceScatter", size)
        for size in GRADIENT_BUCKET_BYTES:
            self.collective(self.data, "AllGather", size)
        self.compute(OPTIMIZER_US)
        self.collective(self.world, "AllReduce", LOSS_BYTES)


def _lines(records: list[_Record], phase_us: int) -> str:
    """A process's log: its dump thread wakes every interval and drains its communicators one after the other."""
    passes = [int((record.end_us - phase_us) // DUMP_INTERVAL_US) + 1 for record in records]
    order = sorted(range(len(records)), key=lambda i: (passes[i], records[i].member.comm_name, records[i].end_us))
    lines, current, written = [], -1, 0
    for i in order:
        record = records[i]
        written = written + 1 if passes[i] == current else 0
        current = passes[i]
        dump_us = EPOCH_US + phase_us + current * DUMP_INTERVAL_US + written * WRITE_US
        lines.append(
            format_record(record.member, dump_us, record.function, record.sn, record.size, record.exec_us, record.peer)
        )
    return "".join(lines)


def write_demo_job(
    directory: Path,
    *,
    seed: int = 0,
    hosts: int = 4,
    gpus_per_host: int = 8,
    steps: int = 40,
    late_host: str | None = "node-02",
    late_factor: float = 1.6,
    slow_network_host: str | None = None,
    late_from_step: int | None = None,
) -> DemoJob:
    """Write one log per process, `<host>-pid<pid>.log`, into `directory` (created when missing).

    Hosts are called node-01, node-02, ... From `late_from_step` on (default: the second half), computation on
    `late_host` takes `late_factor` times as long; `slow_network_host` has a slow network card throughout; None plants
    no fault. The host that shares a pipeline with the late one is late too, by no fault of its own. The defaults give
    60,160 records, 28 MB. Raises ValueError for a host that the job does not have.
    """
    names = tuple(f"node-{number:02d}" for number in range(1, hosts + 1))
    for host in (late_host, slow_network_host):
        if host is not None and host not in names:
            raise ValueError(f"no host {host!r} in a job of {hosts} hosts; choose from {', '.join(names)}")
    late_from = steps // 2 if late_from_step is None else late_from_step

    job = _Job(names, gpus_per_host, seed, slow_network_host)
    phases = job.random.integers(0, DUMP_INTERVAL_US, len(job.clock)).tolist()
    for step in range(steps):
        if step == late_from and late_host is not None:
            job.slowdown[job.host_of == names.index(late_host)] = late_factor
        job.step()

    directory.mkdir(parents=True, exist_ok=True)
    size = 0
    for process, records in enumerate(job.records):
        text = _lines(records, phases[process]).encode()
        size += len(text)
        (directory / f"{names[job.host_of[process]]}-pid{FIRST_PID + process}.log").write_bytes(text)

    faults = []
    if late_host is not None:
        faults.append(f"{late_host} needs {late_factor:g} times as long to compute from step {late_from} of {steps} on")
    if slow_network_host is not None:
        faults.append(f"the network card of {slow_network_host} runs at a sixteenth of its speed")
    p2p = sum(record.peer is not None for records in job.records for record in records)
    collective = sum(map(len, job.records)) - p2p
    return DemoJob(directory, names, len(job.records), collective, p2p, size, late_host, late_from, "; ".join(faults))
