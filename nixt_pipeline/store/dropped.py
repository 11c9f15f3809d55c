"""Runs whose raw events were dropped to save space: what is left of them stays usable, and is not computed again.

A marker in the generation says so. It is written before anything is removed, so that a reader never takes a run that is
being cut down for a run without records.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_json

MARKER = "events_dropped.json"
# What grows with the records of a run; everything else of a generation stays.
LARGE_TABLES = ("events", "channels", "cells")


class EventsDroppedError(NixtError, RuntimeError):
    """Something was to be computed from events that are not there any more; the message says what to do."""


@dataclass(frozen=True)
class Dropped:
    """When a generation's events were dropped (ISO time, UTC), why, and how much that freed."""

    at: str
    reason: str
    freed_bytes: int


def dropped(generation: Path) -> Dropped | None:
    """What the marker of a generation says; None when its events are there."""
    path = generation / MARKER
    if not path.exists():
        return None
    content = read_json(path, lambda value: Dropped(**value), "the run's events count as dropped anyway")
    return content or Dropped("at an unknown time", "the marker is damaged", 0)


def mark_dropped(generation: Path, what: Dropped) -> None:
    """Write the marker."""
    write_text(json.dumps(asdict(what)) + "\n", generation / MARKER, durable=True)


def require_events(run: str, settings: Settings) -> None:
    """Raise `EventsDroppedError` when the run's events were dropped: computed from nothing, results would be empty."""
    manifest = read_manifest(settings, run)
    found = dropped(manifest.directory(settings))
    if found:
        raise EventsDroppedError(
            f"the events of run {run} were dropped on {found.at[:10]} ({found.reason}); its results are kept as they"
            f" are. To have the events back, remove {manifest.directory(settings).parent} and ingest"
            f" {manifest.source_dir} again"
        )
