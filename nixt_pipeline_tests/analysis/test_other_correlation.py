"""Other correlation: versions, timing source and role of the communicator as a grouping."""

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


def test_the_attributes_are_all_there_and_the_role_is_that_of_the_communicator(store_run: StoreRun) -> None:
    rows = store_run([event(comm_name="TP Group 0")]).result("other_correlation")
    values = {row["attribute"]: row["value"] for row in rows}
    assert [*values] == [
        "coll_timing_source", "git_rev", "inspector_output_format_version", "parallel_role", "rec_mechanism",
    ]  # fmt: skip
    assert values["parallel_role"] == "tensor"
