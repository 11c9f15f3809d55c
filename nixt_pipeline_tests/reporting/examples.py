"""Small hand-made tables, in the columns that the store and the analyses write."""

from typing import Any

import pyarrow as pa

from nixt_pipeline.diagnosis import Diagnosis
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.reporting.content import Reading, RunContent, Source
from nixt_pipeline.store.manifest import Manifest

# 2025-08-30T20:20:06Z
START_US = 1_756_585_206_000_000
# A name as only a hostile or broken program gives: markup, quotes, mathematics, a control character, an override.
HOSTILE = '<script>alert("x")</script>$\\frac{1}$' + "\x07\u202e'&"


def table(columns: tuple[taxonomy.Column, ...], rows: list[dict[str, Any]]) -> pa.Table:
    """A table of a taxonomy schema; columns that a row leaves out are null, or 0 or "" where null is not allowed."""
    blank = {c.name: None if c.nullable else ("" if pa.types.is_string(c.type) else 0) for c in columns}
    schema = pa.schema([pa.field(c.name, c.type) for c in columns])
    return pa.Table.from_pylist([{**blank, **row} for row in rows], schema=schema)


def manifest(**changes: Any) -> Manifest:
    """A run of 8 records in 2 files."""
    values: dict[str, Any] = {
        "run": "job-1",
        "source_dir": "/logs/job-1",
        "generation": "g1",
        "fingerprint": "f",
        "ingested_at": "2026-01-02T03:04:05Z",
        "incarnations": 1,
        "files": {"read": 2, "unchanged": 0, "empty": 0, "foreign": 0, "duplicate": 0, "unreadable": 0},
        "records": {"stored": 8, "collective": 8, "p2p": 0, "duplicate": 0},
        "rejected_lines": 0,
        "foreign_lines": 0,
        "dropped_by_plugin": 0,
        "bytes": {"read": 100, "stored": 100, "duplicate": 0, "rejected": 0, "foreign": 0, "blank": 0},
        "seconds": 0.5,
        "run_info": {},
    }
    return Manifest(**{**values, **changes})


def hosts(*names: str) -> pa.Table:
    """The hosts table for hosts of one process each."""
    return table(
        taxonomy.HOST_COLUMNS, [{"run": "job-1", "incarnation": 1, "hostname": name, "processes": 1} for name in names]
    )


def processes(*names: str, run: str = "job-1") -> pa.Table:
    """The processes table for hosts of one process each, with records over 10 seconds."""
    span = {"first_dump_us": START_US, "last_dump_us": START_US + 10_000_000}
    rows = [
        {"run": run, "incarnation": 1, "hostname": name, "pid": 7, "process": f"{name}-pid7", **span} for name in names
    ]
    return table(taxonomy.PROCESS_COLUMNS, rows)


def communicators(n_ranks: int, ranks_seen: int, comm_name: str | None = "DP Group 0") -> pa.Table:
    """One communicator of `n_ranks`, of which `ranks_seen` left records."""
    row = {
        "run": "job-1",
        "incarnation": 1,
        "id": "0xabc",
        "comm_name": comm_name,
        "n_ranks": n_ranks,
        "nnodes": n_ranks,
        "coll_type": "nic-only",
        "ranks_seen": ranks_seen,
        "hosts_seen": ranks_seen,
        "parallel_role": "data",
        "parallel_role_source": "name",
        "records": 8,
    }
    return table(taxonomy.COMMUNICATOR_COLUMNS, [row])


def coverage(**changes: Any) -> pa.Table:
    """2 ranks saw 4 of 4 AllReduce operations."""
    row = {
        "incarnation": 1,
        "id": "0xabc",
        "comm_name": "DP Group 0",
        "n_ranks": 2,
        "nnodes": 2,
        "coll_type": "nic-only",
        "coll": "AllReduce",
        "ranks_seen": 2,
        "hosts_seen": 2,
        "sn_expected": 4,
        "sn_seen": 4,
        "records": 8,
        "capture_rate": 1.0,
        "complete_cells": 4,
        "cells": 4,
        "complete_share": 1.0,
        "dropped_by_plugin": 0,
    }
    return pa.Table.from_pylist([{**row, **changes}])


