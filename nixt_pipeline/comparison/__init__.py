"""Between runs: what changed, what is usual, and which hosts keep being named. Works on small results of each run."""

from nixt_pipeline.comparison.run_kernels import RUN_KERNELS

__all__ = ["RUN_KERNELS"]
