"""Small logs; two ranks on two hosts, unless it says otherwise."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.diagnosis.evidence.examples import observed
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

A, B = ("node-1", 1), ("node-2", 2)


def write(directory: Path, times_us: dict[tuple[str, int], int], numbers: dict[tuple[str, int], range]) -> Path:
    """One AllReduce of 1 MB for each number, a tenth of a second apart."""
    for rank, (process, time_us) in enumerate(times_us.items()):
        host, pid = process
        lines = [
            collective(
                sn=n, rank=rank, n_ranks=2, nnodes=2, host=host, pid=pid, time_us=time_us, at_us=EPOCH_US + n * 100_000
            )
            for n in numbers[process]
        ]
        write_log(directory / f"{host}-pid{pid}.log", *lines)
    return directory


def test_the_time_in_communication_has_the_waiting_in_it(tmp_path: Path, settings: Settings) -> None:
    seen = observed(write(tmp_path / "job", {A: 100, B: 300}, {A: range(20), B: range(20)}), settings)
    assert seen.processes == (A, B)
    # 20 collectives are 20 blocks: each has one, which took 100 us, and for which B waited 200 us.
    assert seen.blocks == 20
    assert seen.communicating.tolist() == [[100.0] * 20, [300.0] * 20]
    assert {transfer.transfer_us for transfer in seen.transfers} == {100.0}
    assert {arrival.process for arrival in seen.arrivals} == {A}
    # Write times are a tenth of a second apart.
    assert seen.block_us[1:].tolist() == [100_000.0] * 19
    assert seen.block_end_us[0] == EPOCH_US


def test_a_long_job_is_cut_into_at_most_forty_blocks_of_whole_steps(tmp_path: Path, settings: Settings) -> None:
    seen = observed(write(tmp_path / "job", {A: 100, B: 300}, {A: range(120), B: range(120)}), settings)
    assert seen.blocks == 40
    assert seen.communicating[1].tolist() == [900.0] * 40


def test_complete_collectives_stand_for_those_of_their_block_that_are_not(tmp_path: Path, settings: Settings) -> None:
    # B lost every second record: blocks are twice as long, and every second of their collectives is complete.
    numbers = {A: range(120), B: range(0, 120, 2)}
    seen = observed(write(tmp_path / "job", {A: 100, B: 300}, numbers), settings)
    # Three quarters of the records are there: of 120 collectives, 4 are a block, not 3.
    assert seen.blocks == 30
    assert seen.communicating[1].sum() == pytest.approx(120 * 300)


def test_what_was_lost_at_one_place_in_the_step_is_not_filled_with_another(tmp_path: Path, settings: Settings) -> None:
    # 20 steps of a ReduceScatter for which B waits, one for which nobody waits, and an AllReduce. B lost most of those
    # that it waited for, A hardly a record.
    for rank, ((host, pid), waited_us) in enumerate({A: 0, B: 900}.items()):
        at: dict[str, Any] = {"rank": rank, "n_ranks": 2, "nnodes": 2, "host": host, "pid": pid}
        kept = [n for n in range(40) if n % 2 or rank == 0 or n % 10 == 0]
        lines = [
            collective(coll="ReduceScatter", sn=n, time_us=100 + (n % 2 == 0) * waited_us, at_us=EPOCH_US + n, **at)
            for n in kept
        ]
        lines += [collective(sn=n, time_us=100, at_us=EPOCH_US + n, **at) for n in range(20)]
        write_log(tmp_path / "job" / f"{host}-pid{pid}.log", *lines)
    seen = observed(tmp_path / "job", settings)
    # Three times 20 x 100 us at A; at B, 20 of them take 1000 us.
    assert seen.communicating.sum(axis=1) == pytest.approx([6_000, 24_000], rel=0.01)


def test_transfers_are_known_without_names_and_without_a_complete_collective(
    tmp_path: Path, settings: Settings
) -> None:
    # Each of three ranks lost another third; the last one, that all wait for, takes 100 us.
    for rank, time_us in enumerate((300, 200, 100)):
        at: dict[str, Any] = {"rank": rank, "n_ranks": 3, "nnodes": 3, "host": f"node-{rank}", "pid": 1}
        lines = [
            collective(sn=n, time_us=time_us, name="unknown", at_us=EPOCH_US + n, **at)
            for n in range(120)
            if n % 3 != rank
        ]
        write_log(tmp_path / "job" / f"node-{rank}-pid1.log", *lines)
    seen = observed(tmp_path / "job", settings)
    assert {transfer.transfer_us for transfer in seen.transfers} == {100.0}


def test_sends_meet_their_receives_in_order(settings: Settings) -> None:
    seen = observed(FIXTURES / "job_2.30.7_8ranks", settings)
    # 200 records of Send and Recv: 100 pairs.
    assert seen.matched_p2p == 100
    assert {transfer.alike[2] for transfer in seen.transfers if transfer.path[0] == "p2p"} == {False}
    # Two nodes are two pipeline stages: only Send, Recv and a 16 kB AllReduce join them.
    assert sorted(len(stage) for stage in seen.stages()) == [4, 4]
    assert [len({process[0] for process in stage}) for stage in seen.stages()] == [1, 1]


def test_what_is_written_when_half_of_the_job_is_over_does_not_halve_the_job(
    tmp_path: Path, settings: Settings
) -> None:
    # Forty collectives in four seconds; the first twenty are written at once, by clocks an hour apart.
    for rank, (host, clock_us) in enumerate((("node-1", 0), ("node-2", 3_600_000_000))):
        lines = [
            collective(
                sn=n, rank=rank, n_ranks=2, nnodes=2, host=host, pid=1, time_us=100,
                at_us=EPOCH_US + clock_us + max(n, 19) * 100_000,
            )
            for n in range(40)
        ]  # fmt: skip
        write_log(tmp_path / "job" / f"{host}-pid1.log", *lines)
    assert observed(tmp_path / "job", settings).block_us.sum() == pytest.approx(4e6, rel=0.05)


def test_transfers_are_those_of_the_functions_and_sizes_that_carry_most_bytes() -> None:
    with duckdb.connect() as con:
        # 4 of 100 bytes are 400, 1 of 300 bytes are 300, 2 of 50 bytes are 100.
        con.execute("""
            CREATE TABLE blocked_cells AS
            SELECT 0 AS comm, 'AllReduce' AS coll, size AS coll_msg_size_bytes, 0 AS block, 9.0 AS min_exec_time_us,
                true AS complete, 2 AS ranks_seen, weight
            FROM (VALUES (100, 4.0), (300, 1.0), (50, 2.0)) AS cells (size, weight)
        """)
        found = con.sql(queries.TRANSFERS, params={"least": 2, "one_slot": False, "operations": 2}).fetchall()
    assert [row[2] for row in found] == [100, 300]


def test_after_the_end_of_somebodys_log_the_shortest_time_is_no_transfer(tmp_path: Path, settings: Settings) -> None:
    # The third, for which the two others wait, has records of the first half only. In the second half, each collective
    # lacks it.
    for rank, time_us in enumerate((300, 200, 100)):
        lines = [
            collective(
                sn=n, rank=rank, n_ranks=3, nnodes=3, host=f"node-{rank}", time_us=time_us, at_us=EPOCH_US + n * 100_000
            )
            for n in range(80 if rank < 2 else 40)
        ]
        write_log(tmp_path / "job" / f"node-{rank}.log", *lines)
    seen = observed(tmp_path / "job", settings)
    assert {transfer.transfer_us for transfer in seen.transfers} == {100.0}
    assert {transfer.block for transfer in seen.transfers} == set(range(seen.blocks // 2))
