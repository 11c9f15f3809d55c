"""Hosts a, b, c, d with a data-parallel ring between each neighbouring pair; ten blocks of a second."""

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from nixt_pipeline.diagnosis.detectors.resolution import Judged
from nixt_pipeline.diagnosis.detectors.transfer import Blame, find_slow, paths_of
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations, Transfer
from nixt_pipeline.diagnosis.evidence.queries import NOT_COMPARED
from nixt_pipeline.diagnosis.wording.reasons import unjudged
from nixt_pipeline.diagnosis.wording.text import how_sure, title
from nixt_pipeline.diagnosis.wording.transfers import transfer_findings
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import LARGE, collective, communicator, observations

LIMITS = Thresholds()
FAST, SLOW = [1_000.0] * 10, [1_000.0] * 4 + [200_000.0] * 6


def ring(number: int, *hosts: str, pid: int = 1) -> Communicator:
    return communicator(number, *((host, pid) for host in hosts))


def seen(*rings: tuple[Communicator, Sequence[float]], blocks: int = 10) -> Observations:
    transfers = [entry for comm, times in rings for entry in collective(comm, times)]
    return observations([comm for comm, _ in rings], transfers=transfers, blocks=blocks)


def lasting(observed: Observations, first_us: Sequence[float]) -> Observations:
    """With first blocks that last as long; all others last a second."""
    lasted_us = observed.block_us.copy()
    lasted_us[: len(first_us)] = first_us
    return replace(observed, block_us=lasted_us)


def blamed(observed: Observations) -> list[tuple[str, tuple[str, ...], bool]]:
    return [(blame.level, tuple(sorted(blame.hosts)), blame.ambiguous) for blame in find_slow(observed, LIMITS)]


def test_the_host_that_all_slow_rings_share_and_no_fast_one_has() -> None:
    observed = seen(
        (ring(0, "a", "b"), SLOW), (ring(1, "b", "c"), SLOW), (ring(2, "c", "d"), FAST), (ring(3, "a", "d"), FAST)
    )
    assert blamed(observed) == [("host", ("b",), False)]


def test_the_finding_begins_with_the_slow_blocks_and_says_what_they_cost() -> None:
    # Nothing is hidden: the job's blocks are as much longer.
    observed = lasting(
        seen((ring(0, "a", "b"), SLOW), (ring(1, "b", "c"), SLOW), (ring(2, "a", "c"), FAST)), [600_000.0] * 4
    )
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.kind, finding.severity, finding.hosts) == ("slow-transfer", "P1", ("b",))
    assert (finding.onset_us, finding.until_us) == (4_000_000, None)
    # b is in both slow rings: 2 x 199 ms too much in each second.
    assert finding.effect.cost_share == 0.398
    assert finding.effect.slowdown == 200.0
    assert "clears all on them" in finding.counter_evidence


def test_what_is_hidden_behind_computation_costs_the_job_nothing() -> None:
    # The same transfers in a job whose blocks are 0.1 s longer since: of the 39.8 % that b spends, 10 % are felt. With
    # two processes in each ring, 4 members spend 199 ms more in each of 6 blocks, of which a quarter and a bit is felt.
    observed = lasting(
        seen((ring(0, "a", "b"), SLOW), (ring(1, "b", "c"), SLOW), (ring(2, "a", "c"), FAST)), [900_000.0] * 4
    )
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert finding.effect.cost_share == pytest.approx(0.1)
    assert finding.effect.lost_rank_seconds == pytest.approx(4 * 0.199 * 6 * 0.1 / 0.398)
    assert "the excess costs a member 39.8% of the time, of which the job became 10.0% longer" in finding.evidence
    assert finding.severity == "P1"  # It is 200 times as slow.


def test_a_network_that_is_slow_now_and_then_is_a_note_and_nobodys_fault() -> None:
    # Slow in blocks 1 to 4, 7 to 11 and 14 to 16, as fast as ever in between: no stretch has half of the twelve.
    slow = [block in {1, 2, 3, 4, 7, 8, 9, 10, 11, 14, 15, 16} for block in range(20)]
    observed = seen((ring(0, "a", "b", "c"), [200_000.0 if late else 1_000.0 for late in slow]), blocks=20)
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.kind, finding.severity) == ("fabric-slow", "P2")
    assert "It is intermittent" in finding.counter_evidence


def test_a_network_that_became_slow_and_is_congested_now_and_then_is_slow() -> None:
    slow = [block in {2, 3} or block > 7 for block in range(20)]
    observed = seen((ring(0, "a", "b", "c"), [200_000.0 if late else 1_000.0 for late in slow]), blocks=20)
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert finding.severity == "P1"
    assert "It is intermittent" not in finding.counter_evidence


