"""Drop the raw events of a run: the only thing that this project deletes by policy.

Manifest, dimension tables, results and reports stay. The landing directory is never touched.
"""

from datetime import datetime

from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import LARGE_TABLES, Dropped, dropped, mark_dropped, supersede
from nixt_pipeline.store.ingest import read_inventory, run_lock
from nixt_pipeline.store.manifest import read_manifest


class IngestPendingError(NixtError, RuntimeError):
    """The run is being ingested again; its events are dropped another time."""


def event_bytes(run: str, settings: Settings) -> int:
    """Size of what `drop_events` would remove, in all generations of the run. Raises `UnknownRunError`."""
    read_manifest(run, settings)
    generations = layout.store_dir(run, settings).glob("gen-*")
    large = (path for gen in generations for table in LARGE_TABLES for path in layout.table_files(gen, table))
    return sum(path.stat().st_size for path in large)


def drop_events(run: str, settings: Settings, reason: str, at: datetime) -> int:
    """Mark events, channels and cells of a run as dropped; returns the bytes that frees.

    Readers are no longer led to them once the catalog is published; `collect` removes them. Can be killed
    and repeated. Raises `IngestPendingError` when a newer state of the run is being ingested, and `IngestError`
    when the store cannot be written to.
    """
    with run_lock(run, settings):
        manifest = read_manifest(run, settings)
        published = manifest.directory(settings)
        if read_inventory(run, settings).fingerprint != manifest.fingerprint:
            raise IngestPendingError(f"run {run} is being ingested again; its events are kept for now")
        freed = event_bytes(run, settings)
        if not dropped(published):
            mark_dropped(published, Dropped(at.isoformat(timespec="seconds"), reason, freed))
        supersede(run, published, settings)
    return freed
