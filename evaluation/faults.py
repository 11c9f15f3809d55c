"""Faults that can be planted in a simulated training job, each with the label that says what a diagnosis could find.

A label is about what the logs can tell, not only about what was done: where several hosts explain the records equally
well, all of them are `candidates`, and naming one of them alone would be a guess.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from evaluation.faulty_job import FaultyJob
from nixt_pipeline.arrays import Ints
from nixt_pipeline.simulation.job import EPOCH_US


@dataclass(frozen=True)
class Fault:
    """What was planted, in the words of the findings' JSON.

    `hosts`, `processes` and `communicators` are what a perfect answer names; `candidates` are the hosts that explain
    the records as well as the true ones do (the true ones among them), and `exact` says that there are no others.
    Of a hang, `members` are the processes of the communicator that stopped, among which the true one cannot be told.
    `accepted_kinds` are further kinds that are right as well. `strength` says how many times slower, or another
    quantity in the unit of the fault's class.
    """

    name: str
    kind: str
    level: str
    strength: str
    hosts: tuple[str, ...]
    processes: tuple[str, ...]
    communicators: tuple[str, ...]
    candidates: tuple[str, ...]
    onset_us: int
    until_us: int | None = None
    exact: bool = True
    members: tuple[str, ...] = ()
    accepted_kinds: tuple[str, ...] = ()


class Plant:
    """One planted fault: chooses its victim and its onset by chance, acts before each step, and labels itself.

    `onset` is the step in which the fault is there for the first time.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    level: ClassVar[str]
    strength_unit: ClassVar[str] = "x"

    def __init__(self, job: FaultyJob, strength: float, steps: int, random: np.random.Generator) -> None:
        self.job, self.strength, self.steps = job, strength, steps
        self.onset = int(steps * random.uniform(0.3, 0.55))
        self.host = job.faultless_hosts.pop(int(random.integers(len(job.faultless_hosts))))
        self.rank = int(random.choice(job.ranks_of(self.host)))
        self.onset_us = 0

    def before_step(self, step: int) -> None:
        """Act on the job."""
        if step == self.onset:
            self.onset_us = EPOCH_US + int(self.job.clock.min())
            self.begin()

    def begin(self) -> None:
        """Make the job faulty from now on."""
        raise NotImplementedError

    def fault(self) -> Fault:
        """The label, once the job has run."""
        raise NotImplementedError

    def _label(
        self,
        hosts: Iterable[int],
        ranks: Iterable[int],
        communicators: Iterable[str] = (),
        candidates: Iterable[int] | None = None,
        exact: bool | None = None,
        until_us: int | None = None,
        accepted_kinds: tuple[str, ...] = (),
    ) -> Fault:
        names = self.job.host_names(hosts)
        possible = names if candidates is None else self.job.host_names(candidates)
        return Fault(
            name=self.name,
            kind=self.kind,
            level=self.level,
            strength=f"{self.strength:g}{self.strength_unit}" if self.strength_unit else "",
            hosts=names,
            processes=tuple(sorted(self.job.process(rank) for rank in ranks)),
            communicators=tuple(sorted(communicators)),
            candidates=possible,
            onset_us=self.onset_us,
            until_us=until_us,
            exact=possible == names if exact is None else exact,
            accepted_kinds=accepted_kinds,
        )


class SlowGpu(Plant):
    """One GPU computes slowly: its tensor-parallel peers wait for it, whoever its host's peers are."""

    name, kind, level = "slow GPU", "late-arrival", "rank"

    def begin(self) -> None:
        """Slow the GPU."""
        self.job.slowdown[self.rank] *= self.strength

    def fault(self) -> Fault:
        """Exact: its communicators show the rank, unless all of it that was recorded is between pipeline stages."""
        job = self.job
        if job.records_p2p or job.stages == 1 or job.tensor.ranks.shape[1] > 1:
            return self._label([self.host], [self.rank])
        row = job.pipeline.ranks[(job.pipeline.ranks == self.rank).any(axis=1)]
        fault = self._label([self.host], [self.rank], candidates=job.host_of[row].ravel().tolist(), exact=False)
        return replace(fault, members=tuple(job.process(rank) for rank in row.ravel().tolist()))