def test_a_fabric_that_is_fast_again_may_have_been_congested() -> None:
    # Twice as slow for a quarter of the job, and its blocks 0.3 s longer, or 0.9: 7.5 % and 18 % of the whole.
    slow = [1_000_000.0 if 5 <= block < 10 else 500_000.0 for block in range(20)]
    observed = seen((ring(0, "a", "b", "c"), slow), blocks=20)
    for lasted_us, severity in ((1.3e6, "P2"), (1.9e6, "P1")):
        longer = replace(observed, block_us=np.array([lasted_us if 5 <= block < 10 else 1e6 for block in range(20)]))
        (finding,) = transfer_findings(longer, find_slow(longer, LIMITS), LIMITS)
        assert finding.severity == severity, lasted_us


def test_pipelines_between_racks_tell_which_hosts_share_one() -> None:
    # Four hosts that NCCL counts as two nodes, a and b in one rack, c and d in the other: b to c is slower by design.
    pipe = replace(communicator(0, *((host, 1) for host in "abcd")), nnodes=2)
    hosts = [communicator(number, (host, 1), (host, 2)) for number, host in enumerate("abcd", 1)]
    times = {("a", "b"): 1_000.0, ("b", "c"): 15_000.0, ("c", "d"): 1_000.0}
    transfers = [
        Transfer(("p2p", one, other), 0, ((one, 1), (other, 1)), ("p2p", LARGE, False), LARGE, block, time, 5)
        for (one, other), time in times.items()
        for block in range(10)
    ]
    paths = paths_of(observations([pipe, *hosts], transfers=transfers), LIMITS)
    assert {tuple(sorted(path.hosts)): path.medium for path in paths} == {
        ("a", "b"): "rack", ("b", "c"): "network", ("c", "d"): "rack",
    }  # fmt: skip


def test_hosts_that_cannot_be_told_apart_are_all_named() -> None:
    assert blamed(seen((ring(0, "a", "b"), SLOW), (ring(1, "c", "d"), FAST))) == [("host", ("a", "b"), True)]


def test_two_slow_hosts_are_two_findings() -> None:
    observed = seen(
        (ring(0, "a", "x"), SLOW), (ring(1, "a", "y"), SLOW), (ring(2, "b", "x"), SLOW), (ring(3, "b", "y"), SLOW),
        (ring(4, "x", "y"), FAST),
    )  # fmt: skip
    assert blamed(observed) == [("host", ("a",), False), ("host", ("b",), False)]


def test_everything_slow_at_once_is_the_fabric_and_nobodys_fault() -> None:
    observed = seen((ring(0, "a", "b"), SLOW), (ring(1, "b", "c"), SLOW), (ring(2, "a", "c"), SLOW))
    assert blamed(observed) == [("fabric", (), False)]
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.kind, finding.hosts) == ("fabric-slow", ())


def test_a_network_of_which_every_path_crosses_the_same_hosts_may_be_one_of_them() -> None:
    observed = seen(*((ring(number, "a", "b", pid=number), SLOW) for number in range(4)))
    assert blamed(observed) == [("fabric", ("a", "b"), True)]
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.kind, finding.hosts, finding.ambiguous) == ("fabric-slow", ("a", "b"), True)
    assert title(finding) == "Slow network: the network, or one of a, b"
    assert "Draining a host will not help" not in finding.next_step


def test_what_ran_beside_at_another_pace_is_no_reference() -> None:
    # The other two rings share no process with these, and did half as much.
    beside = [time for time in [500.0] * 5 for _ in range(2)]
    observed = seen((ring(0, "a", "b"), [1_000.0] * 10), (ring(1, "c", "d"), beside[:5]))
    assert blamed(observed) == []
    observed = seen((ring(0, "a", "b"), [1_000.0] * 10), (ring(1, "c", "d"), beside))
    assert blamed(observed) == [("host", ("a", "b"), True)]


def test_a_rail_is_the_rings_on_it_and_no_host() -> None:
    observed = seen(
        (ring(0, "a", "b", pid=1), SLOW), (ring(1, "c", "d", pid=1), SLOW), (ring(2, "a", "b", pid=2), FAST),
        (ring(3, "c", "d", pid=2), FAST),
    )  # fmt: skip
    assert blamed(observed) == [("communicator", (), True)]


def test_a_path_whose_hosts_are_cleared_is_told_by_its_members() -> None:
    rails = [ring(number, "a", "b", pid=number + 1) for number in range(4)]
    observed = seen((rails[0], FAST), (rails[1], FAST), (rails[2], FAST), (rails[3], SLOW))
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.level, finding.hosts, finding.processes) == ("communicator", (), ("a-pid4", "b-pid4"))
    # The fourth of each host's four processes, by process id.
    assert finding.place == f"{rails[3].label} (a-pid4, b-pid4: process 3 of each host)"
    assert "on 1 path of 1 communicator, in" in finding.evidence
    assert title(finding) == f"Slow transfers: {finding.place}"
    assert how_sure(finding) == "one of 2, or what is between them; the log cannot tell which"


