"""The NIXT analyses: one module each, a documented SQL text and a typed result. No Dagster.

A new one is a module with an `Analysis`, and a line in `ANALYSES`: it is then computed for each run, an asset with its
checks, a table for `nixt sql`, a section of the report (a table, unless `reporting.sections` has more to show) and part
of `docs/analyses.md`.
"""

from nixt_pipeline.analysis import (
    coverage,
    ecdf,
    host_lateness,
    hot_kernels,
    other_correlation,
    p2p_edges,
    rank_times,
    resource_correlation,
    run_kernels,
    spatial_correlation,
    summary_histogram,
    temporal_correlation,
    variation,
    waiting,
)
from nixt_pipeline.analysis.base import Analysis, compute, materialise

# Every analysis of one run, in the order in which they are computed.
ANALYSES: tuple[Analysis, ...] = (
    summary_histogram.ANALYSIS,
    temporal_correlation.ANALYSIS,
    spatial_correlation.ANALYSIS,
    resource_correlation.ANALYSIS,
    other_correlation.ANALYSIS,
    hot_kernels.ANALYSIS,
    ecdf.BANDWIDTH_ECDF,
    ecdf.TIME_ECDF,
    waiting.WAITING_OVER_TIME,
    waiting.WAITING_BY_PROGRESS,
    host_lateness.ANALYSIS,
    rank_times.ANALYSIS,
    p2p_edges.ANALYSIS,
    variation.ANALYSIS,
    coverage.ANALYSIS,
    run_kernels.RUN_KERNELS,
)
# Those that reports show.
REPORTED = tuple(analysis for analysis in ANALYSES if analysis.in_report)

__all__ = ["ANALYSES", "REPORTED", "Analysis", "analysis_named", "compute", "materialise"]


def analysis_named(name: str) -> Analysis:
    """The analysis called `name`. Raises `KeyError` with the names there are."""
    for analysis in ANALYSES:
        if analysis.name == name:
            return analysis
    raise KeyError(f"no analysis named {name!r}; there are: {', '.join(analysis.name for analysis in ANALYSES)}")
