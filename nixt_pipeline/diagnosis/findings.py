"""What a diagnosis says: findings with effect, evidence and counter-evidence, and the JSON that other tools parse."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, TypeAdapter

from nixt_pipeline.settings import Thresholds

SCHEMA = 1

Kind = Literal[
    "late-arrival", "slow-transfer", "hang", "process-silent", "mismatch", "fabric-slow", "imbalance", "record-loss",
    "clock-skew", "capture-gap", "regression", "not-assessed", "unfinished-step",
]  # fmt: skip
Severity = Literal["P0", "P1", "P2", "info"]
Level = Literal["rank", "host", "communicator", "link", "fabric", "run"]
Verdict = Literal["findings", "none-found", "not-assessable"]

# From the most to the least urgent.
SEVERITIES: tuple[Severity, ...] = ("P0", "P1", "P2", "info")
# What makes the verdict `findings`.
ALARMING: tuple[Severity, ...] = ("P0", "P1", "P2")


# Written with as many digits as they are good for; a small share stays one.
_Share = Annotated[float | None, PlainSerializer(lambda share: None if share is None else float(f"{share:.4g}"))]
_Times = Annotated[float | None, PlainSerializer(lambda value: None if value is None else round(value, 3))]
# For the diagnosis itself only.
_Unwritten = Field(exclude=True)


@dataclass(frozen=True)
class Effect:
    """What it costs. `cost_share`: share of the time since the onset that others waited for it; `slowdown`: time
    against the reference (1.6 = 60 % longer); `lost_rank_seconds`: summed over all who waited. None: not measurable."""

    cost_share: _Share = None
    slowdown: _Times = None
    lost_rank_seconds: _Times = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    With `ambiguous`, one of the named hosts, processes or communicators is at fault and the log cannot say which;
    without it, all of them are. `ranks` are those of the processes in the communicator of the whole launch; empty when
    it has none. `onset_us` and `until_us` are Unix microseconds by the clocks of the hosts that wrote; None means since
    the start and until the end of the log. `place` says in words where it is when neither a host nor a process is at
    fault: communicators, with their members. `confidence`: the probability that exactly the named are at fault, or one
    of them where it is ambiguous; None for information, and where no simulated job tells.
    """

    kind: Kind
    severity: Severity
    level: Level
    hosts: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    communicators: tuple[str, ...] = ()
    ambiguous: bool = False
    onset_us: int | None = None
    until_us: int | None = None
    effect: Effect = field(default_factory=Effect)
    evidence: str
    counter_evidence: str
    next_step: str
    place: str = ""
    confidence: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As in the contract."""
        return dict(_FINDING.dump_python(self, mode="json"))


_FINDING = TypeAdapter(Finding)

# Why collectives of CUDA graphs are left out of comparisons, in words.
REPLAYED = "repeat a sequence number (CUDA graphs), not equally often on all ranks"


@dataclass(frozen=True)
class RunCoverage:
    """How much of the job the diagnosis rests on.

    `complete_cells`: share of the synchronising collectives that every rank recorded, None when there is none.
    `usable_collectives`: those that were looked at, recorded by several ranks, with GPU times; `left_out`: all others,
    by reason. `capture_rate`: records over those that the sequence numbers tell of, of the whole run and of the process
    with the fewest. `gpu_timed`: share of the times that the GPU took; `sized`: share of the collectives with a
    message size. `losses`: missing records by cause. `cut_files`: files that end within a record or are damaged.
    `least_cost_share`: the share of the time from which on a late process would be found; None when it is not known.
    `ranks_by_launch`: how many ranks of each launch left records, by time. The ranks of the run are the
    sum, for a GPU that took part in several launches is a rank in each.
    """

    ranks_seen: int
    ranks_expected: int
    records: int
    complete_cells: _Share
    usable_collectives: int
    capture_rate: _Share = None
    lowest_capture_rate: _Share = None
    gpu_timed: Annotated[float | None, _Unwritten] = None
    sized: Annotated[float | None, _Unwritten] = None
    losses: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    cut_files: Annotated[int, _Unwritten] = 0
    least_cost_share: _Share = None
    ranks_by_launch: tuple[int, ...] = ()

    @property
    def replayed_share(self) -> float:
        """The share of the collectives that repeat a sequence number and were left out for it."""
        seen = self.usable_collectives + sum(self.left_out.values())
        return self.left_out.get(REPLAYED, 0) / seen if seen else 0.0


# Of a run whose records could not be counted.
UNKNOWN_COVERAGE = RunCoverage(ranks_seen=0, ranks_expected=0, records=0, complete_cells=None, usable_collectives=0)


@dataclass(frozen=True)
class Diagnosis:
    """The findings about one run, the costliest first. The verdict is `findings` when one of them is more than
    information. `reason` says why a run is not assessable, or what could not be judged. `verdict_alone`: the verdict
    before a comparison with other runs added a finding."""

    run: str
    verdict: Verdict
    coverage: RunCoverage
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    verdict_alone: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        """The stable, versioned form."""
        return {"schema": SCHEMA, **_DIAGNOSIS.dump_python(self, mode="json")}

    @classmethod
    def from_json(cls, content: Any) -> "Diagnosis":
        """The inverse of `to_json`, but for the digits that were rounded off. Raises `ValueError` for anything else."""
        return _DIAGNOSIS.validate_python(content)

    @property
    def worst(self) -> Severity | None:
        """The most urgent severity among the findings."""
        return min((finding.severity for finding in self.findings), key=SEVERITIES.index, default=None)

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings that are as urgent as `severity`, or more."""
        return tuple(f for f in self.findings if SEVERITIES.index(f.severity) <= SEVERITIES.index(severity))


_DIAGNOSIS = TypeAdapter(Diagnosis)


def severity_by_cost(cost_share: float, slowdown: float, p1_slowdown: float, limits: Thresholds) -> Severity:
    """P1 for what costs much of the time, or is so much slower than its peers that it must be broken; else P2."""
    return "P1" if cost_share >= limits.diagnosis.p1_cost_share or slowdown >= p1_slowdown else "P2"


# Kinds that rest on times of collectives; a hang shows in numbers.
_FROM_TIMES = ("late-arrival", "slow-transfer", "fabric-slow")


def capped(finding: Finding, coverage: RunCoverage, limits: Thresholds) -> Finding:
    """A finding that rests on less than half of the records, or on times of less than half of the collectives, does not
    page anyone, and says why."""
    why = ""
    if coverage.capture_rate is not None and coverage.capture_rate < limits.diagnosis.min_complete_share:
        why = f"only {coverage.capture_rate:.0%} of the records are there"
    elif finding.kind in _FROM_TIMES and 1 - coverage.replayed_share < limits.diagnosis.min_complete_share:
        why = f"{coverage.replayed_share:.0%} of the collectives could not be compared"
    if not why or finding.severity not in ("P0", "P1"):
        return finding
    return replace(finding, severity="P2", counter_evidence=f"{finding.counter_evidence} Capped at P2, for {why}.")


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The most urgent first, and of those the one that loses most rank-seconds."""
    return tuple(
        sorted(
            findings,
            key=lambda f: (
                SEVERITIES.index(f.severity),
                -(f.effect.lost_rank_seconds or 0),
                f.kind,
                f.hosts,
                f.processes,
            ),
        )
    )
