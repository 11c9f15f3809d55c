"""Read what nccl-tests print: the table of `all_reduce_perf` and its like, and the JSON of `-J`.

nccl-tests give the size of AllGather and ReduceScatter as the total over ranks, Inspector as what one rank contributes;
here it is what one rank contributes. Times of single iterations, and with them a coefficient of variation, are printed
since per-iteration reports exist (`-I`); without them a line is a mean, and has none.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nixt_pipeline.errors import NixtError

# Program -> function, and whether its size is the total over ranks.
_PROGRAMS = {
    "all_reduce": ("AllReduce", False),
    "all_gather": ("AllGather", True),
    "reduce_scatter": ("ReduceScatter", True),
    "broadcast": ("Broadcast", False),
    "reduce": ("Reduce", False),
}
_NAMES = "(all_reduce|all_gather|reduce_scatter|broadcast|reduce)"
_PROGRAM, _FILE = re.compile(rf"\b{_NAMES}_perf"), re.compile(rf"(?<![a-z]){_NAMES}(?![a-z])")
_RANK = re.compile(r"^#\s+Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device")
_LIBRARY = re.compile(r"nccl-library=(?P<code>\d+)")
_ROW = re.compile(r"^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s")
# Columns of a side of the table, by whether iterations are reported.
_PLAIN, _PER_ITERATION = ("time", "algbw", "busbw", "#wrong"), ("i_min", "i_max", "i_p99", "i_cv%")


class BenchmarkError(NixtError, ValueError):
    """A file that is no output of nccl-tests, or does not say which test it is from; the message says which file."""


@dataclass(frozen=True)
class Benchmark:
    """One line of a test: a size, out of place or in place.

    `size_bytes` is what one rank contributes; `time_us` the mean over the iterations, `cv` their coefficient of
    variation (None without times of iterations). `nnodes` is the number of hosts. `nccl_version` such as 2.30.7.
    """

    source: str
    coll: str
    size_bytes: int
    n_ranks: int
    nnodes: int
    in_place: bool
    iterations: int | None
    time_us: float
    busbw_gbs: float
    cv: float | None
    nccl_version: str | None


def read_benchmarks(path: Path) -> list[Benchmark]:
    """The lines of one file, text or JSON. Raises `BenchmarkError`, and `OSError` when it cannot be read."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if text.lstrip().startswith("{"):
        try:
            return list(_from_json(json.loads(text), path))
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise BenchmarkError(f"{path}: not nccl-tests JSON ({error})") from None
    found = list(_from_text(text, path))
    if not found:
        raise BenchmarkError(f"{path}: no row of an nccl-tests table")
    return found


def nccl_version(code: int) -> str:
    """2.30.7 for 23007; before 2.9 the code had two digits less (2804 for 2.8.4)."""
    if code < 10_000:
        return f"{code // 1000}.{code % 1000 // 100}.{code % 100}"
    return f"{code // 10_000}.{code % 10_000 // 100}.{code % 100}"


def _function(text: str, path: Path) -> tuple[str, bool]:
    """The test, by its program's name in `text` or else by the file's name."""
    found = _PROGRAM.search(text) or _FILE.search(path.name)
    if found:
        return _PROGRAMS[found[1]]
    raise BenchmarkError(
        f"{path}: does not say which test wrote it; name the file like all_reduce_perf.txt"
        f" (known: {', '.join(_PROGRAMS)})"
    )


def _size(size_bytes: int, is_total: bool, n_ranks: int) -> int:
    return size_bytes // n_ranks if is_total else size_bytes


def _from_text(text: str, path: Path) -> Iterator[Benchmark]:
    lines = text.splitlines()
    head = [line for line in lines if line.startswith("#")]
    ranks = [found for line in head if (found := _RANK.match(line))]
    if not ranks:
        raise BenchmarkError(f"{path}: no list of ranks, which nccl-tests print under '# Using devices'")
    # Newer versions say which test is starting; of older ones the log may hold the command.
    before = "\n".join(itertools.takewhile(lambda line: not _ROW.match(line), lines))
    coll, is_total = _function(before, path)
    library = next((found["code"] for line in head if (found := _LIBRARY.search(line))), None)
    iterations = next((int(found[1]) for line in head if (found := re.search(r"(?<!warmup )iters: (\d+)", line))), None)
    names = next((line.split() for line in head if "algbw" in line), [])
    side = (*_PLAIN, *_PER_ITERATION) if "i_cv%" in names else _PLAIN
    for line in lines:
        if not _ROW.match(line):
            continue
        size, _count, _type, _redop, _root, *values = line.split()
        for number, start in enumerate((0, len(side))):
            cells = dict(zip(side, values[start : start + len(side)], strict=False))
            if len(cells) < len(side) or cells["time"] == "N/A":
                continue
            yield Benchmark(
                path.name,
                coll,
                _size(int(size), is_total, len(ranks)),
                len(ranks),
                len({found["host"] for found in ranks}),
                in_place=number == 1,
                iterations=iterations,
                time_us=float(cells["time"]),
                busbw_gbs=float(cells["busbw"]),
                cv=float(cells["i_cv%"]) / 100 if "i_cv%" in cells else None,
                nccl_version=nccl_version(int(library)) if library else None,
            )


def _from_json(content: Mapping[str, Any], path: Path) -> Iterator[Benchmark]:
    devices = content["config"]["devices"]
    n_ranks, hosts = len(devices), len({device["hostname"] for device in devices})
    coll, is_total = _function(str(content["args"][0]), path)
    for row in content["results"]:
        for side in ("out_of_place", "in_place"):
            if not row.get(side):
                continue
            per_iteration = row.get(f"{side}_per_iter")
            yield Benchmark(
                path.name,
                coll,
                _size(int(row["size"]), is_total, n_ranks),
                n_ranks,
                hosts,
                in_place=side == "in_place",
                iterations=row.get("actual_iterations"),
                time_us=float(row[side].get("time", row[side].get("cpu_time"))),
                busbw_gbs=float(row[side]["bus_bw"]),
                cv=float(per_iteration["cv_pct"]) / 100 if per_iteration else None,
                nccl_version=nccl_version(int(content["nccl_version"])) if content.get("nccl_version") else None,
            )
