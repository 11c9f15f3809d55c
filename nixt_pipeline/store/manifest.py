"""The manifest of a run: what was ingested, from where, and which generation of the store readers see."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_text

SCHEMA_VERSION = 1


class UnknownRunError(NixtError, LookupError):
    """No such run in the store; the message lists what there is."""


class StoreVersionError(NixtError, RuntimeError):
    """The store was written by a version of this program that this one cannot read, or is damaged."""


@dataclass(frozen=True)
class Manifest:
    """What is known of an ingested run. `files`, `records` and `bytes` are the counts of the ingest's JSON."""

    run: str
    source_dir: str
    generation: str
    fingerprint: str
    ingested_at: str
    incarnations: int
    files: dict[str, int]
    records: dict[str, int]
    rejected_lines: int
    foreign_lines: int
    dropped_by_plugin: int
    bytes: dict[str, int]
    seconds: float
    run_info: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    def directory(self, settings: Settings) -> Path:
        """The generation's directory."""
        return layout.generation_dir(settings, self.run, self.generation)


def write_manifest(manifest: Manifest, settings: Settings) -> None:
    """Publish a generation: from this instant on readers see it."""
    path = layout.store_dir(settings, manifest.run) / layout.MANIFEST
    write_text(json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n", path)


def read_manifest(settings: Settings, run: str) -> Manifest:
    """The manifest of `run`. Raises `UnknownRunError` for a run never published, `StoreVersionError` for a newer
    store."""
    path = layout.store_dir(settings, run) / layout.MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(published_runs(settings)[:10]) or "none yet; start with: nixt ingest DIR"
        raise UnknownRunError(f"no run {run!r} in {settings.data_dir}; known runs: {known}") from None
    except ValueError as error:
        raise StoreVersionError(f"{path} is damaged ({error}); remove it and ingest the run again") from error
    if content["schema"] > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{path} has schema {content['schema']}, this program reads up to {SCHEMA_VERSION}: upgrade nixt_pipeline"
        )
    return Manifest(**content)


def published_runs(settings: Settings) -> list[str]:
    """Ids of all published runs, sorted."""
    manifests = (settings.data_dir / "store").glob(f"run=*/{layout.MANIFEST}")
    return sorted(path.parent.name.removeprefix("run=") for path in manifests)


def list_runs(settings: Settings) -> list[Manifest]:
    """The manifests of all published runs, sorted by run id."""
    return [read_manifest(settings, run) for run in published_runs(settings)]
