"""Results of many runs, as if their logs had been ingested and analysed: what the fleet is made of.

The cluster has hosts of eight GPUs, one in fifty of which is bad: a run on it has a finding that names it. Runs differ
by half a per cent. Events are left out, because nothing in the fleet reads them. `python -m benchmarks.fleet`
measures with it what one more run costs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nixt_pipeline.analysis import ANALYSES, analysis_named
from nixt_pipeline.analysis.run_kernels import BLOCKS, RUN_KERNELS
from nixt_pipeline.diagnosis.results import FINDING_COLUMNS
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.operations import busbw_gbs, coll_type
from nixt_pipeline.inspector.taxonomy import Column, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_table, write_text
from nixt_pipeline.store.manifest import Manifest, write_manifest

EPOCH_US = 1_756_587_600_000_000
HOUR_US = 3_600_000_000
GPUS_PER_HOST = 8
BETWEEN_RUNS = 0.005
WITHIN_RUN = 0.01


@dataclass(frozen=True)
class Cluster:
    """Its hosts, and those among them that are bad."""

    hosts: tuple[str, ...]
    bad: frozenset[str]

    @classmethod
    def of(cls, hosts: int) -> "Cluster":
        """A cluster of so many hosts, every fiftieth of which is bad."""
        names = tuple(f"gpu-{number:04}" for number in range(hosts))
        return cls(names, frozenset(names[::50]))


@dataclass(frozen=True)
class Job:
    """One run: its name, when it began (hours after the first), how large it is and where it ran."""

    run: str
    hour: float
    hosts: tuple[str, ...]
    factor: float = 1.0  # on every transfer

    @property
    def gpus(self) -> int:
        """Eight on each host."""
        return len(self.hosts) * GPUS_PER_HOST


def jobs(count: int, cluster: Cluster, seed: int) -> list[Job]:
    """Jobs of 2 to 16 hosts, drawn anew for each."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        hosts = random.choice(len(cluster.hosts), int(random.choice([2, 4, 8, 16])), replace=False)
        found.append(Job(f"job-{number:05}", float(number), tuple(sorted(cluster.hosts[host] for host in hosts))))
    return found


def write_run(job: Job, cluster: Cluster, settings: Settings, seed: int = 0) -> None:
    """Write the manifest, the dimension tables and the results of one run."""
    random = np.random.default_rng([seed, *job.run.encode()])
    begin_us = EPOCH_US + int(job.hour * HOUR_US)
    manifest = Manifest(
        run=job.run,
        source_dir=f"/landing/{job.run}",
        generation="gen-0-1",
        fingerprint="0",
        ingested_at="2026-01-01T00:00:00+00:00",
        incarnations=1,
        files={"read": job.gpus},
        records={"stored": 1_000_000, "collective": 1_000_000, "p2p": 0, "duplicate": 0},
        rejected_lines=0,
        foreign_lines=0,
        dropped_by_plugin=0,
        bytes={"read": 450_000_000, "stored": 450_000_000},
        seconds=1.0,
        run_info={"model": "7B", "gpus": job.gpus, "tags": ["nightly"]},
    )
    generation = manifest.directory(settings)
    for name, rows in _dimensions(job, begin_us).items():
        write_table(_table(rows, taxonomy.TABLES[name], job.run), generation / f"{name}.parquet")
    bad = sorted(cluster.bad.intersection(job.hosts))
    for analysis in ANALYSES:
        write_table(
            _table(_RESULT_ROWS.get(analysis.name, []), analysis_named(analysis.name).columns, job.run),
            layout.results_path(analysis.name, job.run, settings),
        )
    write_table(
        _table(list(_kernels(job, random)), RUN_KERNELS.columns, job.run),
        layout.results_path(RUN_KERNELS.name, job.run, settings),
    )
    _write_findings(job, bad, settings)
    write_manifest(manifest, settings)


def _dimensions(job: Job, begin_us: int) -> dict[str, list[dict[str, Any]]]:
    span = {"records": 1000, "first_dump_us": begin_us, "last_dump_us": begin_us + HOUR_US}
    processes = [
        {"hostname": host, "pid": 1000 + gpu, "process": f"{host}-pid{1000 + gpu}", **span}
        for host in job.hosts
        for gpu in range(GPUS_PER_HOST)
    ]
    communicators = [
        {
            "id": f"0x{number:x}",
            "n_ranks": n_ranks,
            "nnodes": nnodes,
            "parallel_role": role,
            "ranks_seen": n_ranks,
            **span,
        }
        for role, n_ranks, nnodes, count in _shapes(job)
        for number in range(count)
    ]
    kernel_times = [{"kind": "collective", "git_rev": "abc", "coll_timing_source": "kernel_gpu", "records": 1}]
    return {
        "processes": processes,
        "hosts": [{"hostname": host, "processes": GPUS_PER_HOST, **span} for host in job.hosts],
        "communicators": communicators,
        "kernel_times": kernel_times,
    }


