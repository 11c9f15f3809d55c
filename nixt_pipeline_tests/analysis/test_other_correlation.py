"""Other correlation: any column as a grouping, and nothing that is not a column."""

import pytest

from nixt_pipeline.analysis import compute
from nixt_pipeline.analysis.other_correlation import ATTRIBUTES, DEFAULT_ATTRIBUTES, by_attributes
from nixt_pipeline_tests.analysis.conftest import StoreRun, event


def test_bandwidth_is_compared_between_the_values_of_an_attribute(store_run: StoreRun) -> None:
    # Plugin abc: 10 and 5 GB/s; plugin def: 2.5 GB/s; one record does not say.
    run = store_run(
        [
            event(coll_sn=0, coll_exec_time_us=100.0),
            event(coll_sn=1, coll_exec_time_us=200.0),
            event(coll_sn=2, coll_exec_time_us=400.0, git_rev="def"),
            event(coll_sn=3, coll_exec_time_us=800.0, git_rev=None),
        ]
    )
    rows = [row for row in run.result("other_correlation") if row["attribute"] == "git_rev"]
    assert [(row["value"], row["records"], row["busbw_p50_gbs"], row["exec_time_p50_us"]) for row in rows] == [
        ("abc", 2, 7.5, 150.0),
        ("def", 1, 2.5, 400.0),
        (None, 1, 1.25, 800.0),
    ]
    assert (rows[0]["busbw_p25_gbs"], rows[0]["busbw_p75_gbs"]) == (6.25, 8.75)


def test_the_default_attributes_are_all_there(store_run: StoreRun) -> None:
    rows = store_run([event()]).result("other_correlation")
    assert [row["attribute"] for row in rows] == sorted(DEFAULT_ATTRIBUTES)


def test_attributes_of_the_communicator_can_be_used_too(store_run: StoreRun) -> None:
    run = store_run([event(comm_name="TP Group 0"), event(id="0xb", comm_name=None, n_ranks=4)])
    table = compute(by_attributes("parallel_role", "ranks_seen"), run.con, run.settings)
    found = {(row["attribute"], row["value"]) for row in table.to_pylist()}
    assert ("parallel_role", "tensor") in found
    assert ("ranks_seen", "1") in found


def test_every_offered_attribute_works(store_run: StoreRun) -> None:
    run = store_run([event()])
    rows = compute(by_attributes(*ATTRIBUTES), run.con, run.settings).to_pylist()
    assert [(row["attribute"], row["records"]) for row in rows] == [(name, 1) for name in sorted(ATTRIBUTES)]


def test_an_attribute_given_twice_is_counted_once(store_run: StoreRun) -> None:
    run = store_run([event()])
    assert compute(by_attributes("pid", "pid"), run.con, run.settings).num_rows == 1


@pytest.mark.parametrize("attribute", ["nope", 'git_rev" FROM events; --', "GIT_REV", ""])
def test_anything_but_a_column_is_refused_with_the_columns_there_are(attribute: str) -> None:
    with pytest.raises(ValueError, match=r"no column named .*; records can be grouped by: .*git_rev.*parallel_role"):
        by_attributes("hostname", attribute)


def test_no_attribute_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no attribute given"):
        by_attributes()
