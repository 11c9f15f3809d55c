"""Jobs with an odd number of one thing: what ingest, diagnosis and report take of each.

    python -m benchmarks.cardinality                          # every kind, 2,000 of each
    python -m benchmarks.cardinality --kind launches --number 20000

Prints the seconds of CPU, the largest resident memory and, for the report, the size of the page. Fails when a step
takes more memory than NIXT_MEMORY_LIMIT or more CPU than --minutes, which is then ended.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ByteSize, TypeAdapter

from nixt_pipeline.settings import load_settings

EPOCH_US = 1_756_587_600_000_000
STEPS = ("ingest", "diagnose", "report")


def record(  # noqa: PLR0913 (what may be odd, by keyword)
    number: int,
    rank: int,
    *,
    comm: str = "0xabc",
    coll: str = "AllReduce",
    size: int = 4_194_304,
    host: str = "",
    at_us: int | None = None,
    pid: int | None = None,
) -> str:
    """A collective of two ranks, as the plugin writes it."""
    host, pid = host or f"node-{rank}", 100 + rank if pid is None else pid
    at_us = EPOCH_US + number * 10_000 if at_us is None else at_us
    return (
        f'{{"header":{{"id":"{comm}","comm_name":"DP {comm}","rank":{rank},"n_ranks":2,"nnodes":2}},'
        '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"v2.30.7-1","rec_mechanism":"profiler",'
        f'"dump_timestamp_us":{at_us},"hostname":"{host}","pid":{pid}}},'
        f'"coll_perf":{{"coll":"{coll}","coll_sn":{number},"coll_msg_size_bytes":{size},'
        f'"coll_exec_time_us":{100 + number % 7 + rank},"coll_timing_source":"kernel_gpu",'
        '"coll_algobw_gbs":41.000000,"coll_busbw_gbs":41.000000}}\n'
    )


def _communicators(number: int) -> Iterator[str]:
    for comm in range(number):
        yield from (record(sn, rank, comm=f"0x{comm:x}") for sn in range(2) for rank in range(2))


def _functions(number: int) -> Iterator[str]:
    for function in range(number):
        yield from (record(sn, rank, coll=f"Function{function}") for sn in range(2) for rank in range(2))


def _communicators_and_functions(number: int) -> Iterator[str]:
    for n in range(number):
        yield from (record(sn, rank, comm=f"0x{n:x}", coll=f"Function{n}") for sn in range(2) for rank in range(2))


def _launches(number: int) -> Iterator[str]:
    for launch in range(number):
        at_us = EPOCH_US + launch * 700_000_000
        for sn in range(2):
            yield from (
                record(sn, rank, comm=f"0x{launch:x}", at_us=at_us + sn, pid=100 + 2 * launch + rank)
                for rank in range(2)
            )


def _sizes(number: int) -> Iterator[str]:
    yield from (record(n, rank, size=4 * (n + 1)) for n in range(number) for rank in range(2))


def _hosts(number: int) -> Iterator[str]:
    for n in range(number // 2):
        for sn in range(2):
            yield from (record(sn, rank, comm=f"0x{n:x}", host=f"node-{2 * n + rank}") for rank in range(2))


KINDS: dict[str, Callable[[int], Iterator[str]]] = {
    "communicators": _communicators,
    "functions": _functions,
    "communicators and functions": _communicators_and_functions,
    "launches": _launches,
    "sizes": _sizes,
    "hosts": _hosts,
}


def measured(command: list[str], environment: dict[str, str], cpu_s: int) -> tuple[int, float, float]:
    """Exit code, seconds of CPU and peak resident MiB of a command, which is ended after `cpu_s` seconds of CPU."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))

    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, preexec_fn=limited)
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Measure the kinds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="this kind only; may be given again")
    parser.add_argument("--number", type=int, default=2_000, help="how many communicators, functions, ...")
    parser.add_argument("--minutes", type=float, default=5, help="CPU minutes that a step may take")
    arguments = parser.parse_args()
    limit_mib = TypeAdapter(ByteSize).validate_python(load_settings().memory_limit) / 2**20
    failed = False
    for kind in arguments.kind or KINDS:
        with tempfile.TemporaryDirectory(prefix="cardinality-") as folder:
            job = Path(folder) / "job"
            job.mkdir()
            with (job / "node-0-pid100.log").open("w", encoding="utf-8") as file:
                file.writelines(KINDS[kind](arguments.number))
            # With one worker everything is done, and measured, in one process.
            environment = os.environ | {"NIXT_WORKERS": "1"}
            environment |= {"NIXT_DATA_DIR": f"{folder}/data", "NIXT_REPORTS_DIR": f"{folder}/reports"}
            for step in STEPS:
                target = str(job) if step == "ingest" else "job"
                command = [sys.executable, "-m", "nixt_pipeline.cli", step, target]
                code, seconds, mib = measured(command, environment, int(60 * arguments.minutes))
                page = Path(folder) / "reports/job/index.html"
                size = f", page {page.stat().st_size / 1e6:.1f} MB" if page.exists() else ""
                failed |= code != 0 or mib > limit_mib
                result = f"exit code {code}, {seconds:.1f} s of CPU, {mib:.0f} MiB"
                print(f"{arguments.number:,} {kind}: {step}: {result}{size}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
