"""What the findings of the slower side explain of a difference: a job with a late host is slower for the sake of it.

Both are taken in rank-seconds: what the slower side's operations took longer than those of the other, and what the
findings cost. A synchronous job waits as a whole, so that a host that costs a share of the time costs it on every rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nixt_pipeline.diagnosis.findings import ALARMING
from nixt_pipeline.fleet.compare.matching import Matching, Side
from nixt_pipeline.fleet.compare.summaries import Kernel, RunSummary

SideName = Literal["a", "b"]

# Findings about a part of the machine. What concerns everything (a slow fabric, uneven work) can be the change itself.
_LOCATED = ("late-arrival", "slow-transfer")


@dataclass(frozen=True)
class Cause:
    """A finding of a run on the slower side, and the rank-time in seconds that it cost."""

    run: str
    kind: str
    severity: str
    hosts: tuple[str, ...]
    communicators: int
    ambiguous: bool
    rank_seconds: float

    @property
    def where(self) -> str:
        """Who is named: `gpu-120`, `one of gpu-1, gpu-2`, `4 communicators`."""
        if not self.hosts:
            return f"{self.communicators} communicators"
        return ("one of " if self.ambiguous and len(self.hosts) > 1 else "") + ", ".join(self.hosts)


@dataclass(frozen=True)
class Explanation:
    """The findings of one side, and the shares of its longer transfers and waiting that they account for.

    `excess_s` is the rank-time in seconds that its operations took longer; the shares are between 0 and 1.
    """

    side: SideName
    causes: tuple[Cause, ...]
    excess_s: float
    transfer_share: float
    waiting_share: float

    def share(self, measure: str) -> float:
        """Of `transfer` or `waiting`."""
        return self.transfer_share if measure == "transfer" else self.waiting_share

    def to_json(self) -> dict[str, Any]:
        """Shares, rank-seconds, and the findings."""
        return {
            "side": self.side,
            "transfer_share": round(self.transfer_share, 3),
            "waiting_share": round(self.waiting_share, 3),
            "rank_seconds": round(sum(cause.rank_seconds for cause in self.causes), 3),
            "of_rank_seconds": round(self.excess_s, 3),
            "findings": [
                {
                    "run": cause.run,
                    "kind": cause.kind,
                    "severity": cause.severity,
                    "hosts": list(cause.hosts),
                    "ambiguous": cause.ambiguous,
                    "rank_seconds": round(cause.rank_seconds, 3),
                }
                for cause in self.causes
            ],
        }


def explain(a: Side, b: Side, matching: Matching, slower: SideName) -> Explanation:
    """What the findings of the side `slower` explain, each entity counted once and never more than the difference.

    Lateness explains waiting only. A slow path explains transfers and the waiting for those in them, in equal parts.
    Point-to-point operations, whose transfer and waiting cannot be separated, count as waiting.
    """
    ours = a if slower == "a" else b
    causes = tuple(cause for run in ours.runs for cause in costs(run))
    pairs = [(pair.a, pair.b) if slower == "a" else (pair.b, pair.a) for pair in matching.pairs]
    both = [_excess_s(*pair) for pair in pairs]
    transfer_s = max(0.0, sum(transfer for transfer, _ in both))
    waiting_s = max(0.0, sum(waiting for _, waiting in both))
    slow_s = sum(cause.rank_seconds for cause in causes if cause.kind == "slow-transfer")
    late_s = sum(cause.rank_seconds for cause in causes if cause.kind == "late-arrival")
    whole_s = transfer_s + waiting_s
    by_paths = min(1.0, slow_s / whole_s) if whole_s else 0.0
    by_lateness = late_s / waiting_s if waiting_s else 0.0
    return Explanation(slower, causes, whole_s, by_paths, min(1.0, by_paths + by_lateness))


def costs(run: RunSummary) -> list[Cause]:
    """The findings of a run that name a part of the machine, the costliest first; of several about one host, one."""
    found = sorted(
        (
            _cause(run, finding)
            for finding in run.findings
            if finding["kind"] in _LOCATED and finding["severity"] in ALARMING
        ),
        key=lambda item: -item[0].rank_seconds,
    )
    counted: set[str] = set()
    causes = []
    for cause, entities in found:
        if cause.rank_seconds > 0 and not counted & entities:
            causes.append(cause)
            counted |= entities
    return causes


def _cause(run: RunSummary, finding: Mapping[str, Any]) -> tuple[Cause, set[str]]:
    hosts, communicators = tuple(finding["hosts"] or ()), finding["communicators"] or ()
    lost_s = finding["lost_rank_seconds"] or 0.0
    if finding["kind"] == "slow-transfer":
        # Its lost time is that of the members of slow paths; the rest of the job waits for them as long.
        lost_s = max(lost_s, (finding["cost_share"] or 0.0) * _lasted_s(run, finding) * run.facts["gpus"])
    cause = Cause(
        run.run, finding["kind"], finding["severity"], hosts, len(communicators), finding["ambiguous"], lost_s
    )
    return cause, {*hosts} or {*communicators}


def _lasted_s(run: RunSummary, finding: Mapping[str, Any]) -> float:
    """For how long a finding was true, within the run's log."""
    begin_us, end_us = run.facts["first_dump_us"] or 0, run.facts["last_dump_us"] or 0
    since_us = max(begin_us, finding["onset_us"] or begin_us)
    until_us = min(end_us, finding["until_us"] or end_us)
    return max(0.0, (until_us - since_us) / 1e6)


def _excess_s(ours: Sequence[Kernel], theirs: Sequence[Kernel]) -> tuple[float, float]:
    """The rank-time in seconds that a kernel took longer in our runs than it does in theirs: in the transfer, and in
    everything else. Records that are missing are taken to be like those that are there."""
    usual = _mean([_record_us(kernel) for kernel in theirs])
    usual_transfer = _mean([_transfer_us(kernel) for kernel in theirs])
    transfer_s = waiting_s = 0.0
    for kernel in ours:
        records = kernel.row["records"] / max(kernel.row["capture_rate"] or 1.0, 0.01)
        transfer = (_transfer_us(kernel) - usual_transfer) * records / 1e6
        transfer_s += transfer
        waiting_s += (_record_us(kernel) - usual) * records / 1e6 - transfer
    return transfer_s, waiting_s


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _record_us(kernel: Kernel) -> float:
    """Mean time of a record, waiting included."""
    return float((kernel.row["rank_time_us"] or 0.0) / (kernel.row["records"] or 1))


def _transfer_us(kernel: Kernel) -> float:
    """Mean transfer; 0 where it cannot be separated from waiting."""
    return float(kernel.row["transfer_us"] / kernel.row["cells"]) if kernel.row["cells"] else 0.0
