"""Read a run in every way while it is ingested again, and its events are dropped, by other processes.

    python -m benchmarks.readers --rounds 20

Two writers add a log each to the same dump directory and ingest it, round after round, each in a space of process ids
of its own where the system allows it (like pods on one machine), so that neither can ask whether the other one lives.
A third one analyses the run and drops its events. Meanwhile readers run one after the other: `nixt sql`, `nixt
diagnose`, `nixt runs`, the catalog, and a connection that stays open. No reader may fail, none may see fewer records
than one before it, and in the end every record must be there. Prints how often what was done.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

import nixt_pipeline as nixt
from nixt_pipeline.settings import Settings, load_settings

RUN = "run"
RECORDS = 40  # of each log
_OTHER_PROCESS_IDS = ["unshare", "--pid", "--fork", "--mount-proc"]


def record(writer: int, number: int, sequence_number: int) -> str:
    """A record of one of a writer's processes, as the plugin writes it."""
    at_us = 1_756_587_600_000_000 + sequence_number * 10_000
    return (
        f'{{"header":{{"id":"0xa{writer}","comm_name":"DP","rank":{number},"n_ranks":1000,"nnodes":1000}},'
        '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"v2.30.7-1","rec_mechanism":"profiler",'
        f'"dump_timestamp_us":{at_us},"hostname":"node-{writer}-{number}","pid":{100 + number}}},'
        f'"coll_perf":{{"coll":"AllReduce","coll_sn":{sequence_number},"coll_msg_size_bytes":4194304,'
        f'"coll_exec_time_us":{100 + sequence_number % 7},"coll_timing_source":"kernel_gpu",'
        '"coll_algobw_gbs":41.000000,"coll_busbw_gbs":41.000000}}\n'
    )


def write_log(directory: Path, writer: int, number: int) -> None:
    """One log more; it appears whole."""
    path = directory / f"node-{writer}-{number}-pid{100 + number}.log"
    hidden = directory / f".{path.name}.tmp"
    hidden.write_text("".join(record(writer, number, n) for n in range(RECORDS)))
    hidden.rename(path)


@dataclass
class Trial:
    """What happened so far. A failure ends the trial."""

    directory: Path
    settings: Settings
    isolated: bool
    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def nixt(self, what: str, *arguments: str, isolated: bool = False) -> str:
        """Run a command; returns its standard output. Anything but exit code 0 or 1 (findings) is a failure."""
        names = ("landing_dir", "data_dir", "reports_dir", "unlink_grace_s", "retention_days")
        environment = os.environ | {f"NIXT_{name.upper()}": str(getattr(self.settings, name)) for name in names}
        environment |= {"NIXT_WORKERS": "1", "NIXT_RETENTION_KEEP": "[]"}
        command = [sys.executable, "-m", "nixt_pipeline.cli", *arguments]
        command = [*_OTHER_PROCESS_IDS, *command] if isolated and self.isolated else command
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.done[what] += 1
        if ended.returncode not in (0, 1) or "Traceback" in ended.stderr:
            self.fail(f"{' '.join(arguments)}: exit code {ended.returncode}: {ended.stderr[-1000:]}")
        return ended.stdout

    def fail(self, words: str) -> None:
        """Note a failure and let everybody stop."""
        self.failures.append(words)
        self.over.set()


def write(trial: Trial, writer: int, rounds: int) -> None:
    """Add a log and ingest, `rounds` times; what was ingested must be there afterwards."""
    for number in range(1, rounds + 1):
        if trial.over.is_set():
            return
        write_log(trial.directory, writer, number)
        trial.nixt("ingests", "ingest", str(trial.directory), "--run", RUN, isolated=True)
        query = f"SELECT count(*) AS n FROM processes WHERE hostname LIKE 'node-{writer}-%'"
        seen = trial.nixt("sql", "sql", "--run", RUN, query, "--format", "json")
        if not trial.over.is_set() and json.loads(seen)[0]["n"] < number:
            trial.fail(f"writer {writer}: log {number} was ingested and is not there: {seen}")


