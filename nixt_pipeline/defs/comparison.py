"""What runs are compared by, and each run against those that did the same work before."""

import dagster as dg

from nixt_pipeline.analysis.base import materialise
from nixt_pipeline.comparison.run_kernels import RUN_KERNELS
from nixt_pipeline.defs.analyses import analysis_checks
from nixt_pipeline.defs.common import ANALYSES, Result, result, run_asset
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.store import layout

# The lists of blocks and hosts are too long for a preview.
_PREVIEW = (
    "coll", "coll_type", "n_ranks", "nnodes", "parallel_role", "coll_msg_size_bytes", "operations", "capture_rate",
    "transfer_p50_us", "wait_us", "transfer_busbw_gbs", "transfer_cv",
)  # fmt: skip


@run_asset(
    name=RUN_KERNELS.name,
    description=f"**{RUN_KERNELS.question}**\n\n{RUN_KERNELS.reading}",
    group=ANALYSES,
    kinds={"duckdb", "parquet"},
    code_version=RUN_KERNELS.version,
    columns=RUN_KERNELS.columns,
    deps=["collective_cells"],
)
def run_kernels(context: dg.AssetExecutionContext, nixt: NixtSettings) -> Result:
    """See the description above."""
    settings, run = nixt.load(), context.partition_key
    table = materialise(RUN_KERNELS, run, settings)
    path = layout.results_path(settings, RUN_KERNELS.name, run)
    return result(
        table.num_rows, {"dagster/uri": path.resolve().as_uri(), "first rows": arrow_preview(table, _PREVIEW)}
    )


run_kernels_checks = analysis_checks(RUN_KERNELS)