def test_who_is_on_all_slow_paths_and_on_no_fast_one_is_named_and_the_path_of_these() -> None:
    everybody = communicator(0, ("a", 1), ("a", 2), ("b", 1), ("b", 2))
    rails = [ring(number, "a", "b", pid=number) for number in (1, 2)]
    observed = seen((everybody, SLOW), (rails[0], SLOW), (rails[1], FAST))
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.level, finding.processes, finding.ambiguous) == ("communicator", ("a-pid1", "b-pid1"), True)
    assert finding.place == f"{rails[0].label} (a-pid1, b-pid1: process 0 of each host)"


def test_a_rail_that_is_slow_from_the_start_is_not_the_fabric_though_all_rings_warm_up_slowly() -> None:
    # The first block lifts the mean of the others to 1.3 times their best.
    warming = [4_000.0] + [1_000.0] * 9
    observed = seen(
        (ring(0, "a", "b", pid=1), [time * 10 for time in warming]),
        *((ring(number, "a", "b", pid=number + 1), warming) for number in range(1, 4)),
    )
    assert blamed(observed) == [("communicator", (), True)]


def test_the_card_of_one_process_shared_by_two_slow_rings() -> None:
    observed = seen(
        (communicator(0, ("a", 1), ("b", 1)), SLOW), (communicator(1, ("a", 1), ("c", 1)), SLOW),
        (communicator(2, ("a", 2), ("b", 1), ), FAST), (communicator(3, ("a", 2), ("c", 1)), FAST),
    )  # fmt: skip
    (blame,) = find_slow(observed, LIMITS)
    assert (blame.level, blame.processes) == ("rank", (("a", 1),))


def test_slow_inside_a_host_names_that_host() -> None:
    inside = [communicator(n, (host, 1), (host, 2)) for n, host in enumerate("ab")]
    (blame,) = find_slow(seen((inside[0], SLOW), (inside[1], FAST)), LIMITS)
    assert (blame.medium, blame.hosts) == ("nvlink", ("a",))


def test_a_slow_block_or_two_is_an_incident_and_not_a_condition() -> None:
    twice = [1_000.0] * 8 + [200_000.0] * 2
    assert blamed(seen((ring(0, "a", "b"), twice), (ring(1, "c", "d"), FAST))) == []


def test_three_slow_blocks_of_one_path_among_many_are_congestion() -> None:
    thrice = [1_000.0] * 7 + [200_000.0] * 3
    others = [(ring(n, "c", "d", pid=n), FAST) for n in range(1, 10)]
    # 0.05^3 for each of 10 paths and 10 places where it could begin: 1 in 80.
    assert blamed(seen((ring(0, "a", "b"), thrice), *others)) == []


def test_small_messages_tell_nothing_about_bandwidth() -> None:
    comms = [ring(0, "a", "b"), ring(1, "c", "d")]
    transfers = [
        *collective(comms[0], SLOW, size=16_384),
        *collective(comms[1], FAST, size=16_384),
    ]
    assert find_slow(observations(comms, transfers=transfers), LIMITS) == []


def test_what_costs_little_and_is_over_soon_is_not_told() -> None:
    mild = [1_000.0] * 4 + [1_400.0] * 3 + [1_000.0] * 3
    observed = seen((ring(0, "a", "b"), mild), (ring(1, "b", "c"), mild), (ring(2, "a", "c"), FAST))
    # Three blocks are congestion, unless one does not mind being wrong.
    assert find_slow(observed, LIMITS) == []
    bold = LIMITS.changed("diagnosis", max_chance=0.1)
    blames: list[Blame] = find_slow(observed, bold)
    assert [blame.hosts for blame in blames] == [("b",)]
    assert transfer_findings(observed, blames, bold) == []


def in_rack(number: int, *hosts: str) -> Communicator:
    """A ring over hosts of one NVLink domain, which NCCL counts as one node."""
    return replace(ring(number, *hosts), nnodes=1, coll_type="nvlink-only")


def test_between_hosts_of_a_rack_nvlink_is_to_be_checked_and_no_network_card() -> None:
    observed = seen((in_rack(0, "a", "b"), SLOW), (in_rack(1, "b", "c"), SLOW), (in_rack(2, "a", "c"), FAST))
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert (finding.hosts, finding.level) == (("b",), "host")
    assert "NVLink" in finding.next_step
    assert "NVLink domain" in finding.evidence
    assert "not the suspect" not in finding.next_step


def test_hosts_that_share_a_rack_are_known_from_any_communicator() -> None:
    # The ring over a to d reaches another rack; what a and b exchange stays in theirs.
    pair = ring(1, "a", "b")
    observed = seen((ring(0, "a", "b", "c", "d"), FAST), (pair, SLOW), (in_rack(2, "a", "b"), FAST))
    assert [path.medium for path in paths_of(observed, LIMITS)] == ["network", "rack", "rack"]


