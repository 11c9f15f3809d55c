"""Checking a run: every file that its manifest names and everything computed of it, against size and hash."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nixt_pipeline.errors import DamagedError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import dropped
from nixt_pipeline.store.integrity import damaged_in, damaged_results, expected_in
from nixt_pipeline.store.manifest import Manifest, manifest_path, manifest_problem, noted_inventory, read_manifest
from nixt_pipeline.store.reading import json_problem
from nixt_pipeline.store.seals import as_notes, data_name, derived_note, derived_seals
from nixt_pipeline.store.validated import files_in, read_validated

State = Literal["sound", "readable", "damaged"]


@dataclass(frozen=True)
class Checked:
    """One file of a run. `sound`: as it was written; `readable`: an earlier version wrote it without a hash.

    `derived` files are computed from the others.
    """

    run: str
    path: Path
    state: State
    problem: str = ""
    derived: bool = False


def check_run(run: str, settings: Settings) -> list[Checked]:
    """The state of every file of a published run. Raises `UnknownRunError`."""
    try:
        manifest = read_manifest(run, settings)
    except DamagedError as error:
        problem = manifest_problem(error.__cause__) if error.__cause__ else str(error)
        return [Checked(run, manifest_path(run, settings), "damaged", problem)]
    return [
        Checked(run, manifest_path(run, settings), "sound"),
        *_ingested(manifest, settings),
        *_derived(manifest, settings),
    ]


def _ingested(manifest: Manifest, settings: Settings) -> Iterator[Checked]:
    generation = manifest.directory(settings)
    problems = damaged_in(generation, manifest.contents, content=True)
    expected = expected_in(generation, manifest.contents)
    for name in dict.fromkeys((*expected, *problems)):
        yield _checked(manifest.run, generation / name, problems.get(name), bool(expected.get(name)))


def _derived(manifest: Manifest, settings: Settings) -> Iterator[Checked]:
    problems, seals = damaged_results(manifest, settings), derived_seals(manifest.run, settings)
    note = derived_note(manifest.run, settings)
    if note.exists():
        yield _checked(manifest.run, note, json_problem(note, as_notes), sealed=True, derived=True)
    for path in layout.derived_files(manifest.run, manifest.directory(settings), settings):
        yield _checked(manifest.run, path, problems.get(path), data_name(path, settings) in seals, derived=True)


def _checked(run: str, path: Path, problem: str | None, sealed: bool, derived: bool = False) -> Checked:
    state: State = "damaged" if problem else "sound" if sealed else "readable"
    return Checked(run, path, state, problem or "", derived)


def logs_directory(run: str, settings: Settings) -> Path | None:
    """Where the logs of a run were when it was ingested; None when both notes of it are damaged."""
    try:
        return Path(read_manifest(run, settings).source_dir)
    except DamagedError:
        inventory = noted_inventory(run, settings)
        return Path(inventory.directory) if inventory else None


def missing_logs(run: str, settings: Settings, directory: Path) -> list[str]:
    """Log files that are gone from `directory` although their records are in damaged files of the store: rebuilding
    would lose these records. Empty when that cannot be told."""
    try:
        generation = read_manifest(run, settings).directory(settings)
    except DamagedError:
        return []
    validated = read_validated(generation)
    if validated is None or dropped(generation):
        return []
    numbers = files_in(damaged_in(generation, validated.seals, content=True), validated)
    inventory = noted_inventory(run, settings)
    located = {file.path: file.location for file in inventory.files} if inventory else {}
    return [
        account.path
        for account in validated.accounts
        if account.file_id in numbers
        and account.records
        and not (directory / located.get(account.path, account.path)).exists()
    ]
