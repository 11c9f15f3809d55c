"""Which runs do the same work, told by the kernels that carry their bytes."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nixt_pipeline.comparison.run_kernels import RUN_KERNELS
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout

Row = Mapping[str, Any]

# A kernel with at least this share of a run's bytes is part of what the run does. Bytes, because times vary from run to
# run; 5 %, because few kernels carry nearly all (97 % in the paper's top two to four) and small ones come and go.
_CHARACTERISTIC_SHARE = 0.05
# Columns of `run_kernels` that hold one value; the lists are read for single runs only.
_SCALARS = tuple(column.name for column in RUN_KERNELS.columns if not column.name.startswith(("block", "group_")))


def all_kernels(runs: Iterable[str], settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """The kernels of many runs without their lists; runs that have none yet are left out."""
    paths = [layout.results_path(settings, RUN_KERNELS.name, run) for run in runs]
    files = [str(path) for path in paths if path.exists()]
    found: dict[str, list[dict[str, Any]]] = {}
    if files:
        columns = ", ".join(_SCALARS)
        sql = f"SELECT {columns} FROM read_parquet($files, hive_partitioning = false, union_by_name = true)"
        with catalog.connect(settings) as con:
            rows = con.sql(sql, params={"files": files}).to_arrow_table().to_pylist()
        for row in rows:
            found.setdefault(row["run"], []).append(row)
    return found


def workload_of(gpus: int, kernels: Sequence[Row]) -> str:
    """A short name for what a run does: equal for runs of as many GPUs whose characteristic kernels are the same."""
    total = sum(row["payload_bytes"] or 0.0 for row in kernels) or 1.0
    names = ("kind", "coll", "n_ranks", "nnodes", "coll_msg_size_bytes")
    keys = sorted(
        json.dumps([row[name] for name in names])
        for row in kernels
        if (row["payload_bytes"] or 0.0) >= _CHARACTERISTIC_SHARE * total
    )
    return hashlib.sha256(json.dumps([gpus, keys]).encode()).hexdigest()[:10]
