"""Stage 3: who wrote what: communicators, processes and hosts, and the role of each column."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import INGEST, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview, column_schema
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.ingest import TYPING_RULES, judge_typing
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import pending_generation, type_events, validated_summary
from nixt_pipeline.store.reading import read_table

_PREVIEW = ("comm_name", "id", "n_ranks", "nnodes", "coll_type", "parallel_role", "ranks_seen", "hosts_seen", "records")


@run_asset(
    group=INGEST,
    kinds={"duckdb", "parquet"},
    code_version="1",
    columns=taxonomy.COMMUNICATOR_COLUMNS,
    deps=reads("typed_events"),
)
def typed_events(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**The participants**: the communicators of the run with their placement, and their processes and hosts.

    A communicator is a group of ranks that communicate. Its class (`nvlink-only`, `nic-only`, `mixed`,
    `single-rank`) says where the ranks sit. Each column has a role in the taxonomy: Identifier, Configuration,
    Workload, Measurement, Counter, Derived.
    """
    run = context.partition_key
    counts = type_events(run, settings)
    generation = pending_generation(run, settings)
    communicators = read_table(generation / "communicators.parquet").sort_by([("records", "descending")])
    return result(
        generation / "communicators.parquet",
        communicators.num_rows,
        {
            "busiest communicators": arrow_preview(communicators, _PREVIEW),
            "columns of processes": column_schema(taxonomy.PROCESS_COLUMNS),
            "columns of hosts": column_schema(taxonomy.HOST_COLUMNS),
        },
        counts,
    )


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    generation = pending_generation(run, settings)
    communicators, membership = (read_table(generation / f"{name}.parquet") for name in ("communicators", "membership"))
    incarnations = validated_summary(run, settings).incarnations
    yield from judge_typing(communicators, membership, incarnations)


defs = dg.Definitions(assets=[typed_events], asset_checks=[run_checks("typed_events", TYPING_RULES, _judge)])
