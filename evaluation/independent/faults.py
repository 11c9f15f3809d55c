"""What can be wrong with a job: who, how strongly, from which step to which."""

from dataclasses import dataclass
from functools import cached_property

from evaluation.independent.machines import Gpu


@dataclass(frozen=True)
class Path:
    """The GPUs between which bytes move, in the order of the ring."""

    gpus: tuple[Gpu, ...]

    @cached_property
    def domains(self) -> int:
        """NVLink domains that it touches."""
        return len({gpu.domain for gpu in self.gpus})

    @property
    def crosses(self) -> bool:
        """Whether it uses network cards."""
        return self.domains > 1

    @property
    def shares_domain(self) -> bool:
        """Whether it uses NVLink."""
        return len(self.gpus) > self.domains

    @cached_property
    def neighbours(self) -> frozenset[frozenset[int]]:
        """Pairs of domains that are next to each other in the ring."""
        order = list(dict.fromkeys(gpu.domain for gpu in self.gpus))
        return frozenset(
            frozenset(pair) for pair in zip(order, order[1:] + order[:1], strict=True) if len(set(pair)) == 2
        )


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong from `first_step` to before `last_step`.

    `what`: late (computes `strength` times as long), ramp (the same, growing from 1 to `strength`), pause (the host
    thread does nothing for `pause_us` in every `every`-th step), link (transfers take `strength` times as long), flap
    (transfers stand still in the times `down`, us since the launch began), hang, dead (before launch number `ordinal`
    of the step's in a family), mismatch. `ranks` are those at fault. For a link: `link` is nic, nvlink, rail, path or
    fabric, and `place` the GPU slot of a rail or the two domains of a path.
    """

    what: str
    ranks: frozenset[int]
    first_step: int
    last_step: int
    strength: float = 1.0
    pause_us: float = 0.0
    every: int = 1
    link: str = ""
    place: tuple[int, ...] = ()
    down: tuple[tuple[float, float], ...] = ()
    family: str = ""
    ordinal: int = 0

    def holds(self, step: int) -> bool:
        """Whether it is there in a step."""
        return self.first_step <= step < self.last_step and (step - self.first_step) % self.every == 0

    def factor(self, step: int) -> float:
        """By how much what it slows takes longer in a step."""
        if self.what not in ("late", "ramp", "link") or not self.holds(step):
            return 1.0
        if self.what != "ramp":
            return self.strength
        grown = (step - self.first_step + 1) / max(1, (self.last_step - self.first_step) // 2)
        return 1 + (self.strength - 1) * min(1.0, grown)

    def is_on(self, path: Path) -> bool:
        """Whether a path uses the link that is at fault."""
        if self.link == "nvlink":
            shared = [gpu.domain for gpu in path.gpus]
            return any(gpu.rank in self.ranks and shared.count(gpu.domain) > 1 for gpu in path.gpus)
        if not path.crosses:
            return False
        if self.link == "path":
            return frozenset(self.place) in path.neighbours
        if self.link == "rail":
            return any(gpu.slot in self.place for gpu in path.gpus)
        return self.link == "fabric" or any(gpu.rank in self.ranks for gpu in path.gpus)
