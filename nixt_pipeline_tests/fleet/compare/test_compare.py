"""Each verdict, on runs simulated so that the truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from nixt_pipeline.fleet.compare.compare import compare_sides, of_one_workload
from nixt_pipeline.fleet.compare.comparison import Comparison
from nixt_pipeline.fleet.compare.summaries import RunSummary
from nixt_pipeline.fleet.compare.wording import facts
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.fleet.examples import HOSTS, Kernel, side, slower, summary

LIMITS = Thresholds()
DATA = Kernel()
TENSOR = Kernel(coll="AllGather", size=2_000_000, nnodes=1, role="tensor", transfer_us=24.0, wait_us=5.0)


def compare(a: list[RunSummary], b: list[RunSummary]) -> Comparison:
    return compare_sides(side(*a), side(*b), LIMITS)


def runs(name: str, *kernels: Kernel, count: int = 4, seed: int = 0, between_runs: float = 0.005) -> list[RunSummary]:
    return [
        summary(f"{name}-{number}", kernels or (DATA,), seed=seed + number, between_runs=between_runs)
        for number in range(count)
    ]


def test_seven_per_cent_are_found_with_four_runs_against_four() -> None:
    found = compare(runs("before", DATA, TENSOR), runs("after", slower(DATA, 1.07), TENSOR, seed=100))
    assert (found.verdict, found.suspected) == ("regressed", False)
    assert found.reason.startswith("transfer of AllReduce 16 MB, 4 ranks on 4 nodes (data) +")
    data, tensor = found.kernels
    assert data.transfer.estimate is not None
    assert data.transfer.estimate.low < 0.07 < data.transfer.estimate.high
    assert data.transfer.estimate.low > LIMITS.comparison.margin
    # What did not change is not dragged along.
    assert (data.waiting.verdict, tensor.transfer.verdict, tensor.waiting.verdict) == ("equivalent",) * 3
    back = compare(runs("after", slower(DATA, 1.07), TENSOR, seed=100), runs("before", DATA, TENSOR))
    assert back.verdict == "improved"


def test_half_a_per_cent_is_equivalent_however_many_operations_there_are() -> None:
    # A million operations make each run's median exact: the shift is certain, and too small to matter.
    many = replace(DATA, operations=1_000_000)
    a = [summary(f"a{n}", (many,), seed=n, between_runs=1e-4, within_run=1e-5) for n in range(4)]
    b = [summary(f"b{n}", (slower(many, 1.005),), seed=9 + n, between_runs=1e-4, within_run=1e-5) for n in range(4)]
    found = compare(a, b)
    assert found.verdict == "equivalent"
    (kernel,) = found.kernels
    assert kernel.transfer.estimate is not None
    assert kernel.transfer.estimate.low > 0.004  # surely slower ...
    assert kernel.transfer.q_value < 0.001  # ... and "significantly" so


def test_runs_that_differ_by_more_than_the_change_decide_nothing_and_say_how_many_would() -> None:
    found = compare(runs("a", between_runs=0.08, seed=3), runs("b", slower(DATA, 1.07), between_runs=0.08, seed=40))
    assert found.verdict == "inconclusive"
    assert "runs per side would settle it" in found.reason


def test_one_run_against_one_is_a_suspicion() -> None:
    found = compare([summary("a")], [summary("b", (slower(DATA, 1.3),), seed=1)])
    assert (found.verdict, found.basis, found.suspected) == ("regressed", "blocks", True)
    same = compare([summary("a")], [summary("b", seed=1)])
    assert (same.verdict, same.suspected) == ("equivalent", False)


def test_a_run_that_became_slow_half_way_is_not_taken_for_noise() -> None:
    found = compare([summary("a")], [summary("b", seed=1, onset=10, onset_factor=1.5)])
    assert found.verdict == "regressed"
    # 10 of the 19 stretches that count are 1.5 times as slow: 1.5 ** (10 / 19) = 1.238.
    assert found.kernels[0].transfer.estimate is not None
    assert found.kernels[0].transfer.estimate.change == pytest.approx(0.238, abs=0.01)


def test_a_new_run_against_several_asks_whether_it_is_one_of_them() -> None:
    usual = runs("usual", count=5)
    assert compare(usual, [summary("new", seed=50)]).verdict == "equivalent"
    assert compare(usual, [summary("new", (slower(DATA, 1.2),), seed=50)]).verdict == "regressed"


def test_waiting_and_transfer_are_told_apart() -> None:
    # A host that computes more slowly: the others wait 500 us more for it, of 1100 us.
    found = compare(runs("a"), runs("b", replace(DATA, wait_us=600.0), seed=9))
    (kernel,) = found.kernels
    assert (kernel.transfer.verdict, kernel.waiting.verdict) == ("equivalent", "regressed")
    assert kernel.waiting.estimate is not None
    assert kernel.waiting.estimate.change == pytest.approx(500 / 1100, abs=0.02)
    assert found.reason.startswith("waiting of AllReduce")


def test_a_false_alarm_is_rare_over_many_comparisons_of_equal_runs() -> None:
    # 20 kernels, 2 measures, 12 comparisons: uncorrected, 5 % of the intervals miss the truth.
    kernels = [replace(DATA, size=1_000_000 + number) for number in range(20)]
    alarms = 0
    for trial in range(12):
        a, b = (runs("x", *kernels, seed=1000 * trial + 100 * s, between_runs=0.03) for s in (1, 2))
        found = compare(a, [replace(run, run=f"{run.run}b") for run in b])
        alarms += found.verdict in ("regressed", "improved")
    assert alarms == 0


def test_changed_parallelism_is_a_change_of_the_work_and_no_slowdown() -> None:
    a = [summary("a", (DATA, TENSOR), gpus=4, parallelism="tp=4 dp=4")]
    b = [
        summary(
            "b",
            (replace(slower(DATA, 2.0), n_ranks=8, nnodes=8, size=32_000_000), replace(TENSOR, n_ranks=2)),
            gpus=4,
            parallelism="tp=2 dp=8",
            seed=1,
        )
    ]
    found = compare(a, b)
    assert found.verdict == "not-comparable"
    assert found.reason == "the sides do different work (parallelism: tp=4 dp=4 -> tp=2 dp=8)"
    assert found.kernels == ()
    assert (
        "AllReduce of the data communicators: size 16 MB -> 32 MB, ranks 4 -> 8, nodes 4 -> 8" in found.workload_changes
    )
    assert "AllGather of the tensor communicators: ranks 4 -> 2" in found.workload_changes


def test_a_role_that_moved_from_within_nodes_to_across_them_is_the_same_role() -> None:
    found = compare(
        [summary("a", (DATA, TENSOR))], [summary("b", (DATA, replace(TENSOR, n_ranks=8, nnodes=2)), seed=1)]
    )
    assert found.workload_changes == ("AllGather of the tensor communicators: ranks 4 -> 8, nodes 1 -> 2",)


def test_a_kernel_that_is_used_twice_as_often_is_a_change_of_the_work() -> None:
    twice = replace(TENSOR, operations=2 * TENSOR.operations)
    third = replace(DATA, size=4_000_000)
    found = compare(runs("a", DATA, third, TENSOR), runs("b", DATA, third, twice, seed=9))
    (change,) = found.workload_changes
    assert change == "AllGather 2 MB, 4 ranks on 1 node (tensor): 2 times as often relative to the other kernels"
    # It takes as long as before each time.
    assert found.verdict == "equivalent"


def test_a_longer_run_is_the_same_work() -> None:
    found = compare(
        runs("a", DATA, TENSOR), runs("b", replace(DATA, operations=5000), replace(TENSOR, operations=5000))
    )
    assert found.workload_changes == ()


def on(*hosts: str, slow: str = "", factor: float = 1.3, everywhere: float = 1.0) -> Kernel:
    """A kernel inside the hosts, each host being a group of its own."""
    groups = tuple((host, everywhere * (factor if host == slow else 1.0)) for host in hosts)
    return replace(TENSOR, transfer_us=1000.0, groups=groups)


def test_a_slow_host_among_other_hosts_is_no_regression_of_the_software() -> None:
    others = ("gpu-1", "gpu-2", "gpu-3", "gpu-9")
    a = [summary("a", (on(*HOSTS),))]
    b = [summary("b", (on(*others, slow="gpu-9", factor=2.0),), seed=1, host_names=[*others])]
    found = compare(a, b)
    # 25 % longer on average, all of it on the host that was not there before.
    assert found.kernels[0].transfer.estimate is not None
    assert found.kernels[0].transfer.estimate.low > LIMITS.comparison.margin
    assert found.verdict == "slower-other-hosts"
    assert found.reason.startswith(
        "slower by 25% in transfer, on other hosts (3 of 4 in common); on the hosts in common"
    )
    assert found.reason.endswith("unexplained: the hosts or the change")
    assert (found.placement.kind, found.placement.common) == ("changed", 3)


def test_what_the_hosts_in_common_show_as_well_is_a_regression_on_changed_hosts_too() -> None:
    others = ("gpu-1", "gpu-2", "gpu-3", "gpu-9")
    a = [summary("a", (on(*HOSTS),))]
    b = [summary("b", (on(*others, everywhere=1.3),), seed=1, host_names=[*others])]
    found = compare(a, b)
    assert found.verdict == "regressed"
    assert "on the hosts in common +" in found.reason


def test_without_a_host_in_common_a_slowdown_cannot_be_told_from_the_hosts() -> None:
    others = tuple(f"gpu-{number}" for number in range(11, 15))
    found = compare(
        [summary("a", (on(*HOSTS),))],
        [summary("b", (on(*others, everywhere=1.3),), seed=1, host_names=[*others])],
    )
    assert (found.verdict, found.placement.common) == ("slower-other-hosts", 0)
    assert found.reason == "slower by 30% in transfer, on other hosts; unexplained: the hosts or the change"
    assert found.next_step.startswith("Rerun A on the hosts of B")
    # What is the same in spite of other hosts is the same.
    same = compare([summary("a", (on(*HOSTS),))], [summary("b", (on(*others),), seed=1, host_names=[*others])])
    assert same.verdict == "equivalent"


def test_hosts_drawn_anew_for_each_run_are_part_of_what_varies() -> None:
    def placed(name: str, factor: float, first: int) -> list[RunSummary]:
        kernel = (slower(DATA, factor),)
        hosts = [[f"gpu-{number}" for number in range(start, start + 7)] for start in range(first, first + 4)]
        return [summary(f"{name}{n}", kernel, seed=first + n, host_names=names) for n, names in enumerate(hosts)]

    # Hosts 0 to 9 against 1 to 10: nine of eleven in common.
    found = compare(placed("a", 1.0, 0), placed("b", 1.2, 1))
    assert (found.placement.kind, found.verdict) == ("replicated", "regressed")


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (replace(DATA, capture_rate=0.3), "capture: only 30% of the records were captured"),
        (replace(DATA, usable_share=0.2), "capture: only 20% of the collectives were recorded by all ranks"),
        (replace(DATA, timing="collective_cpu"), "versions: times are from kernel_gpu and from collective_cpu"),
        (replace(DATA, operations=10), "fewer than 20 collectives were recorded by all ranks with GPU times"),
    ],
)
def test_what_the_log_does_not_carry_is_not_compared(kernel: Kernel, reason: str) -> None:
    found = compare([summary("a")], [summary("b", (slower(kernel, 2.0),), seed=1)])
    assert (found.verdict, found.reason) == ("not-comparable", reason)


def test_a_broadcast_has_no_transfer_of_its_own() -> None:
    kernels = (DATA, replace(DATA, coll="Broadcast", transfer_us=10.0, wait_us=0.0))
    found = compare([summary("a", kernels)], [summary("b", kernels, seed=1)])
    assert [item.key.coll for item in found.not_compared] == ["Broadcast"]
    assert found.verdict == "equivalent"


def test_a_role_that_one_plugin_does_not_tell_is_no_other_kernel() -> None:
    found = compare([summary("a")], [summary("b", (replace(DATA, role=None),), seed=1)])
    assert (len(found.kernels), found.workload_changes) == (1, ())


def test_a_gate_lets_pass_what_it_is_told_to() -> None:
    slow = compare([summary("a")], [summary("b", (slower(DATA, 1.3),), seed=1)])
    assert slow.fails("regressed")
    unclear = compare([summary("a")], [summary("b", (replace(DATA, capture_rate=0.1),), seed=1)])
    assert [unclear.fails(gate) for gate in ("regressed", "not-comparable", "inconclusive")] == [False, True, True]
    same = compare([summary("a")], [summary("b", seed=1)])
    assert not same.fails("inconclusive")


def test_rare_kernels_decide_nothing() -> None:
    rare = replace(TENSOR, operations=20, size=4096, wait_us=0.1)
    a, b = runs("a", DATA, rare), runs("b", DATA, slower(rare, 3.0), seed=9)
    found = compare(a, b)
    assert found.kernels[-1].transfer.verdict == "regressed"
    assert found.verdict == "equivalent"


def on_pairs(factors: dict[str, float]) -> Kernel:
    """A kernel with a communicator on each pair of hosts, and the factor on its transfer."""
    return replace(DATA, n_ranks=2, nnodes=2, groups=tuple(factors.items()))


def test_half_of_the_communicators_that_became_slower_are_named_with_what_they_cost() -> None:
    before, slow = on_pairs({"a b": 1.0, "c d": 1.0}), on_pairs({"a b": 1.0, "c d": 15.0})
    found = compare([summary("a", (before,))], [summary("b", (slow,), seed=1)])
    assert found.verdict == "regressed"
    (kernel,) = found.kernels
    # (1 + 15) / 2 = 8 times as long on average.
    assert kernel.transfer.estimate is not None
    assert kernel.transfer.estimate.change == pytest.approx(7.0, rel=0.02)
    assert kernel.transfer.location is not None
    assert (kernel.transfer.location.slower, kernel.transfer.location.of) == (1, 2)
    assert kernel.transfer.location.names == ("on c d",)
    # 1000 operations of 2 ranks take 7000 us longer: 14 s of the 4 GPUs' 10 s each.
    assert kernel.transfer.lost_s == pytest.approx(14.0, rel=0.02)
    assert kernel.transfer.cost_share == pytest.approx(14.0 / 40.0, rel=0.02)
    assert found.reason.startswith("transfer of AllReduce 16 MB, 2 ranks on 2 nodes (data) +")
    assert "in 1 of 2 communicators (on c d), 15 times as long there, which costs 3" in found.reason


def test_on_other_hosts_the_slow_communicators_are_those_beyond_the_slowest_of_before() -> None:
    before = on_pairs({"a b": 1.0, "c d": 1.1})
    after = on_pairs({"e f": 1.12, "g h": 1.0, "i j": 3.3})
    found = compare([summary("a", (before,))], [summary("b", (after,), seed=1, host_names=list("efghij"))])
    assert found.verdict == "slower-other-hosts"
    location = found.kernels[0].transfer.location
    # 1.12 is within 5 % of the slowest of before, 3.3 is 3 times as long.
    assert location is not None
    assert (location.slower, location.of, location.names) == (1, 3, ("on i j",))
    assert location.times == pytest.approx(3.0, rel=0.02)
    assert "in 1 of 3 communicators (on i j)" in found.above_all


def test_a_kernel_that_took_next_to_nothing_decides_when_it_takes_much_now() -> None:
    # Of 20 operations of 24 us, 3000 times as long: 1.4 s beside the 1.1 s of the others.
    rare = replace(TENSOR, operations=20)
    found = compare(runs("a", DATA, rare), runs("b", DATA, slower(rare, 3000.0), seed=9))
    assert found.verdict == "regressed"
    assert found.reason.startswith("transfer of AllGather 2 MB")


def test_many_kernels_that_are_all_too_small_to_decide_decide_together() -> None:
    sizes = [replace(DATA, size=1_000_000 + n, operations=20) for n in range(200)]
    found = compare([summary("a", sizes)], [summary("b", [slower(k, 1.5) for k in sizes], seed=1)])
    assert max(kernel.transfer.share for kernel in found.kernels) < LIMITS.comparison.min_kernel_share
    assert found.verdict == "regressed"
    assert found.reason.startswith("transfer of all kernels together +")


def test_operations_that_cannot_be_judged_and_take_longer_leave_the_verdict_open() -> None:
    # A Broadcast takes half of the time; three times as long, it is the whole time of before once more.
    broadcast = replace(DATA, coll="Broadcast")
    a, b = (
        summary("a", (DATA, broadcast)),
        summary("b", (DATA, replace(broadcast, transfer_us=3000, wait_us=300)), seed=1),
    )
    found = compare([a], [b])
    assert found.verdict == "inconclusive"
    assert found.reason == (
        "operations whose times cannot be judged (mainly Broadcast 16 MB, 4 ranks on 4 nodes (data)) take longer, by"
        " 100 % of the total time"
    )


def test_kernels_that_are_only_counted_are_a_part_of_the_time_that_is_not_compared() -> None:
    counted = {"coll": None, "payload_bytes": 1e15, "rank_time_us": 1e12}
    a, b = (replace(summary(name, seed=seed), others=(counted,)) for seed, name in enumerate("ab"))
    found = compare([a], [b])
    assert (found.verdict, found.reason) == (
        "not-comparable",
        "the sides do different work (no kernel takes a significant share of the time on both sides)",
    )


def test_a_stretch_without_records_is_no_time_of_nothing() -> None:
    a, b = summary("a"), summary("b", seed=1)
    (kernel,) = b.kernels.values()
    assert np.isfinite(kernel.transfer_us).all()
    cut = {**kernel.row, "block": list(range(10, 20))}
    cut |= {name: kernel.row[name][10:] for name in ("block_transfer_us", "block_wait_us")}
    half = replace(b, kernels={kernel.key: replace(kernel, row=cut)})
    assert compare([a], [half]).verdict == "equivalent"


def test_of_mixed_runs_those_are_compared_that_do_the_same_work() -> None:
    def mixed(name: str, small: int, large: int) -> list[RunSummary]:
        return [
            *(summary(f"{name}-small-{n}") for n in range(small)),
            *(summary(f"{name}-large-{n}", (replace(DATA, n_ranks=8, nnodes=8),), gpus=8) for n in range(large)),
        ]

    a, b = of_one_workload(side(*mixed("a", 5, 2)), side(*mixed("b", 1, 3)), LIMITS)
    # Two of the large jobs on one side and three on the other are more than one small one.
    assert [run.run for run in (*a.runs, *b.runs)] == ["a-large-0", "a-large-1", "b-large-0", "b-large-1", "b-large-2"]
    # Without work that both do, all of it is compared, and told to be other work.
    one, other = side(*mixed("a", 2, 0)), side(*mixed("b", 0, 2))
    assert of_one_workload(one, other, LIMITS) == (one, other)


def test_a_run_that_hung_says_so_beside_its_verdict() -> None:
    found = compare([summary("a")], [summary("b", seed=1, worst_severity="P0")])
    assert found.verdict == "equivalent"  # up to the hang
    assert ("findings", "none -> up to P0") in facts(found)
