"""Kill an ingest at random instants and check that nothing is lost, half visible, or left behind.

    python -m benchmarks.kill_ingest DUMP_DIR --kills 200

Each round adds a file to the run, starts `nixt ingest`, kills the whole process group with SIGKILL, and checks what a
reader sees: the state before or the state after, never anything else. Every other kill comes at a random time, the rest
some milliseconds after a step of the ingest shows on disk, since most of the steps are too short for random times to
meet. At the end an undisturbed ingest of the same files must give the same tables.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import catalog, ingest
from nixt_pipeline.store.dropped import SUPERSEDED
from nixt_pipeline.store.manifest import UnknownRunError

RUN = "run"
# What identifies a row wherever it is stored: file numbers depend on the order in which files came.
QUERIES = {
    "events": "SELECT count(*), sum(hash(t)) FROM (SELECT * EXCLUDE (file_id) FROM events) AS t",
    "communicators": "SELECT count(*), sum(hash(t)) FROM communicators AS t",
    "processes": "SELECT count(*), sum(hash(t)) FROM processes AS t",
    "hosts": "SELECT count(*), sum(hash(t)) FROM hosts AS t",
    "membership": "SELECT count(*), sum(hash(t)) FROM membership AS t",
    "rejects": "SELECT count(*), sum(hash(path, byte_offset)) FROM rejects",
}

# What an ingest leaves on disk, step by step.
STEPS = (
    *("store/*/gen-*/decoded/*.json", "store/*/gen-*/events/*.parquet", "store/*/gen-*/membership.parquet"),
    *("store/*/gen-*/validated.json", "store/*/gen-*/hosts.parquet", "store/*/manifest.json", "catalog.duckdb"),
)
LONGEST_AFTER_STEP_S = 0.02


def contents(settings: Settings) -> dict[str, object] | None:
    """Rows and a hash of each table as a reader sees them now; None before the first publication."""
    try:
        con = catalog.open_run(RUN, settings)
    except UnknownRunError:
        return None
    with con:
        return {table: con.execute(query).fetchone() for table, query in QUERIES.items()}


def killed_ingest(directory: Path, settings: Settings, seconds: float, step: str | None = None) -> bool:
    """Run `nixt ingest` and kill it and its workers after `seconds`, counted from when a file of the pattern `step`
    changes below the data directory, if one is given; False when it had ended before."""
    environment = os.environ | {"NIXT_DATA_DIR": str(settings.data_dir)}
    command = [sys.executable, "-m", "nixt_pipeline.cli", "ingest", str(directory), "--run", RUN]
    known = _states(settings, step)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while step and process.poll() is None and _states(settings, step) <= known:
        time.sleep(0.001)
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def _states(settings: Settings, step: str | None) -> set[tuple[str, int]]:
    """The files of a step, with when they changed."""
    states = set()
    for path in settings.data_dir.glob(step) if step else ():
        with suppress(FileNotFoundError):
            states.add((str(path), path.stat().st_mtime_ns))
    return states


def check(source: Path, kills: int, seed: int, longest_s: float) -> Counter[str]:
    """Do `kills` rounds; returns how often what was seen. Raises `AssertionError` when something is wrong."""
    random_numbers = random.Random(seed)
    files = sorted(path for path in source.rglob("*") if path.is_file())
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        settings = load_settings(data_dir=Path(scratch) / "data")
        undisturbed = load_settings(data_dir=Path(scratch) / "undisturbed")
        directory = Path(scratch) / "in"
        directory.mkdir()
        before = contents(settings)
        for number in range(kills):
            shutil.copy(files[number % len(files)], directory / f"{number % 7}-{files[number % len(files)].name}")
            step = STEPS[number // 2 % len(STEPS)] if number % 2 else None
            seconds = (
                random_numbers.uniform(0, LONGEST_AFTER_STEP_S) if step else random_numbers.uniform(0.1, longest_s)
            )
            was_killed = killed_ingest(directory, settings, seconds, step)
            now = contents(settings)
            ingest.ingest(directory, RUN, undisturbed)
            after = contents(undisturbed)
            assert now in (before, after), f"round {number}: a reader sees neither the state before nor the one after"
            seen["killed" if was_killed else "ended before"] += 1
            seen["new state visible" if now == after else "old state visible"] += 1
            before = now
        ingest.ingest(directory, RUN, settings)
        assert contents(settings) == contents(undisturbed), "the store differs from the undisturbed one"
        # Generations that were superseded go as a whole, when no reader can have them open.
        left = [
            path
            for path in settings.data_dir.rglob(".tmp-*")
            if not any((folder / SUPERSEDED).exists() for folder in path.parents)
        ]
        assert not left, f"left behind: {left}"
    return seen


def main() -> None:
    """Parse the arguments, run the rounds, print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=2.5, help="seconds after which the kill comes at the latest")
    arguments = parser.parse_args()
    print(dict(check(arguments.source, arguments.kills, arguments.seed, arguments.longest)))


if __name__ == "__main__":
    main()
