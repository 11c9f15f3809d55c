"""What `validate_records` made of one state of a run's input: `validated.json` in the generation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import orjson

from nixt_pipeline.store import accounts as books
from nixt_pipeline.store import layout
from nixt_pipeline.store.accounts import FileAccount, IngestSummary
from nixt_pipeline.store.dropped import LARGE_TABLES, dropped
from nixt_pipeline.store.line_tables import LINE_TABLES
from nixt_pipeline.store.reading import read_bytes, unreadable
from nixt_pipeline.store.seals import Seal, damage

VALIDATED = "validated.json"


@dataclass(frozen=True)
class Validated:
    """The state of a validated generation, kept in it as `validated.json`."""

    accounts: list[FileAccount]
    parts: dict[str, list[int]]  # part -> ids of the files in it
    incarnations: int
    dropped_by_plugin: int
    seconds: float
    seals: dict[str, Seal] = field(default_factory=dict)  # of what has been written; an earlier version had none

    def summary(self, run: str) -> IngestSummary:
        """The numbers of the ingest."""
        return books.summarise(run, self.accounts, self.incarnations, self.dropped_by_plugin, self.seconds)


def read_validated(generation: Path) -> Validated | None:
    """The state of a generation; None when it is not validated yet, or when the file cannot be used."""
    try:
        content = orjson.loads(read_bytes(generation / VALIDATED))
        accounts = [
            FileAccount(**{**account, "processes": tuple(map(tuple, account["processes"]))})
            for account in content.pop("accounts")
        ]
        seals = {name: (int(size), str(digest)) for name, (size, digest) in content.pop("seals", {}).items()}
        return Validated(accounts=accounts, seals=seals, **content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def damaged_files(generation: Path, validated: Validated) -> dict[str, str]:
    """What is wrong with the files of a validated generation, by their names in it. Those that an earlier version
    wrote without seals must be readable to the last page."""
    gone = LARGE_TABLES if dropped(generation) else ()
    expected = {name: [sealed] for name, sealed in validated.seals.items() if name.split("/")[0] not in gone}
    if validated.seals:
        problems = {name: damage(generation / name, seals, content=True) for name, seals in expected.items()}
        strays = layout.stray_files(generation, validated.seals)
        problems |= {path.relative_to(generation).as_posix(): layout.STRAY for path in strays}
    else:
        paths = {path.relative_to(generation).as_posix(): path for path in layout.written_files(generation)}
        problems = {name: unreadable(path, every_page=True) for name, path in paths.items()}
    return {name: problem for name, problem in problems.items() if problem}


def files_in(damaged: Iterable[str], validated: Validated) -> frozenset[int]:
    """Ids of the log files that have rows in the damaged files of a generation."""
    found: set[int] = set()
    for name in map(PurePosixPath, damaged):
        if name.parts[0] in layout.PARTED_TABLES:
            found |= set(validated.parts.get(name.stem, ()))
        elif name.stem in LINE_TABLES:
            found |= {a.file_id for a in validated.accounts if a.lines_rejected + a.lines_foreign + a.records_auxiliary}
    return frozenset(found)
