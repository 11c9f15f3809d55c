import pyarrow as pa

from nixt_pipeline.reporting.rows import first_rows, matching
from nixt_pipeline.reporting.sections.launches import first_launches, not_drawn


def test_the_first_rows_are_those_of_the_order_with_nulls_last() -> None:
    table = pa.table({"records": [1, None, 3, 3], "coll": ["a", "b", "d", "c"]})
    rows = first_rows(table, 3, "-records", "coll")
    assert [row["coll"] for row in rows] == ["c", "d", "a"]


def test_rows_without_a_known_value_are_left_out() -> None:
    table = pa.table({"records": [1, 2, 3], "busbw": [5.0, 6.0, None]})
    assert first_rows(table, 1, "-records", known="busbw") == [{"records": 2, "busbw": 6.0}]


def test_of_many_launches_the_earliest_are_kept_and_the_others_counted() -> None:
    table = pa.table({"incarnation": [7, 5, 6, 5], "value": [1, 2, 3, 4]})
    earliest, launches = first_launches(table, limit=2)
    assert (earliest["value"].to_pylist(), launches) == ([2, 3, 4], 3)
    assert not_drawn(launches) == ()
    assert not_drawn(4) == ("Of 4 launches the first 3 are drawn.",)


def test_a_row_without_a_value_matches_none_only() -> None:
    table = pa.table({"coll": ["a", "a"], "coll_type": ["mixed", None]})
    assert matching(table, {"coll": "a", "coll_type": None}).num_rows == 1
    assert matching(table, {"coll_type": "mixed"})["coll"].to_pylist() == ["a"]
