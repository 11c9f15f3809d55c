"""Groups of Send and Recv, of which each record has the time of all; ranks are hosts, 20 steps of a second."""

from pathlib import Path

import pytest

from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.diagnosis.evidence.examples import observed
from nixt_pipeline_tests.records import EPOCH_US, collective, send, write_log

STEPS = 20


def write(directory: Path, ranks: int, group: list[list[tuple[str, int, int]]], stalled: tuple[int, ...] = ()) -> Path:
    """In each step, an AllReduce of 100 us, and of each rank the operations (kind, peer, time) of its `group`, which
    take half a second longer in those that `stalled`."""
    for rank in range(ranks):
        own = {"rank": rank, "n_ranks": ranks, "host": f"node-{rank}", "pid": rank}
        lines = []
        for step in range(STEPS):
            at_us = EPOCH_US + step * 1_000_000
            lines.append(collective(sn=step, nnodes=ranks, time_us=100, at_us=at_us, **own))  # type: ignore[arg-type]
            for n, (kind, peer, time_us) in enumerate(group[rank], start=1 + step * len(group[rank])):
                # Every step is a little longer or shorter, as in any job.
                time = time_us + 100 * (step % 2) + 500_000 * (step in stalled)
                lines.append(send(sn=n, kind=kind, peer=peer, time_us=time, at_us=at_us, **own))  # type: ignore[arg-type]
        write_log(directory / f"node-{rank}-pid{rank}.log", *lines)
    return directory


def test_what_runs_at_the_same_time_is_counted_once(tmp_path: Path, settings: Settings) -> None:
    first = [("Send", 1, 1000), ("Recv", 1, 1000)]
    second = [("Recv", 0, 500), ("Send", 0, 480)]
    seen = observed(write(tmp_path / "job", 2, [first, second]), settings)
    # 20 times 100 us of AllReduce, and a group that takes 50 us more in the middle; half of the sum when they differ.
    assert seen.communicating.sum(axis=1).tolist() == pytest.approx([20 * 1150, 20 * 640])
    # Both are with one peer: the shorter of two records is the transfer still.
    assert {t.transfer_us for t in seen.transfers if t.path[0] == "p2p"} == {500.0, 480.0, 600.0, 580.0}


def test_one_after_the_other_adds_up(tmp_path: Path, settings: Settings) -> None:
    seen = observed(
        write(tmp_path / "job", 2, [[("Send", 1, 1000), ("Recv", 1, 400)], [("Recv", 0, 900), ("Send", 0, 400)]]),
        settings,
    )
    assert seen.communicating.sum(axis=1).tolist() == pytest.approx([20 * 1600, 20 * 1500])


def test_equal_times_of_the_same_send_are_not_one_group(tmp_path: Path, settings: Settings) -> None:
    twice = [("Send", 1, 1000), ("Send", 1, 1000)]
    seen = observed(write(tmp_path / "job", 2, [twice, [("Recv", 0, 1000), ("Recv", 0, 1000)]]), settings)
    assert seen.communicating.sum(axis=1).tolist() == pytest.approx([20 * 2200, 20 * 2200])


def test_the_time_of_an_all_to_all_is_no_transfer(tmp_path: Path, settings: Settings) -> None:
    group = [
        [(kind, peer, 1000 * (1 + rank)) for peer in range(3) if peer != rank for kind in ("Send", "Recv")]
        for rank in range(3)
    ]
    seen = observed(write(tmp_path / "job", 3, group), settings)
    assert seen.communicating.sum(axis=1).tolist() == pytest.approx(
        [20 * (150 + 1000 * (1 + rank)) for rank in range(3)]
    )
    assert not [t for t in seen.transfers if t.path[0] == "p2p"]
    assert seen.matched_p2p == 20 * 6


def test_times_that_are_equal_by_chance_now_and_then_are_no_groups(tmp_path: Path, settings: Settings) -> None:
    def alternating(kinds: tuple[str, str], peer: int, times_us: list[int]) -> list[tuple[str, int, int]]:
        return [(kinds[n % 2], peer, time_us) for n, time_us in enumerate(times_us)]

    # Two of the 32 operations of a step are alike, which would be a group where groups are usual.
    first = alternating(("Send", "Recv"), 1, [1000, 1000, *range(2_000, 30_000, 2_000)])
    second = alternating(("Recv", "Send"), 0, [900, 450, *range(1_800, 27_000, 1_800)])
    seen = observed(write(tmp_path / "job", 2, [first, second]), settings)
    # All times of 16 operations, 50 us more in the middle, and the AllReduce.
    assert seen.communicating.sum(axis=1).tolist() == pytest.approx(
        [20 * (2_000 + 210_000 + 16 * 50 + 100), 20 * (1_350 + 189_000 + 16 * 50 + 100)]
    )


def test_a_send_that_stood_still_together_with_its_recv_is_a_stall(tmp_path: Path, settings: Settings) -> None:
    group = [[("Send", 1, 1000)], [("Recv", 0, 1200)]]
    seen = observed(write(tmp_path / "job", 2, group, stalled=(0, 12)), settings)
    # The shorter of 501,000 and 501,200 us, of which 1,000 or 1,100 are usual; connections are made in the first step.
    [stall] = seen.stalls
    assert stall.members == (("node-0", 0), ("node-1", 1))
    assert stall.at_us == EPOCH_US + 12 * 1_000_000
    assert stall.excess_us == pytest.approx(500_000, abs=200)


def test_who_lost_a_record_and_repeats_no_order_still_spent_its_time(tmp_path: Path, settings: Settings) -> None:
    # Six pairs of ranks, whose Sends and Recvs take half a second of each step. They have no period: two Sends and a
    # Recv in the first half of the job, a Send and two Recvs in the second. Rank 0 lost one of its 60 in the middle.
    kinds = ["Send", "Send", "Recv"] * 10 + ["Recv", "Send", "Recv"] * 10
    other = {"Send": "Recv", "Recv": "Send"}
    for rank in range(12):
        own = {"rank": rank, "n_ranks": 12, "host": f"node-{rank}", "pid": rank}
        lines = []
        for n, kind in enumerate(kinds):
            at_us = EPOCH_US + n // 3 * 1_000_000
            if n % 3 == 0:
                lines.append(collective(sn=n // 3, nnodes=12, time_us=100, at_us=at_us, **own))  # type: ignore[arg-type]
            if (rank, n) != (0, 31):
                pair = {"sn": n + 1, "peer": rank ^ 1, "kind": other[kind] if rank % 2 else kind}
                lines.append(send(time_us=150_000 + 31_000 * (n % 3), at_us=at_us, **pair, **own))  # type: ignore[arg-type]
        write_log(tmp_path / "job" / f"node-{rank}-pid{rank}.log", *lines)
    spent = observed(tmp_path / "job", settings).communicating.sum(axis=1)
    assert spent.tolist() == pytest.approx([20 * 543_100] * 12, rel=0.03)
