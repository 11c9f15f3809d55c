"""The few numbers of each result that are worth following from run to run; the Dagster UI plots them."""

from collections.abc import Callable
from statistics import median
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

# Entries per analysis: more lines in one plot cannot be told apart.
_TOP = 6
# A ratio to fewer expected arrivals than this is luck.
_MIN_EXPECTED = 20


def _operations(rows: list[Row]) -> dict[str, float | None]:
    largest = sorted(rows, key=lambda row: -(row["payload_bytes"] or 0))[:_TOP]
    medians = {f"busbw p50 GB/s, {row['coll']} {row['coll_type']}": row["busbw_p50_gbs"] for row in largest}
    return {"records": sum(row["records"] for row in rows), "payload GB": _sum(rows, "payload_bytes") / 1e9, **medians}


def _time(rows: list[Row]) -> dict[str, float | None]:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["transfer_busbw_p50_gbs"]:
            groups.setdefault((row["coll"], row["coll_type"]), []).append(row["transfer_busbw_p50_gbs"])
    lowest = min((min(values) / median(values) for values in groups.values()), default=None)
    return {"time bins": len({row["bin_start_us"] for row in rows}), "slowest bin / median transfer bandwidth": lowest}


def _places(rows: list[Row]) -> dict[str, float | None]:
    hosts = [row for row in rows if row["level"] == "host"]
    compared = [row for row in hosts if (row["expected_last_arrivals"] or 0) >= _MIN_EXPECTED]
    excess = max((row["last_arrivals"] / row["expected_last_arrivals"] for row in compared), default=None)
    return {"hosts": len({row["hostname"] for row in hosts}), "most last arrivals of a host / expected": excess}


def _shapes(rows: list[Row]) -> dict[str, float | None]:
    return {
        "communicator shapes": len({(row["n_ranks"], row["nnodes"]) for row in rows}),
        "message sizes": len({row["coll_msg_size_bytes"] for row in rows}),
    }


def _attributes(rows: list[Row]) -> dict[str, float | None]:
    attributes = sorted({row["attribute"] for row in rows})
    return {f"values of {name}": len({row["value"] for row in rows if row["attribute"] == name}) for name in attributes}


def _kernels(rows: list[Row]) -> dict[str, float | None]:
    needed = sum((row["cumulative_share_of_payload"] or 0) - (row["share_of_payload"] or 0) < 0.9 for row in rows)
    medians = {f"busbw p50 GB/s, {row['label']}": row["busbw_p50_gbs"] for row in rows[:_TOP]}
    return {"kernels": len(rows), "kernels with 90 % of the bytes": needed, **medians}


def _distributions(rows: list[Row]) -> dict[str, float | None]:
    medians = [row for row in rows if row["quantile"] == 0.5 and row["measure"] == "busbw_gbs"]
    return {f"busbw p50 GB/s, {row['label']}": row["value"] for row in medians[:_TOP]}


def _times(rows: list[Row]) -> dict[str, float | None]:
    medians = [row for row in rows if row["quantile"] == 0.5 and row["measure"] == "exec_time_us"]
    return {f"time p50 us, {row['label']}": row["value"] for row in medians[:_TOP]}


def _waiting(rows: list[Row]) -> dict[str, float | None]:
    waited, moved = _sum(rows, "wait_rank_time_us"), _sum(rows, "transfer_rank_time_us")
    return {"share of waiting": waited / (waited + moved) if waited + moved else None}


def _progress(rows: list[Row]) -> dict[str, float | None]:
    longest: dict[str, list[float]] = {}
    for row in rows:
        if row["transfer_time_p50_us"]:
            longest.setdefault(row["label"], []).append(row["transfer_time_p50_us"])
    worst = max((max(times) / median(times) for times in longest.values()), default=None)
    return {"slowest stretch / median transfer time": worst}


def _lateness(rows: list[Row]) -> dict[str, float | None]:
    caused: dict[str, float] = {}
    for row in rows:
        caused[row["hostname"]] = caused.get(row["hostname"], 0.0) + row["caused_wait_us"]
    return {"GPU-seconds waited for the worst host": max(caused.values(), default=0.0) / 1e6, "hosts": len(caused)}


def _ranks(rows: list[Row]) -> dict[str, float | None]:
    waits = [row["above_lowest_us"] for row in rows if row["above_lowest_us"] is not None]
    return {"ranks": len(rows), "longest mean waiting us": max(waits, default=None)}


def _edges(rows: list[Row]) -> dict[str, float | None]:
    slowest = max((row["shorter_time_us"] for row in rows if row["shorter_time_us"]), default=None)
    return {"P2P edges": len(rows), "slowest edge us": slowest}


def _variation(rows: list[Row]) -> dict[str, float | None]:
    return {f"CV, {row['label']}": row["exec_time_cv"] for row in rows[:_TOP]}


def _coverage(rows: list[Row]) -> dict[str, float | None]:
    known = [row for row in rows if row["capture_rate"] is not None]
    expected = sum(row["n_ranks"] * row["sn_expected"] for row in known)
    captured = sum(row["capture_rate"] * row["n_ranks"] * row["sn_expected"] for row in known)
    return {
        "capture rate": captured / expected if expected else None,
        "complete share": _sum(rows, "complete_cells") / _sum(rows, "cells") if _sum(rows, "cells") else None,
        "communicators": len({(row["incarnation"], row["id"], row["comm_name"]) for row in rows}),
    }


def _sum(rows: list[Row], name: str) -> float:
    return float(sum(row[name] or 0 for row in rows))


_BY_ANALYSIS: dict[str, Callable[[list[Row]], dict[str, float | None]]] = {
    "summary_histogram": _operations,
    "temporal_correlation": _time,
    "spatial_correlation": _places,
    "resource_correlation": _shapes,
    "other_correlation": _attributes,
    "hot_kernels": _kernels,
    "bandwidth_ecdf": _distributions,
    "time_ecdf": _times,
    "waiting_over_time": _waiting,
    "waiting_by_progress": _progress,
    "host_lateness": _lateness,
    "rank_times": _ranks,
    "p2p_edges": _edges,
    "variation": _variation,
    "coverage": _coverage,
}


def highlights(analysis: str, result: pa.Table) -> dict[str, float | None]:
    """Key figures of the result of `analysis` by name; None where there is nothing to tell, empty without any."""
    summarise = _BY_ANALYSIS.get(analysis)
    return summarise(result.to_pylist()) if summarise else {}
