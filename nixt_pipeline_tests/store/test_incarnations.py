from nixt_pipeline.store.incarnations import Communicator, Presence, number_incarnations

HOUR = 3_600_000_000
GAP = 600_000_000


def at(comm: str, process: str, first: int | None, last: int | None = None, n_ranks: int = 2) -> Presence:
    return Presence((comm, None, n_ranks, 1), (process, 1), first, first if last is None else last)


def numbers(*presences: Presence) -> dict[str, int]:
    found: dict[Communicator, int] = number_incarnations(list(presences), GAP)
    return {str(key[0]): number for key, number in found.items()}


def test_one_job_is_one_incarnation() -> None:
    assert numbers(at("tp", "a", 0, 100), at("tp", "b", 0, 100), at("dp", "a", 50, 200)) == {"tp": 1, "dp": 1}


def test_a_process_id_used_again_a_day_later_is_another_incarnation() -> None:
    assert numbers(at("old", "a", 0, HOUR), at("new", "a", 25 * HOUR, 26 * HOUR)) == {"old": 1, "new": 2}


def test_jobs_that_follow_one_another_without_a_pause_stay_together() -> None:
    assert numbers(at("first", "a", 0, HOUR), at("second", "a", HOUR + GAP)) == {"first": 1, "second": 1}


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
