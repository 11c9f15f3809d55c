"""Steps of a mixture of experts: tokens travel to the experts of their group and back, and routing drifts."""

from dataclasses import dataclass, field

import numpy as np

from evaluation.independent.machines import Communicator, Communicators
from evaluation.independent.pace import Pace
from evaluation.independent.streams import Part, Program, Task

# The load of an expert wanders by about 10 % and remembers 95 % of yesterday's.
_WANDER, _MEMORY = 0.1, 0.95


@dataclass
class Routing:
    """The share of the tokens that each expert gets in each step and layer, 1 on average.

    Groups have the same experts and like data, so that the same expert is popular in all of them.
    """

    experts: int
    layers: int
    seed: int
    drifts: bool
    _loads: dict[int, np.ndarray] = field(default_factory=dict)

    def loads(self, step: int) -> np.ndarray:
        """Loads of a step, of shape (layers, experts)."""
        for number in range(len(self._loads), step + 1):
            drawn = np.random.default_rng([self.seed, number]).normal(0.0, 1.0, (self.layers, self.experts))
            if number == 0 or not self.drifts:
                self._loads[number] = drawn * (_WANDER if self.drifts else 0.02)
            else:
                fresh = _WANDER * np.sqrt(1 - _MEMORY**2)
                self._loads[number] = _MEMORY * self._loads[number - 1] + fresh * drawn
        shares = np.exp(self._loads[step])
        return np.asarray(shares / shares.mean(axis=1, keepdims=True))


@dataclass(frozen=True)
class Exchange:
    """A rank attends for `attend_us` in a layer, sends `token_bytes` to each expert of its group on average, computes
    `expert_us` and sends them back; backward takes twice as long.

    `grouped`: an exchange is a group of Sends and Recvs; else it is one All2All.
    """

    token_bytes: int
    attend_us: float
    expert_us: float
    expert_gradient_bytes: int
    dense_gradient_bytes: int
    grouped: bool


@dataclass(frozen=True)
class Mixture:
    """Expert parallelism within groups, data parallelism between them.

    Experts' gradients are reduced between the groups, the others' over all ranks.
    """

    groups: dict[int, Communicator]
    between: dict[int, Communicator]
    world: Communicator
    routing: Routing
    work: Exchange

    @staticmethod
    def over(make: Communicators, groups: list[list[int]], routing: Routing, work: Exchange) -> "Mixture":
        """The job on groups of ranks with one expert each."""
        exchange = {rank: made for group in groups for made in [make.make("expert", group)] for rank in group}
        between: dict[int, Communicator] = {}
        for members in zip(*groups, strict=True):
            between.update(dict.fromkeys(members, make.make("expert data", list(members))))
        return Mixture(exchange, between, make.make("world", sorted(exchange)), routing, work)

    def train(self, program: Program, pace: Pace) -> None:
        """One step."""
        loads = self.routing.loads(program.step)
        for layer in range(self.routing.layers):
            self._layer(program, pace, loads[layer], 1.0)
        for layer in reversed(range(self.routing.layers)):
            self._layer(program, pace, loads[layer], 2.0)
        reduced = [
            program.communicate(
                [Part(self.between[program.rank], "AllReduce", self.work.expert_gradient_bytes)], program.tail()
            ),
            program.communicate([Part(self.world, "AllReduce", self.work.dense_gradient_bytes)], program.tail()),
        ]
        program.host_waits(program.compute(pace.us(0.3 * self.work.attend_us), reduced))

    def evaluate(self, program: Program, pace: Pace) -> None:
        """One batch forward."""
        loads = self.routing.loads(program.step)
        for layer in range(self.routing.layers):
            self._layer(program, pace, loads[layer], 1.0)
        program.host_waits(*program.tail())

    def _layer(self, program: Program, pace: Pace, loads: np.ndarray, times: float) -> None:
        expert = self.groups[program.rank].local_rank[program.rank]
        attended = program.compute(pace.us(times * self.work.attend_us))
        sent = self._exchange(program, attended, loads, to_experts=True)
        computed = program.compute(pace.us(times * self.work.expert_us * float(loads[expert])), [sent])
        returned = self._exchange(program, computed, loads, to_experts=False)
        program.compute(pace.us(1.0), [returned])

    def _exchange(self, program: Program, after: Task, loads: np.ndarray, to_experts: bool) -> Task:
        group = self.groups[program.rank]
        sizes = [int(self.work.token_bytes * load) // 1024 * 1024 for load in loads]
        if not self.work.grouped:
            return program.communicate([Part(group, "All2All", self.work.token_bytes * len(sizes))], [after])
        own = sizes[group.local_rank[program.rank]]
        parts = []
        for peer, size in zip(group.ranks, sizes, strict=True):
            sent, received = (size, own) if to_experts else (own, size)
            parts += [Part(group, "Send", sent, peer), Part(group, "Recv", received, peer)]
        return program.communicate(parts, [after])
