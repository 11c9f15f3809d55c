"""Small logs; two ranks on two hosts, unless it says otherwise."""

from contextlib import closing
from pathlib import Path

import pytest

from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.api import ingest_run
from nixt_pipeline.diagnosis.observations import Observations, observe
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

A, B = ("node-1", 1), ("node-2", 2)


def observed(directory: Path, settings: Settings) -> Observations:
    run = ingest_run(directory, settings).run
    build_cells(run, settings)
    with closing(catalog.open_run(settings, run)) as con:
        return observe(con, 1, settings.thresholds)


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


def test_the_wait_is_what_a_rank_spends_beyond_the_shortest_time(tmp_path: Path, settings: Settings) -> None:
    seen = observed(write(tmp_path / "job", {A: 100, B: 300}, {A: range(20), B: range(20)}), settings)
    assert seen.processes == (A, B)
    # 20 collectives are 20 blocks: each has one, in which B waited 200 us for A; the transfer is 100 us for both.
    assert seen.blocks == 20
    assert seen.wait.tolist() == [[0.0] * 20, [200.0] * 20]
    assert seen.transfer.tolist() == [[100.0] * 20, [100.0] * 20]
    assert {arrival.process for arrival in seen.arrivals} == {A}
    # Write times are a tenth of a second apart.
    assert seen.block_us[1:].tolist() == [100_000.0] * 19
    assert seen.block_end_us[0] == EPOCH_US


def test_a_long_job_is_cut_into_at_most_forty_blocks_of_whole_steps(tmp_path: Path, settings: Settings) -> None:
    seen = observed(write(tmp_path / "job", {A: 100, B: 300}, {A: range(120), B: range(120)}), settings)
    assert seen.blocks == 40
    assert seen.wait[1].tolist() == [600.0] * 40


def test_complete_collectives_stand_for_those_of_their_block_that_are_not(tmp_path: Path, settings: Settings) -> None:
    # B lost every second record: of 40 collectives in 40 // 1 blocks, the odd blocks have none, the even ones theirs.
    numbers = {A: range(120), B: range(0, 120, 2)}
    seen = observed(write(tmp_path / "job", {A: 100, B: 300}, numbers), settings)
    # Numbers 0 to 118 are 119 collectives: pulse 119, 3 to a block, 39 blocks of 119 / 39 collectives.
    assert seen.blocks == 39
    assert seen.wait[1].sum() == pytest.approx(119 * 200)


def test_sends_meet_their_receives_in_order(settings: Settings) -> None:
    seen = observed(FIXTURES / "job_2.30.7_8ranks", settings)
    # 200 records of Send and Recv: 100 pairs.
    assert seen.matched_p2p == 100
    assert {transfer.alike[2] for transfer in seen.transfers if transfer.path[0] == "p2p"} == {False}
    # Two nodes are two pipeline stages: only Send, Recv and a 16 kB AllReduce join them.
    assert sorted(len(stage) for stage in seen.stages()) == [4, 4]
    assert [len({host for host, _ in stage}) for stage in seen.stages()] == [1, 1]
