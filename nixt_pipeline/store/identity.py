"""Which stored run the files of a directory belong to, where its name alone does not tell.

Directories of different jobs may have the same name (`a/logs`, `b/logs`), and one directory may be emptied and filled
by another job. Files tell: those of one run are at least partly those that are stored.
"""

import hashlib
import logging
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from nixt_pipeline.errors import DamagedError
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.inventory import Inventory, LogFile, begins_with, take_inventory
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.accounts import IGNORED, LISTED
from nixt_pipeline.store.manifest import UnknownRunError, noted_inventory, read_manifest
from nixt_pipeline.store.reading import read_table

log = logging.getLogger(__name__)

_NO_LOGS = ["foreign", "empty", "unreadable", IGNORED]
# Digits of the hash that tells runs of one name apart; more of them where that is taken as well.
_DIGITS = (4, 8, 16)


@dataclass(frozen=True)
class _Known:
    """What is known of a stored run: where its files were, and which ones. `published`: whether it has any."""

    run: str
    directory: str
    files: list[LogFile]
    published: bool

    def shares_files(self, here: Inventory) -> bool:
        """Whether a file was seen before: the same content, the beginning of it at the same path, or what was
        compressed since."""
        contents = {(file.size_bytes, file.fingerprint) for file in self.files}
        by_path = grouped(self.files, lambda known: known.path)
        starts: dict[object, set[str]] = defaultdict(set)
        for known in self.files:
            starts[known.hostname, known.pid, known.first_dump_us].add(known.compression)
        directory = Path(here.directory)
        for file in _logs(here):
            start = (file.hostname, file.pid, file.first_dump_us)
            if (
                (file.size_bytes, file.fingerprint) in contents
                or any(_grew(directory, file, before) for before in by_path.get(file.path, ()))
                or (None not in start and starts[start] - {file.compression})
            ):
                return True
        return False

    def is_continued(self, here: Inventory) -> bool:
        """Whether nothing contradicts that the run goes on in its directory: the logs are not there yet, or no more."""
        return self.directory == here.directory and not (self.published and _logs(here))


def run_of(directory: Path, name: str, settings: Settings) -> str:
    """The id of the run in `directory`, which is called `name` unless that is the run of other files.

    Then it is `name` and a hash of where and what its files are, the same again when they have grown. Says so in the
    log. Raises `OSError` for a directory that cannot be listed.
    """
    if not layout.store_dir(name, settings).exists():
        return name
    here = take_inventory(directory, name, settings)
    known = [_known(run, settings) for run in _runs_named(name, settings)]
    same = [run for run in known if run.shares_files(here)] or [run for run in known if run.is_continued(here)]
    taken = {run.run: run for run in known if run.files}
    if same or name not in taken:
        chosen = same[0].run if same else name
    else:
        chosen = next(new for new in _names(name, here) if new not in taken)
    if chosen != name and name in taken:
        log.warning(
            "%s is stored separately as run %s: it has no file in common with run %s, which was read from %s"
            " (nixt ingest --run %s merges them)",
            *(directory, chosen, name, taken[name].directory, name),
        )
    return chosen


def _runs_named(name: str, settings: Settings) -> list[str]:
    """The run `name` and those told apart from it, as far as there are any."""
    pattern = re.compile(rf"{re.escape(name)}(?:-[0-9a-f]{{{_DIGITS[0]},{_DIGITS[-1]}}})?")
    runs = (path.name.removeprefix("run=") for path in (settings.data_dir / "store").glob("run=*"))
    return sorted(run for run in runs if pattern.fullmatch(run))


def _names(name: str, here: Inventory) -> list[str]:
    contents = [(file.path, file.size_bytes, file.fingerprint) for file in here.files]
    digest = hashlib.sha256(repr((here.directory, contents)).encode("utf-8", "surrogateescape")).hexdigest()
    return [f"{name}-{digest[:digits]}" for digits in _DIGITS]


def _known(run: str, settings: Settings) -> _Known:
    """Files that were listed last, and those of which there are records."""
    listed = noted_inventory(run, settings) or Inventory(run, "", ())
    directory = listed.directory
    stored: list[LogFile] = []
    try:
        manifest = read_manifest(run, settings)
        directory = directory or manifest.source_dir
        path = manifest.directory(settings) / "files.parquet"
        table = read_table(path).filter(~pc.field("status").isin(_NO_LOGS)).select(LISTED)
        stored = [LogFile(**file) for file in table.to_pylist()]
    except (UnknownRunError, DamagedError):
        # Not published yet (it was killed, or is being ingested), or damaged, which the ingest finds and says.
        pass
    return _Known(run, directory, _logs(listed) + stored, bool(stored))


def _logs(inventory: Inventory) -> list[LogFile]:
    return [file for file in inventory.files if file.size_bytes and file.is_log]


def _grew(directory: Path, file: LogFile, before: LogFile) -> bool:
    longer = file.size_bytes > before.size_bytes
    return longer and begins_with(directory / file.location, before.size_bytes, before.fingerprint)
