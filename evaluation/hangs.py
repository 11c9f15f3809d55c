"""Hangs that can be planted in a simulated training job: one rank does not start its next operation somewhere."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from evaluation.faults import Fault, Plant
from evaluation.faulty_job import FaultyJob
from nixt_pipeline.simulation.job import Communicators


class Hang(Plant):
    """A rank never starts an operation, and all that depend on it wait for ever; a subclass says where."""

    kind, level, strength_unit = "hang", "communicator", ""
    family: ClassVar[str]

    def __init__(self, job: FaultyJob, strength: float, steps: int, random: np.random.Generator) -> None:
        super().__init__(job, strength, steps, random)
        self.after = int(random.integers(max(1, self._operations())))

    def _operations(self) -> int:
        """How many operations of the family the rank has in a step."""
        return 1

    def begin(self) -> None:
        """Hang somewhere in the step that follows."""
        self.job.hanging, self.job.before_hang = (getattr(self.job, self.family), self.rank), self.after

    def fault(self) -> Fault:
        """A set: which communicator stopped first shows, who of its members was missing does not."""
        comms: Communicators = getattr(self.job, self.family)
        row = int(np.flatnonzero((comms.ranks == self.rank).any(axis=1))[0])
        ranks = comms.ranks[row].tolist()
        hosts = self.job.host_of[ranks].tolist()
        fault = self._label([self.host], [self.rank], [comms.members[row][0].comm_id], candidates=hosts, exact=False)
        return replace(fault, members=tuple(self.job.process(rank) for rank in ranks))


class HangTensor(Hang):
    """A rank never starts a tensor-parallel collective."""

    name, family = "hang in TP", "tensor"

    def _operations(self) -> int:
        return 4 * self.job.workload.microbatches * self.job.workload.layers


class HangData(Hang):
    """A rank never starts a data-parallel collective."""

    name, family = "hang in DP", "data"

    def _operations(self) -> int:
        return 2 * len(self.job.workload.gradient_bucket_bytes)


class HangPipeline(Hang):
    """A rank never starts a Send or a Recv."""

    name, family = "hang in PP", "pipeline"

    def _operations(self) -> int:
        stage = int((self.job.pipeline.ranks == self.rank).any(axis=0).argmax())
        neighbours = (stage > 0) + (stage < self.job.stages - 1)
        return 2 * self.job.workload.microbatches * neighbours


class HangWorld(Hang):
    """A rank never starts the collective of the whole job."""

    name, family = "hang in the world", "world"


class HangEmbedding(Hang):
    """A rank never starts the collective of the first and the last pipeline stage."""

    name, family = "hang in the embedding", "embedding"

    def __init__(self, job: FaultyJob, strength: float, steps: int, random: np.random.Generator) -> None:
        super().__init__(job, strength, steps, random)
        self.rank = int(random.choice(job.embed().ranks.ravel()))
        self.host = int(job.host_of[self.rank])
