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
# A seal, and the fingerprint of what the file was made from (`store.origins`).
Note = tuple[Seal, str]
# What JSON holds of them by name, without the fingerprint where an earlier version wrote it; raises `ValueError` for
# anything else.
as_notes = TypeAdapter(dict[str, list[tuple[int, str, str] | Seal]]).validate_python


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


def noting(run: str, path: Path, settings: Settings, made_from: str = "") -> Callable[[Path], None]:
    """What to pass to the writer of `path`, so that the seal of what is computed of a run, and what it was made from
    (`origins.origin`), is noted before readers see it. The one before is kept, because a kill may come before the file
    takes its place."""
    note, name = derived_note(run, settings), data_name(path, settings)

    def remember(written: Path) -> None:
        sealed = seal(written)
        with _note_lock(note):
            known = derived_notes(run, settings).items()
            kept = {name: notes for name, notes in known if (settings.data_dir / name).exists()}
            before = [noted for noted in kept.get(name, []) if noted[0] != sealed]
            kept[name] = [(sealed, made_from), *before][:2]
            content = {name: [[*noted, origin] for noted, origin in notes] for name, notes in kept.items()}
            write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", note)

    return remember


def write_result(table: pa.Table, analysis: str, run: str, settings: Settings, made_from: str = "") -> None:
    """Replace a run's result of an analysis, and note its seal. Raises `StorageError` when it cannot be written."""
    path = layout.results_path(analysis, run, settings)
    write_table(table, path, noting(run, path, settings, made_from))


def derived_note(run: str, settings: Settings) -> Path:
    """The file with the seals of what was computed of a run."""
    return layout.store_dir(run, settings) / DERIVED


def renew_damaged_note(run: str, settings: Settings) -> None:
    """Begin the note anew if it is damaged: what it sealed is then at best readable, until it is computed again."""
    note = derived_note(run, settings)
    with _note_lock(note):
        if json_problem(note, as_notes):
            write_text("{}\n", note)


def _note_lock(note: Path) -> FileLock:
    return file_lock(note.with_name(".derived.lock"))


def data_name(path: Path, settings: Settings) -> str:
    """A path as `derived_seals` names it: below the data directory."""
    return path.relative_to(settings.data_dir).as_posix()


def derived_seals(run: str, settings: Settings) -> dict[str, list[Seal]]:
    """The seals of what was computed of a run, by the path below the data directory; the newest first. Empty when there
    are none, or when the note of them is damaged."""
    return {name: [sealed for sealed, _ in notes] for name, notes in derived_notes(run, settings).items()}


def derived_notes(run: str, settings: Settings) -> dict[str, list[Note]]:
    """The same, with what each was made from; empty where an earlier version did not say."""
    content = read_json(derived_note(run, settings), as_notes, "it is written anew with the next result of the run")
    return {
        name: [((size, digest), "".join(made_from)) for size, digest, *made_from in notes]
        for name, notes in (content or {}).items()
    }
