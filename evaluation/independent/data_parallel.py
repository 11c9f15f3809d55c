"""Steps of data-parallel jobs: DDP with buckets, FSDP with prefetch, hybrid-sharded FSDP."""

from dataclasses import dataclass

from evaluation.independent.machines import Communicator, Communicators
from evaluation.independent.pace import Pace
from evaluation.independent.streams import Part, Program, Task


@dataclass(frozen=True)
class Ddp:
    """All ranks have the whole model: each bucket of gradients is reduced while the next one is computed.

    `forward_us` of computing, then `backward_us` in as many parts as there are `bucket_bytes`. `loss_every`: the loss
    (16 kB of it and its friends) is averaged over all ranks every so many steps.
    """

    world: Communicator
    bucket_bytes: tuple[int, ...]
    forward_us: float
    backward_us: float
    loss_every: int

    def train(self, program: Program, pace: Pace) -> None:
        """One step."""
        program.compute(pace.us(self.forward_us))
        reduced = []
        for size_bytes in self.bucket_bytes:
            computed = program.compute(pace.us(self.backward_us / len(self.bucket_bytes)))
            reduced.append(program.communicate([Part(self.world, "AllReduce", size_bytes)], [computed]))
        updated = program.compute(pace.us(0.04 * self.forward_us), reduced)
        if self.loss_every and program.step % self.loss_every == 0:
            updated = program.communicate([Part(self.world, "AllReduce", 16384)], [updated])
        program.host_waits(updated)

    def evaluate(self, program: Program, pace: Pace) -> None:
        """One batch forward, and its loss averaged."""
        done = program.compute(pace.us(self.forward_us))
        program.host_waits(program.communicate([Part(self.world, "AllReduce", 16384)], [done]))


@dataclass(frozen=True)
class Fsdp:
    """Parameters are gathered layer by layer, one ahead of their use; gradients are scattered as they come.

    With `replicas`, each shard's gradients are then reduced over the replicas of the shard (hybrid sharding).
    `layer_us` is the forward computing of a layer; backward takes twice as long.
    """

    shards: dict[int, Communicator]
    replicas: dict[int, Communicator]
    world: Communicator
    layers: int
    shard_bytes: int
    layer_us: float

    @staticmethod
    def over(make: Communicators, groups: list[list[int]], layers: int, shard_bytes: int, layer_us: float) -> "Fsdp":
        """The job with the model sharded over each group; one group is plain FSDP."""
        shards = {rank: made for group in groups for made in [make.make("shard", group)] for rank in group}
        replicas: dict[int, Communicator] = {}
        if len(groups) > 1:
            for members in zip(*groups, strict=True):
                made = make.make("replica", list(members))
                replicas.update(dict.fromkeys(members, made))
        everybody = sorted(rank for group in groups for rank in group)
        return Fsdp(shards, replicas, make.make("world", everybody), layers, shard_bytes, layer_us)

    def train(self, program: Program, pace: Pace) -> None:
        """One step."""
        self._forward(program, pace)
        last = self._backward(program, pace)
        norm = program.communicate([Part(self.world, "AllReduce", 8)], last)
        program.host_waits(program.compute(pace.us(0.3 * self.layer_us), [norm]))

    def evaluate(self, program: Program, pace: Pace) -> None:
        """One batch forward."""
        program.host_waits(*self._forward(program, pace))

    def _forward(self, program: Program, pace: Pace) -> tuple[Task, ...]:
        gathered = self._gather(program, ())
        for layer in range(self.layers):
            # The gather of the next layer may not begin before the layer before this one has freed its memory.
            ahead = self._gather(program, program.tail()) if layer + 1 < self.layers else gathered
            program.compute(pace.us(self.layer_us), [gathered])
            gathered = ahead
        return program.tail()

    def _backward(self, program: Program, pace: Pace) -> list[Task]:
        last: list[Task] = []
        gathered = self._gather(program, program.tail())
        for layer in range(self.layers):
            ahead = self._gather(program, program.tail()) if layer + 1 < self.layers else gathered
            computed = program.compute(pace.us(2 * self.layer_us), [gathered])
            # Gathers and scatters share a communicator, so that NCCL does one after the other.
            part = Part(self.shards[program.rank], "ReduceScatter", self.shard_bytes)
            scattered = program.communicate([part], [computed])
            if self.replicas:
                replica = self.replicas[program.rank]
                scattered = program.communicate([Part(replica, "AllReduce", self.shard_bytes)], [scattered])
            last.append(scattered)
            gathered = ahead
        return last

    def _gather(self, program: Program, after: tuple[Task, ...]) -> Task:
        return program.communicate([Part(self.shards[program.rank], "AllGather", self.shard_bytes)], after)
