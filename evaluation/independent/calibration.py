"""How often findings are right, by what they are like; and whether what they say of that holds on other jobs."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from evaluation.independent.judging import is_right
from nixt_pipeline.diagnosis.confidence import Counts, Key, key_of

Json = dict[str, Any]

# Findings of about the same confidence, by its upper end.
_BINS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


def counts(jobs: Iterable[Json]) -> dict[Key, Counts]:
    """Of judged jobs, as JSON: how many findings of each class there are, and how many of them are right."""
    found: dict[Key, Counts] = defaultdict(Counts)
    for finding, right in _blames(jobs):
        key = key_of(finding["kind"], finding["severity"], finding["ambiguous"])
        found[key] += Counts(int(right), 1)
    return found


def as_csv(counted: dict[Key, Counts]) -> str:
    """The counts as `nixt_pipeline/diagnosis/confidence.csv` has them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("kind", "severity", "ambiguous", "right", "seen"))
    for (kind, severity, ambiguous), found in sorted(counted.items()):
        writer.writerow((kind, severity, "yes" if ambiguous else "no", found.right, found.seen))
    return text.getvalue()


def reliability(jobs: Iterable[Json]) -> list[tuple[float, float, int, float, float]]:
    """For findings of about the same confidence: its bounds, how many there are, their mean confidence, and the share
    of them that is right."""
    by_bin: dict[float, list[tuple[float, bool]]] = defaultdict(list)
    for finding, right in _blames(jobs):
        if finding["confidence"] is not None:
            by_bin[min(end for end in _BINS if finding["confidence"] <= end)].append((finding["confidence"], right))
    rows = []
    for begin, end in zip((0.0, *_BINS), _BINS, strict=False):
        entries = by_bin.get(end, [])
        if entries:
            told = sum(confidence for confidence, _ in entries) / len(entries)
            rows.append((begin, end, len(entries), told, sum(right for _, right in entries) / len(entries)))
    return rows


def _blames(jobs: Iterable[Json]) -> Iterator[tuple[Json, bool]]:
    """The findings that blame somebody, and whether exactly these are at fault."""
    for job in jobs:
        fault = next(iter(job["truth"]["faults"]), None)
        for finding in job["findings"]:
            if finding["severity"] != "info":
                yield finding, fault is not None and is_right(fault, finding, job["truth"])
