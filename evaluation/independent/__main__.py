"""Write jobs of the second simulation, or diagnose them and say how often the diagnosis is right.

    python -m evaluation.independent write DIR --seeds 0:20              # jobs of all kinds in turn
    python -m evaluation.independent write DIR --seeds 0:5 --kind hang   # of kinds whose name contains it
    python -m evaluation.independent score --seeds 0:66 [--kind ...] [--failures FILE]
    python -m evaluation.independent score --seeds 0:22 --hosts-times 8 --steps 1000     # larger and longer jobs

    python -m evaluation.independent calibrate JUDGED... > nixt_pipeline/diagnosis/confidence.csv
    python -m evaluation.independent reliability JUDGED...

`write` makes DIR/<kind>-<seed>/ with the logs and `truth.json`. `score` prints a Markdown table; with `--judged FILE`
it keeps the truth and the findings of all jobs, from which `calibrate` counts how often findings are right, and
`reliability` (of other jobs) prints whether they are as often as their confidence says.
"""

import argparse
import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.independent.calibration import as_csv, counts, reliability
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


def _lines(judged: Iterable[Judged]) -> str:
    """Jobs with their truth and their findings, as JSON lines."""
    return "".join(json.dumps(entry.to_json()) + "\n" for entry in judged)


def _read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def _reliability(paths: Iterable[Path]) -> str:
    rows = "".join(
        f"| {begin:.0%} to {end:.0%} | {number} | {told:.0%} | {right:.0%} |\n"
        for begin, end, number, told, right in reliability(_read(paths))
    )
    return f"| confidence | findings | mean confidence | right |\n| --- | --- | --- | --- |\n{rows}"


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
    score.add_argument("--judged", type=Path, help="file that receives all jobs")
    for name in ("calibrate", "reliability"):
        commands.add_parser(name).add_argument("judged", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "calibrate":
        print(as_csv(counts(_read(arguments.judged))), end="")
        return
    if arguments.command == "reliability":
        print(_reliability(arguments.judged), end="")
        return

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
    if arguments.judged:
        arguments.judged.write_text(_lines(judged), encoding="utf-8")
    if arguments.failures:
        # What was not answered as well as its log allows.
        arguments.failures.write_text(_lines(entry for entry in judged if entry.failed), encoding="utf-8")


if __name__ == "__main__":
    main()