def drop(trial: Trial) -> None:
    """Analyse the run and drop its events, over and over."""
    while not trial.over.is_set():
        trial.nixt("reports", "report", RUN)
        trial.nixt("retentions", "retention", "--apply")


def readers(trial: Trial) -> Iterator[Callable[[], int | None]]:
    """Ways to read, over and over; each returns how many processes of the run it saw, if it can tell."""

    def sql() -> int:
        seen = trial.nixt("sql", "sql", "--run", RUN, "SELECT count(*) AS n FROM processes", "--format", "json")
        return int(json.loads(seen)[0]["n"])

    def catalog() -> int:
        trial.done["catalog"] += 1
        with duckdb.connect(str(trial.settings.catalog_path), read_only=True) as con:
            con.execute("SELECT count(*), sum(coll_exec_time_us) FROM events").fetchall()
            return int(con.execute("SELECT count(*) FROM processes").fetchall()[0][0])

    def python() -> int:
        trial.done["python"] += 1
        with closing(nixt.open_run(RUN, trial.settings).connection) as con:
            (first,) = con.execute("SELECT count(*) FROM events").fetchall()
            trial.over.wait(0.5)
            (again,) = con.execute("SELECT count(*) FROM events").fetchall()
            if first != again:
                trial.fail(f"an open connection saw {first} records, then {again}")
            return int(con.execute("SELECT count(*) FROM processes").fetchall()[0][0])

    def diagnose() -> None:
        trial.nixt("diagnoses", "diagnose", RUN)

    def runs() -> None:
        trial.nixt("runs", "runs", "--format", "json")

    while True:
        yield from (sql, catalog, python, diagnose, python, catalog, runs)


def read(trial: Trial) -> None:
    """Read in every way until the writers are done."""
    most = 0
    for reader in readers(trial):
        if trial.over.is_set():
            return
        try:
            seen = reader()
        except Exception as error:
            trial.fail(f"a reader failed: {type(error).__name__}: {error}")
            return
        if seen is not None and seen < most:
            trial.fail(f"a reader saw {seen} processes after {most} had been seen")
        most = max(most, seen or 0)


def can_isolate() -> bool:
    """Whether processes may get a space of process ids of their own."""
    try:
        return subprocess.run([*_OTHER_PROCESS_IDS, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def check(folder: Path, rounds: int, grace_s: float) -> Trial:
    """Let everybody work for `rounds` of the writers; returns what happened."""
    settings = load_settings(
        landing_dir=folder / "landing",
        data_dir=folder / "data",
        reports_dir=folder / "reports",
        unlink_grace_s=grace_s,
        retention_days=1,
        workers=1,
    )
    trial = Trial(folder / "in", settings, can_isolate())
    trial.directory.mkdir()
    write_log(trial.directory, 0, 0)
    trial.nixt("ingests", "ingest", str(trial.directory), "--run", RUN)
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(read, trial), pool.submit(drop, trial)]
        writers = [pool.submit(write, trial, writer, rounds) for writer in (1, 2)]
        for writing in writers:
            writing.result()
        trial.over.set()
        for other in others:
            other.result()
    if not trial.failures:
        trial.nixt("ingests", "ingest", str(trial.directory), "--run", RUN)
        seen = trial.nixt("sql", "sql", "--run", RUN, "SELECT count(*) AS n FROM processes", "--format", "json")
        if json.loads(seen)[0]["n"] != 2 * rounds + 1:
            trial.fail(f"{2 * rounds + 1} logs were written, the store has {seen}")
    return trial


def main() -> None:
    """Parse the arguments, let everybody work, print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="logs that each of the two writers adds")
    parser.add_argument("--grace", type=float, default=60, help="NIXT_UNLINK_GRACE_S")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trial = check(Path(folder), arguments.rounds, arguments.grace)
    isolation = "in spaces of process ids of their own" if trial.isolated else "in one space of process ids"
    print(f"writers {isolation}: {dict(trial.done)}")
    for failure in trial.failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if trial.failures else 0)


if __name__ == "__main__":
    main()
