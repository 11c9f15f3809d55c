"""From JSON to Parquet: this project against NVIDIA's exporter and DuckDB, side by side in one run.

    python -m benchmarks.ingest --records 2000000

Writes a synthetic job (plain, gzip, verbose), then runs each candidate as a process of its own, several times in turn,
and prints the median of MB of JSON per CPU second (user and system time of the process and its workers), which noisy
machines distort least, wall rates, peak memory of the largest process and the size of the result. Compare the ratios,
not the numbers.
"""

import argparse
import ctypes
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MB = 1e6
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Run:
    """One execution of a candidate."""

    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True)
class Candidate:
    """What is measured: a function of this module, by name, over one of the inputs."""

    title: str
    function: str
    data: str  # plain, gzip or verbose; "sample" is a tenth of plain, for what is slow
    workers: int


CANDIDATES = (
    Candidate("NVIDIA's exporter, Parquet stage (json.loads, dicts, pandas)", "exporter", "sample", 1),
    Candidate("DuckDB read_json, declared columns", "duckdb_json", "plain", 1),
    Candidate("nixt ingest, careful path only", "nixt_careful", "sample", 1),
    Candidate("nixt ingest, 1 worker", "nixt", "plain", 1),
    Candidate("nixt ingest, 2 workers", "nixt", "plain", 2),
    Candidate("nixt ingest, gzip, 1 worker", "nixt", "gzip", 1),
    Candidate("nixt ingest, gzip, 2 workers", "nixt", "gzip", 2),
    Candidate("nixt ingest, verbose, 1 worker", "nixt", "verbose", 1),
)


def exporter(source: Path, target: Path, _workers: int) -> None:
    """NVIDIA's perf_summary_exporter, its Parquet stage restated: every line through json.loads into a dict, a file
    at a time."""
    import pandas as pd

    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        rows = []
        with path.open() as file:
            for line in file:
                record = json.loads(line)
                if "coll_perf" in record:
                    rows.append({**record["header"], **record["metadata"], **record["coll_perf"]})
        pd.DataFrame(rows).to_parquet(target / f"{path.stem}.parquet")


def duckdb_json(source: Path, target: Path, workers: int) -> None:
    """DuckDB's own reader with every column declared, the best a few lines of SQL can do."""
    import duckdb

    header = "STRUCT(id VARCHAR, comm_name VARCHAR, rank INTEGER, n_ranks INTEGER, nnodes INTEGER)"
    metadata = (
        "STRUCT(inspector_output_format_version VARCHAR, git_rev VARCHAR, rec_mechanism VARCHAR,"
        " dump_timestamp_us BIGINT, hostname VARCHAR, pid BIGINT)"
    )
    bodies = {
        kind: f"STRUCT({name} VARCHAR, {kind}_sn UBIGINT, {kind}_msg_size_bytes UBIGINT, {kind}_exec_time_us UBIGINT,"
        f" {kind}_timing_source VARCHAR, {kind}_algobw_gbs DOUBLE, {kind}_busbw_gbs DOUBLE)"
        for kind, name in (("coll", "coll"), ("p2p", "p2p"))
    }
    columns = {"header": header, "metadata": metadata, "coll_perf": bodies["coll"], "p2p_perf": bodies["p2p"]}
    target.mkdir(parents=True)
    con = duckdb.connect(config={"threads": workers})
    con.read_json(str(source / "*"), columns=columns, format="newline_delimited").write_parquet(
        str(target / "events.parquet"), compression="zstd"
    )


def nixt(source: Path, target: Path, workers: int) -> None:
    """This project, from the directory to the published run."""
    from nixt_pipeline.settings import load_settings
    from nixt_pipeline.store.ingest import ingest

    ingest(source, "run", load_settings(data_dir=target, workers=workers))


def nixt_careful(source: Path, target: Path, workers: int) -> None:
    """This project without its fast path: every line through the JSON parser."""
    from nixt_pipeline.store import parts

    parts._TEMPLATE_FROM_BYTES = 1 << 62
    nixt(source, target, workers)


FUNCTIONS: dict[str, Callable[[Path, Path, int], None]] = {
    function.__name__: function for function in (exporter, duckdb_json, nixt, nixt_careful)
}


