"""What a diagnosis says: findings with effect, evidence and counter-evidence, and the JSON that other tools parse."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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


@dataclass(frozen=True)
class Effect:
    """What it costs. `cost_share`: share of the time since the onset that others stood still for it; `slowdown`: time
    against the reference (1.6 = 60 % longer); `lost_rank_seconds`: summed over all who waited. None: not measurable."""

    cost_share: float | None = None
    slowdown: float | None = None
    lost_rank_seconds: float | None = None

    def to_json(self) -> dict[str, float | None]:
        """The three numbers, rounded to what they are good for."""
        return {
            "cost_share": _rounded(self.cost_share, 4),
            "slowdown": _rounded(self.slowdown, 3),
            "lost_rank_seconds": _rounded(self.lost_rank_seconds, 3),
        }


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    With `ambiguous`, one of the named hosts, processes or communicators is at fault and the log cannot say which;
    without it, all of them are. `ranks` are those of the processes in the communicator of the whole launch; empty when
    it has none. `onset_us` and `until_us` are Unix microseconds by the clocks of the hosts that wrote; None means since
    the start and until the end of the log. `place` says in words where it is when neither a host nor a process is at
    fault: communicators, with their members.
    """

    kind: Kind
    severity: Severity
    level: Level
    evidence: str
    counter_evidence: str
    next_step: str
    hosts: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    communicators: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    ambiguous: bool = False
    onset_us: int | None = None
    until_us: int | None = None
    effect: Effect = field(default_factory=Effect)
    place: str = ""

    def to_json(self) -> dict[str, Any]:
        """The finding as in the contract."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "level": self.level,
            "hosts": list(self.hosts),
            "processes": list(self.processes),
            "ranks": list(self.ranks),
            "communicators": list(self.communicators),
            "ambiguous": self.ambiguous,
            "onset_us": self.onset_us,
            "until_us": self.until_us,
            "effect": self.effect.to_json(),
            "evidence": self.evidence,
            "counter_evidence": self.counter_evidence,
            "next_step": self.next_step,
            **({"place": self.place} if self.place else {}),
        }


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
    `least_cost_share`: the share of the time from which on a late process would be told; None when it is not known.
    `ranks_by_launch`: how many ranks of each launch left records, by time. The ranks of the run are the
    sum, for a GPU that took part in several launches is a rank in each.
    """

    ranks_seen: int
    ranks_expected: int
    records: int
    complete_cells: float | None
    usable_collectives: int
    capture_rate: float | None = None
    lowest_capture_rate: float | None = None
    gpu_timed: float | None = None
    sized: float | None = None
    losses: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    cut_files: int = 0
    least_cost_share: float | None = None
    ranks_by_launch: tuple[int, ...] = ()

    @property
    def replayed_share(self) -> float:
        """The share of the collectives that repeat a sequence number and were left out for it."""
        seen = self.usable_collectives + sum(self.left_out.values())
        return self.left_out.get(REPLAYED, 0) / seen if seen else 0.0

    def to_json(self) -> dict[str, Any]:
        """As in the contract."""
        return {
            "ranks_seen": self.ranks_seen,
            "ranks_expected": self.ranks_expected,
            "records": self.records,
            "complete_cells": _rounded(self.complete_cells, 4),
            "usable_collectives": self.usable_collectives,
            "capture_rate": _rounded(self.capture_rate, 4),
            "lowest_capture_rate": _rounded(self.lowest_capture_rate, 4),
            "losses": dict(self.losses),
            "left_out": dict(self.left_out),
            "least_cost_share": _rounded(self.least_cost_share, 4),
            "ranks_by_launch": list(self.ranks_by_launch),
        }


# Of a run whose records could not be counted.
UNKNOWN_COVERAGE = RunCoverage(ranks_seen=0, ranks_expected=0, records=0, complete_cells=None, usable_collectives=0)


@dataclass(frozen=True)
class Diagnosis:
    """The findings about one run, the costliest first. The verdict is `findings` when one of them is more than
    information. `reason` says why a run is not assessable, or what could not be judged."""

    run: str
    verdict: Verdict
    coverage: RunCoverage
    findings: tuple[Finding, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The stable, versioned form."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "verdict": self.verdict,
            "reason": self.reason,
            "coverage": self.coverage.to_json(),
            "findings": [finding.to_json() for finding in self.findings],
        }

    @property
    def worst(self) -> Severity | None:
        """The most urgent severity among the findings."""
        return min((finding.severity for finding in self.findings), key=SEVERITIES.index, default=None)

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings that are as urgent as `severity`, or more."""
        return tuple(f for f in self.findings if SEVERITIES.index(f.severity) <= SEVERITIES.index(severity))


def severity_by_cost(cost_share: float, slowdown: float, p1_slowdown: float, limits: Thresholds) -> Severity:
    """P1 for what costs much of the time, or is so much slower than its alike that it must be broken; else P2."""
    return "P1" if cost_share >= limits.diagnosis.p1_cost_share or slowdown >= p1_slowdown else "P2"


# Kinds that rest on times of collectives; a hang shows in numbers.
_FROM_TIMES = ("late-arrival", "slow-transfer", "fabric-slow")


def capped(finding: Finding, coverage: RunCoverage, limits: Thresholds) -> Finding:
    """A finding that rests on less than half of the records, or on times of less than half of the collectives, does not
    page anyone."""
    thin = coverage.capture_rate is not None and coverage.capture_rate < limits.diagnosis.min_complete_share
    thin |= finding.kind in _FROM_TIMES and 1 - coverage.replayed_share < limits.diagnosis.min_complete_share
    return replace(finding, severity="P2") if thin and finding.severity in ("P0", "P1") else finding


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


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
