"""Everything that is looked for: a new cause is one module in `detectors`, one in `wording`, and one line here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nixt_pipeline.diagnosis.detectors.clocks import find_clock_skew
from nixt_pipeline.diagnosis.detectors.hangs import find_hangs
from nixt_pipeline.diagnosis.detectors.imbalance import find_imbalance, find_turns
from nixt_pipeline.diagnosis.detectors.late_ranks import find_late_ranks
from nixt_pipeline.diagnosis.detectors.mismatch import find_mismatches
from nixt_pipeline.diagnosis.detectors.stalls import find_stalls
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.transfer import find_slow
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.wording.clocks import clock_finding
from nixt_pipeline.diagnosis.wording.hangs import hang_findings
from nixt_pipeline.diagnosis.wording.imbalance import imbalance_finding
from nixt_pipeline.diagnosis.wording.late import late_finding
from nixt_pipeline.diagnosis.wording.mismatches import mismatch_finding
from nixt_pipeline.diagnosis.wording.stalls import stall_finding
from nixt_pipeline.diagnosis.wording.transfers import transfer_findings
from nixt_pipeline.settings import Thresholds

LATE = "late ranks"

S = TypeVar("S", bound=Suspect)


@dataclass(frozen=True)
class Detector(Generic[S]):
    """`find` says what is suspect, from the evidence and from what the detectors before it found; `tell` puts that into
    words. One that can raise an alarm is `decisive`: when it fails, a run without one is not assessable. Some look at a
    launch as a whole, all others, which compare `times`, at each of its eras. What needs no explanation of its own is
    looked for `unless` another detector found something, or failed."""

    looks_for: str
    find: Callable[[Evidence, Sequence[Suspect], Thresholds], Sequence[S]]
    tell: Callable[[Evidence, Sequence[S], Thresholds], list[Finding]]
    decisive: bool = True
    times: bool = True
    unless: str = ""


def _told_one_by_one(tell: Callable[[Observations, S], Finding]) -> Callable[..., list[Finding]]:
    return lambda evidence, found, _limits: [tell(evidence.seen, suspect) for suspect in found]


def _from_seen(
    find: Callable[[Observations, Thresholds], Sequence[S]],
) -> Callable[[Evidence, Sequence[Suspect], Thresholds], Sequence[S]]:
    return lambda evidence, _before, limits: find(evidence.seen, limits)


DETECTORS: tuple[Detector[Any], ...] = (
    Detector("mismatches", find_mismatches, _told_one_by_one(mismatch_finding), times=False),
    Detector("hangs", find_hangs, hang_findings, times=False),
    Detector(
        "slow transfers",
        _from_seen(find_slow),
        lambda evidence, found, limits: transfer_findings(evidence.seen, found, limits),
    ),
    Detector(
        "stalls of transfers",
        lambda evidence, before, limits: find_stalls(evidence.seen, before, limits),
        lambda evidence, found, limits: [stall_finding(evidence.seen, stalls, limits) for stalls in found],
    ),
    Detector(LATE, find_late_ranks, _told_one_by_one(late_finding)),
    Detector("uneven work", _from_seen(find_imbalance), _told_one_by_one(imbalance_finding), False, unless=LATE),
    Detector("work in turns", _from_seen(find_turns), _told_one_by_one(imbalance_finding), False, unless=LATE),
    Detector("clocks", find_clock_skew, _told_one_by_one(clock_finding), decisive=False),
)
