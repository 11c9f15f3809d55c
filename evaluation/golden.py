"""What the product says of many jobs, written down, so that two versions of it can be compared.

    python -m evaluation.golden write before/     # with the one version
    python -m evaluation.golden write after/      # with the other one
    python -m evaluation.golden compare before/ after/

The jobs: each directory and archive below `corpus`, `realistic`, `field`, `cases` and `samples` of `NIXT_CORPUS`, where
that is set, and simulated ones. Of each, one JSON file holds the verdict, the findings without their sentences, and of
every stored table the number of rows and a hash for each column. `compare` prints what differs, and exits with 1 when
something does; of a column that only one side has, it says so. `--sentences` compares the sentences as well.
"""

import argparse
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import nixt_pipeline as nixt
from evaluation.labelled_jobs import write_labelled_job
from evaluation.varied import NAMES, varied
from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings import load_settings

SIMULATED = 100
_CASES = ("cases", "cases/edge", "samples", "corpus", "realistic", "field")
# Sentences may be worded better; what they state is in the other keys.
_SENTENCES = ("evidence", "counter_evidence", "next_step", "place", "reason")
# When and where a file was read, which no two runs of this script share.
_OF_THE_MACHINE = ("mtime", "ingested", "directory", "version", "inode")

_VIEWS = "SELECT view_name FROM duckdb_views() WHERE NOT internal AND schema_name = 'main' ORDER BY view_name"


def jobs(folder: Path | None) -> Iterator[tuple[str, Path | int]]:
    """A name for each job, with its directory or archive, or the seed that it is simulated by."""
    for case in _CASES if folder else ():
        depth = "*/*" if case == "field" else "*"
        for place in sorted((folder or Path()).glob(f"{case}/{depth}")):
            if place.is_dir() or place.name.endswith(".tar.xz") or case == "cases/edge":
                yield str(place.relative_to(folder or Path())).replace("/", "."), place
    for number in range(SIMULATED):
        yield f"{NAMES[number % len(NAMES)]}.{number // len(NAMES)}", number


