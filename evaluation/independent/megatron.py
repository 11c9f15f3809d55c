"""Steps of tensor, pipeline and data parallelism: 1F1B, plain or interleaved, and a sharded optimizer."""

from dataclasses import dataclass
from typing import NamedTuple

from evaluation.independent.machines import Communicator, Communicators
from evaluation.independent.pace import Pace
from evaluation.independent.streams import Part, Program, Task


class Turn(NamedTuple):
    """One forward or backward pass of a chunk of the model."""

    forward: bool
    chunk: int


def one_forward_one_backward(stage: int, stages: int, batches: int, chunks: int) -> list[Turn]:
    """The order of passes on a stage, as Megatron's schedules have it (`chunks` = 1: plain)."""
    total = batches * chunks
    if chunks == 1:
        warm_up = min(stages - stage - 1, total)
    else:
        warm_up = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
    forward = [Turn(True, number % (stages * chunks) // stages) for number in range(total)]
    backward = [Turn(False, chunks - 1 - turn.chunk) for turn in forward]
    order = forward[:warm_up]
    for number in range(total - warm_up):
        order += [forward[warm_up + number], backward[number]]
    return order + backward[total - warm_up :]


@dataclass(frozen=True)
class Passes:
    """What a rank does in a step: `batches` forward and backward through its `chunks` of `layers` layers each.

    It computes `layer_us` in a layer, between two collectives of its tensor group: gather and scatter with `sequence`
    parallelism, else AllReduces. `heavy_last`: by how much longer the last stage computes (loss and vocabulary).
    Gradients are scattered and parameters gathered in `buckets`.
    """

    batches: int
    chunks: int
    layers: int
    layer_us: float
    heavy_last: float
    sequence: bool
    tensor_bytes: int
    activation_bytes: int
    buckets: int
    bucket_bytes: int
    embedding_bytes: int


@dataclass(frozen=True)
class Megatron:
    """Each rank with its groups; those that it has not are missing. The first and the last stage share an embedding."""

    tensor: dict[int, Communicator]
    pipeline: dict[int, Communicator]
    data: dict[int, Communicator]
    embedding: dict[int, Communicator]
    world: Communicator
    work: Passes

    @staticmethod
    def over(make: Communicators, tp: int, pp: int, dp: int, work: Passes) -> "Megatron":
        """The job on tp * dp * pp ranks, in this order from the fastest to the slowest index."""

        def rank(t: int, d: int, p: int) -> int:
            return t + tp * (d + dp * p)

        groups: dict[str, dict[int, Communicator]] = {"tensor": {}, "pipeline": {}, "data": {}, "embedding": {}}

        def group(family: str, members: list[int]) -> None:
            if len(members) > 1:
                groups[family].update(dict.fromkeys(members, make.make(family, members)))

        for p in range(pp):
            for d in range(dp):
                group("tensor", [rank(t, d, p) for t in range(tp)])
            for t in range(tp):
                group("data", [rank(t, d, p) for d in range(dp)])
        for d in range(dp):
            for t in range(tp):
                group("pipeline", [rank(t, d, p) for p in range(pp)])
                if pp > 1:
                    group("embedding", [rank(t, d, 0), rank(t, d, pp - 1)])
        world = make.make("world", list(range(tp * dp * pp)))
        return Megatron(
            tensor=groups["tensor"],
            pipeline=groups["pipeline"],
            data=groups["data"],
            embedding=groups["embedding"],
            world=world,
            work=work,
        )

    def train(self, program: Program, pace: Pace) -> None:
        """One step."""
        self._passes(program, pace, training=True)
        computed = program.tail()
        reduced: list[Task] = []
        if program.rank in self.embedding:
            part = Part(self.embedding[program.rank], "AllReduce", self.work.embedding_bytes)
            reduced.append(program.communicate([part], computed))
        reduced += self._bucketed(program, "ReduceScatter", computed)
        norm = program.communicate([Part(self.world, "AllReduce", 8)], [*computed, *reduced])
        updated = program.compute(pace.us(0.5 * self.work.layer_us), [norm])
        program.host_waits(updated, *self._bucketed(program, "AllGather", (updated,)))

    def evaluate(self, program: Program, pace: Pace) -> None:
        """A few batches forward."""
        self._passes(program, pace, training=False)
        program.host_waits(*program.tail())

    def _bucketed(self, program: Program, function: str, after: tuple[Task, ...]) -> list[Task]:
        if program.rank not in self.data:
            return []
        part = Part(self.data[program.rank], function, self.work.bucket_bytes)
        return [program.communicate([part], after) for _ in range(self.work.buckets)]

    def _passes(self, program: Program, pace: Pace, training: bool) -> None:
        pipe = self.pipeline.get(program.rank)
        if pipe is None:
            for turn in one_forward_one_backward(0, 1, self.work.batches, 1):
                if turn.forward or training:
                    self._compute(program, pace, turn, last=True)
            return
        stage = pipe.local_rank[program.rank]
        order = one_forward_one_backward(stage, len(pipe.ranks), self.work.batches, self.work.chunks)
        order = order if training else [turn for turn in order if turn.forward]
        courier = _Courier(program, pipe, self.work.chunks, self.work.activation_bytes, batched=self.work.chunks == 1)
        courier.expect(order[0])
        for turn, following in zip(order, [*order[1:], None], strict=True):
            last = stage == len(pipe.ranks) - 1 and turn.chunk == self.work.chunks - 1
            self._compute(program, pace, turn, last)
            courier.deliver(turn, following)

    def _compute(self, program: Program, pace: Pace, turn: Turn, last: bool) -> None:
        heavy = 1 + self.work.heavy_last if last else 1.0
        work_us = self.work.layer_us * heavy * (1 if turn.forward else 2)
        for _ in range(self.work.layers):
            group = self.tensor.get(program.rank)
            if group is None:
                program.compute(pace.us(work_us))
                continue
            names = ("AllGather", "ReduceScatter") if self.work.sequence else ("AllReduce", "AllReduce")
            for name in names:
                size_bytes = self.work.tensor_bytes // (len(group.ranks) if self.work.sequence else 1)
                reduced = program.communicate([Part(group, name, size_bytes)], program.tail())
                program.compute(pace.us(work_us / 2), [reduced])


class _Courier:
    """Sends a stage's activations and gradients, and makes its passes wait for those of others.

    `batched`: what a pass sends and what the next one needs are one group, and computing waits for both (plain 1F1B).
    Otherwise every edge has a stream of its own, and only those who need what comes wait for it.
    """

    def __init__(self, program: Program, pipe: Communicator, chunks: int, size_bytes: int, batched: bool) -> None:
        self._program, self._pipe, self._chunks = program, pipe, chunks
        self._size_bytes, self._batched = size_bytes, batched
        self._stages = len(pipe.ranks)
        self._stage = pipe.local_rank[program.rank]

    def expect(self, turn: Turn) -> None:
        """Let what follows wait for what a pass needs."""
        self._exchange([], self._needs(turn))

    def deliver(self, turn: Turn, following: Turn | None) -> None:
        """Send what a pass made, and let the following one wait for what it needs."""
        received = self._needs(following) if following else []
        # Grouped are a pass and one of the other direction; two alike go one after the other.
        if self._batched and following and following.forward == turn.forward:
            self._exchange(self._makes(turn), [])
            self._exchange([], received)
        else:
            self._exchange(self._makes(turn), received)

    def _exchange(self, sent: list[Part], received: list[Part]) -> None:
        parts = [*sent, *received]
        computed = self._program.tail()
        if not parts:
            return
        if self._batched:
            self._program.compute(0.0, [self._program.communicate(parts, computed)])
            return
        for part in sent:
            self._program.communicate([part], computed, f"edge to {part.peer}")
        for part in received:
            came = self._program.communicate([part], computed, f"edge from {part.peer}")
            self._program.compute(0.0, [came])

    def _needs(self, turn: Turn) -> list[Part]:
        first = self._stage == 0 and turn.chunk == 0
        last = self._stage == self._stages - 1 and turn.chunk == self._chunks - 1
        if first if turn.forward else last:
            return []
        return [self._part("Recv", -1 if turn.forward else 1)]

    def _makes(self, turn: Turn) -> list[Part]:
        first = self._stage == 0 and turn.chunk == 0
        last = self._stage == self._stages - 1 and turn.chunk == self._chunks - 1
        if last if turn.forward else first:
            return []
        return [self._part("Send", 1 if turn.forward else -1)]

    def _part(self, function: str, towards: int) -> Part:
        return Part(self._pipe, function, self._size_bytes, self._pipe.ranks[(self._stage + towards) % self._stages])