def summary(*rows: tuple[str, str, int]) -> pa.Table:
    """`summary_histogram` for (function, placement, payload) triples."""
    total = sum(payload for _, _, payload in rows) or 1
    return pa.Table.from_pylist(
        [
            {
                "kind": "collective",
                "coll": coll,
                "coll_type": coll_type,
                "records": 8,
                "collectives": 4,
                "payload_bytes": payload,
                "share_of_records": 1 / len(rows),
                "share_of_payload": payload / total,
                "unusable_times": 0,
                "exec_time_p50_us": 100.0,
                "busbw_p50_gbs": 42.0,
            }
            for coll, coll_type, payload in rows
        ]
    )


def kernel(rank: int, label: str, share: float, cumulative: float, coll_type: str = "nic-only") -> dict[str, Any]:
    """A row of `hot_kernels`."""
    return {
        "rank_by_bytes": rank,
        "label": label,
        "kind": "collective",
        "coll": "AllReduce",
        "coll_type": coll_type,
        "n_ranks": 2,
        "nnodes": 2,
        "coll_msg_size_bytes": 4_000_000,
        "records": 8,
        "hosts": 2,
        "payload_bytes": 32_000_000,
        "wait_us": 250.0,
        "transfer_time_us": 375.0,
        "busbw_p10_gbs": 30.0,
        "busbw_p50_gbs": 42.0,
        "busbw_p90_gbs": 50.0,
        "busbw_cv": 0.1,
        "exec_time_p50_us": 100.0,
        "exec_time_p99_us": 200.0,
        "transfer_busbw_p50_gbs": 51.0,
        "capture_rate": 1.0,
        "share_of_payload": share,
        "cumulative_share_of_payload": cumulative,
        "share_of_rank_time": share,
    }


def ecdf_rows(
    label: str, values: tuple[float, ...], measure: str = "busbw_gbs", coll_type: str = "nic-only"
) -> list[dict[str, Any]]:
    """Rows of `bandwidth_ecdf`, quantiles evenly spaced from 0 to 1."""
    steps = len(values) - 1
    frame = {"label": label, "coll": "AllReduce", "coll_type": coll_type, "measure": measure, "samples": 8}
    return [{**frame, "quantile": position / steps, "value": value} for position, value in enumerate(values)]


def time_bin(
    start_s: float, p50: float | None, coll: str = "AllReduce", coll_type: str = "nic-only", records: int = 8
) -> dict[str, Any]:
    """A row of `temporal_correlation`: a bin of one second that starts `start_s` after `START_US`."""
    return {
        "incarnation": 1,
        "min_message_bytes": 1_000_000,
        "bin_start_us": START_US + int(start_s * 1e6),
        "bin_width_us": 1_000_000,
        "coll": coll,
        "coll_type": coll_type,
        "records": records,
        "busbw_p25_gbs": None if p50 is None else p50 - 1,
        "busbw_p50_gbs": p50,
        "busbw_p75_gbs": None if p50 is None else p50 + 1,
        "transfer_busbw_p50_gbs": None if p50 is None else p50 + 2,
    }


def entity(name: str, last: int, expected: float, cells: int, p50: float = 40.0, **changes: Any) -> dict[str, Any]:
    """A host's row of `spatial_correlation`."""
    row = {
        "level": "host",
        "min_message_bytes": 1_000_000,
        "hostname": name,
        "pid": None,
        "process": None,
        "coll": "AllReduce",
        "coll_type": "nic-only",
        "records": 8,
        "busbw_p10_gbs": p50 - 5,
        "busbw_p50_gbs": p50,
        "busbw_p90_gbs": p50 + 5,
        "exec_time_p50_us": 100.0,
        "cells": cells,
        "last_arrivals": last,
        "expected_last_arrivals": expected,
    }
    return {**row, **changes}


def size_row(
    n_ranks: int, nnodes: int, coll: str, size: int, records: int, coll_type: str = "nic-only"
) -> dict[str, Any]:
    """A row of `resource_correlation`."""
    return {
        "n_ranks": n_ranks,
        "nnodes": nnodes,
        "coll_type": coll_type,
        "kind": "collective",
        "coll": coll,
        "coll_msg_size_bytes": size,
        "records": records,
        "collectives": records // n_ranks,
        "payload_bytes": size * records,
    }


