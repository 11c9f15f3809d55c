"""A run as comparisons see it: its row of the run catalog and its kernels, from results of some kilobytes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nixt_pipeline.analysis.base import compute
from nixt_pipeline.analysis.cells import build_cells, provide_cells
from nixt_pipeline.analysis.run_kernels import BLOCKS, RUN_KERNELS
from nixt_pipeline.errors import DamagedError
from nixt_pipeline.fleet.catalog import describe_run
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.dropped import require_events
from nixt_pipeline.store.files import where_possible
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_cache, read_table, warn_once
from nixt_pipeline.store.results import write_result

Floats = NDArray[np.float64]

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
        nodes = f"{self.nnodes} node" + ("" if self.nnodes == 1 else "s")
        return f"{self.coll} {format_bytes(self.size_bytes)}, {self.n_ranks} ranks on {nodes}{role}"

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
class Kernel:
    """One kernel of one run: its row of `run_kernels`."""

    key: KernelKey
    row: Mapping[str, Any]

    @cached_property
    def transfer_us(self) -> Floats:
        """Median transfer in each block after the warm-up; not a number where a block has no cells."""
        return self._by_block("block_transfer_us")

    @cached_property
    def wait_us(self) -> Floats:
        """Mean wait of a rank for each operation in each block after the warm-up."""
        return self._by_block("block_wait_us")

    @property
    def groups(self) -> dict[str, tuple[float, float]]:
        """Median transfer and mean wait of each group of hosts that share a communicator."""
        names = self.row["group_hosts"] or []
        pairs = zip(self.row["group_transfer_us"] or [], self.row["group_wait_us"] or [], strict=True)
        return dict(zip(names, pairs, strict=True))

    def _by_block(self, column: str) -> Floats:
        values = np.full(BLOCKS, np.nan)
        if self.row["block"]:
            values[self.row["block"]] = self.row[column]
        return values[WARM_UP_BLOCKS:]


@dataclass(frozen=True)
class RunSummary:
    """One run: `facts` is its row of the run catalog, `findings` has the rows of its findings."""

    run: str
    facts: Mapping[str, Any]
    kernels: Mapping[KernelKey, Kernel]
    findings: tuple[Mapping[str, Any], ...] = ()

    @property
    def hosts(self) -> frozenset[str]:
        """The names of its hosts."""
        return frozenset(self.facts["host_names"])


def kernels_of(rows: Iterable[Mapping[str, Any]]) -> dict[KernelKey, Kernel]:
    """The kernels in rows of `run_kernels`, those that cost most time first. Rows of broken records are left out."""
    kernels = {}
    for row in rows:
        if None not in (row["coll"], row["n_ranks"], row["nnodes"], row["coll_msg_size_bytes"]):
            key = key_of(row)
            kernels[key] = Kernel(key, row)
    return kernels


def key_of(row: Mapping[str, Any]) -> KernelKey:
    """The key of a row with the columns of `run_kernels`."""
    return KernelKey(
        row["kind"], row["coll"], row["coll_type"], row["n_ranks"], row["nnodes"], row["parallel_role"] or "",
        row["coll_msg_size_bytes"],
    )  # fmt: skip


def load_summary(run: str, settings: Settings) -> RunSummary:
    """The summary of a stored run; its cells and `run_kernels` are computed when they are not there yet. Raises
    `UnknownRunError`."""
    manifest = read_manifest(settings, run)
    kernels = read_cache(layout.results_path(settings, RUN_KERNELS.name, run), _KERNEL_COLUMNS)
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
    with catalog.open_run(settings, run) as con:
        provide_cells(con, run, settings)
        return compute(RUN_KERNELS, con, settings)


def stored_summary(run: str, facts: Mapping[str, Any], settings: Settings) -> RunSummary:
    """The summary of an analysed run from its stored results alone; without findings where it was not diagnosed. Raises
    `DamagedError`."""
    return _summary(run, facts, read_table(layout.results_path(settings, RUN_KERNELS.name, run)), settings)


def _summary(run: str, facts: Mapping[str, Any], kernels: pa.Table, settings: Settings) -> RunSummary:
    findings = read_cache(layout.results_path(settings, "findings", run), ())
    return RunSummary(run, facts, kernels_of(kernels.to_pylist()), tuple(findings.to_pylist() if findings else ()))


def sound_summaries(runs: Iterable[str], read: Callable[[str], RunSummary]) -> tuple[RunSummary, ...]:
    """What `read` makes of each run, without those whose files are damaged; says which."""
    found = []
    for run in runs:
        try:
            found.append(read(run))
        except DamagedError as error:
            warn_once(f"run {run} is left out of the comparison: {error}; nixt report {run} makes its results again")
    return tuple(found)
