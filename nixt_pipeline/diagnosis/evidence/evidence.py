"""All that a detector may look at, loaded once."""

from dataclasses import dataclass, field

from nixt_pipeline.diagnosis.evidence.coverage import Recorded
from nixt_pipeline.diagnosis.evidence.ending import Ending
from nixt_pipeline.diagnosis.evidence.era import Era
from nixt_pipeline.diagnosis.evidence.history import History
from nixt_pipeline.diagnosis.evidence.launch_lags import LaunchLags
from nixt_pipeline.diagnosis.evidence.launches import Launch
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.size_mismatches import SizeMismatch
from nixt_pipeline.diagnosis.evidence.write_times import WriteTimes


@dataclass(frozen=True)
class Evidence:
    """What the log shows of one launch, or of one era of it.

    `recorded` and `launches` are those of the whole run, `ending` is how its job ended. A launch whose communicators
    were replaced has `eras`; what is shown of one of them has none. `write_times` and `launch_lags` are samples of
    collectives; of the latter there are none without verbose records.
    """

    seen: Observations
    recorded: Recorded
    history: History
    launches: tuple[Launch, ...] = ()
    ending: Ending = field(default_factory=Ending)
    eras: tuple[Era, ...] = ()
    size_mismatches: tuple[SizeMismatch, ...] = ()
    write_times: tuple[WriteTimes, ...] = ()
    launch_lags: LaunchLags | None = None