class IntermittentLateness(SlowGpu):
    """One rank in every tenth computation hesitates: garbage collection, a data loader, a page fault."""

    name = "intermittent lateness"

    def begin(self) -> None:
        """Start hesitating."""
        self.job.hiccup_share[self.rank] = 0.1
        self.job.hiccup_us = (self.strength - 1) * self.job.workload.layer_us


class HesitatingSteps(SlowGpu):
    """One GPU is slow in every fifth step: a data loader that cannot keep up, clocks that drop now and then."""

    name = "hesitating steps"

    def begin(self) -> None:
        """It begins step by step."""

    def before_step(self, step: int) -> None:
        """Be slow in every fifth step."""
        super().before_step(step)
        if step >= self.onset and step % 5 == 0:
            self.job.slowdown[self.rank] *= self.strength
        elif step > self.onset and step % 5 == 1:
            self.job.slowdown[self.rank] /= self.strength


class SlowComputeHost(Plant):
    """All GPUs of a host compute slowly: power or thermal capping."""

    name, kind, level = "slow compute host", "late-arrival", "host"

    def begin(self) -> None:
        """Slow the host."""
        self.job.slowdown[self.job.ranks_of(self.host)] *= self.strength

    def fault(self) -> Fault:
        """Exact when Send and Recv were recorded, for they show which pipeline stage waits for which."""
        mates = [self.host] if self.job.records_p2p else self.job.pipeline_mates(self.host)
        return self._label([self.host], self.job.ranks_of(self.host).tolist(), candidates=mates)


class LateWindow(SlowComputeHost):
    """A host computes slowly for a quarter of the job."""

    name = "late window"

    def __init__(self, job: FaultyJob, strength: float, steps: int, random: np.random.Generator) -> None:
        super().__init__(job, strength, steps, random)
        self.until_us: int | None = None

    def before_step(self, step: int) -> None:
        """Begin and end."""
        super().before_step(step)
        if step == self.onset + self.steps // 4:
            self.until_us = EPOCH_US + int(self.job.clock.min())
            self.job.slowdown[self.job.ranks_of(self.host)] /= self.strength

    def fault(self) -> Fault:
        """Like a slow host, but over."""
        return replace(super().fault(), until_us=self.until_us)


class ComputeDecay(SlowComputeHost):
    """A host gets slower step by step until it is at its worst at the end."""

    name = "compute decay"

    def begin(self) -> None:
        """Nothing happens at once."""

    def before_step(self, step: int) -> None:
        """Slow down a little more."""
        super().before_step(step)
        if step >= self.onset:
            progress = (step + 1 - self.onset) / (self.steps - self.onset)
            self.job.slowdown[self.job.ranks_of(self.host)] = 1 + (self.strength - 1) * progress


class SlowNicHost(Plant):
    """The network cards of a host are slow, and with them every ring and every pipeline edge through it."""

    name, kind, level = "slow NIC host", "slow-transfer", "host"

    def begin(self) -> None:
        """Slow the cards."""
        self.job.network[self.job.ranks_of(self.host)] /= self.strength

    def fault(self) -> Fault:
        """Exact when no other host lies on the same paths. When all do, it cannot be told from a slow fabric."""
        candidates = self.job.like_on_the_network(self.host)
        everyone = len(candidates) == len(self.job.hosts)
        return self._label(
            [self.host],
            self.job.ranks_of(self.host).tolist(),
            candidates=candidates,
            accepted_kinds=("fabric-slow",) if everyone else (),
        )


class SlowNicProcess(Plant):
    """The network card of one GPU is slow, and with it one ring and the pipeline edges of one process."""

    name, kind, level = "slow NIC of one GPU", "slow-transfer", "rank"

    def begin(self) -> None:
        """Slow the card."""
        self.job.network[self.rank] /= self.strength

    def fault(self) -> Fault:
        """Exact where a pipeline tells the members of its ring apart; else the ring as a set."""
        job = self.job
        row = int(np.flatnonzero((job.data.ranks == self.rank).any(axis=1))[0])
        ring = [job.data.members[row][0].comm_id] if job.data.link == "network" else []
        if job.records_p2p and job.stages > 1 and ring:
            return self._label([self.host], [self.rank])
        hosts = job.host_of[job.data.ranks[row]].tolist()
        return self._label(
            [self.host], [self.rank], ring, candidates=hosts, exact=False, accepted_kinds=("fabric-slow",)
        )


