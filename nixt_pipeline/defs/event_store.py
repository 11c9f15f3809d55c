"""Stage 4: publish the run: from here on readers see it."""

from collections.abc import Iterator
from contextlib import closing

import dagster as dg

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import INGEST, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview, table_preview
from nixt_pipeline.defs.resources import StoreDuckDB
from nixt_pipeline.inspector.taxonomy import EVENT_COLUMNS
from nixt_pipeline.inspector.views import EVENT_DERIVED_COLUMNS
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.events import EVENT_RULES, judge_columns, judge_rows, judge_values
from nixt_pipeline.quality.profile import event_profile
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.ingest import publish_run, validated_summary
from nixt_pipeline.store.kernel_times import build_kernel_times
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.seals import noting

_PREVIEW = (
    "coll", "coll_type", "rank", "n_ranks", "hostname", "pid", "coll_sn", "coll_msg_size_bytes", "coll_exec_time_us",
    "coll_busbw_gbs", "coll_timing_source",
)  # fmt: skip


@run_asset(
    group=INGEST,
    kinds={"parquet", "duckdb"},
    code_version="2",
    columns=(*EVENT_DERIVED_COLUMNS, *EVENT_COLUMNS),
    deps=reads("event_store"),
)
def event_store(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings], duckdb: StoreDuckDB) -> Result:
    """**The stored records of the run**: Parquet with one row per record, which all later steps read.

    Publishing is one rename: readers see the previous state of the run or this one, never half of it. Query it with
    `nixt sql "SELECT ... FROM events"`, with DuckDB over `catalog.duckdb`, or with anything that reads Parquet.
    """
    run = context.partition_key
    manifest = publish_run(run, settings)
    with duckdb.get_connection(run) as con:
        generation = manifest.directory(settings)
        build_kernel_times(con, generation, noting(settings, run, generation / "kernel_times.parquet"))
        first = con.sql("FROM events").limit(12).to_arrow_table()
        by_function = con.sql(
            "SELECT coll, coll_type, count(*) AS records FROM events GROUP BY ALL ORDER BY ALL"
        ).to_arrow_table()
    numbers = {
        "log_files": manifest.files["read"] + manifest.files["unchanged"],
        "launches": manifest.incarnations,
        "store_mb": sum(path.stat().st_size for path in manifest.directory(settings).rglob("*.parquet")) / 1e6,
    }
    return result(
        generation,
        manifest.records["stored"],
        {
            "catalog": dg.MetadataValue.path(settings.catalog_path.resolve()),
            "first events": arrow_preview(first, _PREVIEW),
            "records by function": table_preview(by_function.to_pylist()),
            "fingerprint": manifest.fingerprint,
        },
        numbers,
    )


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    files = layout.table_files(read_manifest(settings, run).directory(settings), "events")
    yield judge_columns(files, EVENT_COLUMNS)
    yield judge_rows(files, validated_summary(run, settings).records["stored"])
    with closing(catalog.open_run(run, settings)) as con:
        yield from judge_values(event_profile(con, settings), settings.thresholds)


defs = dg.Definitions(assets=[event_store], asset_checks=[run_checks("event_store", EVENT_RULES, _judge)])