def execute(candidate: Candidate, source: Path, target: Path) -> Run:
    """Run a candidate in a process of its own and measure it with its workers."""
    command = [sys.executable, "-m", "benchmarks.ingest", "--only", candidate.function, str(source), str(target)]
    shutil.rmtree(target, ignore_errors=True)
    started = os.times().elapsed
    process = subprocess.Popen([*command, "--workers", str(candidate.workers)])
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = os.times().elapsed - started
    if status:
        raise RuntimeError(f"{candidate.title}: exit status {status}")
    usages = [usage, *_left_behind()]
    return Run(sum(u.ru_utime + u.ru_stime for u in usages), wall_s, max(u.ru_maxrss for u in usages) / 1000)


def _left_behind() -> Iterator[resource.struct_rusage]:
    """What descendants used that their parent did not wait for, such as the server that forks workers."""
    while True:
        try:
            yield os.wait4(-1, 0)[2]
        except ChildProcessError:
            return


def megabytes(directory: Path) -> float:
    """Size of everything below `directory` in MB."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / MB


def events_megabytes(target: Path) -> float:
    """Size of the Parquet files that hold the events, without channel detail."""
    return sum(path.stat().st_size for path in target.rglob("*.parquet") if path.parent.name != "channels") / MB


def write_inputs(scratch: Path, records: int, files: int) -> dict[str, tuple[Path, float]]:
    """The inputs by name, with their size in MB of JSON."""
    inputs: dict[str, tuple[Path, float]] = {}
    for name, count, options in (
        ("plain", records, ()),
        ("sample", records // 10, ()),
        ("gzip", records, ("--gzip",)),
        ("verbose", records // 5, ("--verbose",)),
    ):
        # In a process of its own: its memory would count as the peak of every process started later.
        writing = [sys.executable, "-m", "benchmarks.big_job", str(scratch / name), "--records", str(count)]
        subprocess.run([*writing, "--files", str(files), *options], check=True, stdout=subprocess.DEVNULL)
        inputs[name] = (scratch / name, megabytes(scratch / name))
    inputs["gzip"] = (inputs["gzip"][0], inputs["plain"][1])
    return inputs


def describe_machine() -> str:
    """CPU, cores and versions, without which numbers say nothing."""
    import duckdb
    import numba
    import pyarrow

    models = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    modules = {"DuckDB": duckdb, "Arrow": pyarrow, "numba": numba}
    versions = f"Python {platform.python_version()}, " + ", ".join(f"{n} {m.__version__}" for n, m in modules.items())
    return f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores; {versions}; page cache warm"


def compare(records: int, files: int, repeats: int) -> None:
    """Write the inputs, run everything `repeats` times in turn, print the table."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        inputs = write_inputs(scratch, records, files)
        execute(CANDIDATES[3], inputs["sample"][0], scratch / "warm-up")  # compiles the scanner, fills the page cache
        runs: dict[Candidate, list[Run]] = {candidate: [] for candidate in CANDIDATES}
        sizes: dict[Candidate, float] = {}
        for _ in range(repeats):
            for candidate in CANDIDATES:
                target = scratch / "out"
                runs[candidate].append(execute(candidate, inputs[candidate.data][0], target))
                sizes[candidate] = events_megabytes(target)
        print(describe_machine())
        print(
            f"{records:,} records in {files} files, {inputs['plain'][1]:,.0f} MB of JSON; {repeats} rounds, medians\n"
        )
        print("| candidate | MB per CPU-s | times the exporter | MB/s | peak MB | times smaller than JSON |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        reference = 0.0
        for candidate in CANDIDATES:
            size = inputs[candidate.data][1]
            rate = size / statistics.median(run.cpu_s for run in runs[candidate])
            wall = size / statistics.median(run.wall_s for run in runs[candidate])
            peak = max(run.peak_mb for run in runs[candidate])
            reference = reference or rate
            cells = (
                f"{rate:,.0f}",
                f"{rate / reference:.1f}",
                f"{wall:,.0f}",
                f"{peak:,.0f}",
                f"{size / sizes[candidate]:.0f}",
            )
            print(f"| {candidate.title} | " + " | ".join(cells) + " |")


def main() -> None:
    """Parse the arguments: compare everything, or be one candidate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=FUNCTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        source, target = arguments.paths
        FUNCTIONS[arguments.only](source, target, arguments.workers)
    else:
        # Orphaned descendants become children of this process, so that what they used can be counted (Linux).
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        compare(arguments.records, arguments.files, arguments.repeats)


if __name__ == "__main__":
    main()
