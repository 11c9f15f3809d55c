"""Which runs do the same work, judged by the kernels that carry their bytes."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from nixt_pipeline.analysis.run_kernels import RUN_KERNELS
from nixt_pipeline.fleet.tables import Row
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.taxonomy import STRING, Column, Role, schema
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.files import where_possible, write_table
from nixt_pipeline.store.reading import query_readable, read_cache

# Columns of `run_kernels` that hold one value; the lists are read for single runs only.
_SCALARS = tuple(column for column in RUN_KERNELS.columns if not pa.types.is_list(column.type))
_STATE = Column("state", STRING, Role.IDENTIFIER, "", "Which version of the run's kernels the row is from")
_MERGED = schema((*_SCALARS, _STATE))

# Results of earlier versions lack columns.
_READ = f"""
SELECT {", ".join(column.name for column in _SCALARS)}
FROM (
    FROM no_kernels
    UNION ALL BY NAME
    FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
)
"""


def all_kernels(runs: Iterable[str], settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """The kernels of many runs without their lists; runs that have none yet are left out.

    They are kept in one file, `results/all_kernels.parquet`, so that only new and changed runs are opened again:
    opening thousands of files takes longer than all that is done with them.
    """
    merged = settings.data_dir / "results" / "all_kernels.parquet"
    paths = {run: layout.results_path(RUN_KERNELS.name, run, settings) for run in runs}
    states = {run: str(path.stat().st_mtime_ns) for run, path in paths.items() if path.exists()}
    stored = read_cache(merged, _MERGED.names)
    kept = [row for row in (stored.to_pylist() if stored else ()) if states.get(row["run"]) == row["state"]]
    found: dict[str, list[dict[str, Any]]] = grouped(kept, lambda row: row["run"])
    files = [paths[run] for run in states if run not in found]
    if files:
        with catalog.connect(settings) as con:
            con.register("no_kernels", schema(_SCALARS).empty_table())
            read = query_readable(con, _READ, files, "nixt report RUN rebuilds it")
        for row in read.to_pylist() if read else ():
            found.setdefault(row["run"], []).append({**row, "state": states[row["run"]]})
        rows = [row for run in sorted(found) for row in found[run]]
        with where_possible():
            write_table(pa.Table.from_pylist(rows, schema=_MERGED), merged)
    return found


def workload_of(gpus: int, kernels: Sequence[Row], limits: Thresholds) -> str:
    """A short name for what a run does: equal for runs of as many GPUs whose characteristic kernels are the same."""
    total = sum(row["payload_bytes"] or 0.0 for row in kernels) or 1.0
    least = limits.comparison.characteristic_share * total
    names = ("kind", "coll", "n_ranks", "nnodes", "coll_msg_size_bytes")
    keys = sorted(
        json.dumps([row[name] for name in names])
        for row in kernels
        if row["coll"] is not None and (row["payload_bytes"] or 0.0) >= least
    )
    return hashlib.sha256(json.dumps([gpus, keys]).encode()).hexdigest()[:10]
