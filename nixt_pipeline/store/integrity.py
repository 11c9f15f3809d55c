"""Whether the files of a run are those that its ingest wrote. A damaged run is left out, and keeps no other from being
read."""

from collections.abc import Mapping
from pathlib import Path

from nixt_pipeline.errors import DamagedError
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import LARGE_TABLES, dropped
from nixt_pipeline.store.files import remove
from nixt_pipeline.store.manifest import (
    Manifest,
    StoreVersionError,
    UnknownRunError,
    damaged,
    published_runs,
    read_manifest,
)
from nixt_pipeline.store.reading import unreadable, warn_once
from nixt_pipeline.store.seals import Seal, damage, data_name, derived_seals

_STRAY = "was written by no ingest"


def list_runs(settings: Settings) -> list[Manifest]:
    """The manifests of all published runs, sorted by run id; damaged runs, and those that a newer version of this
    program stored, are left out, with a line in the log."""
    found = []
    for run in published_runs(settings):
        try:
            manifest = read_manifest(run, settings)
            require_files(manifest, settings)
        except (DamagedError, StoreVersionError) as error:
            warn_once(str(error))
        except UnknownRunError:
            pass  # removed meanwhile
        else:
            found.append(manifest)
    return found


def require_files(manifest: Manifest, settings: Settings, content: bool = False) -> None:
    """Raise `DamagedError` unless all files that the manifest names are there with their sizes and, with `content`,
    with the content that was written."""
    generation = manifest.directory(settings)
    for name, problem in damaged_in(generation, manifest.contents, content).items():
        raise damaged(manifest.run, generation / name, problem)


def require_readable(manifest: Manifest, settings: Settings) -> None:
    """Raise `DamagedError` for a Parquet file of the run that is no such file, whatever its size."""
    generation = manifest.directory(settings)
    for path in (path for table in taxonomy.TABLES for path in layout.table_files(generation, table)):
        problem = unreadable(path)
        if problem:
            raise damaged(manifest.run, path, problem)


def is_readable(manifest: Manifest, settings: Settings) -> bool:
    """Whether `require_readable` finds nothing; says what it finds."""
    try:
        require_readable(manifest, settings)
    except DamagedError as error:
        warn_once(str(error))
        return False
    return True


def damaged_in(generation: Path, contents: Mapping[str, Seal], content: bool) -> dict[str, str]:
    """What is wrong with the files of a generation into which an ingest wrote `contents`, by their names in it; for
    `content` see `seals.damage`. A part that no ingest wrote would be read as rows of the run."""
    # An earlier version of this program kept no names.
    tables = layout.PARTED_TABLES if contents else ()
    parts = (part.relative_to(generation) for table in tables for part in layout.table_files(generation, table))
    problems = {part.as_posix(): _STRAY for part in parts if part.as_posix() not in contents}
    for name, seals in expected_in(generation, contents).items():
        if problem := damage(generation / name, seals, content):
            problems[name] = problem
    return problems


def expected_in(generation: Path, contents: Mapping[str, Seal]) -> dict[str, list[Seal]]:
    """The files of a generation, without events that were dropped, and what each must be: an earlier version wrote no
    seals, so that what there is must be readable."""
    expected = {name: [sealed] for name, sealed in contents.items()}
    if not contents:
        expected = {path.relative_to(generation).as_posix(): [] for path in layout.written_files(generation)}
    gone = LARGE_TABLES if dropped(generation) else ()
    return {name: seals for name, seals in expected.items() if name.split("/")[0] not in gone}


def damaged_results(manifest: Manifest, settings: Settings) -> dict[Path, str]:
    """What is wrong with what was computed of a run (cells, results, findings), by path."""
    seals = derived_seals(manifest.run, settings)
    problems = {
        path: damage(path, seals.get(data_name(path, settings), ()), content=True)
        for path in layout.derived_files(manifest.run, manifest.directory(settings), settings)
    }
    return {path: problem for path, problem in problems.items() if problem}


def discard_damaged_results(manifest: Manifest, settings: Settings) -> None:
    """Remove damaged files that are computed from the run, so that they are computed again; says which."""
    for path, problem in damaged_results(manifest, settings).items():
        warn_once(f"{path} is damaged: it {problem}; it will be rebuilt")
        remove(path)
