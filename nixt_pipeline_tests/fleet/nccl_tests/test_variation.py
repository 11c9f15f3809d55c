"""nccl-tests' own output, and what of it training may be compared with."""

import json
from pathlib import Path
from typing import Any

import pytest

from nixt_pipeline.fleet.nccl_tests.output import Benchmark, BenchmarkError, nccl_version, read_benchmarks
from nixt_pipeline.fleet.nccl_tests.variation import compare_variation, update_benchmark_variation
from nixt_pipeline.settings import Settings, Thresholds

LIMITS = Thresholds()

RANKS = "\n".join(
    f"#  Rank {rank:2} Group  0 Pid {3000 + rank:6} on node-{rank // 2} device {rank % 2} [0000:04:00] NVIDIA H100"
    for rank in range(4)
)
TEXT = f"""\
# nccl-tests version 2.18.2 nccl-headers=23007 nccl-library=23007
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 8388608 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
{RANKS}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     8388608        524288     float    none      -1    100.5   83.47   62.60       0     99.0   84.73   63.55       0
    16777216       1048576     float    none      -1    190.0   88.30   66.23       0    N/A     N/A     N/A    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 64.13
"""


def test_the_table_of_a_test_is_read_with_sizes_of_one_rank(tmp_path: Path) -> None:
    (tmp_path / "output.txt").write_text(TEXT)
    first, in_place, second = read_benchmarks(tmp_path / "output.txt")
    # AllGather's size is the total: of 8 MiB each of the 4 ranks contributes 2 MiB.
    assert (first.coll, first.size_bytes, first.n_ranks, first.nnodes) == ("AllGather", 2 * 2**20, 4, 2)
    assert (first.time_us, first.busbw_gbs, first.in_place, first.iterations) == (100.5, 62.60, False, 20)
    assert (first.cv, first.nccl_version) == (None, "2.30.7")
    assert (in_place.time_us, in_place.in_place) == (99.0, True)
    assert second.size_bytes == 4 * 2**20  # N/A in place is no time


def test_per_iteration_reports_give_a_variation(tmp_path: Path) -> None:
    heading = (
        "#  size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv%"
        " time algbw busbw #wrong i_min i_max i_p99 i_cv%"
    )
    row = " 1048576 262144 float sum -1 50.0 20.9 31.4 0 48.0 60.0 59.0 6.70 51.0 20.5 30.8 0 48.0 61.0 60.0 7.10"
    text = TEXT.replace("all_gather_perf", "all_reduce_perf").splitlines()
    lines = [*text[:9], heading, row]
    (tmp_path / "output.txt").write_text("\n".join(line for line in lines if "redop" not in line or line == heading))
    first, second = read_benchmarks(tmp_path / "output.txt")
    assert (first.coll, first.size_bytes) == ("AllReduce", 1_048_576)
    assert [first.cv, second.cv] == pytest.approx([0.067, 0.071])


def content(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "args": ["/opt/nccl-tests/build/reduce_scatter_perf", "-J", "out.json"],
        "nccl_version": 23007,
        "config": {"devices": [{"rank": rank, "hostname": f"node-{rank}"} for rank in range(4)]},
        "results": [
            {
                "size": 4_000_000,
                "out_of_place": {"time": 100.0, "alg_bw": 40.0, "bus_bw": 30.0},
                "out_of_place_per_iter": {"cv_pct": 5.0, "times_us": [95.0, 105.0]},
                "in_place": None,
                "actual_iterations": 20,
            }
        ],
    } | changes


def test_json_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(content()))
    (found,) = read_benchmarks(tmp_path / "out.json")
    assert found == Benchmark("out.json", "ReduceScatter", 1_000_000, 4, 4, False, 20, 100.0, 30.0, 0.05, "2.30.7")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "hello", "no list of ranks"),
        ("a.json", "{", "not nccl-tests JSON"),
        ("a.json", '{"args": ["all_reduce_perf"]}', "not nccl-tests JSON"),
        (
            "a.txt",
            TEXT.replace("# Collective test starting: all_gather_perf\n", ""),
            "does not say which test wrote it",
        ),
        ("a.txt", TEXT.split("#       size")[0], "no row of an nccl-tests table"),
    ],
)
def test_what_is_no_output_of_a_test_says_so(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BenchmarkError, match=message):
        read_benchmarks(tmp_path / name)


def test_an_old_output_is_told_by_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce_perf-2nodes.txt"
    path.write_text(TEXT.replace("# Collective test starting: all_gather_perf\n", "").replace("8388608   ", "8388608 "))
    assert {found.coll for found in read_benchmarks(path)} == {"AllReduce"}


def test_the_command_in_the_log_says_which_test_it_is(tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").write_text(
        "> mpirun -np 2 \\\n>    /opt/nccl-tests/build/all_reduce_perf -b 8 -e 8G -f 2 -g 1\n# nThread 1 nGpus 1 "
        "minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n#  Rank  0 Pid   6899 "
        "on host-a device  0 [0x07] Tesla V100\n#  Rank  1 Pid   6733 on host-b device  0 [0x07] Tesla V100\n#       "
        "size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n     "
        "1048576        262144     float     sum      -1    203.2    5.16    9.68      0    207.2    5.06    9.49     "
        " 0\n"
    )
    first, second = read_benchmarks(tmp_path / "slurm-7.out")
    assert (first.coll, first.size_bytes, first.n_ranks, first.nnodes) == ("AllReduce", 1_048_576, 2, 2)
    assert (first.time_us, second.time_us, first.nccl_version) == (203.2, 207.2, None)