def _provide(source: Path | int, directory: Path) -> Path:
    """The dump directory of a job; what has to be written or unpacked for it is below `directory`."""
    if isinstance(source, int):
        write_labelled_job(directory, varied(NAMES[source % len(NAMES)], source // len(NAMES)), source // len(NAMES))
    elif source.is_dir():
        return source
    elif source.suffix == ".xz":
        with tarfile.open(source) as archive:
            archive.extractall(directory, filter="data")
        inside = list(directory.iterdir())
        return inside[0] if len(inside) == 1 else directory
    else:
        directory.mkdir(parents=True)
        (directory / source.name).symlink_to(source)
        return directory
    return directory


def describe(source: Path | int) -> dict[str, Any]:
    """Ingest, analyse and diagnose one job from scratch; returns what is kept of it."""
    with tempfile.TemporaryDirectory(prefix="nixt-golden-") as folder:
        root = Path(folder)
        settings = load_settings(
            data_dir=root / "data",
            landing_dir=root / "landing",
            reports_dir=root / "r",
            workers=1,
            follow_links="anywhere",
        )
        directory = _provide(source, root / "job")
        try:
            run = nixt.ingest_run(directory, settings, run="golden").run
            nixt.analyse_run(run, settings)
        except NixtError as error:
            return {"error": type(error).__name__}
        opened = nixt.open_run(run, settings)
        stored = root / "data" / "results" / "findings" / "run=golden.json"
        return {
            "diagnosis": json.loads(stored.read_text(encoding="utf-8")),
            "tables": {name: _hashes(opened, name) for (name,) in opened.sql(_VIEWS).fetchall()},
        }


def _hashes(run: nixt.Run, table: str) -> dict[str, Any]:
    """The number of rows, and of each column a sum of hashes, which no order of the rows changes."""
    relation = run.sql(f'FROM "{table}"')
    parts = []
    for column, kind in zip(relation.columns, relation.types, strict=True):
        if any(word in column for word in _OF_THE_MACHINE):
            continue
        # The last digits of sums depend on how many threads added them up.
        value = f"printf('%.9g', \"{column}\")" if str(kind) in ("DOUBLE", "FLOAT") else f'"{column}"'
        parts.append(f'coalesce(sum(hash({value})::HUGEINT), 0)::VARCHAR AS "{column}"')
    row = run.sql(f'SELECT count(*) AS rows, {", ".join(parts)} FROM "{table}"')
    return dict(zip(row.columns, row.fetchall()[0], strict=True))


def _write(task: tuple[str, Path | int, Path]) -> str:
    name, source, into = task
    text = json.dumps(describe(source), indent=1, sort_keys=True)
    (into / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return name


def _stated(diagnosis: dict[str, Any], sentences: bool) -> dict[str, Any]:
    left_out = () if sentences else _SENTENCES
    findings = [{key: value for key, value in f.items() if key not in left_out} for f in diagnosis["findings"]]
    return {key: value for key, value in diagnosis.items() if key not in left_out} | {"findings": findings}


def differences(before: dict[str, Any], after: dict[str, Any], sentences: bool) -> Iterator[str]:
    """In words, what differs between two descriptions of one job."""
    if before.get("error") != after.get("error"):
        yield f"error: {before.get('error')} -> {after.get('error')}"
    if "diagnosis" not in before or "diagnosis" not in after:
        return
    old, new = (_stated(side["diagnosis"], sentences) for side in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key}:\n    {json.dumps(old.get(key))}\n    {json.dumps(new.get(key))}"
    for table in sorted(before["tables"].keys() | after["tables"].keys()):
        columns, others = before["tables"].get(table), after["tables"].get(table)
        if columns is None or others is None:
            yield f"table {table}: only {'after' if columns is None else 'before'}"
            continue
        changed = [column for column in columns.keys() & others.keys() if columns[column] != others[column]]
        if changed:
            yield f"table {table}: {', '.join(sorted(changed))} differ"
        for word, only in (("lost", columns.keys() - others.keys()), ("new", others.keys() - columns.keys())):
            if only:
                yield f"table {table}: {word} {', '.join(sorted(only))}"


def write(into: Path, number: int, wanted: str) -> None:
    """Describe every job whose name contains `wanted`, `number` at a time."""
    into.mkdir(parents=True, exist_ok=True)
    corpus = os.environ.get("NIXT_CORPUS")
    tasks = [(name, place, into) for name, place in jobs(Path(corpus) if corpus else None) if wanted in name]
    with ProcessPoolExecutor(number) as pool:
        for done, name in enumerate(pool.map(_write, tasks), start=1):
            print(f"{done}/{len(tasks)} {name}", file=sys.stderr, flush=True)


def compare(before: Path, after: Path, sentences: bool) -> int:
    """Print the differences between two directories; returns the number of jobs that differ."""
    names = sorted({path.name for side in (before, after) for path in side.glob("*.json")})
    differing = 0
    for name in names:
        if not ((before / name).exists() and (after / name).exists()):
            told = [f"only in {before if (before / name).exists() else after}"]
        else:
            old, new = (json.loads((side / name).read_text(encoding="utf-8")) for side in (before, after))
            told = list(differences(old, new, sentences))
        differing += bool(told)
        for line in told:
            print(f"{name.removesuffix('.json')}: {line}")
    print(f"{len(names)} jobs, {differing} differ")
    return differing


def main() -> None:
    """Parse the command line; write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    writing = actions.add_parser("write", help="describe every job")
    writing.add_argument("into", type=Path)
    writing.add_argument("--jobs", type=int, default=2, help="jobs at once")
    writing.add_argument("--wanted", default="", help="only jobs whose name contains this")
    comparing = actions.add_parser("compare", help="print what differs")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--sentences", action="store_true")
    arguments = parser.parse_args()
    if arguments.action == "write":
        write(arguments.into, arguments.jobs, arguments.wanted)
    else:
        sys.exit(1 if compare(arguments.before, arguments.after, arguments.sentences) else 0)


if __name__ == "__main__":
    main()
