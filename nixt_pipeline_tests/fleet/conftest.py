"""The stored run of the analyses' tests, here too."""

from nixt_pipeline_tests.analysis.conftest import store_run

__all__ = ["store_run"]
