"""Summaries of simulated runs: what each kernel takes is known, and so is by how much runs differ anyway."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nixt_pipeline.analysis.run_kernels import BLOCKS
from nixt_pipeline.fleet.compare.matching import Side
from nixt_pipeline.fleet.compare.summaries import RunSummary, kernels_of
from nixt_pipeline.inspector.operations import coll_type

HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")


@dataclass(frozen=True)
class Kernel:
    """What a simulated kernel is, and what it takes on every group of hosts."""

    coll: str = "AllReduce"
    size: int = 16_000_000
    n_ranks: int = 4
    nnodes: int = 4
    role: str | None = "data"
    transfer_us: float = 1000.0
    wait_us: float = 100.0
    # Per group of hosts, each a communicator: the factor on the transfer. One group of all hosts when empty.
    groups: tuple[tuple[str, float], ...] = ()
    operations: int = 1000
    capture_rate: float = 1.0
    usable_share: float = 1.0
    timing: str = "kernel_gpu"


def summary(
    run: str,
    kernels: Sequence[Kernel] = (Kernel(),),
    *,
    seed: int = 0,
    between_runs: float = 0.005,
    within_run: float = 0.005,
    onset: int | None = None,
    onset_factor: float = 1.0,
    findings: Sequence[dict[str, Any]] = (),
    **facts: Any,
) -> RunSummary:
    """A run whose kernels take what they take, times a factor of the run (deviation `between_runs`), times one of each
    stretch (`within_run`); from the block `onset` on also times `onset_factor`."""
    random = np.random.default_rng(seed)
    rows = [_row(run, kernel, random, between_runs, within_run, onset, onset_factor) for kernel in kernels]
    return RunSummary(
        run,
        {
            "gpus": 4,
            "parallelism": "dp=4",
            "model": None,
            "host_names": list(HOSTS),
            "git_revs": "abc",
            "first_dump_us": 0,
            "last_dump_us": 10_000_000,
            **facts,
        },
        kernels_of(rows),
        tuple(findings),
    )


def finding(kind: str = "late-arrival", *hosts: str, lost_s: float = 0.0, **values: Any) -> dict[str, Any]:
    """A row of `findings`."""
    return {
        "kind": kind,
        "severity": "P1",
        "hosts": list(hosts),
        "communicators": [],
        "ambiguous": False,
        "onset_us": None,
        "until_us": None,
        "cost_share": None,
        "lost_rank_seconds": lost_s,
    } | values


def side(*runs: RunSummary) -> Side:
    """The runs as one side of a comparison."""
    return Side(runs[0].run, runs)


def slower(kernel: Kernel, factor: float) -> Kernel:
    """The same kernel with a longer transfer."""
    return replace(kernel, transfer_us=kernel.transfer_us * factor)


def _row(
    run: str,
    kernel: Kernel,
    random: np.random.Generator,
    between_runs: float,
    within_run: float,
    onset: int | None,
    onset_factor: float,
) -> dict[str, Any]:
    level = 1 + between_runs * random.standard_normal()
    blocks = level * (1 + within_run * random.standard_normal(BLOCKS))
    if onset is not None:
        blocks[onset:] *= onset_factor
    groups = kernel.groups or ((" ".join(HOSTS), 1.0),)
    mean_factor = float(np.mean([factor for _, factor in groups]))
    transfer = kernel.transfer_us * mean_factor * blocks
    wait = kernel.wait_us * (1 + within_run * random.standard_normal(BLOCKS))
    cells = int(kernel.operations * kernel.usable_share)
    return {
        "run": run,
        "kind": "collective",
        "coll": kernel.coll,
        "coll_type": coll_type(kernel.n_ranks, kernel.nnodes),
        "n_ranks": kernel.n_ranks,
        "nnodes": kernel.nnodes,
        "parallel_role": kernel.role,
        "coll_msg_size_bytes": kernel.size,
        "records": kernel.operations * kernel.n_ranks,
        "operations": kernel.operations,
        "communicators": len(groups),
        "payload_bytes": float(kernel.operations * kernel.n_ranks * kernel.size),
        "rank_time_us": float(kernel.operations * kernel.n_ranks * (kernel.transfer_us + kernel.wait_us)),
        "cells": cells,
        "capture_rate": kernel.capture_rate,
        "usable_share": kernel.usable_share,
        "transfer_p50_us": float(np.median(transfer)),
        "transfer_us": float(transfer.mean() * cells),
        "transfer_capped_us": float(transfer.mean()),
        "exec_time_mean_us": kernel.transfer_us + kernel.wait_us,
        "wait_us": float(wait.mean()),
        "timing_sources": kernel.timing,
        "block": list(range(BLOCKS)),
        "block_transfer_us": transfer.tolist(),
        "block_wait_us": wait.tolist(),
        "comm_names": [None for _ in groups],
        "comm_hosts": [hosts for hosts, _ in groups],
        "comm_cells": [cells for _ in groups],
        "comm_transfer_us": [kernel.transfer_us * factor * level for _, factor in groups],
        "comm_wait_us": [kernel.wait_us for _ in groups],
    }