def other_row(attribute: str, value: str) -> dict[str, Any]:
    """A row of `other_correlation`."""
    bandwidths = {"busbw_p25_gbs": 35.0, "busbw_p50_gbs": 42.0, "busbw_p75_gbs": 45.0, "exec_time_p50_us": 100.0}
    return {
        "attribute": attribute,
        "value": value,
        "coll": "AllReduce",
        "coll_type": "nic-only",
        "records": 8,
        **bandwidths,
    }


def waiting_row(bin_number: int, rank: int | None, wait_us: float, transfer_us: float) -> dict[str, Any]:
    """A row of `waiting_over_time`: a bin of one second, one collective of two ranks."""
    frame = {"incarnation": 1, "bin_start_us": START_US + bin_number * 1_000_000, "bin_width_us": 1_000_000}
    quantiles = {f"wait_p{q}_us": wait_us / 2 for q in (25, 50, 75)}
    quantiles |= {f"transfer_time_p{q}_us": transfer_us for q in (25, 50, 75)}
    named = {"rank_by_bytes": rank, "label": None if rank is None else f"kernel {rank}"}
    totals = {"cells": 1, "wait_rank_time_us": wait_us, "transfer_rank_time_us": 2 * transfer_us}
    return {**frame, **named, "coll": "AllReduce", "coll_type": "nic-only", **totals, **quantiles}


def progress_row(stretch: int, wait_us: float, transfer_us: float, **changes: Any) -> dict[str, Any]:
    """A row of `waiting_by_progress`: a stretch of ten sequence numbers."""
    quantiles = {f"wait_p{q}_us": wait_us for q in (25, 50, 75)}
    quantiles |= {f"transfer_time_p{q}_us": transfer_us for q in (25, 50, 75)}
    numbers = {"stretch": stretch, "first_sn": 10 * stretch, "last_sn": 10 * stretch + 9, "cells": 10}
    frame = {"incarnation": 1, "rank_by_bytes": 1, "label": "kernel 1", "coll": "AllReduce", "coll_type": "nic-only"}
    return {**frame, **numbers, **quantiles, **changes}


def lateness_row(bin_number: int, host: str, caused_us: float, share: float | None) -> dict[str, Any]:
    """A row of `host_lateness`: a bin of one second."""
    frame = {"incarnation": 1, "bin_start_us": START_US + bin_number * 1_000_000, "bin_width_us": 1_000_000}
    arrivals = {"cells": 4, "last_arrivals": 1, "expected_last_arrivals": 2.0}
    return {**frame, "hostname": host, **arrivals, "caused_wait_us": caused_us, "share_of_rank_time": share}


def rank_row(
    rank: int, mean_us: float, above_us: float, comm_name: str = "DP Group 0", **changes: Any
) -> dict[str, Any]:
    """A row of `rank_times`, in a communicator of two ranks."""
    quantiles = ("min", "p25", "p50", "p75", "max")
    times = {f"exec_time_{name}_us": mean_us + position for position, name in enumerate(quantiles)}
    frame = {
        "incarnation": 1,
        "rank_by_bytes": 1,
        "label": "AllReduce 2r/2n",
        "coll": "AllReduce",
        "coll_type": "nic-only",
        "n_ranks": 2,
        "id": "0xabc",
        "comm_name": comm_name,
        "rank": rank,
        "process": f"gpu-{rank}-pid7",
        "records": 8,
        "exec_time_mean_us": mean_us,
        "above_lowest_us": above_us,
    }
    return {**frame, **times, **changes}


def edge_row(source: str | None, target: str | None, send_us: float | None, recv_us: float | None) -> dict[str, Any]:
    """A row of `p2p_edges`: messages of 1 MB between hosts."""
    both = send_us is not None and recv_us is not None
    waiting = None if not both or send_us == recv_us else "Send" if (send_us or 0) > (recv_us or 0) else "Recv"
    return {
        "source_process": source,
        "target_process": target,
        "source_rank": 0,
        "target_rank": 1,
        "comm_name": "PP Group 0",
        "same_host": False,
        "coll_msg_size_bytes": 1_000_000,
        "send_records": 8,
        "recv_records": 8,
        "payload_bytes": 8_000_000.0,
        "send_time_p50_us": send_us,
        "recv_time_p50_us": recv_us,
        "shorter_time_us": min(send_us or 0, recv_us or 0) if both else None,
        "waiting_side": waiting,
    }


