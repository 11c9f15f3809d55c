"""The rollup: every record is counted once, under its kernel, its attributes and its time."""

from typing import Any

import pytest

from nixt_pipeline.analysis import ANALYSES, compute
from nixt_pipeline.inspector.taxonomy import KERNEL_TIME_COLUMNS
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline_tests.analysis.conftest import RUN, START_US, StoredRun, StoreRun, event


def counted(run: StoredRun, *columns: str) -> list[tuple[Any, ...]]:
    return run.sql(f"SELECT {', '.join(columns)}, sum(records)::BIGINT FROM kernel_times GROUP BY ALL ORDER BY ALL")


def without_rollup(run: StoredRun) -> StoredRun:
    """The run as it was stored before the rollup existed."""
    generation = read_manifest(RUN, run.settings).directory(run.settings)
    [path] = layout.table_files(generation, "kernel_times")
    path.unlink()
    return StoredRun(run.settings)


def test_records_that_differ_only_in_who_and_when_are_one_row(store_run: StoreRun) -> None:
    events = [event(rank=rank, coll_sn=sn, dump_timestamp_us=START_US + sn) for rank in range(2) for sn in range(3)]
    assert counted(store_run(events), "coll", "coll_exec_time_us") == [("AllReduce", 100.0, 6)]


@pytest.mark.parametrize(
    "difference",
    [
        {"coll": "AllGather"},
        {"n_ranks": 3},
        {"nnodes": 2},
        {"coll_msg_size_bytes": 2_000_000},
        {"coll_exec_time_us": 101.0},
        {"coll_exec_time_us": None},
        {"git_rev": None},
        {"coll_timing_source": "kernel_cpu"},
        {"kind": "p2p"},
    ],
)
def test_what_analyses_tell_apart_is_counted_apart(difference: dict[str, Any], store_run: StoreRun) -> None:
    run = store_run([event(), event(rank=1), event(**difference)])
    assert sorted(row[-1] for row in counted(run, *(c.name for c in KERNEL_TIME_COLUMNS[:-1]))) == [1, 2]


def test_a_bandwidth_that_is_not_stored_is_the_formulas_and_a_stored_one_stays(store_run: StoreRun) -> None:
    # 1 MB in 100 us is 10 GB/s, and a two-rank AllReduce moves 2 * 1/2 of it.
    run = store_run([event(coll_algobw_gbs=None, coll_busbw_gbs=None), event(rank=1, coll_busbw_gbs=3.0)])
    assert counted(run, "coll_busbw_gbs") == [(3.0, 1), (10.0, 1)]


def test_a_run_without_a_rollup_shows_the_same_rows(store_run: StoreRun) -> None:
    run = store_run([event(), event(rank=1, coll_exec_time_us=90.0), event(kind="p2p", coll="Send", p2p_peer=1)])
    columns = [column.name for column in KERNEL_TIME_COLUMNS[:-1]]
    expected = counted(run, *columns)
    assert counted(without_rollup(run), *columns) == expected
    with catalog.open_store(run.settings) as con:
        assert con.sql("SELECT sum(records) FROM kernel_times").fetchall() == [(3,)]


def test_every_analysis_of_a_run_without_a_rollup_is_the_same(store_run: StoreRun) -> None:
    run = store_run([event(rank=rank, coll_sn=sn, coll_exec_time_us=9.0 + sn) for rank in range(2) for sn in range(4)])
    expected = [compute(analysis, run.con, run.settings) for analysis in ANALYSES]
    bare = without_rollup(run)
    assert [compute(analysis, bare.con, bare.settings) for analysis in ANALYSES] == expected