def test_versions_are_told_by_their_code() -> None:
    assert [nccl_version(code) for code in (23007, 22809, 2804)] == ["2.30.7", "2.28.9", "2.8.4"]


def kernel(**values: Any) -> dict[str, Any]:
    """AllGather of 18 MiB on 8 ranks of a node: mean 400 us, deviation 0.336 of it, of which 40 us are transfers."""
    return {
        "run": "training", "kind": "collective", "coll": "AllGather", "coll_type": "nvlink-only",
        "parallel_role": "tensor", "n_ranks": 8, "nnodes": 1, "coll_msg_size_bytes": 18_874_368, "records": 551_982,
        "cells": 60_000, "exec_time_mean_us": 400.0, "exec_time_cv": 0.336, "transfer_cv": 0.1,
        "transfer_variance_over_time": 1200.0, "transfer_variance_between_communicators": 400.0,
        "busbw_mean_gbs": 300.0,
    } | values  # fmt: skip


def benchmark(**values: Any) -> Benchmark:
    given: dict[str, Any] = {
        "source": "b.txt", "coll": "AllGather", "size_bytes": 18_874_368, "n_ranks": 8, "nnodes": 1, "in_place": False,
        "iterations": 4000, "time_us": 350.0, "busbw_gbs": 330.0, "cv": 0.067, "nccl_version": "2.30.7",
    }  # fmt: skip
    return Benchmark(**(given | values))


def row(run: str = "training", **values: Any) -> dict[str, Any]:
    return {"run": run, "tags": [], "nccl_version": "2.30.7"} | values


def compared(*benchmarks: Benchmark, **values: Any) -> dict[str, Any]:
    (found,) = compare_variation([row(**values)], {"training": [kernel()]}, benchmarks, LIMITS).to_pylist()
    return dict(found)


def test_the_same_on_every_axis_gives_a_ratio_and_where_the_variation_lies() -> None:
    found = compared(benchmark())
    assert found["cv_ratio"] == pytest.approx(0.336 / 0.067)
    assert found["transfer_cv_ratio"] == pytest.approx(0.1 / 0.067)
    total = (0.336 * 400) ** 2
    assert found["over_time_share"] == pytest.approx(1200 / total)
    assert found["between_share"] == pytest.approx(400 / total)
    assert found["waiting_share"] == pytest.approx(1 - 1600 / total)
    assert found["note"] == "same on every axis"


def test_the_published_pair_is_not_comparable() -> None:
    # The benchmark was started with the training's size of one rank as its total: 2.36 MB instead of 18.9.
    found = compared(benchmark(size_bytes=18_874_368 // 8))
    assert (found["cv_ratio"], found["benchmark_cv"]) == (None, 0.067)
    assert found["note"] == "NOT COMPARABLE: size 8 times"
    both = compared(benchmark(size_bytes=18_874_368 // 16, n_ranks=4), nccl_version="2.28.9")
    assert both["note"] == "NOT COMPARABLE: size 16 times, ranks 2 times, NCCL 2.30.7 -> 2.28.9"


def test_the_closest_benchmark_is_taken_and_means_alone_have_no_variation() -> None:
    assert compared(benchmark(source="far", n_ranks=16), benchmark(source="near"))["benchmark"] == "near"
    assert compared(benchmark(source="mean", cv=None), benchmark(source="times"))["benchmark"] == "times"
    only_means = compared(benchmark(cv=None))
    assert (only_means["cv_ratio"], "no per-iteration times" in only_means["note"]) == (None, True)
    assert "versions unknown" in compared(benchmark(nccl_version=None))["note"]


def test_a_run_of_nccl_tests_under_inspector_is_a_benchmark_and_no_training() -> None:
    rows = [row(), row("bench", tags=["nccl-tests"])]
    kernels = {"training": [kernel()], "bench": [kernel(run="bench", exec_time_cv=0.05)]}
    (found,) = compare_variation(rows, kernels, [], LIMITS).to_pylist()
    assert (found["run"], found["benchmark"]) == ("training", "bench")
    assert found["cv_ratio"] == pytest.approx(0.336 / 0.05)


def test_small_messages_and_other_functions_are_left_out() -> None:
    kernels = {"training": [kernel(coll_msg_size_bytes=1000), kernel(coll="Broadcast")]}
    assert compare_variation([row()], kernels, [benchmark()], LIMITS).num_rows == 0
    assert compare_variation([row()], {"training": [kernel()]}, [benchmark(coll="AllReduce")], LIMITS).num_rows == 0


def test_files_that_cannot_be_read_are_named(settings: Settings) -> None:
    directory = Path("data/nccl-tests")
    directory.mkdir(parents=True)
    (directory / "notes.txt").write_text("hello")
    (directory / "ok.txt").write_text(TEXT)
    table, problems = update_benchmark_variation([], settings)
    assert table.num_rows == 0
    assert [problem.split(":")[0] for problem in problems] == ["data/nccl-tests/notes.txt"]