def variation_row(label: str, cv: float, between: float | None, transfer: float | None) -> dict[str, Any]:
    """A row of `variation`."""
    return {
        "incarnation": 1,
        "label": label,
        "samples": 8,
        "exec_time_mean_us": 100.0,
        "exec_time_cv": cv,
        "between_ranks_cv": 0.1,
        "within_ranks_cv": 0.2,
        "transfer_mean_us": 50.0,
        "transfer_cv": 0.1,
        "wait_mean_us": 50.0,
        "share_between_ranks": between,
        "share_of_transfer": transfer,
    }


def finding(**changes: Any) -> dict[str, Any]:
    """A finding as the diagnosis writes it: gpu-1 is slow since the second second."""
    values: dict[str, Any] = {
        "kind": "slow-transfer",
        "severity": "P1",
        "level": "host",
        "hosts": ["gpu-1"],
        "processes": [],
        "communicators": ["0xabc"],
        "ambiguous": False,
        "onset_us": START_US + 2_000_000,
        "until_us": None,
        "effect": {"cost_share": 0.22, "slowdown": 1.6, "lost_rank_seconds": 69.0},
        "evidence": "Transfers take longer.",
        "counter_evidence": "Nothing speaks against it.",
        "next_step": "Check the network card.",
    }
    return {**values, **changes}


def diagnosis(*findings: dict[str, Any], **changes: Any) -> Diagnosis:
    """A diagnosis with these findings, or of a healthy run."""
    coverage = {
        "ranks_seen": 2,
        "ranks_expected": 2,
        "records": 8,
        "complete_cells": 1.0,
        "usable_collectives": 4,
    }
    verdict = "findings" if findings else "none-found"
    values = {"schema": 1, "run": "job-1", "verdict": verdict, "reason": "", "coverage": coverage}
    return Diagnosis.from_json({**values, "findings": list(findings), **changes})


def catalog_row(**changes: Any) -> dict[str, Any]:
    """A row of the run catalog with what the index adds: a run of two hosts that was not reported."""
    row = {
        "run": "job-1",
        "name": None,
        "model": None,
        "tags": None,
        "host_names": ["gpu-1", "gpu-2"],
        "first_dump_us": None,
        "duration_us": None,
        "processes": 2,
        "hosts": 2,
        "records": 8,
        "capture_rate": None,
        "rejected_lines": 0,
        "incarnations": 1,
        "ingested_at": "2026-01-02T03:04:05Z",
        "link": None,
        "line": {"verdict": None, "class": "not-diagnosed"},
    }
    return {**row, **changes}


READINGS = {
    name: Reading(f"Title of {name}", f"What does {name} answer?", f"How to read {name}.")
    for name in (
        "coverage",
        "summary_histogram",
        "hot_kernels",
        "bandwidth_ecdf",
        "temporal_correlation",
        "spatial_correlation",
        "resource_correlation",
        "other_correlation",
        "time_ecdf",
        "waiting_over_time",
        "waiting_by_progress",
        "host_lateness",
        "rank_times",
        "p2p_edges",
        "variation",
    )
}


