"""How much of a job the records cover, from the tables of a report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count, percent
from nixt_pipeline.reporting.legends import type_order
from nixt_pipeline.reporting.rows import as_floats
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.settings import Thresholds

# Functions that a caveat names.
NAMED_FUNCTIONS = 6


@dataclass(frozen=True)
class Coverage:
    """How much of the job the records cover. The rates are None when `coverage` was not computed, or says nothing.

    `thin` names what was captured least: functions on a placement, by rate, in the order of the rates.
    """

    capture_rate: float | None
    complete_share: float | None
    cells: int
    processes_seen: int
    processes_expected: int
    ranks_missing: int
    communicators_incomplete: int
    communicators: int
    thin: tuple[tuple[str, float], ...]

    def caveats(self, thresholds: Thresholds, named: int = NAMED_FUNCTIONS) -> tuple[str, ...]:
        """What a reader must know before comparing anything; empty when the coverage is good. Names at most `named`
        functions."""
        found = []
        if self.capture_rate is not None and self.capture_rate < thresholds.analysis.min_capture_rate:
            found.append(
                f"Only {percent(self.capture_rate)} of the operations were captured. Volumes are of captured records, "
                "and differences between ranks or hosts may be differences between samples."
            )
        else:
            thin = [
                f"{percent(rate)} of {name}" for name, rate in self.thin if rate < thresholds.analysis.min_capture_rate
            ]
            if thin:
                more = f" and {count(len(thin) - named)} more functions" if len(thin) > named else ""
                found.append(
                    f"Only {', '.join(thin[:named])}{more} were captured: volumes and comparisons of these describe "
                    "a sample."
                )
        if self.processes_seen < self.processes_expected:
            found.append(
                f"{count(self.processes_seen)} of at least {count(self.processes_expected)} processes left records; "
                "nothing here describes the others."
            )
        return tuple(found)


def coverage_of(tables: Mapping[str, pa.Table]) -> Coverage:
    """Sum up the run's coverage. A communicator as large as the job tells how many processes there must be at least."""
    coverage, communicators = tables.get("coverage"), tables.get("communicators")
    processes = tables["processes"].num_rows if "processes" in tables else 0
    cells = _sum(coverage["cells"]) if coverage is not None else 0
    complete = _sum(coverage["complete_cells"]) if coverage is not None else 0
    missing, incomplete, expected = _ranks(communicators) if communicators is not None else (0, 0, 0)
    groups = coverage_by_type(coverage) if coverage is not None else []
    return Coverage(
        capture_rate=pooled_capture_rate(coverage) if coverage is not None else None,
        complete_share=complete / cells if cells else None,
        cells=cells,
        processes_seen=processes,
        processes_expected=max(processes, expected),
        ranks_missing=missing,
        communicators_incomplete=incomplete,
        communicators=communicators.num_rows if communicators is not None else 0,
        thin=tuple(
            (f"{plain(group['coll'])} {plain(group['coll_type'])}", group["capture_rate"])
            for group in sorted(groups, key=lambda group: group["capture_rate"] or 0)
            if group["capture_rate"] is not None
        ),
    )


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _ranks(communicators: pa.Table) -> tuple[int, int, int]:
    """Ranks without records, communicators that have such, and the ranks of the largest communicator of each launch."""
    sized = communicators.filter(pc.is_valid(communicators["n_ranks"]))
    missing = pc.subtract(pc.cast(sized["n_ranks"], pa.int64()), pc.cast(sized["ranks_seen"], pa.int64()))
    short = missing.filter(pc.greater(missing, 0))
    largest = sized.group_by("incarnation").aggregate([("n_ranks", "max")])
    return _sum(short), len(short), _sum(largest["n_ranks_max"])


def pooled_capture_rate(coverage: pa.Table) -> float | None:
    """Capture rate over rows of `coverage`, each weighted by the records that were due; None without any."""
    weighed = _weighed(coverage)
    return _rate(pc.sum(weighed["captured"]).as_py(), pc.sum(weighed["due"]).as_py())


def _weighed(coverage: pa.Table) -> pa.Table:
    """`coverage` with the records that were `due` and those `captured`, null in rows without a rate."""
    due = pc.multiply(as_floats(coverage["n_ranks"]), as_floats(coverage["sn_expected"]))
    due = pc.if_else(pc.is_valid(coverage["capture_rate"]), due, pa.scalar(None, pa.float64()))
    captured = pc.multiply(due, as_floats(coverage["capture_rate"]))
    return coverage.append_column("due", due).append_column("captured", captured)


def _rate(captured: float | None, due: float | None) -> float | None:
    return captured / due if captured is not None and due else None


def coverage_by_type(coverage: pa.Table) -> list[dict[str, Any]]:
    """Capture by placement and function, from `coverage`: sampling favours some of them."""
    groups = _weighed(coverage).group_by(["coll_type", "coll"], use_threads=False)
    sums = groups.aggregate([("records", "sum"), ("due", "sum"), ("captured", "sum"), ([], "count_all")])
    pooled = [
        {
            "coll_type": group["coll_type"],
            "coll": group["coll"],
            "communicators": group["count_all"],
            "records": group["records_sum"],
            "capture_rate": _rate(group["captured_sum"], group["due_sum"]),
        }
        for group in sums.to_pylist()
    ]
    return sorted(pooled, key=lambda group: (type_order(group["coll_type"]), group["coll"]))
