from nixt_pipeline.diagnosis.clocks import clock_offsets


def test_a_host_that_is_off_does_not_move_the_others() -> None:
    times = [{"a": 100 + n, "b": 102 + n, "c": 5_101 + n} for n in range(5)]
    # Of a: from the median of 102 and 5101; of c: from the median of 100 and 102.
    assert clock_offsets(times)["c"] == 5_000
    many = [{"a": 100, "b": 102, "c": 5_101, "d": 101}]
    # Of a: from the median of 101, 102 and 5101.
    assert clock_offsets(many) == {"a": -2, "b": 1, "c": 5_000, "d": -1}


def test_of_two_hosts_each_is_off_from_the_other() -> None:
    assert clock_offsets([{"a": 0, "b": 10}, {"a": 0, "b": 12}, {"a": 0, "b": 50}]) == {"a": -12, "b": 12}


def test_a_collective_within_one_host_tells_nothing() -> None:
    assert clock_offsets([{"a": 7}]) == {}
