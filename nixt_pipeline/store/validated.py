"""What `validate_records` made of one state of a run's input: `validated.json` in the generation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter

from nixt_pipeline.store import accounts as books
from nixt_pipeline.store import layout
from nixt_pipeline.store.accounts import FileAccount, IngestSummary
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.line_tables import LINE_TABLES
from nixt_pipeline.store.reading import read_bytes
from nixt_pipeline.store.seals import Seal

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


_VALIDATED = TypeAdapter(Validated)


def read_validated(generation: Path) -> Validated | None:
    """The state of a generation; None when it is not validated yet, or when the file cannot be used."""
    try:
        return _VALIDATED.validate_json(read_bytes(generation / VALIDATED))
    except (OSError, ValueError):
        return None


def write_validated(validated: Validated, generation: Path) -> None:
    """Note the state of a generation, all of whose files are on the device."""
    write_text(_VALIDATED.dump_json(validated).decode(), generation / VALIDATED, durable=True)


def files_in(damaged: Iterable[str], validated: Validated) -> frozenset[int]:
    """Ids of the log files that have rows in the damaged files of a generation."""
    found: set[int] = set()
    for name in map(PurePosixPath, damaged):
        if name.parts[0] in layout.PARTED_TABLES:
            found |= set(validated.parts.get(name.stem, ()))
        elif name.stem in LINE_TABLES:
            found |= {a.file_id for a in validated.accounts if a.lines_rejected + a.lines_foreign + a.records_auxiliary}
    return frozenset(found)
