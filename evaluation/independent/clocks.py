"""The clock of a host: offset, drift, and a step when somebody sets it."""

from dataclasses import dataclass

# When jobs begin: 2026-08-29 in Unix us.
EPOCH_US = 1_788_000_000_000_000


@dataclass(frozen=True)
class Clock:
    """`offset_us` at the begin of the job, `drift` in us per us, and `step_us` from `stepped_at_us` on."""

    offset_us: float = 0.0
    drift: float = 0.0
    stepped_at_us: float = float("inf")
    step_us: float = 0.0

    def unix_us(self, time_us: float) -> int:
        """What it shows at a time of the job (us since its begin)."""
        stepped_us = self.step_us if time_us >= self.stepped_at_us else 0.0
        return EPOCH_US + int(time_us + self.offset_us + self.drift * time_us + stepped_us)
