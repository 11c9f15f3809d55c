"""What is known of how a job ended beside its logs: what the scheduler or its owner said, and how old the last record
was when the logs were read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nixt_pipeline.settings import Settings
from nixt_pipeline.store.manifest import Manifest

# The job was ended, whatever it did then; its last record says nothing of it. (`man sacct`, JOB STATE CODES)
_ENDED_FROM_OUTSIDE = frozenset({"CANCELLED", "DEADLINE", "PREEMPTED", "REVOKED", "TIMEOUT"})
_ENDED_BY_ITSELF = "COMPLETED"
_DIED = frozenset({"BOOT_FAIL", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"})


@dataclass(frozen=True)
class Ending:
    """How the job behind a log ended: its `state` in Slurm's words, empty when not known; when its logs were read
    (Unix microseconds), and for how long a log that is not written to is that of a running job."""

    state: str = ""
    read_us: int | None = None
    quiet_us: int = 0

    @property
    def completed(self) -> bool:
        """Whether it ended by itself, and well."""
        return self.state == _ENDED_BY_ITSELF

    @property
    def from_outside(self) -> bool:
        """Whether it was ended by its time limit, by a person or for another job."""
        return self.state in _ENDED_FROM_OUTSIDE

    @property
    def over(self) -> bool:
        """Whether it does nothing any more, for certain."""
        return self.completed or self.from_outside or self.state in _DIED

    def running(self, last_us: int | None) -> bool:
        """Whether the job seems to have been running when its logs were read, by its last record."""
        if self.over or last_us is None or self.read_us is None:
            return False
        return 0 <= self.read_us - last_us < self.quiet_us


def ending_of(manifest: Manifest, settings: Settings) -> Ending:
    """What the manifest of a run says of its end."""
    read = datetime.fromisoformat(manifest.ingested_at).timestamp()
    return Ending(_state(manifest.run_info), int(read * 1e6), int(settings.quiet_period_s * 1e6))


def _state(run_info: Mapping[str, Any]) -> str:
    """The one state of all parts of a job: the first word, as of `CANCELLED by 1000`, whole where the column was too
    narrow for it (`OUT_OF_ME+`). Empty when there is none, or when its parts ended in different ways."""
    parts = str(run_info.get("state") or "").upper().split(",")
    states = {words[0] for part in parts if (words := part.split())}
    if len(states) != 1:
        return ""
    state = states.pop()
    whole = [known for known in sorted(_ENDED_FROM_OUTSIDE | _DIED) if known.startswith(state.rstrip("+"))]
    return whole[0] if state.endswith("+") and whole else state.rstrip("+")
