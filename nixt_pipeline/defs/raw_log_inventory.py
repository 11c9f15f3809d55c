"""Stage 1: which files a run consists of."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
from pydantic import Field

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import INGEST, Result, result, run_asset
from nixt_pipeline.defs.metadata import table_preview
from nixt_pipeline.inspector.taxonomy import FILE_COLUMNS
from nixt_pipeline.quality.ingest import INVENTORY_RULES, judge_inventory
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import read_inventory, take_inventory
from nixt_pipeline.store.locate import run_directory

# What is known of a file before it is decoded.
INVENTORY_COLUMNS = tuple(
    column
    for column in FILE_COLUMNS
    if column.name in ("path", "size_bytes", "mtime_ns", "fingerprint", "compression", "hostname", "pid")
)
_PREVIEW = ("path", "size_bytes", "compression", "hostname", "pid")


class RawLogInventoryConfig(dg.Config):
    """Where the run's logs are; the sensor fills it in."""

    directory: str | None = Field(
        default=None, description="The run's dump directory; by default searched for in the landing directory"
    )


@run_asset(group=INGEST, kinds={"file"}, code_version="1", columns=INVENTORY_COLUMNS)
def raw_log_inventory(
    context: dg.AssetExecutionContext, config: RawLogInventoryConfig, settings: dg.ResourceParam[Settings]
) -> Result:
    """**The log files of a run**: path, size, time, compression, and a fingerprint of the content.

    A run is one directory that NCCL Inspector wrote to during one training job. Files are listed, not read. The
    fingerprint of the whole is the data version: when it changes, the run has grown and all later steps are
    stale.
    """
    run = context.partition_key
    directory = Path(config.directory) if config.directory else run_directory(run, settings)
    inventory = take_inventory(directory, run, settings)
    files = [{name: getattr(file, name) for name in _PREVIEW} for file in inventory.files]
    numbers = {
        "size_mb": sum(file.size_bytes for file in inventory.files) / 1e6,
        "hosts_by_file_name": len({file.hostname for file in inventory.files if file.hostname}),
    }
    shown = {
        "directory": dg.MetadataValue.path(inventory.directory),
        "fingerprint": inventory.fingerprint,
        "first files": table_preview(files),
    }
    version = dg.DataVersion(inventory.fingerprint)
    return result(Path(inventory.directory), len(inventory.files), shown, numbers, version)


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    yield from judge_inventory(read_inventory(run, settings))


defs = dg.Definitions(
    assets=[raw_log_inventory], asset_checks=[run_checks("raw_log_inventory", INVENTORY_RULES, _judge)]
)
