"""The manifest of a run of which only the name matters."""

from nixt_pipeline.store.manifest import Manifest

MANIFEST = Manifest(
    run="job", source_dir="/logs/job", generation="g1", fingerprint="f", ingested_at="2026-01-01T00:00:00+00:00",
    incarnations=1, files={}, records={}, rejected_lines=0, foreign_lines=0, dropped_by_plugin=0, bytes={}, seconds=0.0,
)  # fmt: skip
