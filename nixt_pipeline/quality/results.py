"""Rules for the results of analyses: each row is one group, and no record is counted twice or forgotten."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.analysis.base import Analysis, Counted
from nixt_pipeline.analysis.coverage import ANALYSIS as COVERAGE
from nixt_pipeline.quality.expectations import Expectation, between, judge, present, rows_between, unique
from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Thresholds

# A sum of some thousand shares differs from 1 by rounding only.
_SHARE_TOLERANCE = 1e-6

COMPUTED = Rule(
    "the_analysis_could_be_computed",
    "It ended with an error, which is a defect of nixt; the report names it and shows everything else.",
    error=True,
)
ONE_ROW_PER_GROUP = Rule(
    "every_row_is_one_group",
    "No group appears twice and every share is between 0 and 1. Otherwise sums over the result count records more "
    "than once; the result is withheld, and the report says so.",
    error=True,
)
COUNTED_ONCE = Rule(
    "every_record_is_counted_once",
    "The records of all rows add up to the records in the store. Otherwise an analysis lost records or counted some "
    "twice; the result is withheld, and the report says so.",
    error=True,
)
CAPTURED_ENOUGH = Rule(
    "the_log_captured_enough_to_compare_ranks",
    "The plugin logs the latest operations at each dump and silently drops the others. Below this share, ranks are "
    "compared by different operations; lower NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS.",
)


def result_rules(analysis: Analysis) -> tuple[Rule, ...]:
    """The rules for the result of `analysis`."""
    rules = (COMPUTED, ONE_ROW_PER_GROUP, *((COUNTED_ONCE,) if analysis.adds_up_to else ()))
    return (*rules, CAPTURED_ENOUGH) if analysis.name == COVERAGE.name else rules


def judge_result(
    analysis: Analysis, result: pa.Table, stored: dict[Counted, int], limits: Thresholds
) -> Iterator[Verdict]:
    """Apply `result_rules`; `stored` says how many records of each kind the store holds."""
    rows_expected = 1 if stored["events"] and analysis.adds_up_to == "events" else 0
    yield COMPUTED.verdict(True, f"{result.num_rows:,} row{'' if result.num_rows == 1 else 's'}")
    yield from judge(result, _one_row_per_group(analysis, rows_expected))
    if analysis.adds_up_to:
        yield _counted_once(result, analysis.adds_up_to, stored[analysis.adds_up_to])
    if analysis.name == COVERAGE.name:
        yield captured_enough(result, limits.analysis.min_capture_rate)


def error_in(analysis: Analysis, result: pa.Table, stored: dict[Counted, int], limits: Thresholds) -> str:
    """The first rule that a result breaks so that it is wrong, and how; empty for a sound one. Blocking the run instead
    would keep back what the other analyses found."""
    errors = {rule.name for rule in result_rules(analysis) if rule.error}
    broken = (v for v in judge_result(analysis, result, stored, limits) if v.rule in errors and not v.passed)
    return next((f"{verdict.rule}: {verdict.summary}" for verdict in broken), "")


def judge_failure(analysis: Analysis, error: str) -> Iterator[Verdict]:
    """The verdicts on an analysis without a result, as its `error` tells: it failed, or its result broke a rule."""
    rules = result_rules(analysis)
    broken = next((rule for rule in rules if error.startswith(f"{rule.name}: ")), COMPUTED)
    for rule in rules:
        yield rule.verdict(rule is not broken, error if rule is broken else "there is no result to judge")


def _one_row_per_group(analysis: Analysis, rows_expected: int) -> dict[Rule, list[Expectation]]:
    """What any result of this analysis must meet."""
    most = 1 + _SHARE_TOLERANCE
    return {
        ONE_ROW_PER_GROUP: [
            present("run", "every row has its run"),
            rows_between(rows_expected, None, "there is a result wherever there are records"),
            unique(analysis.key, f"no two rows have the same {', '.join(analysis.key)}"),
            *(between(share, 0.0, most, f"{share} is between 0 and 1") for share in analysis.fractions),
        ]
    }


def captured_enough(coverage: pa.Table, min_capture_rate: float) -> Verdict:
    """Whether enough of the records that communicators with several ranks must have made were captured."""
    rows = [row for row in coverage.to_pylist() if (row["n_ranks"] or 0) > 1 and row["sn_expected"]]
    expected = sum(row["n_ranks"] * row["sn_expected"] for row in rows)
    if not expected:
        nothing = "not assessable: no collective with sequence numbers among several ranks"
        return CAPTURED_ENOUGH.verdict(False, nothing)
    rate = sum(row["capture_rate"] * row["n_ranks"] * row["sn_expected"] for row in rows) / expected
    worst = sorted(rows, key=lambda row: row["capture_rate"])
    shown = ("comm_name", "id", "coll", "n_ranks", "records", "sn_expected", "capture_rate", "complete_share")
    return CAPTURED_ENOUGH.verdict(
        rate >= min_capture_rate,
        f"{rate:.1%} of the expected records were captured; comparing ranks needs {min_capture_rate:.0%}",
        [{name: row[name] for name in shown} for row in worst],
        capture_rate=rate,
        records_expected=expected,
    )


def _counted_once(result: pa.Table, counted: Counted, stored: int) -> Verdict:
    """Compare the sum of `records` with what the store holds."""
    total = pc.sum(result["records"]).as_py() or 0
    kind = "records" if counted == "events" else "collective records"
    summary = f"{total:,} of {stored:,} {kind} in the store are in the result"
    return COUNTED_ONCE.verdict(total == stored, summary, records_in_result=total, records_in_store=stored)
