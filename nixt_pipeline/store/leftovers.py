"""Files that readers are no longer led to, and that go when no reader can have them open any more.

What is superseded is marked first, then the new state is published, and after `Settings.unlink_grace_s` the next ingest
of the run, or the next retention, removes it.
"""

import shutil
import time
from pathlib import Path

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import LARGE_TABLES, MARKER

SUPERSEDED = "superseded"


def supersede(settings: Settings, run: str, keep: Path) -> None:
    """Mark every generation of the run but `keep`; the time of the mark counts."""
    for generation in _generations(settings, run):
        if generation.name == keep.name:
            (generation / SUPERSEDED).unlink(missing_ok=True)
        elif not (generation / SUPERSEDED).exists():
            (generation / SUPERSEDED).touch()


def collect(settings: Settings, run: str) -> None:
    """Remove generations that were superseded, and events that were dropped, long enough ago."""
    for generation in _generations(settings, run):
        if _is_over(generation / SUPERSEDED, settings):
            shutil.rmtree(generation, ignore_errors=True)
        elif _is_over(generation / MARKER, settings):
            for table in LARGE_TABLES:
                for path in layout.table_files(generation, table):
                    path.unlink(missing_ok=True)


def _generations(settings: Settings, run: str) -> list[Path]:
    return sorted(path for path in layout.store_dir(settings, run).glob("gen-*") if path.is_dir())


def _is_over(mark: Path, settings: Settings) -> bool:
    """Whether the grace of what is marked has ended; files have the time of the file server, which may be a little
    ahead."""
    try:
        return time.time() - mark.stat().st_mtime >= settings.unlink_grace_s or not settings.unlink_grace_s
    except FileNotFoundError:
        return False
