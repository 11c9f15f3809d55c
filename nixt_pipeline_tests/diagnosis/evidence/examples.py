"""What a small log shows."""

from contextlib import closing
from pathlib import Path

from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.api import ingest_run
from nixt_pipeline.diagnosis.evidence.blocks import cut_into_blocks
from nixt_pipeline.diagnosis.evidence.observations import Observations, observe
from nixt_pipeline.diagnosis.evidence.replays import order_replays
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog


def observed(directory: Path, settings: Settings) -> Observations:
    run = ingest_run(directory, settings).run
    build_cells(run, settings)
    with closing(catalog.open_run(run, settings)) as con:
        return observe(cut_into_blocks(order_replays(con), 1), settings.thresholds)
