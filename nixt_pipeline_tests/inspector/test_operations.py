import duckdb
import pytest

from nixt_pipeline.inspector.operations import (
    SQL_MACROS,
    algobw_gbs,
    busbw_gbs,
    coll_type,
    ends_together,
    format_bytes,
)


@pytest.mark.parametrize(
    ("n_ranks", "nnodes", "expected"),
    [(1, 1, "single-rank"), (8, 1, "nvlink-only"), (4, 4, "nic-only"), (16, 2, "mixed")],
)
def test_placement_follows_the_papers_order_of_rules(n_ranks: int, nnodes: int, expected: str) -> None:
    assert coll_type(n_ranks, nnodes) == expected


# 16,777,216 B in 5,765 us: the Broadcast of a released plugin's log reads 2.910185 GB/s. 1 MB in 100 us is 10 GB/s; a
# factor of
# 2 * 3/4 for AllReduce on 4 ranks gives 15; AllGather moves 4 MB, 40 GB/s, of which 3/4 on the bus.
EXAMPLES = [
    ("Broadcast", 16_777_216, 8, 5765, 2.910185, 2.910185),
    ("AllReduce", 1_000_000, 4, 100, 10.0, 15.0),
    ("AllGather", 1_000_000, 4, 100, 40.0, 30.0),
    ("ReduceScatter", 1_000_000, 4, 100, 40.0, 30.0),
    ("Send", 1_000_000, 2, 100, 10.0, 10.0),
    ("AllReduce", 1_000_000, 1, 100, 10.0, None),
    ("AlltoAll", 1_000_000, 4, 100, None, None),
    ("AllReduce", 1_000_000, 4, 0, None, None),
]


@pytest.mark.parametrize(("coll", "size", "n_ranks", "time_us", "algobw", "busbw"), EXAMPLES)
def test_bandwidths_are_the_plugins_own_in_python_and_in_sql(
    coll: str, size: int, n_ranks: int, time_us: int, algobw: float | None, busbw: float | None
) -> None:
    con = duckdb.connect()
    con.execute(SQL_MACROS)
    sql = con.execute("SELECT algobw_gbs($1, $2, $3, $4), busbw_gbs($1, $2, $3, $4)", [coll, size, n_ranks, time_us])
    expected = pytest.approx((algobw, busbw), abs=1e-6)
    assert (algobw_gbs(coll, size, n_ranks, time_us), busbw_gbs(coll, size, n_ranks, time_us)) == expected
    assert sql.fetchone() == expected


def test_wire_bytes_of_a_ring() -> None:
    con = duckdb.connect()
    con.execute(SQL_MACROS)
    row = con.execute(
        "SELECT wire_bytes('AllReduce', 100, 4), wire_bytes('AllGather', 100, 4), wire_bytes('Send', 100, 2)"
    )
    assert row.fetchone() == (150.0, 300.0, 100.0)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (672, "672 B"),
        (1000, "1 kB"),
        (13_492_224, "13.5 MB"),
        (999_600, "1 MB"),
        (999_400, "999 kB"),
        (5e12, "5 TB"),
    ],
)
def test_sizes_are_decimal(size: float, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("coll", "together"), [("AllReduce", True), ("AllGather", True), ("Broadcast", False), ("All2All", False)]
)
def test_python_and_sql_agree_on_what_all_ranks_end_together(coll: str, together: bool) -> None:
    con = duckdb.connect()
    con.execute(SQL_MACROS)
    assert (ends_together(coll), con.execute("SELECT ends_together($1)", [coll]).fetchone()) == (together, (together,))
