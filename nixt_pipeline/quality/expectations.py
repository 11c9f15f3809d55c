"""Great Expectations over small tables: profiles of one row, communicators, results. Never over raw events.

Great Expectations needs seconds and 220 MB to import, so it is imported inside `judge` only. Expectations are data
here: each is a sentence for people, the name of a Great Expectations expectation and its arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nixt_pipeline.quality.verdicts import Cell, Row, Rule, Verdict

# Offending values shown per expectation; the counts are always exact.
_SHOWN = 5


@dataclass(frozen=True)
class Expectation:
    """One expectation: `sentence` for people, `type` and `arguments` for Great Expectations."""

    sentence: str
    type: str
    arguments: Mapping[str, Any]


def present(column: str, sentence: str) -> Expectation:
    """No value of `column` is missing."""
    return Expectation(sentence, "expect_column_values_to_not_be_null", {"column": column})


def between(column: str, low: float | None, high: float | None, sentence: str) -> Expectation:
    """Every value of `column` that is there lies between `low` and `high`, both included."""
    arguments = {"column": column, "min_value": low, "max_value": high}
    return Expectation(sentence, "expect_column_values_to_be_between", arguments)


def never(column: str, sentence: str) -> Expectation:
    """The column of a profile, which counts what breaks a rule, is 0."""
    return between(column, 0, 0, sentence)


def among(column: str, values: Sequence[str | int], sentence: str) -> Expectation:
    """Every value of `column` that is there is one of `values`."""
    return Expectation(sentence, "expect_column_values_to_be_in_set", {"column": column, "value_set": list(values)})


def unique(columns: Sequence[str], sentence: str) -> Expectation:
    """No two rows agree in all of `columns`; a row in which all of them are missing does not count."""
    if len(columns) == 1:
        return Expectation(sentence, "expect_column_values_to_be_unique", {"column": columns[0]})
    return Expectation(sentence, "expect_compound_columns_to_be_unique", {"column_list": list(columns)})


def at_least(larger: str, smaller: str, sentence: str) -> Expectation:
    """In every row in which both are there, `larger` is at least `smaller`."""
    arguments = {"column_A": larger, "column_B": smaller, "or_equal": True, "ignore_row_if": "either_value_is_missing"}
    return Expectation(sentence, "expect_column_pair_values_a_to_be_greater_than_b", arguments)


def rows_between(low: int, high: int | None, sentence: str) -> Expectation:
    """The table has between `low` and `high` rows."""
    return Expectation(sentence, "expect_table_row_count_to_be_between", {"min_value": low, "max_value": high})


def judge(table: pa.Table, rules: Mapping[Rule, Sequence[Expectation]]) -> list[Verdict]:
    """Validate `table` by each rule, which holds when every one of its expectations does. An expectation about a column
    that `table` lacks is violated."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.enable_analytics(enable=False)
    asset = context.data_sources.add_pandas("memory").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": table.to_pandas()})
    return [_judge_rule(batch, table, rule, expectations) for rule, expectations in rules.items()]


def _judge_rule(batch: Any, table: pa.Table, rule: Rule, expectations: Sequence[Expectation]) -> Verdict:
    """Validate expectations one by one: in one GX suite, a second one of the same kind replaces the first."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    result_format = {"result_format": "SUMMARY", "partial_unexpected_count": _SHOWN}
    rows: list[Row] = []
    for item in expectations:
        expectation = ExpectationConfiguration(type=item.type, kwargs=dict(item.arguments)).to_domain_obj()
        result = batch.validate(expectation, result_format=result_format)
        found = _found(result, table, item.arguments)
        rows.append({"expectation": item.sentence, "holds": bool(result.success), "found": found})
    violated = [_in_words(row) for row in rows if not row["holds"]]
    if violated:
        summary = f"violated: {'; '.join(violated)}"
    else:
        summary = _in_words(rows[0]) if len(rows) == 1 else f"all {len(rows)} expectations hold"
    facts = _facts(table, expectations) or {"violated": len(violated)}
    return rule.verdict(not violated, summary, rows, **facts)


def _facts(table: pa.Table, expectations: Sequence[Expectation]) -> dict[str, Cell]:
    """The values that a rule is about, when the table is a profile: one row of numbers."""
    columns = [item.arguments["column"] for item in expectations if "column" in item.arguments]
    known = [column for column in columns if column in table.column_names]
    return {column: table[column][0].as_py() for column in known} if table.num_rows == 1 else {}


def _found(result: Any, table: pa.Table, arguments: Mapping[str, Any]) -> str:
    """What was found: the value itself where there is one, else how many values are unexpected and which."""
    details = result.result
    if "observed_value" in details:
        return f"{details['observed_value']:.6g}"
    if "element_count" not in details:
        return "; ".join(_exceptions(result))
    if details.get("missing_count") == details["element_count"]:
        return "nothing to assess"
    columns = [arguments[name] for name in ("column", "column_A", "column_B") if name in arguments]
    if table.num_rows == 1 and len(columns) == 1:
        return _text(table[columns[0]][0].as_py())
    if table.num_rows == 1 and columns:
        return ", ".join(f"{column} {_text(table[column][0].as_py())}" for column in columns)
    if result.success:
        return "as expected"
    examples = ", ".join(_text(value) for value in details["partial_unexpected_list"])
    return f"{details['unexpected_count']} of {details['element_count']}: {examples}"


def _in_words(row: Row) -> str:
    return f"{row['expectation']} (found: {row['found']})"


def _text(value: Any) -> str:
    """A value as people write it; pairs as `a and b`."""
    if isinstance(value, tuple):
        return " and ".join(_text(part) for part in value)
    return "missing" if value is None or value != value else f"{value:.6g}" if isinstance(value, float) else str(value)


def _exceptions(result: Any) -> list[str]:
    """Great Expectations reports one exception directly, and several keyed by metric, often with the same message."""
    info = result.exception_info
    infos = [info] if "exception_message" in info else list(info.values())
    return sorted({str(item["exception_message"]).removeprefix("Error: ") for item in infos})
