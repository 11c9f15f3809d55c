"""Seals: size and content hash of each file, by which damage is noticed.

What an ingest writes is sealed in the manifest of its run. What is computed from it later (cells, results, findings) is
sealed in `derived.json` beside the manifest. DuckDB verifies no checksum of Parquet pages when it reads, so that
whatever computes from the events compares the seals first: hashing takes a small part of the time of decoding.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import xxhash
from filelock import FileLock
from pydantic import TypeAdapter

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import file_lock, write_table, write_text
from nixt_pipeline.store.reading import json_problem, read_json, unreadable

DERIVED = "derived.json"
_CHUNK_BYTES = 1 << 20

# Size in bytes and xxh3 (128 bits, hexadecimal) of a file.
Seal = tuple[int, str]
# What JSON holds of seals by name; raises `ValueError` for anything else.
as_seals = TypeAdapter(dict[str, list[Seal]]).validate_python


def seal(path: Path) -> Seal:
    """The seal of a file as it is now."""
    digest, size = xxhash.xxh3_128(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def seal_files(directory: Path, paths: Iterable[Path]) -> dict[str, Seal]:
    """The seals of files below `directory`, by their path relative to it."""
    return {path.relative_to(directory).as_posix(): seal(path) for path in sorted(paths)}


def damage(path: Path, seals: Iterable[Seal], content: bool) -> str | None:
    """What is wrong with a file that should have one of `seals`; None for a sound one.

    Without `content` only its size is looked at. A file without seals (an earlier version wrote it) must be readable.
    """
    known = list(seals)
    try:
        size = path.stat().st_size
        if not path.is_file():
            return "is not a file"
        if not known:
            return unreadable(path, every_page=True) if content and path.suffix == ".parquet" else None
        if size not in [expected for expected, _ in known]:
            return f"has {size:,} bytes instead of {known[0][0]:,}"
        if content and seal(path) not in known:
            return "has other content than was written (checksum)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def noting(run: str, path: Path, settings: Settings) -> Callable[[Path], None]:
    """What to pass to the writer of `path`, so that the seal of what is computed of a run is noted before readers see
    it. The one before is kept, because a kill may come before the file takes its place."""
    note, name = derived_note(run, settings), data_name(path, settings)

    def remember(written: Path) -> None:
        sealed = seal(written)
        with _note_lock(note):
            known = derived_seals(run, settings).items()
            kept = {name: seals for name, seals in known if (settings.data_dir / name).exists()}
            seals = [sealed, *(before for before in kept.get(name, []) if before != sealed)][:2]
            write_text(json.dumps({**kept, name: seals}, indent=1, sort_keys=True) + "\n", note)

    return remember


def write_result(table: pa.Table, analysis: str, run: str, settings: Settings) -> None:
    """Replace a run's result of an analysis, and note its seal. Raises `StorageError` when it cannot be written."""
    path = layout.results_path(analysis, run, settings)
    write_table(table, path, noting(run, path, settings))


def derived_note(run: str, settings: Settings) -> Path:
    """The file with the seals of what was computed of a run."""
    return layout.store_dir(run, settings) / DERIVED


def renew_damaged_note(run: str, settings: Settings) -> None:
    """Begin the note anew if it is damaged: what it sealed is then at best readable, until it is computed again."""
    note = derived_note(run, settings)
    with _note_lock(note):
        if json_problem(note, as_seals):
            write_text("{}\n", note)


def _note_lock(note: Path) -> FileLock:
    return file_lock(note.with_name(".derived.lock"))


def data_name(path: Path, settings: Settings) -> str:
    """A path as `derived_seals` names it: below the data directory."""
    return path.relative_to(settings.data_dir).as_posix()


def derived_seals(run: str, settings: Settings) -> dict[str, list[Seal]]:
    """The seals of what was computed of a run, by the path below the data directory; the newest first. Empty when there
    are none, or when the note of them is damaged."""
    note = derived_note(run, settings)
    return read_json(note, as_seals, "it is written anew with the next result of the run") or {}
