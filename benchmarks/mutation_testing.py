"""Run the tests against a sample of mutants, and say how many they noticed: `scripts/mutation_testing.sh`.

cosmic-ray makes the mutants (another operator, number, constant, branch); SQL is text to it and stays as it is. For
each, the tests that mirror or name the mutated module run in a fork of this process, which has loaded the libraries:
they take longer to load than most tests to run. A mutant that is not noticed is equivalent, or a test is missing.
"""

import argparse
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

# `X | None` is an annotation: a mutant of it fails on import, and says nothing about the tests.
_TRIVIAL = "core/ReplaceBinaryOperator_BitOr_"
# Plugins of pytest that are loaded already are none under test.
_REWRITTEN = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *_REWRITTEN)
_TIMEOUT_S = 300.0
_POLL_S = 0.05

Outcome = Literal["killed", "survived", "too late"]


@dataclass(frozen=True)
class Mutant:
    """The `occurrence`-th place of a module at which an operator of cosmic-ray applies."""

    module: Path
    operator: str
    occurrence: int
    line: int

    def code(self, original: str) -> str:
        """The module's text with the change."""
        return str(mutate_code(original, plugins.get_operator(self.operator)(), self.occurrence))


def mutants_of(module: Path) -> Iterator[Mutant]:
    """Every mutant of a module that is worth a run."""
    tree = get_ast(module.read_text(encoding="utf-8"))
    for name in sorted(plugins.operator_names()):
        operator = plugins.get_operator(name)
        if not name.startswith(_TRIVIAL) and not operator.arguments():
            places = (start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node))
            for occurrence, (line, _) in enumerate(places):
                yield Mutant(module, name, occurrence, line)


def tests_of(module: Path) -> list[str]:
    """The test files of a module's package that mirror it or name it."""
    package = module.parent.name
    folder = Path("nixt_pipeline_tests") / package
    dotted = f"nixt_pipeline.{package}.{module.stem} "
    mirrored = folder / f"test_{module.stem}.py"
    named = [path for path in sorted(folder.glob("test_*.py")) if dotted in path.read_text(encoding="utf-8")]
    return [str(path) for path in dict.fromkeys([mirrored, *named]) if path.exists()]


def run_tests(tests: list[str], timeout_s: float) -> Outcome:
    """What the tests make of the code as it is now; tests that do not end have noticed something, too."""
    child = os.fork()
    if child == 0:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        code = 1
        with suppress(BaseException):
            code = pytest.main([*_OPTIONS, *tests])
        os._exit(int(code))
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "survived" if status == 0 else "killed"
        time.sleep(_POLL_S)
    os.kill(child, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it may not have had the time to lead a group of its own
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "killed" if timeout_s == _TIMEOUT_S else "too late"


def judge(mutant: Mutant, tests: list[str], timeout_s: float) -> Outcome:
    """Whether the tests notice the mutant, which is in the file only as long as they run."""
    original = mutant.module.read_text(encoding="utf-8")
    mutant.module.write_text(mutant.code(original), encoding="utf-8")
    try:
        return run_tests(tests, timeout_s)
    finally:
        mutant.module.write_text(original, encoding="utf-8")


def measure(package: str, sample: int, seed: int, deadline: float) -> None:
    """Print the score of a package over a sample of its mutants, or what is done of it at the deadline, and those that
    survived."""
    modules = sorted((Path("nixt_pipeline") / package).glob("*.py"))
    tests = {module: found for module in modules if (found := tests_of(module))}
    everything = [mutant for module in tests for mutant in mutants_of(module)]
    chosen = random.Random(seed).sample(everything, min(sample, len(everything)))
    killed = survived = 0
    sound: dict[Path, bool] = {}
    for mutant in chosen:
        if mutant.module not in sound:
            # Tests that fail anyway, for want of a program say, would notice every mutant.
            outcome = run_tests(tests[mutant.module], min(_TIMEOUT_S, deadline - time.monotonic()))
            if outcome == "too late":
                break
            sound[mutant.module] = outcome == "survived"
            if not sound[mutant.module]:
                print(f"  left out: {mutant.module}, whose tests do not pass as it is", flush=True)
        if not sound[mutant.module]:
            continue
        outcome = judge(mutant, tests[mutant.module], min(_TIMEOUT_S, deadline - time.monotonic()))
        if outcome == "too late":
            break
        killed += outcome == "killed"
        survived += outcome == "survived"
        if outcome == "survived":
            original = mutant.module.read_text(encoding="utf-8")
            lines = zip(original.splitlines(), mutant.code(original).splitlines(), strict=False)
            before, after = next(pair for pair in lines if pair[0] != pair[1])
            print(
                f"  survived: {mutant.module}:{mutant.line}\n    - {before.strip()}\n    + {after.strip()}", flush=True
            )
    total = killed + survived
    share = f" ({killed / total:.0%})" if total else ""
    print(f"{package}: {killed} of {total} mutants noticed{share}, of {len(everything)} there are", flush=True)


def load_libraries() -> None:
    """Load what the tests load, but for the code under test."""
    import dagster  # noqa: F401
    import duckdb  # noqa: F401
    import great_expectations  # noqa: F401
    import hypothesis  # noqa: F401
    import numba  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401


def main() -> None:
    """Parse the arguments and measure each package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--sample", type=int, required=True, help="mutants of each package")
    parser.add_argument("--budget", type=float, required=True, help="seconds for all packages together")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.budget
    load_libraries()
    for number, package in enumerate(arguments.packages):
        share = (end - time.monotonic()) / (len(arguments.packages) - number)
        measure(package, arguments.sample, arguments.seed, time.monotonic() + share)


if __name__ == "__main__":
    main()
