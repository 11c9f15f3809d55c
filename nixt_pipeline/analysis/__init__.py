"""The NIXT analyses: one module each, a documented SQL text and a typed result. No Dagster."""

from nixt_pipeline.analysis import (
    bandwidth_ecdf,
    coverage,
    host_lateness,
    hot_kernels,
    other_correlation,
    p2p_edges,
    rank_times,
    resource_correlation,
    spatial_correlation,
    summary_histogram,
    temporal_correlation,
    time_ecdf,
    variation,
    waiting_by_progress,
    waiting_over_time,
)
from nixt_pipeline.analysis.base import Analysis, compute, materialise

# Every analysis of one run, in the order in which reports show them.
ANALYSES: tuple[Analysis, ...] = (
    summary_histogram.ANALYSIS,
    temporal_correlation.ANALYSIS,
    spatial_correlation.ANALYSIS,
    resource_correlation.ANALYSIS,
    other_correlation.ANALYSIS,
    hot_kernels.ANALYSIS,
    bandwidth_ecdf.ANALYSIS,
    time_ecdf.ANALYSIS,
    waiting_over_time.ANALYSIS,
    waiting_by_progress.ANALYSIS,
    host_lateness.ANALYSIS,
    rank_times.ANALYSIS,
    p2p_edges.ANALYSIS,
    variation.ANALYSIS,
    coverage.ANALYSIS,
)

__all__ = ["ANALYSES", "Analysis", "analysis_named", "compute", "materialise"]


def analysis_named(name: str) -> Analysis:
    """The analysis called `name`. Raises `KeyError` with the names there are."""
    for analysis in ANALYSES:
        if analysis.name == name:
            return analysis
    raise KeyError(f"no analysis named {name!r}; there are: {', '.join(analysis.name for analysis in ANALYSES)}")
