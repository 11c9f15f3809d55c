"""Run the tests against a sample of mutants, and say how many they noticed: `scripts/mutation_testing.sh`.

cosmic-ray makes the mutants (another operator, number, constant, branch) and runs, for each, the tests that mirror or
name the mutated module. SQL is text to it and stays as it is. A mutant that is not noticed is either equivalent or a
test that is missing.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

# `X | None` is an annotation: a mutant of it fails on import, and says nothing about the tests.
_TRIVIAL = "core/ReplaceBinaryOperator_BitOr_%"
_TEST_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Session:
    """The mutants of one module: a configuration and a database of cosmic-ray."""

    module: Path
    configuration: Path
    database: Path

    @property
    def jobs(self) -> list[str]:
        """The ids of the mutants that are worth a run, in a fixed order."""
        with closing(sqlite3.connect(self.database)) as con:
            query = """
            SELECT job_id FROM mutation_specs WHERE operator_name NOT LIKE ?
            ORDER BY start_pos_row, start_pos_col, operator_name, operator_args, occurrence
            """
            return [row[0] for row in con.execute(query, (_TRIVIAL,))]

    def keep(self, jobs: set[str]) -> None:
        """Forget all other mutants."""
        with closing(sqlite3.connect(self.database)) as con, con:
            known = [row[0] for row in con.execute("SELECT job_id FROM work_items")]
            for table in ("mutation_specs", "work_items"):
                con.executemany(f"DELETE FROM {table} WHERE job_id = ?", [(job,) for job in known if job not in jobs])

    def results(self) -> list[tuple[str, int, str]]:
        """Outcome, line and difference of each mutant that was run."""
        with closing(sqlite3.connect(self.database)) as con:
            query = """
            SELECT r.test_outcome, s.start_pos_row, r.diff
            FROM work_results AS r JOIN mutation_specs AS s ON s.job_id = r.job_id
            ORDER BY s.start_pos_row
            """
            return [(str(outcome).lower(), line, diff or "") for outcome, line, diff in con.execute(query)]


def tests_of(module: Path) -> list[str]:
    """The test files of a module's package that mirror it or name it."""
    package = module.parent.name
    folder = Path("nixt_pipeline_tests") / package
    dotted = f"nixt_pipeline.{package}.{module.stem} "
    mirrored = folder / f"test_{module.stem}.py"
    named = [path for path in sorted(folder.glob("test_*.py")) if dotted in path.read_text(encoding="utf-8")]
    return [str(path) for path in dict.fromkeys([mirrored, *named]) if path.exists()]


def prepare(package: str, folder: Path) -> list[Session]:
    """A session for each module of a package that has tests of its own."""
    sessions = []
    for module in sorted((Path("nixt_pipeline") / package).glob("*.py")):
        tests = tests_of(module)
        if not tests:
            continue
        session = Session(module, folder / f"{package}-{module.stem}.toml", folder / f"{package}-{module.stem}.sqlite")
        command = f"python -m pytest -x -q -p no:cacheprovider -m 'not slow' {' '.join(tests)}"
        session.configuration.write_text(
            f"[cosmic-ray]\nmodule-path = {json.dumps(str(module))}\ntimeout = {_TEST_TIMEOUT_S}\n"
            f"excluded-modules = []\ntest-command = {json.dumps(command)}\n"
            '[cosmic-ray.distributor]\nname = "local"\n',
            encoding="utf-8",
        )
        subprocess.run(["cosmic-ray", "init", session.configuration, session.database], check=True)
        sessions.append(session)
    return sessions


def run_sample(sessions: list[Session], sample: int, seed: int, deadline: float) -> None:
    """Run a sample of the mutants of all sessions in a random order, until the deadline of `time.monotonic`."""
    random_order = random.Random(seed)
    everything = [(number, job) for number, session in enumerate(sessions) for job in session.jobs]
    chosen = random_order.sample(everything, min(sample, len(everything)))
    for number, session in enumerate(sessions):
        session.keep({job for which, job in chosen if which == number})
    order = list(dict.fromkeys(number for number, _ in chosen))
    for number in order:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        session = sessions[number]
        original = session.module.read_text(encoding="utf-8")
        command = ["cosmic-ray", "exec", str(session.configuration), str(session.database)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            process.wait(timeout=left_s)
        except subprocess.TimeoutExpired:
            # It is stopped, with its tests, within a mutant, which is still in the file.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            session.module.write_text(original, encoding="utf-8")
            return


def report(package: str, sessions: list[Session]) -> None:
    """Print the score of a package, and the mutants that survived."""
    found = [(session.module, *result) for session in sessions for result in session.results()]
    judged = [item for item in found if item[1] in ("killed", "survived")]
    killed = sum(outcome == "killed" for _, outcome, _, _ in judged)
    share = f"{killed / len(judged):.0%}" if judged else "unknown"
    print(
        f"{package}: {killed} of {len(judged)} mutants killed ({share}), {len(found) - len(judged)} without a verdict"
    )
    for module, outcome, line, diff in judged:
        if outcome == "survived":
            changed = [text for text in diff.splitlines() if text[:1] in "+-" and text[:3] not in ("+++", "---")]
            print(f"  survived: {module}:{line}")
            print("\n".join(f"    {text}" for text in changed))


def main() -> None:
    """Parse the arguments, run, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--sample", type=int, required=True, help="mutants of each package")
    parser.add_argument("--budget", type=float, required=True, help="seconds for all packages together")
    arguments = parser.parse_args()
    folder = Path("mutants")
    folder.mkdir()
    end = time.monotonic() + arguments.budget
    for number, package in enumerate(arguments.packages):
        sessions = prepare(package, folder)
        share = (end - time.monotonic()) / (len(arguments.packages) - number)
        run_sample(sessions, arguments.sample, arguments.seed, time.monotonic() + share)
        report(package, sessions)


if __name__ == "__main__":
    main()
