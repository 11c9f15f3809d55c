from dataclasses import replace

from nixt_pipeline.store.incarnations import Communicator, Presence, number_incarnations

HOUR = 3_600_000_000
GAP = 600_000_000


def at(comm: str, process: str, first: int | None, last: int | None = None, n_ranks: int = 2) -> Presence:
    return Presence((comm, None, n_ranks, 1), (process, 1), first, first if last is None else last)


def within(presence: Presence, *directories: str) -> Presence:
    return replace(presence, directories=frozenset(directories))


def numbers(*presences: Presence) -> dict[str, int]:
    found: dict[Communicator, int] = number_incarnations(list(presences), GAP)
    return {str(key[0]): number for key, number in found.items()}


def test_one_job_is_one_incarnation() -> None:
    assert numbers(at("tp", "a", 0, 100), at("tp", "b", 0, 100), at("dp", "a", 50, 200)) == {"tp": 1, "dp": 1}


def test_a_process_id_used_again_a_day_later_is_another_incarnation() -> None:
    assert numbers(at("old", "a", 0, HOUR), at("new", "a", 25 * HOUR, 26 * HOUR)) == {"old": 1, "new": 2}


def test_jobs_that_follow_one_another_without_a_pause_stay_together() -> None:
    # As large as the first and at once, or of another size and within the gap.
    for second in (at("second", "a", HOUR + 2_000_000), at("second", "a", HOUR + GAP, n_ranks=1)):
        assert numbers(at("first", "a", 0, HOUR), second) == {"first": 1, "second": 1}


def test_launches_that_share_no_process_are_told_apart_however_short_the_pause() -> None:
    second = 1_000_000
    assert numbers(at("old", "a", 0, HOUR), at("new", "b", HOUR + second, 2 * HOUR)) == {"old": 1, "new": 2}
    # The last dump of the first came when the second had begun, and the second one is shorter.
    assert numbers(at("old", "a", 0, HOUR), at("new", "b", HOUR - 5 * second, HOUR + 60 * second)) == {
        "old": 1,
        "new": 2,
    }


def test_many_launches_in_a_row_are_numbered_by_time() -> None:
    found = numbers(*(at(f"test{n}", f"p{n}", n * HOUR, n * HOUR + HOUR // 2) for n in range(12)))
    assert found == {f"test{n}": n + 1 for n in range(12)}


def test_a_short_launch_beside_a_long_one_is_another() -> None:
    assert numbers(at("trainer", "a", 0, HOUR), at("rollout", "b", HOUR // 3, HOUR // 2)) == {
        "trainer": 1,
        "rollout": 2,
    }


def test_processes_that_wrote_once_are_one_incarnation() -> None:
    assert numbers(at("tp0", "a", 0), at("tp1", "b", 70_000)) == {"tp0": 1, "tp1": 1}


def test_a_long_pause_inside_one_communicator_does_not_split_it() -> None:
    assert numbers(at("dp", "a", 0, 0), at("dp", "b", 9 * HOUR, 9 * HOUR)) == {"dp": 1}


def test_processes_that_share_no_communicator_but_run_together_are_one_incarnation() -> None:
    assert numbers(at("tp0", "a", 0, HOUR), at("tp1", "b", 1000, HOUR)) == {"tp0": 1, "tp1": 1}


def test_a_host_with_a_wrong_clock_stays_with_the_communicators_it_shares() -> None:
    day = 24 * HOUR
    assert numbers(at("dp", "a", 0, HOUR), at("dp", "b", day, day + HOUR), at("tp", "b", day, day + HOUR)) == {
        "dp": 1,
        "tp": 1,
    }


def test_without_times_everything_is_one_incarnation() -> None:
    assert numbers(at("x", "a", None), at("y", "b", None)) == {"x": 1, "y": 1}
    assert number_incarnations([], GAP) == {}


def test_a_cut_id_that_two_communicators_share_is_two_keys() -> None:
    found = number_incarnations([at("0x1", "a", 0, n_ranks=8), at("0x1", "b", 25 * HOUR, n_ranks=4)], GAP)
    assert sorted(found.values()) == [1, 2]


def test_a_job_started_again_with_the_process_ids_that_it_had_is_another_launch() -> None:
    first, second = ("0x1", "WORLD", 2, 1), ("0x2", "WORLD", 2, 1)
    presences = [Presence(first, ("a", pid), 0, 30_000_000) for pid in (1, 2)]
    presences += [Presence(second, ("a", pid), 90_000_000, 130_000_000) for pid in (1, 2)]
    assert number_incarnations(presences, 600_000_000) == {first: 1, second: 2}


def test_a_communicator_that_is_replaced_by_a_smaller_one_or_at_once_is_of_the_same_launch() -> None:
    first, smaller, at_once = ("0x1", "WORLD", 2, 1), ("0x2", "WORLD", 1, 1), ("0x3", "WORLD", 2, 1)
    presences = [Presence(first, ("a", pid), 0, 30_000_000) for pid in (1, 2)]
    shrunk = [*presences, Presence(smaller, ("a", 1), 60_000_000, 90_000_000)]
    assert number_incarnations(shrunk, 600_000_000) == {first: 1, smaller: 1}
    renewed = [*presences, *(Presence(at_once, ("a", pid), 31_000_000, 60_000_000) for pid in (1, 2))]
    assert number_incarnations(renewed, 600_000_000) == {first: 1, at_once: 1}


def test_while_one_communicator_lasts_others_that_are_replaced_make_no_launch() -> None:
    lasting, first, second = ("0x1", "TP", 2, 1), ("0x2", "DP", 2, 2), ("0x3", "DP", 2, 2)
    presences = [
        Presence(lasting, ("a", 1), 0, 130_000_000),
        Presence(first, ("a", 1), 0, 30_000_000),
        Presence(second, ("a", 1), 90_000_000, 130_000_000),
    ]
    assert set(number_incarnations(presences, 600_000_000).values()) == {1}


def test_the_barrier_of_a_start_up_is_of_the_same_launch_as_the_training() -> None:
    barrier, world, tensor = ("0x1", "default_pg", 4, 2), ("0x2", "WORLD", 4, 2), ("0x3", "TP", 2, 1)
    presences = [Presence(barrier, ("a", 1), 0, 0)]
    presences += [Presence(comm, ("a", 1), 60_000_000, 130_000_000) for comm in (world, tensor)]
    assert set(number_incarnations(presences, 600_000_000).values()) == {1}


def test_one_process_id_in_directories_without_a_common_communicator_is_several_processes() -> None:
    # Within the pause of a job that is not started again, and of other sizes.
    first, second = at("first", "a", 0, HOUR), at("second", "a", HOUR + 1, 2 * HOUR)
    third = at("third", "a", 2 * HOUR + 1, 3 * HOUR, n_ranks=1)
    launches = numbers(within(first, "1"), within(second, "2"), within(third, "3"))
    assert launches == {"first": 1, "second": 2, "third": 3}
    # A log that goes on in another directory has a communicator in both.
    assert numbers(within(first, "1"), within(second, "1", "2"), within(third, "2")) == dict.fromkeys(
        ("first", "second", "third"), 1
    )
