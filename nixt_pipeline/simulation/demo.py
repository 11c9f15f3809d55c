"""A synthetic training job's dump directory, in the exact bytes of the NCCL 2.30 Inspector plugin.

`write_demo_job` simulates a synchronous training job (tensor parallel inside a host, data parallel across hosts, two
pipeline stages when the number of hosts is even) and writes what Inspector would have written. The physics is the
one that makes Inspector logs easy to misread: a collective starts when its last rank arrives and moves at the speed of
its slowest link, so that a rank that arrives early reports a long time and the one that all wait for a short time.

Nothing is read from the clock: the same arguments give the same bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nixt_pipeline.simulation.job import DUMP_INTERVAL_US, FIRST_PID, NEVER_US, Job, Recorder, Workload

# The jobs that `nixt demo` offers: arguments of `write_demo_job`.
DEMO_JOBS: Mapping[str, Mapping[str, Any]] = {
    "straggler": {},
    "slow-nic": {"late_host": None, "slow_network_host": "node-03"},
    "hang": {"late_host": None, "hung_host": "node-02"},
    "healthy": {"late_host": None},
}


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


def write_demo_job(  # noqa: C901, PLR0913 (all of them by keyword: what may be planted)
    directory: Path,
    *,
    seed: int = 0,
    hosts: int = 4,
    gpus_per_host: int = 8,
    steps: int = 40,
    late_host: str | None = "node-02",
    late_factor: float = 1.6,
    slow_network_host: str | None = None,
    hung_host: str | None = None,
    late_from_step: int | None = None,
) -> DemoJob:
    """Write one log per process, `<host>-pid<pid>.log`, into `directory` (created when missing).

    Hosts are called node-01, node-02, ... From `late_from_step` on (default: the second half), computation on
    `late_host` takes `late_factor` times as long; `slow_network_host` has a slow network card throughout; the first GPU
    of `hung_host` never starts step `late_from_step`; None plants no fault. The host that shares a pipeline with the
    late one is late too, through no fault of its own. The defaults give 60,160 records, 28 MB. Raises ValueError for a
    host that the job does not have.
    """
    names = tuple(f"node-{number:02d}" for number in range(1, hosts + 1))
    for host in (late_host, slow_network_host, hung_host):
        if host is not None and host not in names:
            raise ValueError(f"no host {host!r} in a job of {hosts} hosts; choose from {', '.join(names)}")
    late_from = steps // 2 if late_from_step is None else late_from_step

    stages = 2 if hosts % 2 == 0 else 1
    job = Job(names, gpus_per_host, gpus_per_host, stages, seed, Workload())
    if slow_network_host is not None:  # a link that fell back to its slowest mode
        job.network[job.host_of == names.index(slow_network_host)] = 1 / 16
    phases = job.random.integers(0, DUMP_INTERVAL_US, len(job.clock)).tolist()
    for step in range(steps):
        if step == late_from and late_host is not None:
            job.slowdown[job.host_of == names.index(late_host)] = late_factor
        if step == late_from and hung_host is not None:
            job.clock[names.index(hung_host) * gpus_per_host] = 2 * NEVER_US
        job.step()

    directory.mkdir(parents=True, exist_ok=True)
    size = 0
    for process, records in enumerate(job.records):
        text = Recorder(phases[process]).log(records)[0].encode()
        size += len(text)
        (directory / f"{names[job.host_of[process]]}-pid{FIRST_PID + process}.log").write_bytes(text)

    faults = []
    if late_host is not None:
        faults.append(
            f"computation on {late_host} takes {late_factor:g} times as long from step {late_from} of {steps} on"
        )
    if slow_network_host is not None:
        faults.append(f"the network card of {slow_network_host} runs at a sixteenth of its speed")
    if hung_host is not None:
        gpu = f"{hung_host}-pid{FIRST_PID + names.index(hung_host) * gpus_per_host}"
        faults.append(f"{gpu} hangs before step {late_from} of {steps}")
    p2p = sum(record.peer is not None for records in job.records for record in records)
    collective = sum(map(len, job.records)) - p2p
    return DemoJob(directory, names, len(job.records), collective, p2p, size, late_host, late_from, "; ".join(faults))
