"""The manifest of a run: what was ingested, from where, and which generation of the store readers see."""

import errno
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from nixt_pipeline.errors import DamagedError, NixtError, StorageError
from nixt_pipeline.inspector.inventory import INVENTORY, Inventory
from nixt_pipeline.inspector.runs import run_id
from nixt_pipeline.obstacles import misplaced, obstacle
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.reading import read_bytes, read_json, unusable, warn_once
from nixt_pipeline.store.seals import Seal

SCHEMA_VERSION = 2
# Runs that the message about an unknown one names.
_NAMED = 10


class UnknownRunError(NixtError, LookupError):
    """No such run in the store; the message lists what there is."""


class StoreVersionError(NixtError, RuntimeError):
    """The store was written by a version of this program that this one cannot read, or is damaged."""


@dataclass(frozen=True, kw_only=True)
class Manifest(IngestSummary):
    """What is known of an ingested run."""

    source_dir: str
    generation: str
    fingerprint: str
    ingested_at: str
    run_info: dict[str, Any] = field(default_factory=dict)
    # What the ingest wrote below the generation's directory, with size and hash; empty in manifests of schema 1.
    contents: dict[str, Seal] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    def directory(self, settings: Settings) -> Path:
        """The directory of the generation: the result of ingesting one state of the run's input."""
        return layout.store_dir(self.run, settings) / self.generation


_MANIFEST = TypeAdapter(Manifest)


def manifest_path(run: str, settings: Settings) -> Path:
    """The file of a run's manifest."""
    return layout.store_dir(run, settings) / layout.MANIFEST


def write_manifest(manifest: Manifest, settings: Settings) -> None:
    """Publish a generation: from this instant on readers see it, even after a power cut, if its files are synced."""
    text = json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n"
    write_text(text, manifest_path(manifest.run, settings), durable=True)


def read_manifest(run: str, settings: Settings) -> Manifest:
    """The manifest of `run`. Raises `UnknownRunError` for a run never published, `DamagedError` for a manifest that
    cannot be used, `StoreVersionError` for a newer store."""
    path = manifest_path(run, settings)
    try:
        content = json.loads(read_bytes(path))
        if content["schema"] > SCHEMA_VERSION:
            raise StoreVersionError(
                f"{path} has schema {content['schema']}, this program reads up to {SCHEMA_VERSION}: upgrade"
                " nixt_pipeline"
            )
        return _MANIFEST.validate_python(content)
    except FileNotFoundError:
        if what := obstacle(path.parent):
            raise DamagedError(f"run {run}: {what}") from None
        known = _names(published_runs(settings))
        raise UnknownRunError(f"no run {run!r} in {settings.data_dir.absolute()}; known runs: {known}") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        if what := obstacle(path.parent):
            raise DamagedError(f"run {run}: {what}") from None
        remedy = None if noted_inventory(run, settings) else without_logs(run, settings)
        raise damaged(run, path, manifest_problem(error), remedy) from error


def manifest_problem(error: BaseException) -> str:
    """What is wrong with a manifest that could not be read because of `error`, after the word "it"."""
    return unusable(error) if isinstance(error, OSError) else f"is not a manifest: it {unusable(error)}"


def damaged(run: str, path: Path, problem: str, remedy: str | None = None) -> DamagedError:
    """The error for a damaged file of a run, or one that may not be read, with its remedy; None: the run is rebuilt
    from its logs."""
    if os.strerror(errno.EACCES) in problem:
        return DamagedError(f"run {run}: {path} {problem}; ask its owner for permission to read it")
    remedy = remedy or f"`nixt check {run} --repair` rebuilds it from its logs"
    return DamagedError(f"run {run}: {path} is damaged: it {problem}; {remedy}")


def noted_inventory(run: str, settings: Settings) -> Inventory | None:
    """The files of a run when they were last listed; None when nothing says so."""
    path = layout.store_dir(run, settings) / layout.INVENTORY
    return read_json(path, INVENTORY.validate_python, "the next ingest of the run writes it anew")


def without_logs(run: str, settings: Settings) -> str:
    """The remedy for a damaged run when nothing says where its logs were: perhaps no ingest made it."""
    remedy = f"nothing says where its logs were: move {layout.store_dir(run, settings)} away"
    return remedy + (f", or rebuild it with `nixt ingest DIR --run {run}`" if run_id(run) == run else "")


def _names(runs: list[str]) -> str:
    more = f" and {len(runs) - _NAMED:,} more (nixt runs lists them)" if len(runs) > _NAMED else ""
    return ", ".join(runs[:_NAMED]) + more or "none yet; start with: nixt ingest DIR"


def published_runs(settings: Settings) -> list[str]:
    """Ids of all published runs, sorted. Raises `StorageError` when the store cannot be listed; where something else is
    in the place of a run, it says so and leaves it out."""
    store = settings.data_dir / "store"
    for what in misplaced([store]).values():
        raise StorageError(what)
    for place in (path for path in store.glob("run=*") if not path.is_dir()):
        warn_once(obstacle(place))
    manifests = store.glob(f"run=*/{layout.MANIFEST}")
    return sorted(path.parent.name.removeprefix("run=") for path in manifests)