def _shapes(job: Job) -> Iterator[tuple[str, int, int, int]]:
    """Role, ranks, nodes and number of communicators: tensor groups inside hosts, data groups across them."""
    yield "tensor", GPUS_PER_HOST, 1, len(job.hosts)
    yield "data", len(job.hosts), len(job.hosts), GPUS_PER_HOST


def _kernels(job: Job, random: np.random.Generator) -> Iterator[dict[str, Any]]:
    level = job.factor * (1 + BETWEEN_RUNS * random.standard_normal())
    for role, n_ranks, nnodes, communicators in _shapes(job):
        groups = list(job.hosts) if nnodes == 1 else [" ".join(job.hosts)]
        for coll in ("AllGather", "ReduceScatter"):
            for size, transfer_us in ((2**21, 24.0), (2**23, 90.0)) if nnodes == 1 else ((24_379_392, 814.0),):
                blocks = level * transfer_us * (1 + WITHIN_RUN * random.standard_normal(BLOCKS))
                cells = 100_000
                yield {
                    "kind": "collective", "coll": coll, "coll_type": coll_type(n_ranks, nnodes), "n_ranks": n_ranks,
                    "nnodes": nnodes, "parallel_role": role, "coll_msg_size_bytes": size, "records": cells * n_ranks,
                    "operations": cells, "communicators": communicators, "payload_bytes": float(cells * n_ranks * size),
                    "rank_time_us": float(cells * n_ranks * transfer_us * 1.2), "cells": cells, "capture_rate": 1.0,
                    "usable_share": 1.0, "transfer_p50_us": float(np.median(blocks)),
                    "transfer_us": float(blocks.mean() * cells), "transfer_capped_us": float(blocks.mean()),
                    "wait_us": 0.2 * transfer_us,
                    "transfer_busbw_gbs": busbw_gbs(coll, size, n_ranks, float(np.median(blocks))),
                    "busbw_cv": 0.1, "exec_time_cv": 0.1, "transfer_cv": WITHIN_RUN, "transfer_robust_cv": WITHIN_RUN,
                    "transfer_variance_over_time": 1.0, "transfer_variance_between_communicators": 0.0,
                    "timing_sources": "kernel_gpu", "git_revs": "abc", "block": list(range(BLOCKS)),
                    "block_cells": [cells // BLOCKS] * BLOCKS, "block_transfer_us": blocks.tolist(),
                    "block_wait_us": (0.2 * transfer_us * (1 + WITHIN_RUN * random.standard_normal(BLOCKS))).tolist(),
                    "comm_names": [None] * len(groups), "comm_hosts": groups, "comm_cells": [cells] * len(groups),
                    "comm_transfer_us": [level * transfer_us] * len(groups),
                    "comm_wait_us": [0.2 * transfer_us] * len(groups),
                }  # fmt: skip


_RESULT_ROWS: Mapping[str, list[dict[str, Any]]] = {
    "summary_histogram": [
        {"kind": "collective", "coll": "AllGather", "records": 1_000_000, "payload_bytes": 1e12, "exec_time_us": 1e9}
    ],
    "coverage": [
        {"incarnation": 1, "id": "0x0", "n_ranks": 8, "sn_expected": 1000, "capture_rate": 1.0, "cells": 1000,
         "complete_cells": 1000, "complete_share": 1.0}
    ],
}  # fmt: skip


def _write_findings(job: Job, bad: Sequence[str], settings: Settings) -> None:
    effect = {"cost_share": 0.12, "slowdown": 1.3, "lost_rank_seconds": 100.0}
    findings = [
        {
            "kind": "late-arrival", "severity": "P1", "level": "host", "hosts": [host], "processes": [],
            "communicators": [], "ambiguous": False, "onset_us": None, "until_us": None,
            "effect": effect,
            "evidence": "late", "counter_evidence": "none", "next_step": "look",
        }
        for host in bad
    ]  # fmt: skip
    rows = [{"number": number, **finding, **effect} for number, finding in enumerate(findings, start=1)]
    path = layout.results_path("findings", job.run, settings)
    write_table(_table(rows, FINDING_COLUMNS, job.run), path)
    diagnosis = {
        "schema": 1, "run": job.run, "verdict": "findings" if bad else "none-found", "reason": "",
        "coverage": {"ranks_seen": job.gpus, "ranks_expected": job.gpus, "records": 1_000_000, "complete_cells": 1.0,
                     "usable_collectives": 1000},
        "findings": findings,
    }  # fmt: skip
    write_text(json.dumps(diagnosis), path.with_suffix(".json"))


def _table(rows: Sequence[Mapping[str, Any]], columns: tuple[Column, ...], run: str) -> pa.Table:
    """A table of the given columns; what a row does not say is null, or empty where null is not allowed."""
    blank = {column.name: None if column.nullable else _BLANK[str(column.type)] for column in columns}
    names = [column.name for column in columns]
    complete = [{name: ({**blank, **row, "run": run, "incarnation": 1})[name] for name in names} for row in rows]
    return pa.Table.from_pylist(complete, schema=schema(columns))


_BLANK = {"string": "", "int32": 0, "int64": 0, "uint64": 0, "double": 0.0, "bool": False}
