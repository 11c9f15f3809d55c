"""Writing the result of an analysis of a run."""

import pyarrow as pa

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_table
from nixt_pipeline.store.seals import noting


def write_result(table: pa.Table, analysis: str, run: str, settings: Settings) -> None:
    """Replace a run's result of an analysis, and note its seal. Raises `StorageError` when it cannot be written."""
    path = layout.results_path(settings, analysis, run)
    write_table(table, path, noting(settings, run, path))
