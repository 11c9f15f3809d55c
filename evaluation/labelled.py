"""How often the diagnosis is right, on simulated jobs whose faults are known.

    python -m evaluation.labelled --seeds 10                      # every scenario, ten jobs each
    python -m evaluation.labelled --seeds 50 --scenario slow-gpu  # the scenarios whose name contains it

Prints two Markdown tables: faulty jobs and healthy ones. `--into docs/evaluation.md` puts them into that page, between
the two marks; `--failures FILE` lists every job that was not answered as it should be.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from evaluation.labelled_jobs import Label, write_labelled_job
from evaluation.scenarios import SCENARIOS
from evaluation.scoring import Answer, Score, faults_table, healthy_table, score
from evaluation.varied import NAMES, varied
from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.api import ingest_run
from nixt_pipeline.diagnosis import diagnose
from nixt_pipeline.settings import Settings, load_settings

MARKS = ("<!-- evaluation: written by `python -m evaluation.labelled` -->\n", "<!-- end of evaluation -->\n")


def diagnose_labelled_job(name: str, seed: int, directory: Path, settings: Settings) -> tuple[Label, dict[str, Any]]:
    """Write a job of the scenario `name` into `directory`, ingest it, and return its label and its diagnosis' JSON."""
    scenario = SCENARIOS[name] if name in SCENARIOS else varied(name, seed)
    label = write_labelled_job(directory, scenario, seed)
    run = ingest_run(directory, settings).run
    build_cells(run, settings)
    return label, diagnose(run, settings).to_json()


def _score_job(task: tuple[str, int]) -> Score:
    name, seed = task
    with tempfile.TemporaryDirectory(prefix="nixt-labelled-") as folder:
        root = Path(folder)
        settings = load_settings(data_dir=root / "data", landing_dir=root, reports_dir=root / "reports", workers=1)
        return score(*diagnose_labelled_job(name, seed, root / "job", settings))


def evaluate(names: list[str], seeds: range, jobs: int) -> Iterator[Score]:
    """Score a job of each scenario for each seed, `jobs` at a time, in order."""
    tasks = list(product(names, seeds))
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_score_job, tasks)


def summary(scores: list[Score]) -> str:
    """The tables and the sums over all of them, as Markdown."""
    faulty = [entry for entry in scores if entry.label.faults]
    healthy = [entry for entry in scores if not entry.label.faults]
    answers = [given for entry in faulty for given in entry.answers]
    text = (
        f"{len(faulty)} faulty jobs with {len(answers)} faults: {answers.count(Answer.FOUND)} found, "
        f"{answers.count(Answer.AMBIGUOUS)} ambiguous, {answers.count(Answer.MISSED)} missed; "
        f"{sum(entry.wrong_blames for entry in faulty)} wrong blames. {len(healthy)} healthy jobs: "
        f"{sum(entry.alarms > 0 for entry in healthy)} with a false alarm.\n"
    )
    if faulty:
        text += f"\n{faults_table(faulty)}"
    return f"{text}\n{healthy_table(healthy)}" if healthy else text


def put_into(page: Path, text: str) -> None:
    """Replace what is between the marks of `page` by `text`. Raises ValueError when it has no marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (begin and end):
        raise ValueError(f"{page} lacks the lines {MARKS[0].strip()} and {MARKS[1].strip()}; add them where it goes")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def failures(scores: list[Score]) -> str:
    """Every job with a missed fault, a wrong blame or an alarm that answers nothing: what was expected, what came."""
    parts = []
    for entry in scores:
        if not entry.failed:
            continue
        expected = [
            f"{fault.kind}/{fault.level} {fault.strength} hosts={list(fault.hosts)} "
            f"candidates={list(fault.candidates)} processes={list(fault.processes)[:4]} "
            f"communicators={list(fault.communicators)} exact={fault.exact} "
            f"onset={fault.onset_us} until={fault.until_us} -> {given}"
            for fault, given in zip(entry.label.faults, entry.answers, strict=True)
        ]
        got = [json.dumps({**finding, "processes": finding["processes"][:4]}) for finding in entry.findings]
        parts.append(
            f"## {entry.label.scenario}, seed {entry.label.seed} (loss {entry.label.loss:.0%}, "
            f"cost {entry.label.cost_share:.1%}, {entry.verdict}, "
            f"{entry.wrong_blames} wrong blames, {entry.alarms} alarms, {entry.right_alarms} right)\n\n"
            + "".join(f"- expected: {line}\n" for line in expected or ["nothing"])
            + "".join(f"- got: {line}\n" for line in got or ["nothing"])
        )
    return "\n".join(parts)


def main() -> None:
    """Parse the command line, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="jobs of each scenario")
    parser.add_argument("--first-seed", type=int, default=0, help="fresh jobs for what was tuned on earlier ones")
    parser.add_argument("--scenario", default="", help="only scenarios whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="jobs evaluated at once")
    parser.add_argument("--into", type=Path, help="page that receives the tables")
    parser.add_argument("--failures", type=Path, help="file that receives the list of wrong answers")
    arguments = parser.parse_args()

    names = [name for name in (*SCENARIOS, *NAMES) if arguments.scenario in name]
    if not names:
        parser.error(f"no scenario contains {arguments.scenario!r}; there are: {', '.join((*SCENARIOS, *NAMES))}")
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    scores = []
    for entry in evaluate(names, seeds, arguments.jobs):
        scores.append(entry)
        answered = ", ".join(entry.answers) or f"{entry.alarms} false alarms"
        blames = f", {entry.wrong_blames} wrong blames" if entry.wrong_blames else ""
        print(f"{entry.label.scenario} {entry.label.seed}: {answered}{blames}", file=sys.stderr, flush=True)
    text = summary(scores)
    print(text)
    if arguments.into:
        put_into(arguments.into, text)
    if arguments.failures:
        arguments.failures.write_text(failures(scores), encoding="utf-8")


if __name__ == "__main__":
    main()
