"""The stored run of a few hand-written records, as the tests of the analyses have it."""

from nixt_pipeline_tests.analysis.conftest import store_run

__all__ = ["store_run"]
