"""How fast one GPU computes and what interrupts its host thread, drawn once for a job and its twin alike."""

from dataclasses import dataclass, field

import numpy as np

# GPUs of one kind differ by about 1 % under one power limit; the time of one kernel by somewhat less.
_SILICON, _KERNEL = 0.01, 0.006


@dataclass(frozen=True)
class Habits:
    """What interrupts a job that is healthy. Steps count from 0; 0 as a period means never.

    `warm_up`: first steps that take up to three times as long; `loader_stalls`: chance of a stall per rank and step, of
    up to `loader_stall_us`; `collections`: a garbage collection of `collection_us` about every so many steps of a rank;
    `checkpoint_by`: the ranks that write it; `lengthening`: by how much steps grow until the last one; `uneven`: by how
    much steps differ between ranks because their sequences do.
    """

    warm_up: int = 2
    loader_stalls: float = 0.0
    loader_stall_us: float = 200_000.0
    collections: int = 0
    collection_us: float = 60_000.0
    checkpoints: int = 0
    checkpoint_us: float = 1_500_000.0
    checkpoint_by: frozenset[int] = frozenset()
    evaluations: int = 0
    evaluation_batches: int = 4
    lengthening: float = 0.0
    uneven: float = 0.0


@dataclass
class Pace:
    """One rank's speed; every draw comes from its own generator, in the order of the program."""

    rank: int
    habits: Habits
    draws: np.random.Generator
    steps: int
    silicon: float = field(init=False)
    _scale: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        self.silicon = float(np.exp(self.draws.normal(0.0, _SILICON)))

    def begin(self, step: int) -> None:
        """Draw what the step is like."""
        warm = 1.0 + 2.0 * 0.4**step if step < self.habits.warm_up else 1.0
        longer = 1.0 + self.habits.lengthening * step / self.steps
        self._scale = warm * longer * float(np.exp(self.draws.normal(0.0, self.habits.uneven)))

    def us(self, usual_us: float) -> float:
        """How long this GPU computes what takes `usual_us` on a usual one."""
        return usual_us * self.silicon * self._scale * float(np.exp(self.draws.normal(0.0, _KERNEL)))

    def loading_us(self, usual_us: float) -> float:
        """How long the host thread takes to have the next batch, with what holds it up before the step."""
        lasting = usual_us * float(np.exp(self.draws.normal(0.0, 0.2)))
        stalled, length, collected = self.draws.random(3)
        if stalled < self.habits.loader_stalls:
            lasting += self.habits.loader_stall_us * (0.25 + 0.75 * float(length))
        if self.habits.collections and collected < 1 / self.habits.collections:
            lasting += self.habits.collection_us * (0.5 + float(length))
        return lasting

    def checkpoint_us(self, step: int) -> float:
        """How long this rank writes a checkpoint before the step; 0 where it writes none."""
        every = self.habits.checkpoints
        due = bool(every) and step > 0 and step % every == 0
        noise = float(np.exp(self.draws.normal(0.0, 0.15)))
        return self.habits.checkpoint_us * noise if due and self.rank in self.habits.checkpoint_by else 0.0

    def evaluates(self, step: int) -> bool:
        """Whether the job evaluates before the step."""
        return bool(self.habits.evaluations) and step > 0 and step % self.habits.evaluations == 0
