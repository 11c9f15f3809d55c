"""What readers are no longer led to: raw events that were dropped to save space, and superseded generations.

Dropped events have a marker in their generation, so that a reader never takes a run that is being cut down for a run
without records; what is left of it stays usable, and is not computed again. What is superseded is marked before the new
state is published. Files go when no reader can have them open any more: the next ingest of the run, or the next
retention, removes what was marked longer than `Settings.unlink_grace_s` ago.
"""

import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_json

MARKER = "events_dropped.json"
SUPERSEDED = "superseded"
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
    manifest = read_manifest(run, settings)
    found = dropped(manifest.directory(settings))
    if found:
        raise EventsDroppedError(
            f"the events of run {run} were dropped on {found.at[:10]} ({found.reason}); its results are kept as they"
            f" are. To have the events back, remove {manifest.directory(settings).parent} and ingest"
            f" {manifest.source_dir} again"
        )


def supersede(run: str, keep: Path, settings: Settings) -> None:
    """Mark every generation of the run but `keep`; the time of the mark counts."""
    for generation in _generations(run, settings):
        if generation.name == keep.name:
            (generation / SUPERSEDED).unlink(missing_ok=True)
        elif not (generation / SUPERSEDED).exists():
            (generation / SUPERSEDED).touch()


def collect(run: str, settings: Settings) -> None:
    """Remove generations that were superseded, and events that were dropped, long enough ago."""
    for generation in _generations(run, settings):
        if _is_over(generation / SUPERSEDED, settings):
            shutil.rmtree(generation, ignore_errors=True)
        elif _is_over(generation / MARKER, settings):
            for table in LARGE_TABLES:
                for path in layout.table_files(generation, table):
                    path.unlink(missing_ok=True)


def _generations(run: str, settings: Settings) -> list[Path]:
    return sorted(path for path in layout.store_dir(run, settings).glob("gen-*") if path.is_dir())


def _is_over(mark: Path, settings: Settings) -> bool:
    """Whether the grace of what is marked has ended; files have the time of the file server, which may be a little
    ahead."""
    try:
        return time.time() - mark.stat().st_mtime >= settings.unlink_grace_s or not settings.unlink_grace_s
    except FileNotFoundError:
        return False
