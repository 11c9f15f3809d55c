"""A run as comparisons see it: its row of the run catalog and its kernels, from results of some kilobytes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nixt_pipeline.analysis.base import compute
from nixt_pipeline.analysis.cells import build_cells, provide_cells
from nixt_pipeline.analysis.run_kernels import BLOCKS, RUN_KERNELS
from nixt_pipeline.arrays import Floats
from nixt_pipeline.errors import DamagedError
from nixt_pipeline.fleet.catalog import describe_run
from nixt_pipeline.fleet.workload import workload_of
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.quantities import plural
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.dropped import require_events
from nixt_pipeline.store.files import where_possible
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_cache, read_table, warn_once
from nixt_pipeline.store.seals import write_result

_KERNEL_COLUMNS = [column.name for column in RUN_KERNELS.columns]
# The first twentieth of a run is left out: communicators connect when they are first used (the paper's warm-up).
WARM_UP_BLOCKS = 1


@dataclass(frozen=True, order=True)
class KernelKey:
    """What a kernel is, by structure: the same in every run that does the same work."""

    kind: str
    coll: str
    coll_type: str
    n_ranks: int
    nnodes: int
    role: str
    size_bytes: int

    @property
    def label(self) -> str:
        """For people: `AllGather 13.5 MB, 32 ranks on 32 nodes (data)`."""
        role = f" ({self.role})" if self.role else ""
        ranks = f"{self.n_ranks} ranks on {plural(self.nnodes, 'node')}"
        return f"{self.coll} {format_bytes(self.size_bytes)}, {ranks}{role}"

    def to_json(self) -> dict[str, Any]:
        """The key's parts by the names that the store uses."""
        return {
            "coll": self.coll,
            "coll_type": self.coll_type,
            "n_ranks": self.n_ranks,
            "nnodes": self.nnodes,
            "parallel_role": self.role or None,
            "coll_msg_size_bytes": self.size_bytes,
        }


@dataclass(frozen=True)
class CommunicatorTimes:
    """What one communicator took for a kernel: mean transfer, and mean wait of a rank, of one of its `cells`
    operations. `hosts` are separated by spaces, `name` is empty where the log has none."""

    name: str
    hosts: str
    cells: int
    transfer_us: float
    wait_us: float


@dataclass(frozen=True)
class Kernel:
    """One kernel of one run: its row of `run_kernels`."""

    key: KernelKey
    row: Mapping[str, Any]

    @cached_property
    def transfer_us(self) -> Floats:
        """Mean transfer in each block after the warm-up; not a number where a block has no cells."""
        return self._by_block("block_transfer_us")

    @cached_property
    def wait_us(self) -> Floats:
        """Mean wait of a rank for each operation in each block after the warm-up."""
        return self._by_block("block_wait_us")

    @cached_property
    def communicators(self) -> tuple[CommunicatorTimes, ...]:
        """Its communicators, as far as the summary has them: those with the longest transfers of a common kernel."""
        lists = (self.row[f"comm_{name}"] or [] for name in ("names", "hosts", "cells", "transfer_us", "wait_us"))
        return tuple(CommunicatorTimes(name or "", *times) for name, *times in zip(*lists, strict=True))

    @cached_property
    def groups(self) -> dict[str, tuple[float, float]]:
        """Mean transfer and wait on each group of hosts that share a communicator."""
        return {
            hosts: (
                sum(c.transfer_us * c.cells for c in members) / sum(c.cells for c in members),
                sum(c.wait_us * c.cells for c in members) / sum(c.cells for c in members),
            )
            for hosts, members in grouped(self.communicators, lambda communicator: communicator.hosts).items()
        }

    def _by_block(self, column: str) -> Floats:
        values = np.full(BLOCKS, np.nan)
        if self.row["block"]:
            values[self.row["block"]] = self.row[column]
        return values[WARM_UP_BLOCKS:]