def test_what_stays_on_a_host_is_no_reference_for_what_leaves_it_in_a_rack() -> None:
    # Four times as fast within a host: the ring over four hosts is not slow for that.
    inside = replace(communicator(0, ("a", 1), ("a", 2), ("a", 3), ("a", 4)), nnodes=1)
    observed = seen((inside, FAST), (in_rack(1, "a", "b", "c", "d"), [4_000.0] * 10))
    assert find_slow(observed, LIMITS) == []


def test_sizes_that_were_not_compared_are_said_not_to_be_counted() -> None:
    observed = seen((ring(0, "a", "b"), SLOW), (ring(1, "b", "c"), SLOW), (ring(2, "a", "c"), FAST))
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert "is not counted" not in finding.counter_evidence
    many = replace(observed, not_compared=(1_904, 0.12))
    (finding,) = transfer_findings(many, find_slow(many, LIMITS), LIMITS)
    assert (
        "What 1,904 further functions and sizes cost, with 12% of the bytes, is not counted."
        in finding.counter_evidence
    )
    told = "whether transfers of 1,904 functions and sizes (12% of the bytes) are slow was not assessed"
    assert unjudged(Judged().with_launch(many, LIMITS)) == [told]


def test_what_is_not_compared_are_the_sizes_with_fewest_bytes() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE blocked_cells (coll VARCHAR, coll_msg_size_bytes BIGINT, weight DOUBLE)")
        # 600 bytes of one size, 300 and 100 of two others, and one without a size.
        con.execute("INSERT INTO blocked_cells VALUES ('a', 200, 3), ('b', 300, 1), ('a', 100, 1), ('a', NULL, 9)")
        assert con.sql(NOT_COMPARED, params={"operations": 2}).fetchall() == [(1, 0.1)]
        assert con.sql(NOT_COMPARED, params={"operations": 3}).fetchall() == [(0, 0.0)]


def test_who_left_no_log_may_be_what_the_others_waited_for() -> None:
    lacking = replace(ring(0, "a", "b"), n_ranks=3)
    observed = seen((lacking, SLOW))
    (finding,) = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert finding.severity == "P2"
    assert title(finding) == "A rank without a log (1 of 3 in 0x0) or the network keeps others waiting"
    # A path on which everybody left a log is as slow: that is no waiting.
    observed = seen((lacking, SLOW), (ring(1, "b", "c"), SLOW))
    assert {f.severity for f in transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)} == {"P1"}


def test_a_machine_whose_containers_have_names_of_their_own_is_one_culprit() -> None:
    # Three machines of two containers. Every edge of the second machine is slow, and one of the others is fast.
    one, other, third = ("a", "b"), ("c", "d"), ("e", "f")
    inside = [
        (replace(ring(n, *machine), nnodes=1, coll_type="nvlink-only"), FAST)
        for n, machine in enumerate((one, other, third))
    ]
    edges = [ring(3 + n, left, right) for n, (left, right) in enumerate(zip(one + other, other + third, strict=True))]
    edges.append(ring(7, "a", "e"))
    observed = seen(*inside, *((edge, SLOW) for edge in edges[:4]), (edges[4], FAST))
    (blame,) = find_slow(observed, LIMITS)
    assert (blame.level, blame.hosts, blame.ambiguous, blame.medium) == ("host", ("c", "d"), False, "network")


def test_between_containers_of_one_machine_is_inside_it() -> None:
    within = [replace(ring(n, *names), nnodes=1, coll_type="nvlink-only") for n, names in enumerate(("ab", "cd"))]
    observed = seen((within[0], SLOW), (within[1], FAST), (ring(2, "a", "c"), FAST))
    (blame,) = find_slow(observed, LIMITS)
    assert (blame.level, blame.hosts, blame.ambiguous, blame.medium) == ("host", ("a", "b"), False, "nvlink")


@pytest.mark.parametrize(("until", "severity"), [(10, "P1"), (8, "P2")])
def test_what_was_slow_for_a_while_and_has_no_fast_path_beside_it_may_have_been_congested(
    until: int, severity: str
) -> None:
    # Twice as slow from the fourth block on, at a cost of 0.1 %; the other ring is neither fast nor slow.
    times_us = [1_000.0] * 3 + [2_000.0] * (until - 3) + [1_000.0] * (10 - until)
    observed = seen((ring(0, "a", "b"), times_us), (ring(1, "c", "d"), [1_100.0] * 10))
    assert blamed(observed) == [("host", ("a", "b"), True)]
    findings = transfer_findings(observed, find_slow(observed, LIMITS), LIMITS)
    assert [finding.severity for finding in findings] == [severity]
