"""Rules for the results of analyses: each row is one group, and no record is counted twice or forgotten."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quality.expectations import Suite, between, judge, present, rows_between, unique
from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Thresholds

# The stored records that an analysis must account for.
Counted = Literal["events", "collectives"]

# A sum of some thousand shares differs from 1 by rounding only.
_SHARE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Shape:
    """What a result looks like: its key, its columns between 0 and 1, and which records its rows add up to."""

    key: tuple[str, ...]
    shares: tuple[str, ...] = ()
    adds_up_to: Counted | None = None


SHAPES = {
    "summary_histogram": Shape(
        ("kind", "coll", "coll_type"), ("share_of_records", "share_of_payload"), adds_up_to="events"
    ),
    "temporal_correlation": Shape(("incarnation", "bin_start_us", "coll", "coll_type")),
    "spatial_correlation": Shape(("level", "hostname", "process", "coll", "coll_type")),
    "resource_correlation": Shape(("n_ranks", "nnodes", "kind", "coll", "coll_msg_size_bytes"), adds_up_to="events"),
    "other_correlation": Shape(("attribute", "value", "coll", "coll_type")),
    "hot_kernels": Shape(
        ("label",),
        ("share_of_payload", "cumulative_share_of_payload", "share_of_rank_time"),
        adds_up_to="events",
    ),
    "bandwidth_ecdf": Shape(("label", "measure", "quantile"), ("quantile",)),
    "run_kernels": Shape(("kind", "coll", "n_ranks", "nnodes", "parallel_role", "coll_msg_size_bytes")),
    "time_ecdf": Shape(("label", "measure", "quantile"), ("quantile",)),
    "waiting_by_progress": Shape(("incarnation", "label", "stretch")),
    "waiting_over_time": Shape(("incarnation", "bin_start_us", "label")),
    "host_lateness": Shape(("incarnation", "bin_start_us", "hostname"), ("share_of_rank_time",)),
    "rank_times": Shape(("incarnation", "label", "id", "comm_name", "rank", "hostname", "pid")),
    "p2p_edges": Shape(
        ("incarnation", "id", "comm_name", "n_ranks", "nnodes", "source_rank", "target_rank", "coll_msg_size_bytes")
    ),
    "variation": Shape(("incarnation", "label"), ("share_between_ranks", "share_of_transfer")),
    "coverage": Shape(
        ("incarnation", "id", "comm_name", "n_ranks", "nnodes", "coll"), ("complete_share",), adds_up_to="collectives"
    ),
}

ONE_ROW_PER_GROUP = Rule(
    "every_row_is_one_group",
    "No group appears twice and every share lies between 0 and 1. Otherwise sums over the result count records more "
    "than once.",
    blocking=True,
)
COUNTED_ONCE = Rule(
    "every_record_is_counted_once",
    "The records of all rows add up to the records in the store. Otherwise an analysis lost records or counted some "
    "twice.",
    blocking=True,
)
CAPTURED_ENOUGH = Rule(
    "the_log_captured_enough_to_compare_ranks",
    "The plugin logs the latest operation at each dump and loses the others without a word. Below this share, two "
    "ranks are compared by different operations; lower NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS.",
)


def result_rules(analysis: str) -> tuple[Rule, ...]:
    """The rules for the result of `analysis`."""
    shape = SHAPES[analysis]
    rules = (ONE_ROW_PER_GROUP, COUNTED_ONCE) if shape.adds_up_to else (ONE_ROW_PER_GROUP,)
    return (*rules, CAPTURED_ENOUGH) if analysis == "coverage" else rules


def judge_result(analysis: str, result: pa.Table, stored: dict[Counted, int], limits: Thresholds) -> Iterator[Verdict]:
    """Apply `result_rules`; `stored` says how many records of each kind the store holds."""
    shape = SHAPES[analysis]
    yield from judge(
        result, [result_suite(shape, rows_expected=1 if stored["events"] and shape.adds_up_to == "events" else 0)]
    )
    if shape.adds_up_to:
        yield _counted_once(result, shape.adds_up_to, stored[shape.adds_up_to])
    if analysis == "coverage":
        yield captured_enough(result, limits.analysis.min_capture_rate)


def result_suite(shape: Shape, rows_expected: int) -> Suite:
    """The expectations that any result of this shape must meet."""
    return Suite(
        ONE_ROW_PER_GROUP,
        (
            present("run", "every row names its run"),
            rows_between(rows_expected, None, "there is a result wherever there are records"),
            unique(shape.key, f"no two rows have the same {', '.join(shape.key)}"),
            *(between(share, 0.0, 1.0 + _SHARE_TOLERANCE, f"{share} lies between 0 and 1") for share in shape.shares),
        ),
    )


def captured_enough(coverage: pa.Table, min_capture_rate: float) -> Verdict:
    """Whether enough of the records that communicators with several ranks must have made were captured."""
    rows = [row for row in coverage.to_pylist() if (row["n_ranks"] or 0) > 1 and row["sn_expected"]]
    expected = sum(row["n_ranks"] * row["sn_expected"] for row in rows)
    if not expected:
        return Verdict(
            CAPTURED_ENOUGH.name, False, "not assessable: no collective with sequence numbers among several ranks"
        )
    rate = sum(row["capture_rate"] * row["n_ranks"] * row["sn_expected"] for row in rows) / expected
    worst = sorted(rows, key=lambda row: row["capture_rate"])[:10]
    shown = ("comm_name", "id", "coll", "n_ranks", "records", "sn_expected", "capture_rate", "complete_share")
    return Verdict(
        CAPTURED_ENOUGH.name,
        rate >= min_capture_rate,
        f"{rate:.1%} of the expected records were captured; comparing ranks needs {min_capture_rate:.0%}",
        {"capture_rate": rate, "records_expected": expected},
        tuple({name: row[name] for name in shown} for row in worst),
    )


def _counted_once(result: pa.Table, counted: Counted, stored: int) -> Verdict:
    """Compare the sum of `records` with what the store holds."""
    total = pc.sum(result["records"]).as_py() or 0
    kind = "records" if counted == "events" else "collective records"
    return Verdict(
        COUNTED_ONCE.name,
        total == stored,
        f"{total:,} of {stored:,} {kind} in the store are in the result",
        {"records_in_result": total, "records_in_store": stored},
    )
