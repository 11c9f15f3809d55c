"""Whether a computed file would come out the same if it were made again: then it is reused.

What a file is made from is noted beside its seal, as a fingerprint of what it depends on: the content of the tables
that it reads, the version of the code, and the settings that matter.
"""

import json
from pathlib import Path

import xxhash

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import Manifest
from nixt_pipeline.store.seals import damage, data_name, derived_notes, derived_seals


def origin(*parts: object) -> str:
    """The fingerprint of what a file is made from. Parts that are not JSON must have a `repr` that says all of them."""
    return xxhash.xxh3_128_hexdigest(json.dumps(parts, sort_keys=True, default=repr).encode())


def origin_of_events(manifest: Manifest, settings: Settings) -> str:
    """The fingerprint of what an ingest wrote of a run, as the views show it: they leave out what is implausible."""
    limits = settings.thresholds.ingest.model_dump(mode="json")
    return origin(manifest.generation, manifest.contents, limits)


def origin_of_tables(manifest: Manifest, settings: Settings) -> str:
    """The same with the cells that were built from it."""
    generation = manifest.directory(settings)
    seals = derived_seals(manifest.run, settings)
    derived = (data_name(generation / f"{table}.parquet", settings) for table in layout.DERIVED_TABLES)
    return origin(origin_of_events(manifest, settings), [seals.get(name, [])[:1] for name in derived])


def is_current(run: str, path: Path, made_from: str, settings: Settings) -> bool:
    """Whether a file is sound and was made from what has this fingerprint. Files of earlier versions say nothing of it,
    so they are not."""
    notes = derived_notes(run, settings).get(data_name(path, settings), ())
    return any(noted == made_from and damage(path, [sealed], content=True) is None for sealed, noted in notes)
