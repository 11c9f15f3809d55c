"""What a comparison says, and the JSON that other tools parse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nixt_pipeline.fleet.compare.explanation import Explanation
from nixt_pipeline.fleet.compare.location import MEASURES, Location, MeasureName
from nixt_pipeline.fleet.compare.matching import Side
from nixt_pipeline.fleet.compare.placement import Placement
from nixt_pipeline.fleet.compare.robust_stats import Change, Estimate
from nixt_pipeline.fleet.compare.summaries import KernelKey

SCHEMA = 1

# What was repeated: several runs, or stretches of the only run on each side.
Basis = Literal["runs", "blocks"]

# From what a gate is for to what it may let pass.
FAIL_ON: tuple[Change, ...] = ("regressed", "slower-other-hosts", "not-comparable", "inconclusive")
# From the gravest to the best. Being faster on other hosts is no proof of being faster: a strict gate stops at it.
_ORDER: tuple[Change, ...] = (
    "regressed", "slower-other-hosts", "not-comparable", "improved", "faster-other-hosts", "inconclusive", "equivalent",
)  # fmt: skip
_UNPROVEN = "faster-other-hosts"


@dataclass(frozen=True)
class Measure:
    """Transfer or waiting on both sides in microseconds for each operation, and what became of it.

    `share` and `share_b` are the parts of the time of the reference and of B that it stands for, `floor` the smallest
    relative change that counts. A change of waiting is relative to the whole time of the operation, because waiting
    alone can be nothing. `lost_s` is the rank-time in seconds that B's operations take longer, `cost_share` its part of
    the rank-time of B's job; `location` says in which communicators a change is, where they are known.
    """

    a_us: float
    b_us: float
    share: float
    share_b: float
    floor: float
    estimate: Estimate | None
    verdict: Change = "inconclusive"
    q_value: float = 1.0
    reason: str = ""
    lost_s: float = 0.0
    cost_share: float = 0.0
    location: Location | None = None

    @property
    def change(self) -> float:
        """The relative change; 0 where it is not known."""
        return self.estimate.change if self.estimate else 0.0

    def to_json(self) -> dict[str, Any]:
        """Rounded to what the numbers are good for."""
        e = self.estimate
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "a_us": round(self.a_us, 3),
            "b_us": round(self.b_us, 3),
            "share": round(self.share, 4),
            "share_b": round(self.share_b, 4),
            "lost_rank_seconds": round(self.lost_s, 3) + 0.0,
            "cost_share": round(self.cost_share, 4),
            "communicators": self.location.to_json() if self.location else None,
            "change": None if e is None else round(e.change, 5),
            "low": None if e is None else round(e.low, 5),
            "high": None if e is None else round(e.high, 5),
            "p": None if e is None else float(f"{e.p_value:.3g}"),
            "q": float(f"{self.q_value:.3g}"),
        }


@dataclass(frozen=True)
class KernelComparison:
    """One kernel that both sides have."""

    key: KernelKey
    transfer: Measure
    waiting: Measure

    @property
    def verdict(self) -> Change:
        """The graver of the two."""
        return min(self.transfer.verdict, self.waiting.verdict, key=_ORDER.index)

    def to_json(self) -> dict[str, Any]:
        """Key and both measures."""
        return {**self.key.to_json(), "transfer": self.transfer.to_json(), "waiting": self.waiting.to_json()}


# Transfer and waiting of all kernels together; None where no kernel is comparable.
Whole = tuple[Measure | None, Measure | None]


@dataclass(frozen=True)
class Part:
    """Transfer or waiting (`name`) of one kernel, or of all kernels together, which have an empty `kernel`."""

    kernel: str
    name: MeasureName
    measure: Measure

    @property
    def label(self) -> str:
        """`transfer of AllReduce ...`, or `transfer`."""
        return f"{self.name} of {self.kernel}" if self.kernel else self.name


def parts_of(kernels: Sequence[KernelComparison], whole: Whole) -> list[Part]:
    """Every measure of a comparison, those of all kernels together first."""
    found = [Part("", name, measure) for name, measure in zip(MEASURES, whole, strict=True) if measure]
    return found + [Part(kernel.key.label, name, getattr(kernel, name)) for kernel in kernels for name in MEASURES]


@dataclass(frozen=True)
class NotCompared:
    """A kernel whose times say nothing, and why."""

    key: KernelKey
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Side `b` against side `a`, the reference. `margin`: a smaller relative change is no change.

    `transfer` and `waiting` are over all comparable kernels: what the reference's operations take on each side.
    `above_all` names the kernels that changed most where `reason` does not. `left_out` are runs that were meant, and do
    other work. `explanation` has what the findings of the slower side account for, `next_step` how to tell the hosts
    from the change; `host_sets` is the number of sets of hosts whose spread is in the intervals, 0 when it is not
    known.
    """

    a: Side
    b: Side
    verdict: Change
    reason: str
    basis: Basis
    workload_changes: tuple[str, ...]
    covariates: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    placement: Placement
    matched_share: float
    margin: float
    transfer: Measure | None
    waiting: Measure | None
    kernels: tuple[KernelComparison, ...]
    not_compared: tuple[NotCompared, ...]
    above_all: str = ""
    left_out: tuple[str, ...] = ()
    explanation: Explanation | None = None
    next_step: str = ""
    host_sets: int = 0

    @property
    def parts(self) -> list[Part]:
        """Every measure, those of all kernels together first."""
        return parts_of(self.kernels, (self.transfer, self.waiting))

    @property
    def suspected(self) -> bool:
        """Whether a change rests on one run on each side: how much runs differ anyway is then not known."""
        return self.basis == "blocks" and self.verdict in ("regressed", "improved")

    def fails(self, gate: Change) -> bool:
        """Whether a gate that stops at `gate`, or what is graver, stops here."""
        verdict: Change = "inconclusive" if self.verdict == _UNPROVEN else self.verdict
        return verdict in FAIL_ON[: FAIL_ON.index(gate) + 1]

    def to_json(self) -> dict[str, Any]:
        """The stable, versioned form."""
        return {
            "schema": SCHEMA,
            "a": {"name": self.a.name, "runs": [run.run for run in self.a.runs]},
            "b": {"name": self.b.name, "runs": [run.run for run in self.b.runs]},
            "verdict": self.verdict,
            "reason": self.reason,
            "above_all": self.above_all,
            "basis": self.basis,
            "suspected": self.suspected,
            "workload_changes": list(self.workload_changes),
            "covariates": [{"name": n, "a": list(a), "b": list(b)} for n, a, b in self.covariates],
            "hosts": {
                "placement": self.placement.kind,
                "a": self.placement.hosts_a,
                "b": self.placement.hosts_b,
                "common": self.placement.common,
                "names_are_machines": self.placement.names_are_machines,
                "sets_in_history": self.host_sets,
            },
            "explained": self.explanation.to_json() if self.explanation else None,
            "next_step": self.next_step,
            "margin": self.margin,
            "matched_share": round(self.matched_share, 4),
            "transfer": self.transfer.to_json() if self.transfer else None,
            "waiting": self.waiting.to_json() if self.waiting else None,
            "kernels": [kernel.to_json() for kernel in self.kernels],
            "left_out": list(self.left_out),
            "not_compared": [{**item.key.to_json(), "reason": item.reason} for item in self.not_compared],
        }
