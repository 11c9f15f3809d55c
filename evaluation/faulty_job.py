"""A simulated training job in which more can go wrong than slow parts, and what its topology lets one tell apart."""

from collections.abc import Iterable, Sequence

import numpy as np

from nixt_pipeline.arrays import Floats, Ints
from nixt_pipeline.simulation.job import FIRST_PID, NEVER_US, Communicators, Job, Names, Workload


class FaultyJob(Job):
    """A job that can also hesitate, hang, fall silent, and have hosts whose clocks disagree."""

    def __init__(  # noqa: PLR0913 (those of Job, and one)
        self, hosts: Sequence[str], gpus_per_host: int, tensor_size: int, stages: int, seed: int, workload: Workload,
        names: Names, records_p2p: bool,
    ) -> None:  # fmt: skip
        super().__init__(hosts, gpus_per_host, tensor_size, stages, seed, workload, names)
        self.records_p2p = records_p2p
        self.hiccup_share = np.zeros_like(self.clock)  # of the computations of a rank that take `hiccup_us` longer
        self.hiccup_us = 0.0
        self.congested_share = 0.0  # of the network operations that take five times as long, anywhere
        self.hanging: tuple[Communicators, int] | None = None  # the rank does not start its next operation there,
        self.before_hang = 0  # after so many more
        self.embedding: Communicators | None = None  # of the first and the last stage, for jobs that have it
        self.silent_from_us = np.full_like(self.clock, np.inf)
        self.clock_offset_us = np.zeros(len(hosts))
        self.faultless_hosts = list(range(len(hosts)))

    def compute(self, duration_us: float, stage: int | None = None) -> None:
        """Compute, now and then with a hiccup."""
        super().compute(duration_us, stage)
        if self.hiccup_us > 0:
            part = self._part(len(self.clock), stage)
            self.clock[part] += self.hiccup_us * (self.random.random(self.clock[part].shape) < self.hiccup_share[part])

    def _transfer(self, ranks: Ints, wire: float, link: str) -> tuple[Floats, list[list[int]]]:
        if self.congested_share == 0 or link != "network":
            return super()._transfer(ranks, wire, link)
        usual = self.network.copy()
        self.network[ranks[self.random.random(len(ranks)) < self.congested_share]] /= 5
        result = super()._transfer(ranks, wire, link)
        self.network = usual
        return result

    def collective(self, comms: Communicators, coll: str, size: int, stage: int | None = None) -> None:
        """Run a collective, unless a rank hangs before it. The gradients of an embedding are exchanged last."""
        if self.embedding is not None and comms is self.world:
            self.collective(self.embedding, "AllReduce", 2**20)
        self._hang(comms, comms.ranks[self._part(len(comms.ranks), stage)])
        super().collective(comms, coll, size, stage)

    def send(self, source: int, target: int) -> None:
        """Send between stages, unless a rank hangs before it."""
        self._hang(self.pipeline, self.pipeline.ranks[:, [source, target]])
        super().send(source, target)

    def embed(self) -> Communicators:
        """Let the first and the last pipeline stage share an embedding, whose gradients they exchange."""
        self.embedding = self._communicators("EMB", np.arange(len(self.clock)).reshape(self.stages, -1)[[0, -1]].T)
        return self.embedding

    def _hang(self, comms: Communicators, ranks: Ints) -> None:
        """Stop the clock of the rank that hangs when it is among the `ranks` that are about to start an operation."""
        if self.hanging is None or comms is not self.hanging[0] or self.hanging[1] not in ranks:
            return
        if self.before_hang == 0:
            self.clock[self.hanging[1]] = NEVER_US
        self.before_hang -= 1

    def process(self, rank: int) -> str:
        """The process of a global rank, by the name that the findings use."""
        return f"{self.hosts[self.host_of[rank]]}-pid{FIRST_PID + rank}"

    def ranks_of(self, host: int) -> Ints:
        """The global ranks on a host."""
        return np.flatnonzero(self.host_of == host)

    def host_names(self, hosts: Iterable[int]) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(sorted(self.hosts[host] for host in set(hosts)))

    def network_paths(self) -> list[frozenset[int]]:
        """The hosts on each network path whose speed the records show: a data-parallel ring or a pipeline edge."""
        rows = [row for row in self.data.ranks if self.data.link == "network"]
        if self.records_p2p:
            for first in range(self.stages - 1):
                rows.extend(self.pipeline.ranks[:, first : first + 2])
        paths = [frozenset(self.host_of[row].tolist()) for row in rows]
        return [hosts for hosts in paths if len(hosts) > 1]

    def like_on_the_network(self, host: int) -> list[int]:
        """The hosts on exactly the paths that `host` is on: a slow network card of any of them looks the same."""
        paths = self.network_paths()
        wanted = [host in path for path in paths]
        return [other for other in range(len(self.hosts)) if [other in path for path in paths] == wanted]

    def pipeline_mates(self, host: int) -> list[int]:
        """The hosts that are late when `host` is, for they wait for its activations and gradients."""
        rows = self.pipeline.ranks[np.isin(self.pipeline.ranks, self.ranks_of(host)).any(axis=1)]
        return sorted({host, *self.host_of[rows].ravel().tolist()})
