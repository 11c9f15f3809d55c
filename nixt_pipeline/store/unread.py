"""What of a run's directory did not become records, and why: the words that `nixt ingest` ends with."""

from collections import defaultdict
from dataclasses import dataclass

import duckdb

from nixt_pipeline.inert import visible
from nixt_pipeline.inspector.runs import NO_RECORDS_HINT
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.accounts import IGNORED
from nixt_pipeline.store.manifest import Manifest, read_manifest
from nixt_pipeline.store.reading import read_table

_MOST_REASONS = 5
_SAMPLE_CHARACTERS = 100
_REFUSED = """
SELECT reason, count(*) AS lines, arg_min((path, line, sample), (path, line)) AS first
FROM read_parquet($path)
GROUP BY reason
ORDER BY lines DESC, reason
LIMIT $most
"""


@dataclass(frozen=True)
class Reason:
    """Why something was not read: how much of it (`count` files or lines), and the first of them."""

    words: str
    unit: str
    count: int
    example: str

    def __str__(self) -> str:
        words = f"{self.words} ({self.example})"
        return f"{self.count:,} {self.unit}{'' if self.count == 1 else 's'}: {visible(words)}"


def reasons(run: str, settings: Settings) -> list[Reason]:
    """The most frequent reasons, first for whole files, then for lines of files that were read. Raises
    `UnknownRunError`."""
    manifest = read_manifest(run, settings)
    generation = manifest.directory(settings)
    paths: dict[str, list[str]] = defaultdict(list)
    for file in read_table(generation / "files.parquet").to_pylist():
        if file["status"] == "empty":
            paths["empty"].append(file["path"])
        elif file["problem"] is not None:
            paths[file["problem"]].append(file["path"])
    by_file = [Reason(words, "file", len(found), found[0]) for words, found in paths.items()]
    by_file.sort(key=lambda reason: -reason.count)
    with duckdb.connect() as con:
        parameters = {"path": str(generation / "rejects.parquet"), "most": _MOST_REASONS}
        refused = con.execute(_REFUSED, parameters).fetchall()
    by_line = [
        Reason(words, "line", count, f"{path}:{line}: {sample[:_SAMPLE_CHARACTERS]}")
        for words, count, (path, line, sample) in refused
    ]
    return by_file[:_MOST_REASONS] + by_line


def set_aside(run: str, settings: Settings) -> list[str]:
    """The files that may hold records and were left alone or could not be read, each with its reason. Raises
    `UnknownRunError`."""
    path = read_manifest(run, settings).directory(settings) / "files.parquet"
    rows = [row for row in read_table(path).to_pylist() if row["status"] in (IGNORED, "unreadable")]
    return [visible(f"{row['path']}: {row['problem']}") for row in rows]


def no_records(run: str, settings: Settings) -> str:
    """Why a run has no record, in words: the frequent reasons, or what to set where nothing was written at all. Raises
    `UnknownRunError`."""
    manifest = read_manifest(run, settings)
    if wrote_nothing(manifest):
        return f"no Inspector record in {manifest.source_dir}: {_found(manifest)}; {NO_RECORDS_HINT}"
    lines = "\n".join(f"  {reason}" for reason in reasons(run, settings))
    return (
        f"no Inspector record in {manifest.source_dir}; every file and refused line is in the tables files and rejects"
        f":\n{lines}"
    )


def first_words(manifest: Manifest) -> str:
    """Why a run has no record, short, for its report and the list of runs."""
    if wrote_nothing(manifest):
        return f"no record in {manifest.source_dir}: {_found(manifest)}; {NO_RECORDS_HINT}"
    return (
        f"no file in {manifest.source_dir} holds an Inspector record; the reasons are in the tables files and rejects,"
        " and in the section Data quality of the report"
    )


def wrote_nothing(manifest: Manifest) -> bool:
    """Whether there is nothing in the run's directory that could hold a record: no file, or empty ones only, beside a
    `run.json`."""
    others = sum(count for status, count in manifest.files.items() if status != "empty")
    return others == 0 or (others == manifest.files.get(IGNORED) == 1 and "problem" in manifest.run_info)


def _found(manifest: Manifest) -> str:
    empty = manifest.files.get("empty", 0)
    refused = f" ({visible(str(manifest.run_info['problem']))})" if "problem" in manifest.run_info else ""
    return f"it holds {f'{empty:,} empty' if empty else 'no'} file{'' if empty == 1 else 's'}{refused}"
