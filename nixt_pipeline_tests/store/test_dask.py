import pytest

from nixt_pipeline.settings import Settings
from nixt_pipeline.store import ingest
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.store.examples import stored

JOB = FIXTURES / "job_2.30.7_8ranks"


@pytest.mark.slow
def test_a_dask_cluster_decodes_what_this_machine_would(settings: Settings) -> None:
    from distributed import LocalCluster

    ingest.ingest(JOB, "run", settings)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        elsewhere = settings.model_copy(
            update={
                "data_dir": settings.data_dir / "dask",
                "dask_scheduler": cluster.scheduler_address,
                "bundle_bytes": 1,
            }
        )
        ingest.ingest(JOB, "run", elsewhere)
    assert stored(elsewhere) == stored(settings)
