"""Lines in the plugin's exact format, for tests."""

import json
import re
from pathlib import Path
from typing import Any

EPOCH_US = 1_756_587_600_000_000


def collective(
    *,
    sn: int = 0,
    coll: str = "AllReduce",
    size: int = 1_000_000,
    time_us: Any = 100,
    rank: int = 0,
    n_ranks: int = 4,
    nnodes: int = 1,
    comm: str = "0xabc",
    name: str | None = "TP Group 0",
    host: str = "node-01",
    pid: int = 100,
    at_us: int = EPOCH_US,
    busbw: Any = 15.0,
    algobw: Any = 10.0,
) -> str:
    """One collective as NCCL 2.30 writes it (2.28 with `name=None`), without the line end."""
    header = {"id": comm, "comm_name": name, "rank": rank, "n_ranks": n_ranks, "nnodes": nnodes}
    if name is None:
        del header["comm_name"]
    body = {
        "coll": coll,
        "coll_sn": sn,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": time_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": algobw,
        "coll_busbw_gbs": busbw,
    }
    return compact({"header": header, "metadata": metadata(host, pid, at_us), "coll_perf": body})


def send(
    *,
    sn: int = 1,
    kind: str = "Send",
    rank: int = 0,
    peer: int = 1,
    n_ranks: int = 2,
    size: int = 1_000_000,
    time_us: int = 50,
    host: str = "node-01",
    pid: int = 100,
    at_us: int = EPOCH_US,
) -> str:
    """One P2P Send, or Recv."""
    header = {"id": "0xdef", "comm_name": "PP Group 0", "rank": rank, "n_ranks": n_ranks, "nnodes": 2}
    body = {
        "p2p": kind,
        "p2p_sn": sn,
        "p2p_peer": peer,
        "p2p_msg_size_bytes": size,
        "p2p_exec_time_us": time_us,
        "p2p_timing_source": "kernel_gpu",
        "p2p_algobw_gbs": 20.0,
        "p2p_busbw_gbs": 20.0,
    }
    return compact({"header": header, "metadata": metadata(host, pid, at_us), "p2p_perf": body})


def marker(coll_records: int, dropped: int = 0, host: str = "node-01", pid: int = 100) -> str:
    """A dump_stats line as v4.3 writes it before the lines that it counts."""
    header = {"id": "0xabc", "comm_name": "TP Group 0", "rank": 0, "n_ranks": 4, "nnodes": 1}
    stats = {"coll_records": coll_records, "coll_dropped_total": dropped, "p2p_records": 0, "p2p_dropped_total": 0}
    return compact({"header": header, "metadata": metadata(host, pid, EPOCH_US), "dump_stats": stats})


def metadata(host: str, pid: int, at_us: int) -> dict[str, Any]:
    """The metadata of a record."""
    return {
        "inspector_output_format_version": "v4.0",
        "git_rev": "v2.30.7-1",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": at_us,
        "hostname": host,
        "pid": pid,
    }


def compact(record: dict[str, Any]) -> str:
    """JSON as the plugin writes it: without spaces, bandwidths with six decimals."""
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return re.sub(r'(?<=_gbs":)-?[\d.]+(?=[,}])', lambda match: f"{float(match.group()):.6f}", text)


def write_log(path: Path, *lines: str) -> Path:
    """Write `lines`, each with a line end, and return `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path