@dataclass(frozen=True)
class RunSummary:
    """One run: `facts` is its row of the run catalog, `findings` has the rows of its findings. `others` are rows of
    `run_kernels` that are no kernels: broken records, and the sum of the kernels that are not described."""

    run: str
    facts: Mapping[str, Any]
    kernels: Mapping[KernelKey, Kernel]
    findings: tuple[Mapping[str, Any], ...] = ()
    others: tuple[Mapping[str, Any], ...] = ()

    def workload(self, limits: Thresholds) -> str:
        """A short name for what it does."""
        kernels = [*(kernel.row for kernel in self.kernels.values()), *self.others]
        return workload_of(self.facts["gpus"], kernels, limits)

    @property
    def rank_time_us(self) -> float:
        """How long the job took, in microseconds of each of its ranks, as far as its log tells; 0 if it does not."""
        begin_us, end_us = self.facts["first_dump_us"] or 0, self.facts["last_dump_us"] or 0
        return float((end_us - begin_us) * self.facts["gpus"])

    @property
    def hosts(self) -> frozenset[str]:
        """The names of its hosts."""
        return frozenset(self.facts["host_names"])


def kernels_of(rows: Iterable[Mapping[str, Any]]) -> dict[KernelKey, Kernel]:
    """The kernels in rows of `run_kernels`, those that cost most time first. Rows of broken records are left out."""
    return {(key := key_of(row)): Kernel(key, row) for row in rows if _is_kernel(row)}


def _is_kernel(row: Mapping[str, Any]) -> bool:
    return None not in (row["coll"], row["n_ranks"], row["nnodes"], row["coll_msg_size_bytes"])


def key_of(row: Mapping[str, Any]) -> KernelKey:
    """The key of a row with the columns of `run_kernels`."""
    return KernelKey(
        row["kind"], row["coll"], row["coll_type"], row["n_ranks"], row["nnodes"], row["parallel_role"] or "",
        row["coll_msg_size_bytes"],
    )  # fmt: skip


def load_summary(run: str, settings: Settings) -> RunSummary:
    """The summary of a stored run; its cells and `run_kernels` are computed when they are not there yet. Raises
    `UnknownRunError`."""
    manifest = read_manifest(run, settings)
    kernels = read_cache(layout.results_path(RUN_KERNELS.name, run, settings), _KERNEL_COLUMNS)
    if kernels is None:
        with where_possible():
            if not layout.table_files(manifest.directory(settings), "cells"):
                build_cells(run, settings)
        kernels = _compute_kernels(run, settings)
        with where_possible():
            write_result(kernels, RUN_KERNELS.name, run, settings)
    return _summary(run, describe_run(manifest, settings), kernels, settings)


def _compute_kernels(run: str, settings: Settings) -> pa.Table:
    require_events(run, settings)
    with catalog.open_run(run, settings) as con:
        provide_cells(con, run, settings)
        return compute(RUN_KERNELS, con, settings)


def stored_summary(run: str, facts: Mapping[str, Any], settings: Settings) -> RunSummary:
    """The summary of an analysed run from its stored results alone; without findings where it was not diagnosed. Raises
    `DamagedError`, also for results that an earlier version wrote."""
    path = layout.results_path(RUN_KERNELS.name, run, settings)
    kernels = read_table(path)
    if missing := sorted(set(_KERNEL_COLUMNS) - set(kernels.column_names)):
        raise DamagedError(f"{path} was written by an earlier version: it lacks {missing[0]}")
    return _summary(run, facts, kernels, settings)


def _summary(run: str, facts: Mapping[str, Any], kernels: pa.Table, settings: Settings) -> RunSummary:
    findings = read_cache(layout.results_path("findings", run, settings), ())
    rows = kernels.to_pylist()
    others = tuple(row for row in rows if not _is_kernel(row))
    return RunSummary(run, facts, kernels_of(rows), tuple(findings.to_pylist() if findings else ()), others)


def sound_summaries(runs: Iterable[str], read: Callable[[str], RunSummary]) -> tuple[RunSummary, ...]:
    """What `read` makes of each run, without those whose files are damaged; says which."""
    found = []
    for run in runs:
        try:
            found.append(read(run))
        except DamagedError as error:
            warn_once(f"run {run} is left out of the comparison: {error}; nixt report {run} rebuilds its results")
    return tuple(found)
