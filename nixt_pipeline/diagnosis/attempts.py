"""Detectors run one by one: one that fails becomes a finding of its own, and the others go on."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from nixt_pipeline.diagnosis.findings import Diagnosis, ranked
from nixt_pipeline.diagnosis.wording.unassessed import not_assessed
from nixt_pipeline.isolation import Failure, attempt

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Attempts:
    """What was tried for one diagnosis, and what of it failed."""

    failed: list[Failure] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def decisive(self, what: str, detector: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What a detector says that can raise an alarm; None when it failed: without an alarm from elsewhere, the run
        is then not assessable."""
        result = self.informative(what, detector, *args, **kwargs)
        if result is None:
            self.undecided.append(what)
        return result

    def informative(self, what: str, detector: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What a detector says that never raises an alarm; None when it failed."""
        result = attempt(what, detector, *args, **kwargs)
        if isinstance(result, Failure):
            self.failed.append(result)
            return None
        return result

    def told_in(self, diagnosis: Diagnosis) -> Diagnosis:
        """`diagnosis` with a finding for each failure."""
        told = ranked([*diagnosis.findings, *(not_assessed(failure) for failure in self.failed)])
        if not self.undecided or diagnosis.verdict == "findings":
            return replace(diagnosis, findings=told)
        reason = f"a defect of nixt kept it from looking for: {', '.join(dict.fromkeys(self.undecided))}"
        reason += f"; {diagnosis.reason}" if diagnosis.reason else ""
        return replace(diagnosis, verdict="not-assessable", findings=told, reason=reason)
