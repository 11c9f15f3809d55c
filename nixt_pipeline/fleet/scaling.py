"""Kernels against the number of GPUs (the NIXT paper's section on scaling), with what is and is not comparable.

    <data>/results/scaling.parquet          a kernel of a model at a number of GPUs
    <data>/results/scaling_totals.parquet   a model at a number of GPUs

Only a kernel that is the same at several sizes of the job can be said to scale. A data-parallel group grows with the
job: such kernels are put side by side by role, and called another kernel.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.fleet.tables import FleetTable, Row
from nixt_pipeline.fleet.workload import all_kernels
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I32, I64, STRING, Column, Role
from nixt_pipeline.settings import Settings, Thresholds

VERSION = "2"

_RESAMPLES = 999
# Fewer runs give no interval, and fewer points no trend.
_MIN_RUNS = 3
_MIN_POINTS = 3

_MODEL = Column("model", STRING, Role.CONFIGURATION, "", "Model from run.json", nullable=False)
_GPUS = Column("gpus", I32, Role.CONFIGURATION, "GPUs", "Size of the job", nullable=False)
_RUNS = Column("runs", I32, Role.COUNTER, "runs", "Runs of that size", nullable=False)

SCALING = FleetTable(
    "scaling",
    _MODEL,
    Column("series", STRING, Role.DERIVED, "", "Kernel, or role, that the row belongs to", nullable=False),
    Column("same_kernel", BOOL, Role.DERIVED, "", "Whether it is the same kernel at every job size", nullable=False),
    _GPUS,
    _RUNS,
    Column("coll", STRING, Role.WORKLOAD, "", "NCCL function", nullable=False),
    Column("coll_type", STRING, Role.DERIVED, "", "Placement"),
    Column("parallel_role", STRING, Role.DERIVED, "", "Role of the communicator"),
    Column("n_ranks", I32, Role.CONFIGURATION, "ranks", "Ranks in the communicator"),
    Column("nnodes", I32, Role.CONFIGURATION, "nodes", "NCCL's node count"),
    Column("coll_msg_size_bytes", I64, Role.WORKLOAD, "bytes", "Message size"),
    Column("cells", I64, Role.COUNTER, "collectives", "Collectives logged by every rank with GPU times"),
    Column("busbw_gbs", F64, Role.DERIVED, "GB/s", "Bus bandwidth of the median transfer, median over runs"),
    Column("busbw_low_gbs", F64, Role.DERIVED, "GB/s", "Lower end of its 95 % interval over runs; null for few runs"),
    Column("busbw_high_gbs", F64, Role.DERIVED, "GB/s", "Upper end"),
    Column("busbw_cv", F64, Role.DERIVED, "", "Coefficient of variation of the bus bandwidth, waiting included"),
    Column("transfer_cv", F64, Role.DERIVED, "", "Coefficient of variation of the transfer"),
    Column("capture_rate", F64, Role.DERIVED, "", "Recorded share of the expected records, the lowest of the runs"),
    Column("busbw_trend", F64, Role.DERIVED, "", "Spearman's rank correlation of bandwidth with GPUs; one kernel only"),
    Column("busbw_trend_p", F64, Role.DERIVED, "", "Probability of this order by chance (Kendall)"),
    Column("cv_trend", F64, Role.DERIVED, "", "Spearman's rank correlation of busbw_cv with GPUs; one kernel only"),
)

SCALING_TOTALS = FleetTable(
    "scaling_totals",
    _MODEL,
    _GPUS,
    _RUNS,
    Column("busbw_gbs", F64, Role.DERIVED, "GB/s", "Mean of the kernels' bus bandwidth, weighted by bytes"),
    Column("change_gbs", F64, Role.DERIVED, "GB/s", "Its change from the smallest job"),
    Column("change_by_mix_gbs", F64, Role.DERIVED, "GB/s", "Part of it due to different shares of the bytes"),
    Column("change_by_rate_gbs", F64, Role.DERIVED, "GB/s", "Part of it due to different bandwidths"),
    Column("same_kernel_share", F64, Role.DERIVED, "", "Share of the bytes in kernels that are the same at every size"),
    Column("bytes_per_gpu", F64, Role.DERIVED, "bytes", "Observed message bytes per GPU; null when withheld"),
    Column("volume_note", STRING, Role.DERIVED, "", "Why volumes are withheld; otherwise empty", nullable=False),
)


@dataclass(frozen=True)
class Scaling:
    """Both tables."""

    kernels: pa.Table
    totals: pa.Table


def update_scaling(catalog_rows: Sequence[Row], settings: Settings) -> Scaling:
    """Compute both tables over the runs of the run catalog and write them."""
    found = scale(catalog_rows, all_kernels((row["run"] for row in catalog_rows), settings), settings.thresholds)
    SCALING.write(found.kernels, settings)
    SCALING_TOTALS.write(found.totals, settings)
    return found


def scale(catalog_rows: Iterable[Row], kernels: Mapping[str, Sequence[Row]], limits: Thresholds) -> Scaling:
    """Both tables. Runs without a model are left out, because jobs that have nothing in common but that do not scale;
    so are models that ran at one size only, and runs with an urgent finding: the paper sets stragglers apart, too."""
    by_model: dict[str, dict[int, list[Sequence[Row]]]] = defaultdict(lambda: defaultdict(list))
    for row in catalog_rows:
        rows = [kernel for kernel in kernels.get(row["run"], ()) if _counts(kernel, limits)]
        if rows and row["model"] and row["worst_severity"] not in ("P0", "P1"):
            by_model[row["model"]][row["gpus"]].append(rows)
    series, totals = [], []
    for model, sizes in sorted(by_model.items()):
        if len(sizes) > 1:
            ordered = dict(sorted(sizes.items()))
            series += _series(model, ordered)
            totals += _totals(model, ordered, limits)
    return Scaling(SCALING.of(series), SCALING_TOTALS.of(totals))


def _counts(kernel: Row, limits: Thresholds) -> bool:
    # The paper takes bandwidths from messages of at least 1 MB, and so does this.
    return bool(
        kernel["cells"]
        and kernel["transfer_busbw_gbs"]
        and kernel["coll_msg_size_bytes"] >= limits.analysis.large_message_bytes
        and kernel["cells"] >= limits.diagnosis.min_diagnosed_cells
    )


_Key = tuple[object, ...]


_ROLE = ("coll", "coll_type", "parallel_role")
_EXACT = (*_ROLE, "n_ranks", "nnodes", "coll_msg_size_bytes")


def _exact(kernel: Row) -> _Key:
    return tuple(kernel[name] for name in _EXACT)


def _common(sizes: Mapping[int, Sequence[Sequence[Row]]]) -> set[_Key]:
    """Kernels that are the same at more than one size."""
    seen: dict[_Key, set[int]] = defaultdict(set)
    for gpus, runs in sizes.items():
        for kernel in chain.from_iterable(runs):
            seen[_exact(kernel)].add(gpus)
    return {key for key, where in seen.items() if len(where) > 1}


def _series(model: str, sizes: Mapping[int, Sequence[Sequence[Row]]]) -> list[dict[str, object]]:
    common = _common(sizes)
    points: dict[tuple[bool, _Key], list[dict[str, object]]] = defaultdict(list)
    for gpus, runs in sizes.items():
        groups: dict[tuple[bool, _Key], dict[_Key, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for kernel in chain.from_iterable(runs):
            same = _exact(kernel) in common
            groups[same, tuple(kernel[name] for name in (_EXACT if same else _ROLE))][_exact(kernel)].append(kernel)
        for name, variants in groups.items():
            # Of the kernels of a role, the one that carries most bytes.
            rows = max(variants.values(), key=lambda rows: sum(row["payload_bytes"] for row in rows))
            points[name].append(_point(gpus, rows))
    return [
        {"model": model, "series": _series_name(same, rows), "same_kernel": same, **row}
        | (_trends(rows) if same else {})
        for (same, _), rows in points.items()
        if len(rows) > 1
        for row in rows
    ]


def _series_name(same: bool, rows: Sequence[Mapping[str, object]]) -> str:
    row = rows[0]
    parts = [str(row["coll"]), str(row["coll_type"])]
    if same:
        parts.append(f"{row['n_ranks']}r/{row['nnodes']}n {format_bytes(float(str(row['coll_msg_size_bytes'])))}")
    return " ".join(parts) + (f" ({row['parallel_role']})" if row["parallel_role"] else "")


def _point(gpus: int, rows: Sequence[Row]) -> dict[str, object]:
    """One kernel at one size of the job, over its runs."""
    busbw = np.array([row["transfer_busbw_gbs"] for row in rows])
    low, high = None, None
    if len(busbw) >= _MIN_RUNS and busbw.std() > 0:
        found = scipy.stats.bootstrap(
            (busbw,), np.median, n_resamples=_RESAMPLES, method="percentile", rng=np.random.default_rng(0)
        ).confidence_interval
        low, high = float(found.low), float(found.high)
    return {
        "gpus": gpus,
        "runs": len(rows),
        **{name: rows[0][name] for name in _EXACT},
        "cells": sum(row["cells"] for row in rows),
        "busbw_gbs": float(np.median(busbw)),
        "busbw_low_gbs": low,
        "busbw_high_gbs": high,
        "busbw_cv": _middle(rows, "busbw_cv"),
        "transfer_cv": _middle(rows, "transfer_cv"),
        "capture_rate": min(row["capture_rate"] for row in rows),
    }


def _middle(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return float(np.median(values)) if values else None


def _trends(rows: Sequence[Mapping[str, object]]) -> dict[str, float | None]:
    gpus = [row["gpus"] for row in rows]
    found: dict[str, float | None] = {"busbw_trend": None, "busbw_trend_p": None, "cv_trend": None}
    if len(gpus) >= _MIN_POINTS:
        busbw, cvs = [row["busbw_gbs"] for row in rows], [row["busbw_cv"] for row in rows]
        if len(set(busbw)) > 1:
            # Of four points even a perfect order is 1 in 12 by chance; Spearman's own p-value says it is none.
            found["busbw_trend_p"] = float(scipy.stats.kendalltau(gpus, busbw).pvalue)
            found["busbw_trend"] = float(scipy.stats.spearmanr(gpus, busbw).statistic)
        if None not in cvs and len(set(cvs)) > 1:
            found["cv_trend"] = float(scipy.stats.spearmanr(gpus, cvs).statistic)
    return found


@dataclass(frozen=True)
class _Mix:
    """Shares of the bytes and bandwidths by function and placement."""

    shares: Mapping[_Key, float]
    rates: Mapping[_Key, float]

    @property
    def mean(self) -> float:
        return sum(share * self.rates[key] for key, share in self.shares.items())


def _mix(runs: Sequence[Sequence[Row]]) -> _Mix:
    total: dict[_Key, float] = defaultdict(float)
    weighted: dict[_Key, float] = defaultdict(float)
    for kernel in chain.from_iterable(runs):
        key = (kernel["coll"], kernel["coll_type"])
        total[key] += kernel["payload_bytes"]
        weighted[key] += kernel["payload_bytes"] * kernel["transfer_busbw_gbs"]
    everything = sum(total.values())
    return _Mix(
        {key: size / everything for key, size in total.items()}, {key: weighted[key] / total[key] for key in total}
    )


def _decompose(before: _Mix, after: _Mix) -> tuple[float, float]:
    """The change of the mean, by mix and by rate, each at the middle of the other (Marshall and Edgeworth).

    What is on one side only is taken to have run at that side's rate on the other: all of it is mix.
    """
    by_mix = by_rate = 0.0
    for key in before.shares.keys() | after.shares.keys():
        shares = before.shares.get(key, 0.0), after.shares.get(key, 0.0)
        old = before.rates.get(key, after.rates.get(key, 0.0))
        new = after.rates.get(key, old)
        by_mix += (shares[1] - shares[0]) * (old + new) / 2
        by_rate += (new - old) * (shares[0] + shares[1]) / 2
    return by_mix, by_rate


def _totals(model: str, sizes: Mapping[int, Sequence[Sequence[Row]]], limits: Thresholds) -> list[dict[str, object]]:
    common = _common(sizes)
    captured = [kernel["capture_rate"] or 0.0 for runs in sizes.values() for kernel in chain.from_iterable(runs)]
    note = ""
    if min(captured) < limits.comparison.countable_capture_rate:
        note = f"withheld: between {min(captured):.0%} and {max(captured):.0%} of the records were captured"
    mixes = {gpus: _mix(runs) for gpus, runs in sizes.items()}
    first = next(iter(mixes.values()))
    rows = []
    for gpus, runs in sizes.items():
        by_mix, by_rate = _decompose(first, mixes[gpus])
        total = sum(kernel["payload_bytes"] for kernel in chain.from_iterable(runs))
        same = sum(kernel["payload_bytes"] for kernel in chain.from_iterable(runs) if _exact(kernel) in common)
        rows.append(
            {
                "model": model,
                "gpus": gpus,
                "runs": len(runs),
                "busbw_gbs": mixes[gpus].mean,
                "change_gbs": mixes[gpus].mean - first.mean,
                "change_by_mix_gbs": by_mix,
                "change_by_rate_gbs": by_rate,
                "same_kernel_share": same / total,
                "bytes_per_gpu": None if note else total / len(runs) / gpus,
                "volume_note": note,
            }
        )
    return rows