def content(host: str = "gpu-1", comm_name: str = "DP Group 0", **changes: Any) -> RunContent:
    """A complete report's input: two hosts, one communicator, every result present."""
    names = (host, "gpu-2")
    file = {"path": f"{host}-pid7.log", "status": "read", "compression": "none", "size_bytes": 100, "bytes_read": 100}
    bad_file = {"path": f"{host}.gz", "status": "unreadable", "problem": f"truncated gzip near {host}", "size_bytes": 7}
    reject = {
        "path": f"{host}-pid7.log",
        "byte_offset": 1234,
        "line": 5,
        "bytes": 9,
        "outcome": "rejected",
        "reason": "not JSON",
        "sample": f"{{{host}",
    }
    writer = {
        "inspector_output_format_version": "v4.0",
        "git_rev": "v2.30.7-1",
        "rec_mechanism": "nccl_profiler_interface",
        "records": 8,
        "processes": 2,
        "p2p_records": 0,
        "named_records": 8,
        "algo_records": 0,
    }
    reason = {"outcome": "rejected", "reason": "not JSON", "lines": 1, "bytes": 9, "files": 1}
    timing = {"kind": "collective", "coll_timing_source": "kernel_gpu", "records": 8, "unusable_times": 0}
    entities = [entity(host, 3, 2.0, 4), entity("gpu-2", 1, 2.0, 4, p50=45.0)]
    entities += [{**row, "level": "process", "pid": 7, "process": f"{row['hostname']}-pid7"} for row in entities]
    tables = {
        "files": table(taxonomy.FILE_COLUMNS, [file, bad_file]),
        "rejects": table(taxonomy.REJECT_COLUMNS, [reject]),
        "reject_reasons": pa.Table.from_pylist([reason]),
        "communicators": communicators(2, 2, comm_name),
        "processes": processes(*names),
        "hosts": hosts(*names),
        "writers": pa.Table.from_pylist([writer]),
        "timing": pa.Table.from_pylist([timing]),
        "coverage": coverage(comm_name=comm_name),
        "summary_histogram": summary(("AllReduce", "nic-only", 750), (host, "nvlink-only", 250)),
        "hot_kernels": pa.Table.from_pylist(
            [kernel(1, f"{host} 2r/2n", 0.75, 0.75), kernel(2, "AllGather", 0.25, 1.0, "nvlink-only")]
        ),
        "bandwidth_ecdf": pa.Table.from_pylist(
            ecdf_rows(host, (30.0, 42.0, 50.0))
            + ecdf_rows(host, (45.0, 51.0, 55.0), "transfer_busbw_gbs")
            + ecdf_rows("AllGather", (300.0, 310.0, 320.0), coll_type="nvlink-only")
        ),
        "temporal_correlation": pa.Table.from_pylist(
            [time_bin(0, 40.0), time_bin(1, 41.0), time_bin(5, 30.0), time_bin(0, 9.0, host)]
        ),
        "spatial_correlation": pa.Table.from_pylist(entities),
        "resource_correlation": pa.Table.from_pylist(
            [size_row(2, 2, "AllReduce", 4_000_000, 8), size_row(8, 1, host, 1024, 90)]
        ),
        "other_correlation": pa.Table.from_pylist(
            [other_row("git_rev", "v2.30.7-1"), other_row("rec_mechanism", host)]
        ),
        "time_ecdf": pa.Table.from_pylist(
            ecdf_rows(host, (100.0, 150.0, 900.0), "exec_time_us")
            + ecdf_rows(host, (90.0, 100.0, 110.0), "transfer_time_us")
        ),
        "waiting_over_time": pa.Table.from_pylist(
            [waiting_row(0, 1, 200.0, 100.0) | {"label": host}, waiting_row(3, None, 300.0, 100.0)]
        ),
        "waiting_by_progress": pa.Table.from_pylist(
            [progress_row(0, 200.0, 100.0) | {"label": host}, progress_row(3, 300.0, 150.0) | {"label": host}]
        ),
        "host_lateness": pa.Table.from_pylist(
            [lateness_row(0, host, 300.0, 0.3), lateness_row(0, "gpu-2", 0.0, 0.0), lateness_row(2, host, 10.0, 0.02)]
        ),
        "rank_times": pa.Table.from_pylist(
            [rank_row(0, 200.0, 100.0, comm_name), rank_row(1, 100.0, 0.0, comm_name, process=f"{host}-pid7")]
        ),
        "p2p_edges": pa.Table.from_pylist(
            [edge_row(f"{host}-pid7", "gpu-2-pid7", 100.0, 900.0), edge_row("gpu-2-pid7", None, 100.0, None)]
        ),
        "variation": pa.Table.from_pylist([variation_row(host, 0.5, 0.25, 0.1), variation_row("b", 0.1, 0.5, None)]),
        **changes.pop("tables", {}),
    }
    glossary = (taxonomy.Column("coll", taxonomy.STRING, taxonomy.Role.WORKLOAD, "", "NCCL function"),)
    kept = {name: value for name, value in tables.items() if value is not None}
    sources = tuple(Source(name, f"Title of {name}", f"SELECT * FROM {name}") for name in kept)
    return RunContent(changes.pop("manifest", manifest()), kept, READINGS, sources, glossary, **changes)
