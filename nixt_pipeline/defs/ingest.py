"""The ingest of a run: four assets, from the files of its dump directory to published events."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
from pydantic import Field

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import INGEST, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview, column_schema, table_preview
from nixt_pipeline.defs.resources import StoreDuckDB
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.views import EVENT_DERIVED_COLUMNS
from nixt_pipeline.quality.events import EVENT_RULES, judge_columns, judge_rows, judge_values
from nixt_pipeline.quality.ingest import (
    INVENTORY_RULES,
    TYPING_RULES,
    VALIDATION_RULES,
    judge_inventory,
    judge_typing,
    judge_validation,
)
from nixt_pipeline.quality.profile import event_profile
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, ingest, layout
from nixt_pipeline.store.kernel_times import build_kernel_times
from nixt_pipeline.store.locate import run_directory
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_table

# What is known of a file before it is decoded.
_LISTED = ("path", "size_bytes", "mtime_ns", "fingerprint", "compression", "hostname", "pid")
_FILES = ("path", "size_bytes", "compression", "hostname", "pid")
_DECODED = ("path", "status", "records_collective", "records_p2p", "lines_rejected", "bytes_read", "problem")
_COMMUNICATORS = (
    "comm_name", "id", "n_ranks", "nnodes", "coll_type", "parallel_role", "ranks_seen", "hosts_seen", "records",
)  # fmt: skip
_EVENTS = (
    "coll", "coll_type", "rank", "n_ranks", "hostname", "pid", "coll_sn", "coll_msg_size_bytes", "coll_exec_time_us",
    "coll_busbw_gbs", "coll_timing_source",
)  # fmt: skip


class RawLogInventoryConfig(dg.Config):
    """Where the run's logs are; the sensor fills it in."""

    directory: str | None = Field(
        default=None, description="The run's dump directory; by default searched for in the landing directory"
    )


@run_asset(
    group=INGEST,
    kinds={"file"},
    code_version="1",
    columns=[column for column in taxonomy.FILE_COLUMNS if column.name in _LISTED],
)
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
    inventory = ingest.take_inventory(directory, run, settings)
    files = [{name: getattr(file, name) for name in _FILES} for file in inventory.files]
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
    return result(Path(inventory.directory), len(inventory.files), shown, numbers, data_version=version)


@run_asset(
    group=INGEST,
    kinds={"json", "parquet"},
    code_version=str(ingest.DECODER_VERSION),
    columns=taxonomy.EVENT_COLUMNS,
)
def validated_records(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**Every line of the logs, decoded once**: records as typed rows, anything else with place and reason.

    Nothing is dropped silently: each byte is stored, a counted duplicate, rejected, or recognised as another program's.
    Files that have not changed since the last ingest are not read again.
    """
    run = context.partition_key
    summary = ingest.validate_records(run, settings)
    generation = ingest.pending_generation(run, settings)
    numbers = {
        **{f"records_{name}": count for name, count in summary.records.items()},
        **{f"files_{name}": count for name, count in summary.files.items()},
        "rejected_lines": summary.rejected_lines,
        "megabytes_read": summary.bytes["read"] / 1e6,
        "seconds": summary.seconds,
    }
    shown = {
        "ingest": dg.MetadataValue.json(summary.to_json()),
        "first files": arrow_preview(read_table(generation / "files.parquet"), _DECODED),
    }
    return result(generation, summary.records["stored"], shown, numbers)


def _judge_records(run: str, settings: Settings) -> Iterator[Verdict]:
    generation = ingest.pending_generation(run, settings)
    files, rejects = (read_table(generation / f"{name}.parquet") for name in ("files", "rejects"))
    yield from judge_validation(ingest.validated_summary(run, settings), files, rejects)


@run_asset(
    group=INGEST,
    kinds={"duckdb", "parquet"},
    code_version="1",
    columns=taxonomy.COMMUNICATOR_COLUMNS,
)
def typed_events(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**The participants**: the communicators of the run with their placement, and their processes and hosts.

    A communicator is a group of ranks that communicate. Its class (`nvlink-only`, `nic-only`, `mixed`,
    `single-rank`) says where the ranks sit. Each column has a role in the taxonomy: Identifier, Configuration,
    Workload, Measurement, Counter, Derived.
    """
    run = context.partition_key
    counts = ingest.type_events(run, settings)
    path = ingest.pending_generation(run, settings) / "communicators.parquet"
    communicators = read_table(path).sort_by([("records", "descending")])
    shown = {
        "busiest communicators": arrow_preview(communicators, _COMMUNICATORS),
        "columns of processes": column_schema(taxonomy.PROCESS_COLUMNS),
        "columns of hosts": column_schema(taxonomy.HOST_COLUMNS),
    }
    return result(path, communicators.num_rows, shown, counts)


def _judge_participants(run: str, settings: Settings) -> Iterator[Verdict]:
    generation = ingest.pending_generation(run, settings)
    communicators, membership = (read_table(generation / f"{name}.parquet") for name in ("communicators", "membership"))
    yield from judge_typing(communicators, membership, ingest.validated_summary(run, settings).incarnations)


@run_asset(
    group=INGEST,
    kinds={"parquet", "duckdb"},
    code_version="2",
    columns=(*EVENT_DERIVED_COLUMNS, *taxonomy.EVENT_COLUMNS),
)
def event_store(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings], duckdb: StoreDuckDB) -> Result:
    """**The stored records of the run**: Parquet with one row per record, which all later steps read.

    Publishing is one rename: readers see the previous state of the run or this one, never half of it. Query it with
    `nixt sql "SELECT ... FROM events"`, with DuckDB over `catalog.duckdb`, or with anything that reads Parquet.
    """
    run = context.partition_key
    manifest = ingest.publish_run(run, settings)
    generation = manifest.directory(settings)
    with duckdb.get_connection(run) as con:
        build_kernel_times(con, run, generation, settings)
        first = con.sql("FROM events").limit(12).to_arrow_table()
        by_function = con.sql(
            "SELECT coll, coll_type, count(*) AS records FROM events GROUP BY ALL ORDER BY ALL"
        ).to_arrow_table()
    numbers = {
        "log_files": manifest.files["read"] + manifest.files["unchanged"],
        "launches": manifest.incarnations,
        "store_mb": sum(path.stat().st_size for path in generation.rglob("*.parquet")) / 1e6,
    }
    shown = {
        "catalog": dg.MetadataValue.path(settings.catalog_path.resolve()),
        "first events": arrow_preview(first, _EVENTS),
        "records by function": table_preview(by_function.to_pylist()),
        "fingerprint": manifest.fingerprint,
    }
    return result(generation, manifest.records["stored"], shown, numbers)


def _judge_events(run: str, settings: Settings) -> Iterator[Verdict]:
    files = layout.table_files(read_manifest(run, settings).directory(settings), "events")
    yield judge_columns(files, taxonomy.EVENT_COLUMNS)
    yield judge_rows(files, ingest.validated_summary(run, settings).records["stored"])
    with catalog.open_run(run, settings) as con:
        yield from judge_values(event_profile(con, settings), settings.thresholds)


defs = dg.Definitions(
    assets=[raw_log_inventory, validated_records, typed_events, event_store],
    asset_checks=[
        run_checks(
            "raw_log_inventory",
            INVENTORY_RULES,
            lambda run, settings: judge_inventory(ingest.read_inventory(run, settings)),
        ),
        run_checks("validated_records", VALIDATION_RULES, _judge_records),
        run_checks("typed_events", TYPING_RULES, _judge_participants),
        run_checks("event_store", EVENT_RULES, _judge_events),
    ],
)
