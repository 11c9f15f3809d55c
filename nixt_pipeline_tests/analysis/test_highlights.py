from typing import Any

import pyarrow as pa

from nixt_pipeline.analysis import ANALYSES, analysis_named
from nixt_pipeline.inspector.taxonomy import schema


def of(analysis: str, *rows: dict[str, Any]) -> dict[str, float | None]:
    columns = schema(analysis_named(analysis).columns)
    filled = [{name: row.get(name) for name in columns.names} | {"run": "job"} for row in rows]
    return analysis_named(analysis).highlights(pa.Table.from_pylist(filled, schema=columns).to_pylist())


def test_without_rows_key_figures_are_zero_or_missing() -> None:
    empty = {analysis.name: of(analysis.name) for analysis in ANALYSES}
    assert {value for figures in empty.values() for value in figures.values()} == {0, None}
    # These have a figure for each of their largest rows.
    of_rows = {"other_correlation", "bandwidth_ecdf", "time_ecdf", "variation", "run_kernels"}
    assert {name for name, figures in empty.items() if not figures} == of_rows


def test_operations_are_named_largest_first_and_at_most_six() -> None:
    rows = [
        {
            "kind": "collective",
            "coll": f"C{n}",
            "coll_type": "mixed",
            "records": 1,
            "payload_bytes": n * 1e9,
            "busbw_p50_gbs": n,
        }
        for n in range(1, 9)
    ]
    found = of("summary_histogram", *rows)
    assert found["records"] == 8
    # 1 + 2 + ... + 8
    assert found["payload GB"] == 36
    assert [name for name in found if name.startswith("busbw")] == [
        f"busbw p50 GB/s, C{n} mixed" for n in range(8, 2, -1)
    ]


def test_the_slowest_bin_is_compared_with_the_median_of_its_own_function() -> None:
    # AllReduce is slower throughout, which makes none of its bins a slow one.
    bins = [("AllGather", 10.0), ("AllGather", 10.0), ("AllGather", 4.0), ("AllGather", None), ("AllReduce", 1.0)]
    rows = [
        {"bin_start_us": n, "coll": coll, "coll_type": "mixed", "transfer_busbw_p50_gbs": value}
        for n, (coll, value) in enumerate(bins)
    ]
    found = of("temporal_correlation", *rows)
    assert found == {"time bins": 5, "slowest bin / median transfer bandwidth": 0.4}


def test_the_host_that_came_last_most_is_compared_with_chance() -> None:
    def host(name: str, last: int, expected: float) -> dict[str, Any]:
        return {"level": "host", "hostname": name, "last_arrivals": last, "expected_last_arrivals": expected}

    # c came last three times as often as chance has it, but one expected arrival is too few to tell.
    found = of("spatial_correlation", host("a", 80, 40.0), host("b", 20, 40.0), host("c", 3, 1.0))
    assert found == {"hosts": 3, "most last arrivals of a host / expected": 2.0}


def test_kernels_are_counted_until_nine_tenths_of_the_bytes() -> None:
    shares = [(0.6, 0.6), (0.25, 0.85), (0.1, 0.95), (0.05, 1.0)]
    rows = [
        {"kind": "collective", "label": f"k{n}", "share_of_payload": share, "cumulative_share_of_payload": cumulative}
        for n, (share, cumulative) in enumerate(shares)
    ]
    assert of("hot_kernels", *rows)["kernels with 90 % of the bytes"] == 3


def test_the_capture_rate_weighs_communicators_by_their_expected_records() -> None:
    found = of(
        "coverage",
        {"n_ranks": 8, "sn_expected": 10, "capture_rate": 0.5, "complete_cells": 3, "cells": 10},
        {"n_ranks": 2, "sn_expected": 10, "capture_rate": 1.0, "complete_cells": 10, "cells": 10},
    )
    # (0.5 * 80 + 1.0 * 20) / 100 and (3 + 10) / 20
    assert (found["capture rate"], found["complete share"]) == (0.6, 0.65)
