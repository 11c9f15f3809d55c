"""Cells gathered in arrays are the cells that SQL groups."""

import random
from typing import Any

import pyarrow as pa
import pytest

from nixt_pipeline.analysis import cells, dense_cells
from nixt_pipeline.analysis.dense_cells import NO_DUMP, NO_SIZE, DenseCells, Stretch
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline_tests.analysis.conftest import START_US, Row, StoredRun, StoreRun, event

_IMPLAUSIBLE = {"dump_timestamp_us": 5, "flags": int(RecordFlag.TIMESTAMP_IMPLAUSIBLE)}
# What makes a record unusual; each appears in some of the jobs below, in some of its records.
_ODDITIES: tuple[dict[str, Any], ...] = (
    {"coll_exec_time_us": None, "flags": int(RecordFlag.TIME_ZERO)},
    {"coll_exec_time_us": 12.625},
    {"coll_timing_source": "kernel_cpu"},
    {"coll_timing_source": None},
    {"coll_msg_size_bytes": 4096},
    {"coll_msg_size_bytes": None},
    {"dump_timestamp_us": None},
    _IMPLAUSIBLE,
    {"coll_sn": 2**64 - 1},
    {"coll_sn": None},
    {"rank": None},
    {"rank": 900},
    {"pid": 7},
    {"kind": "p2p", "coll": "Send", "p2p_peer": 1},
)


def random_job(seed: int) -> list[Row]:
    """Three communicators, one with more than 127 ranks; some records lost, some repeated, some odd; out of order."""
    rng = random.Random(seed)
    odd = rng.sample(_ODDITIES, rng.randint(0, 3))
    events = []
    for comm, n_ranks in (("0xa", 2), ("0xb", 5), ("0xc", 130)):
        ranks = range(n_ranks) if n_ranks < 100 else rng.sample(range(n_ranks), 6)
        for coll in ("AllReduce", "Broadcast"):
            first = rng.choice([0, 1000, 2**40])
            for sn in range(first, first + rng.randint(1, 12)):
                for rank in ranks:
                    values: Row = {"id": comm, "n_ranks": n_ranks, "rank": rank, "coll": coll, "coll_sn": sn}
                    values |= {"coll_exec_time_us": float(rng.randint(1, 6))}  # few values: many are equal
                    values |= {"dump_timestamp_us": START_US + rng.randint(0, 1000), "hostname": f"gpu-{rank % 3}"}
                    oddity = rng.choice(odd) if odd and rng.random() < 0.05 else {}
                    events += [event(**values) | oddity] * rng.choices([0, 1, 2], [5, 90, 2])[0]
    rng.shuffle(events)
    return events


def cells_now(run: StoredRun, **bounds: int) -> list[Row]:
    """The cells, computed once more."""
    rows = [row for batch in cells.cell_batches(run.con, **bounds) for row in batch.to_pylist()]
    return sorted(rows, key=str)


@pytest.mark.parametrize("seed", range(10))
def test_gathered_cells_are_the_grouped_cells(seed: int, store_run: StoreRun) -> None:
    run = store_run(random_job(seed))
    expected = cells_now(run)
    assert cells_now(run, gather_from_records=0) == expected
    assert cells_now(run, gather_from_records=0, bytes_per_pass=500) == expected


def test_what_is_plain_is_gathered_and_what_is_repeated_is_left(store_run: StoreRun) -> None:
    records = [event(coll_sn=sn, rank=rank) for sn in range(3) for rank in range(2)] + [event(coll_sn=1)]
    con = store_run(records).con
    con.execute(cells._STREAMS)
    assert sum(batch.num_rows for batch in cells._gather(con, cells.BYTES_PER_PASS)) == 2
    assert con.sql("SELECT coll_sn FROM repeated_cells").fetchall() == [(1,)]


def test_the_passes_cover_every_number_once_within_their_memory() -> None:
    streams = [Stretch(1, 5, 30, 8), Stretch(2, 0, 1, 8), Stretch(3, 2**60, 7, 64)]
    found = list(dense_cells.passes(streams, 1000))
    for stretches in found:
        assert sum(s.numbers * dense_cells.cell_bytes(s.ranks) for s in stretches) <= 1000
    numbers = [(s.stream, s.first_sn + n) for stretches in found for s in stretches for n in range(s.numbers)]
    assert numbers == [(s.stream, s.first_sn + n) for s in streams for n in range(s.numbers)]
    assert len(found) > 1


def test_records_of_other_streams_and_numbers_are_passed_over() -> None:
    gathered = DenseCells([Stretch(stream=10, first_sn=4, numbers=2, ranks=2)])
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "stream": ([10, 10, 10, 11], pa.uint64()),
        "coll_sn": ([3, 4, 6, 4], pa.uint64()),
        "rank": ([0, 1, 0, 0], pa.int32()),
        "size_bytes": ([8, NO_SIZE, 8, 8], pa.uint64()),
        "time_us": ([1.0, 2.0, 3.0, 4.0], pa.float64()),
        "by_gpu": ([1, 1, 1, 1], pa.int8()),
        "dump_us": ([1, NO_DUMP, 1, 1], pa.int64()),
    }
    gathered.add(pa.record_batch({name: pa.array(*column) for name, column in columns.items()}))
    [cell] = pa.concat_tables(gathered.batches(100)).to_pylist()
    assert (cell["stream"], cell["coll_sn"], cell["ranks_seen"], cell["sum_us"]) == (10, 4, 1, 2.0)
