"""How a part of a launch stopped, and what came then."""

from collections.abc import Mapping
from dataclasses import dataclass

from nixt_pipeline.diagnosis.detectors.replaced import Interruption
from nixt_pipeline.diagnosis.detectors.sequel import Sequel
from nixt_pipeline.diagnosis.detectors.stopped import Stop
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.tracks import Series, Track
from nixt_pipeline.diagnosis.evidence.ending import Ending
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.parts import Part
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.steps import Steps


@dataclass(frozen=True)
class Behind:
    """Some of the `tracks` got less far than what does the same; `sure` when no killed job and no lost records would
    look so."""

    stop: Stop
    tracks: tuple[Track, ...]
    sure: bool


@dataclass(frozen=True)
class NeverCompleted:
    """A collective of all processes was not completed, though all of them reached it: the one after `series`."""

    series: Series


@dataclass(frozen=True)
class WithinStep:
    """Communicators ended in the middle of a step, and so did all `processes`."""

    processes: tuple[Process, ...]
    begun: Mapping[Communicator, Steps]


@dataclass(frozen=True)
class Halt(Suspect):
    """A part of a launch stopped at `since_us`, and `sequel` came then. A job that was killed leaves such a log at
    `killed_share` of its moments, which is often enough where it `may_be_killed`; None where its past does not tell."""

    how: Behind | NeverCompleted | WithinStep | Interruption
    part: Part
    since_us: int | None
    sequel: Sequel | None = None
    may_be_killed: bool = False
    killed_share: float | None = 0.0

    @property
    def sure(self) -> bool:
        """Whether it is a hang for certain, and it is known where."""
        return isinstance(self.how, Behind) and self.how.sure

    def only_ended(self, ending: Ending) -> bool:
        """Whether it proves no hang, for the job ended then."""
        if self.sequel and self.sequel.went_on:
            return False
        ended = ending.completed or ending.from_outside or ending.running(self.since_us)
        return self.may_be_killed or (ended and not self.sure)

    def over_at(self, at_us: int, ending: Ending) -> bool:
        """Whether it is a hang of that moment that was overcome."""
        if self.since_us is None or self.sequel is None or self.only_ended(ending):
            return False
        return self.since_us <= at_us < self.sequel.at_us


@dataclass(frozen=True)
class NotExamined(Suspect):
    """Parts of a launch in which no hang was looked for, because `examined` ones have more processes."""

    parts: tuple[Part, ...]
    examined: int
