"""Quantiles by group: the bandwidths of a list of times, and what DuckDB's quantile_cont gives for them."""

import random
from typing import Any

import numpy as np
import pytest

from nixt_pipeline.analysis import compute
from nixt_pipeline.analysis.distributions import Kernel, busbw_of_times
from nixt_pipeline.analysis.spatial_correlation import ANALYSIS as SPATIAL
from nixt_pipeline.analysis.temporal_correlation import ANALYSIS as TEMPORAL
from nixt_pipeline.inspector.operations import RecordFlag
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.catalog import connect
from nixt_pipeline_tests.analysis.conftest import START_US, Row, StoreRun, event

_FUNCTIONS = ("AllReduce", "AllGather", "AllGatherV", "ReduceScatter", "Broadcast", "Reduce", "Send", "Gather", None)


@pytest.mark.parametrize("coll", _FUNCTIONS)
@pytest.mark.parametrize(("n_ranks", "size"), [(8, 33_554_432), (3, 8), (1, 1000), (None, 1000), (4, None)])
def test_the_bandwidths_of_times_are_exactly_those_of_sql(
    coll: str | None, n_ranks: int | None, size: int | None, settings: Settings
) -> None:
    times = np.array([0, 1, 3, 7, 999, 31_415_926], np.int32)
    with connect(settings) as con:
        rows = con.sql(
            "SELECT to_six_decimals(busbw_gbs($coll::VARCHAR, $size::UBIGINT, $n_ranks::INTEGER, t::DOUBLE))"
            " FROM (SELECT unnest($times) AS t)",
            params={"coll": coll, "size": size, "n_ranks": n_ranks, "times": times.tolist()},
        ).fetchall()
    assert busbw_of_times(Kernel(coll, n_ranks, size, True), times).tolist() == [
        row[0] for row in rows if row[0] is not None
    ]


def random_records(seed: int) -> list[Row]:
    """Records of several processes and kernels; some without a time, some whose written bandwidth is not the
    formula's, some that are small, some with fractions of microseconds."""
    rng = random.Random(seed)
    by_formula: Row = {"coll_algobw_gbs": None, "coll_busbw_gbs": None}
    whole = rng.random() < 0.5
    records = []
    for sn in range(300):
        values: Row = {"rank": rng.randrange(4), "n_ranks": 4, "nnodes": rng.choice([1, 4]), "coll_sn": sn}
        values |= {"coll": rng.choice(_FUNCTIONS), "coll_msg_size_bytes": rng.choice([4096, 1_000_000, 8_000_000])}
        values |= {"coll_exec_time_us": rng.choice([50.0, 60.0, 70.0, 1000.0]) + (0 if whole else rng.random())}
        values |= {"dump_timestamp_us": START_US + rng.randrange(500), "hostname": rng.choice(["a", "b", None])}
        odd: Row = rng.choice(
            [
                {},
                {},
                {},
                {"coll_exec_time_us": None, "flags": int(RecordFlag.TIME_ZERO | RecordFlag.BANDWIDTH_UNDEFINED)},
                {"coll_busbw_gbs": rng.choice([1.0, 2.0, 3.0])},
                {"pid": None},
            ]
        )
        records.append(event(**values) | by_formula | odd)
    return records


_BY_PLACE = """
SELECT
    CASE grouping(pid) WHEN 0 THEN 'process' ELSE 'host' END AS level, hostname, pid, coll, coll_type,
    count(*) AS records, quantile_cont(busbw, [0.1, 0.5, 0.9]) AS b, quantile_cont(us, 0.5) AS us
FROM (
    SELECT
        *,
        CASE WHEN coll_msg_size_bytes >= 1000000 THEN coll_exec_time_us END AS us,
        CASE WHEN coll_msg_size_bytes >= 1000000 THEN coll_busbw_gbs END AS busbw
    FROM events
)
GROUP BY GROUPING SETS ((hostname, pid, coll, coll_type), (hostname, coll, coll_type))
"""
_BY_TIME = """
SELECT
    $start + (dump_timestamp_us - $start) // $width * $width AS bin_start_us, coll, coll_type,
    count(*) AS records, quantile_cont(coll_busbw_gbs, [0.25, 0.5, 0.75]) AS b, quantile_cont(coll_exec_time_us, 0.5)
FROM events
WHERE coll_msg_size_bytes >= 1000000
GROUP BY ALL
"""


@pytest.mark.parametrize("seed", range(6))
def test_grouped_quantiles_are_those_of_quantile_cont(seed: int, store_run: StoreRun) -> None:
    run = store_run(random_records(seed))

    def rows(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The three bandwidths as columns of their own; DuckDB fuses a multiplication and an addition where it can."""
        return [(*row[:-2], *(row[-2] or [None] * 3), row[-1]) for row in found]

    def assert_alike(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
        for ours, theirs in zip(sorted(found, key=str), sorted(expected, key=str), strict=True):
            assert ours == tuple(pytest.approx(v, rel=1e-14) if isinstance(v, float) else v for v in theirs)

    places = compute(SPATIAL, run.con, run.settings)
    names = ["level", "hostname", "pid", "coll", "coll_type", "records"]
    values = ["busbw_p10_gbs", "busbw_p50_gbs", "busbw_p90_gbs", "exec_time_p50_us"]
    ours = [tuple(row.values()) for row in places.select(names + values).to_pylist()]
    assert_alike(ours, rows(run.sql(_BY_PLACE)))

    bins = compute(TEMPORAL, run.con, run.settings)
    span = {"start": bins["bin_start_us"][0].as_py(), "width": bins["bin_width_us"][0].as_py()}
    names = ["bin_start_us", "coll", "coll_type", "records"]
    values = ["busbw_p25_gbs", "busbw_p50_gbs", "busbw_p75_gbs", "exec_time_p50_us"]
    ours = [tuple(row.values()) for row in bins.select(names + values).to_pylist()]
    assert_alike(ours, rows(run.con.sql(_BY_TIME, params=span).fetchall()))
