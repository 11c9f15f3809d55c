"""Stage 2: decode every line, keep the records, and account for everything that is none."""

from collections.abc import Iterator

import dagster as dg

from nixt_pipeline.defs.checks import run_checks
from nixt_pipeline.defs.common import INGEST, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.inspector.taxonomy import EVENT_COLUMNS
from nixt_pipeline.pipeline import reads
from nixt_pipeline.quality.ingest import VALIDATION_RULES, judge_validation
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import DECODER_VERSION, pending_generation, validate_records, validated_summary
from nixt_pipeline.store.reading import read_table


@run_asset(
    group=INGEST,
    kinds={"json", "parquet"},
    code_version=str(DECODER_VERSION),
    columns=EVENT_COLUMNS,
    deps=reads("validated_records"),
)
def validated_records(context: dg.AssetExecutionContext, settings: dg.ResourceParam[Settings]) -> Result:
    """**Every line of the logs, decoded once**: records as typed rows, anything else with place and reason.

    Nothing is dropped silently: each byte is stored, a counted duplicate, rejected, or recognised as another program's.
    Files that have not changed since the last ingest are not read again.
    """
    run = context.partition_key
    summary = validate_records(run, settings)
    generation = pending_generation(run, settings)
    numbers = {
        **{f"records_{name}": count for name, count in summary.records.items()},
        **{f"files_{name}": count for name, count in summary.files.items()},
        "rejected_lines": summary.rejected_lines,
        "megabytes_read": summary.bytes["read"] / 1e6,
        "seconds": summary.seconds,
    }
    files = read_table(generation / "files.parquet")
    return result(
        generation,
        summary.records["stored"],
        {
            "ingest": dg.MetadataValue.json(summary.to_json()),
            "first files": arrow_preview(
                files,
                ("path", "status", "records_collective", "records_p2p", "lines_rejected", "bytes_read", "problem"),
            ),
        },
        numbers,
    )


def _judge(run: str, settings: Settings) -> Iterator[Verdict]:
    generation = pending_generation(run, settings)
    files, rejects = (read_table(generation / f"{name}.parquet") for name in ("files", "rejects"))
    yield from judge_validation(validated_summary(run, settings), files, rejects)


defs = dg.Definitions(
    assets=[validated_records], asset_checks=[run_checks("validated_records", VALIDATION_RULES, _judge)]
)
