"""Write jobs of the second simulation, or diagnose them and say how often the diagnosis is right.

    python -m evaluation.independent write DIR --seeds 0:20              # jobs of all kinds in turn
    python -m evaluation.independent write DIR --seeds 0:5 --kind hang   # of kinds whose name contains it
    python -m evaluation.independent score --seeds 0:66 [--kind ...] [--failures FILE]
    python -m evaluation.independent score --seeds 0:22 --hosts-times 8 --steps 1000     # larger and longer jobs

`write` makes DIR/<kind>-<seed>/ with the logs and `truth.json`. `score` prints a Markdown table.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from evaluation.independent.jobs import write_job
from evaluation.independent.judging import Judged, judge_job, table
from evaluation.independent.kinds import KINDS, draw_job
from evaluation.independent.shapes import Scale


def tasks(seeds: range, kind: str) -> list[tuple[str, int]]:
    """A kind for each seed: the kinds whose name contains `kind` in turn."""
    kinds = [name for name in KINDS if kind in name]
    if not kinds:
        raise SystemExit(f"no kind contains {kind!r}; there are: {', '.join(KINDS)}")
    return [(kinds[seed % len(kinds)], seed) for seed in seeds]


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last)) if last else range(int(first), int(first) + 1)


def _failures(judged: list[Judged]) -> str:
    """Every job that was not answered as well as its log allows, with its truth and its findings, as JSON lines."""
    return "".join(json.dumps(entry.to_json()) + "\n" for entry in judged if entry.failed)


def main() -> None:
    """Parse the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    write, score = commands.add_parser("write"), commands.add_parser("score")
    write.add_argument("directory", type=Path)
    for command in (write, score):
        command.add_argument("--seeds", type=_seeds, default=range(20), help="FIRST:END, END not included, or one seed")
        command.add_argument("--kind", default="", help="only kinds whose name contains this")
        command.add_argument("--hosts-times", type=int, default=1, help="so many times the hosts (replicas)")
        command.add_argument("--steps", type=int, help="so many training steps, not 60 to 100")
    score.add_argument("--jobs", type=int, default=1, help="jobs diagnosed at once")
    score.add_argument(
        "--failures", type=Path, help="file that receives the jobs that were not answered as they could be"
    )
    arguments = parser.parse_args()

    chosen, scale = tasks(arguments.seeds, arguments.kind), Scale(arguments.hosts_times, arguments.steps)
    if arguments.command == "write":
        for kind, seed in chosen:
            job = draw_job(kind, seed, scale)
            truth = write_job(job, arguments.directory / job.name)
            print(f"{job.name}: {job.workload}, {truth['records']} records")
        return
    with ProcessPoolExecutor(arguments.jobs) as pool:
        judged = list(pool.map(partial(judge_job, scale=scale), *zip(*chosen, strict=True)))
    print(table(judged))
    if arguments.failures:
        arguments.failures.write_text(_failures(judged), encoding="utf-8")


if __name__ == "__main__":
    main()
