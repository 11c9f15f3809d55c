"""How much times vary in training against nccl-tests: `<data>/results/benchmark_variation.parquet`.

A ratio is given only where function, size, ranks, nodes and NCCL are the same. The published comparison that this
follows set a training message of 13 MB on 32 ranks against a benchmark of 0.85 MB on 16; such pairs are shown, and
their ratio is withheld.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from nixt_pipeline.fleet.nccl_tests.output import Benchmark, BenchmarkError, read_benchmarks
from nixt_pipeline.fleet.tables import FleetTable, Row
from nixt_pipeline.fleet.workload import all_kernels
from nixt_pipeline.inspector.operations import ends_together
from nixt_pipeline.inspector.taxonomy import F64, I32, I64, RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings, Thresholds

VERSION = "1"

# A run of nccl-tests under Inspector says so by this tag in its run.json.
BENCHMARK_TAG = "nccl-tests"

BENCHMARK_VARIATION = FleetTable(
    "benchmark_variation",
    RUN,
    Column("coll", STRING, Role.WORKLOAD, "", "NCCL function", nullable=False),
    Column("coll_type", STRING, Role.DERIVED, "", "Placement"),
    Column("parallel_role", STRING, Role.DERIVED, "", "Role of the communicator"),
    Column("n_ranks", I32, Role.CONFIGURATION, "ranks", "Ranks in the communicator", nullable=False),
    Column("nnodes", I32, Role.CONFIGURATION, "nodes", "NCCL's node count", nullable=False),
    Column("coll_msg_size_bytes", I64, Role.WORKLOAD, "bytes", "What one rank contributes", nullable=False),
    Column("records", I64, Role.COUNTER, "records", "Records of the training run", nullable=False),
    Column("exec_time_cv", F64, Role.DERIVED, "", "Coefficient of variation of all execution times, waiting included"),
    Column("transfer_cv", F64, Role.DERIVED, "", "The same of the transfers alone"),
    Column("waiting_share", F64, Role.DERIVED, "", "Share of the variance that is not in the transfers: waiting"),
    Column("over_time_share", F64, Role.DERIVED, "", "Share that is transfers varying over time"),
    Column("between_share", F64, Role.DERIVED, "", "Share that is communicators that differ"),
    Column("benchmark", STRING, Role.IDENTIFIER, "", "The closest benchmark: a file, or a run tagged nccl-tests"),
    Column("benchmark_samples", I64, Role.COUNTER, "", "Its iterations, or records"),
    Column("benchmark_cv", F64, Role.DERIVED, "", "Coefficient of variation of its times; null when it has only means"),
    Column("benchmark_time_us", F64, Role.DERIVED, "us", "Its mean time"),
    Column("cv_ratio", F64, Role.DERIVED, "", "exec_time_cv / benchmark_cv; null when withheld"),
    Column("transfer_cv_ratio", F64, Role.DERIVED, "", "transfer_cv / benchmark_cv; null when withheld"),
    Column("note", STRING, Role.DERIVED, "", "Why ratios are withheld, or what they rest on", nullable=False),
)


def update_benchmark_variation(catalog_rows: Sequence[Row], settings: Settings) -> tuple[pa.Table, list[str]]:
    """Compare the hot kernels of every run with the benchmarks there are; write and return the table, and say which
    files could not be read."""
    benchmarks, problems = benchmark_files(settings)
    is_any = benchmarks or any(BENCHMARK_TAG in (row["tags"] or ()) for row in catalog_rows)
    kernels = all_kernels((row["run"] for row in catalog_rows), settings) if is_any else {}
    table = compare_variation(catalog_rows, kernels, benchmarks, settings.thresholds)
    return BENCHMARK_VARIATION.write(table, settings), problems


def benchmark_files(settings: Settings) -> tuple[list[Benchmark], list[str]]:
    """All benchmarks in `nccl_tests_dir`, and what was wrong with files that are none."""
    benchmarks: list[Benchmark] = []
    problems = []
    for path in sorted(settings.nccl_tests_dir.rglob("*")):
        if path.is_file():
            try:
                benchmarks += read_benchmarks(path)
            except (BenchmarkError, OSError) as error:
                problems.append(str(error))
    return benchmarks, problems


def compare_variation(
    catalog_rows: Sequence[Row],
    kernels: Mapping[str, Sequence[Row]],
    benchmarks: Sequence[Benchmark],
    limits: Thresholds,
) -> pa.Table:
    """The table; empty without a benchmark."""
    tagged = [row for row in catalog_rows if BENCHMARK_TAG in (row["tags"] or ())]
    known = [*benchmarks, *(b for row in tagged for b in _benchmarks_of(row, kernels.get(row["run"], ())))]
    rows = [
        _compare(kernel, row, closest)
        for row in catalog_rows
        if row not in tagged
        for kernel in kernels.get(row["run"], ())
        if _is_hot(kernel, limits) and (closest := _closest(kernel, known))
    ]
    return BENCHMARK_VARIATION.of(rows)


def _benchmarks_of(row: Row, kernels: Sequence[Row]) -> Iterator[Benchmark]:
    """A run of nccl-tests that Inspector recorded, as if the tests had reported its iterations."""
    for kernel in kernels:
        if kernel["kind"] == "collective" and kernel["exec_time_mean_us"] and kernel["coll_msg_size_bytes"]:
            yield Benchmark(
                row["run"],
                kernel["coll"],
                kernel["coll_msg_size_bytes"],
                kernel["n_ranks"],
                kernel["nnodes"],
                in_place=False,
                iterations=kernel["records"],
                time_us=kernel["exec_time_mean_us"],
                busbw_gbs=kernel["busbw_mean_gbs"] or 0.0,
                cv=kernel["exec_time_cv"],
                nccl_version=row["nccl_version"],
            )


def _is_hot(kernel: Row, limits: Thresholds) -> bool:
    return bool(
        ends_together(kernel["coll"])
        and kernel["coll_msg_size_bytes"] >= limits.analysis.large_message_bytes
        and kernel["cells"]
        and kernel["exec_time_cv"]
    )


def _closest(kernel: Row, benchmarks: Sequence[Benchmark]) -> Benchmark | None:
    """The benchmark of the same function that is nearest in ranks, nodes and size; of equals one with iterations."""
    same = [b for b in benchmarks if b.coll == kernel["coll"] and b.size_bytes > 0]
    return min(same, key=lambda b: (_distance(kernel, b), b.cv is None, b.in_place, b.source), default=None)


def _distance(kernel: Row, benchmark: Benchmark) -> float:
    pairs = (
        (kernel["n_ranks"], benchmark.n_ranks),
        (kernel["nnodes"], benchmark.nnodes),
        (kernel["coll_msg_size_bytes"], benchmark.size_bytes),
    )
    return sum(abs(math.log(a / b)) for a, b in pairs)


def _mismatches(kernel: Row, row: Row, benchmark: Benchmark) -> list[str]:
    """The axes on which training and benchmark differ."""
    found = []
    for name, ours, theirs in (
        ("size", kernel["coll_msg_size_bytes"], benchmark.size_bytes),
        ("ranks", kernel["n_ranks"], benchmark.n_ranks),
        ("nodes", kernel["nnodes"], benchmark.nnodes),
    ):
        if ours != theirs:
            found.append(f"{name} {max(ours, theirs) / min(ours, theirs):.3g} times")
    versions = row["nccl_version"], benchmark.nccl_version
    if None not in versions and versions[0] != versions[1]:
        found.append(f"NCCL {versions[1]} -> {versions[0]}")
    return found


def _compare(kernel: Row, row: Row, benchmark: Benchmark) -> dict[str, Any]:
    mismatches = _mismatches(kernel, row, benchmark)
    unknown = row["nccl_version"] is None or benchmark.nccl_version is None
    if mismatches:
        note = f"NOT COMPARABLE: {', '.join(mismatches)}"
    elif not benchmark.cv:
        note = "the benchmark has no per-iteration times: run it with per-iteration reports, or under Inspector"
    else:
        note = "NCCL versions unknown: they may be the same" if unknown else "same on every axis"
    cv = benchmark.cv if not mismatches else None
    total = (kernel["exec_time_cv"] * kernel["exec_time_mean_us"]) ** 2
    over_time = kernel["transfer_variance_over_time"] or 0.0
    between = kernel["transfer_variance_between_communicators"] or 0.0
    names = ("run", "coll", "coll_type", "parallel_role", "n_ranks", "nnodes", "coll_msg_size_bytes", "records")
    return {
        **{name: kernel[name] for name in (*names, "exec_time_cv", "transfer_cv")},
        "waiting_share": max(0.0, 1 - (over_time + between) / total) if total else None,
        "over_time_share": min(1.0, over_time / total) if total else None,
        "between_share": min(1.0, between / total) if total else None,
        "benchmark": benchmark.source,
        "benchmark_samples": benchmark.iterations,
        "benchmark_cv": benchmark.cv,
        "benchmark_time_us": benchmark.time_us,
        "cv_ratio": kernel["exec_time_cv"] / cv if cv else None,
        "transfer_cv_ratio": kernel["transfer_cv"] / cv if cv and kernel["transfer_cv"] is not None else None,
        "note": note,
    }
