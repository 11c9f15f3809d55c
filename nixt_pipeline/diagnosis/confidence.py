"""How likely it is that exactly those that a finding names are at fault.

What counts is how often that was so of findings like it on simulated jobs: of the same kind, urgency and ambiguity. The
counts are in `confidence.csv`, which `python -m evaluation.independent calibrate` writes.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from nixt_pipeline.diagnosis.findings import Finding

# Findings of a class and of what it is part of count together until there are this many of the class itself (a prior of
# that strength in a beta-binomial model).
_PRIOR = 4.0
# Before anything is known.
_UNKNOWN = 0.5
# Some hundred jobs show no more.
_DIGITS = 2

Key = tuple[str, str, bool]


@dataclass(frozen=True)
class Counts:
    """How many findings there were, and how many of them named exactly who was at fault."""

    right: int = 0
    seen: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.right + other.right, self.seen + other.seen)

    def share(self, prior: float) -> float:
        """The share that was right, drawn towards the `prior` where there were few."""
        return (self.right + _PRIOR * prior) / (self.seen + _PRIOR)


def key_of(kind: str, severity: str, ambiguous: bool) -> Key:
    """What findings have in common that are about equally often right."""
    return kind, severity, ambiguous


def with_confidence(finding: Finding) -> Finding:
    """The finding with its confidence; none for information and for kinds that no simulated job has."""
    if finding.severity == "info":
        return finding
    confidence = confidence_of(key_of(finding.kind, finding.severity, finding.ambiguous), _counted())
    return finding if confidence is None else replace(finding, confidence=confidence)


def confidence_of(key: Key, counts: Mapping[Key, Counts]) -> float | None:
    """The probability that a finding of a class is right, from `counts` by class. None for a kind without any."""
    by_kind: dict[str, Counts] = defaultdict(Counts)
    for other, counted in counts.items():
        by_kind[other[0]] += counted
    if key[0] not in by_kind:
        return None
    of_kind = by_kind[key[0]].share(_UNKNOWN)
    return round(counts.get(key, Counts()).share(of_kind), _DIGITS)


def read_counts(text: str) -> dict[Key, Counts]:
    """The counts by class from CSV. Raises ValueError for anything else."""
    return {
        key_of(row["kind"], row["severity"], row["ambiguous"] == "yes"): Counts(int(row["right"]), int(row["seen"]))
        for row in csv.DictReader(text.splitlines())
    }


@cache
def delivered_counts() -> str:
    """The counts that findings are held against, as CSV."""
    return files("nixt_pipeline.diagnosis").joinpath("confidence.csv").read_text(encoding="utf-8")


@cache
def _counted() -> dict[Key, Counts]:
    return read_counts(delivered_counts())