class NicDecay(SlowNicHost):
    """The network cards of a host get slower step by step: a link that retransmits more and more."""

    name = "NIC decay"

    def begin(self) -> None:
        """Nothing happens at once."""

    def before_step(self, step: int) -> None:
        """Slow down a little more."""
        super().before_step(step)
        if step >= self.onset:
            progress = (step + 1 - self.onset) / (self.steps - self.onset)
            self.job.network[self.job.ranks_of(self.host)] = 1 / (1 + (self.strength - 1) * progress)


class SlowRail(Plant):
    """The same network card of every host is slow: a switch of one rail."""

    name, kind, level = "slow rail", "slow-transfer", "link"

    def _ranks(self) -> Ints:
        per_host = len(self.job.clock) // len(self.job.hosts)
        return np.arange(self.rank % per_host, len(self.job.clock), per_host)

    def begin(self) -> None:
        """Slow the rail."""
        self.job.network[self._ranks()] /= self.strength

    def fault(self) -> Fault:
        """A set: the rings on the rail are slow as a whole, and no host is to blame."""
        rings = [
            members[0].comm_id
            for comms in (self.job.data, self.job.pipeline)
            for row, members in zip(comms.ranks, comms.members, strict=True)
            if comms.link == "network" and np.isin(row, self._ranks()).any()
        ]
        everyone = range(len(self.job.hosts))
        return self._label(everyone, self._ranks().tolist(), rings, exact=False, accepted_kinds=("fabric-slow",))


class SlowNvlinkHost(Plant):
    """Transfers inside one host are slow."""

    name, kind, level = "slow NVLink host", "slow-transfer", "host"

    def begin(self) -> None:
        """Slow the links."""
        self.job.nvlink[self.job.ranks_of(self.host)] /= self.strength

    def fault(self) -> Fault:
        """Exact: communicators inside other hosts are fast."""
        ranks = self.job.ranks_of(self.host)
        inside = [
            members[0].comm_id
            for row, members in zip(self.job.tensor.ranks, self.job.tensor.members, strict=True)
            if row[0] in ranks
        ]
        return self._label([self.host], ranks.tolist(), inside)


class SlowFabric(Plant):
    """The whole network is slow from a moment on."""

    name, kind, level = "slow fabric", "fabric-slow", "fabric"

    def begin(self) -> None:
        """Slow every network card."""
        self.job.network /= self.strength

    def fault(self) -> Fault:
        """No host is to blame."""
        return self._label((), ())


class FabricWindow(SlowFabric):
    """The whole network is slow for a fifth of the job."""

    name = "fabric window"

    def __init__(self, job: FaultyJob, strength: float, steps: int, random: np.random.Generator) -> None:
        super().__init__(job, strength, steps, random)
        self.until_us: int | None = None

    def before_step(self, step: int) -> None:
        """Begin and end."""
        super().before_step(step)
        if step == self.onset + self.steps // 5:
            self.until_us = EPOCH_US + int(self.job.clock.min())
            self.job.network *= self.strength

    def fault(self) -> Fault:
        """No host is to blame, and it is over."""
        return self._label((), (), until_us=self.until_us)


class ProcessSilent(Plant):
    """One process stops logging while the job goes on."""

    name, kind, level, strength_unit = "process silent", "process-silent", "rank", ""

    def begin(self) -> None:
        """Fall silent."""
        self.job.silent_from_us[self.rank] = self.job.clock[self.rank]

    def fault(self) -> Fault:
        """Exact: its log ends early."""
        return self._label([self.host], [self.rank])


class ClockSkew(Plant):
    """The clock of one host is wrong by so many seconds, from the beginning."""

    name, kind, level, strength_unit = "clock skew", "clock-skew", "host", " s"

    def __init__(self, job: FaultyJob, strength: float, steps: int, random: np.random.Generator) -> None:
        super().__init__(job, strength, steps, random)
        self.onset = 0

    def begin(self) -> None:
        """Set the clock wrong."""
        self.job.clock_offset_us[self.host] += self.strength * 1e6

    def fault(self) -> Fault:
        """Exact where there are three hosts; of two, nobody knows whose clock is right."""
        everyone = range(len(self.job.hosts))
        return self._label([self.host], (), candidates=everyone if len(everyone) == 2 else None)
