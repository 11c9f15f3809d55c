from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.api import run_name
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.manifest import UnknownRunError
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.records import collective, write_log


def test_a_notebook_opens_a_run_and_asks_it(tmp_path: Path, settings: Settings) -> None:
    write_log(tmp_path / "job" / "node-01-pid1.log", *(collective(sn=n, time_us=100 + n) for n in range(3)))
    nixt.ingest_run(tmp_path / "job", settings)
    run = nixt.open_run("job", settings)
    frame = run.sql(
        "SELECT coll, avg(coll_exec_time_us) AS t FROM events WHERE coll = $coll GROUP BY coll", coll="AllReduce"
    ).df()
    assert frame.to_dict("records") == [{"coll": "AllReduce", "t": 101.0}]
    assert run.table("communicators").num_rows == 1
    with pytest.raises(LookupError, match="it has: auxiliary, cells"):
        run.table("nothing")


def test_an_unknown_run_lists_the_known_ones(settings: Settings) -> None:
    with pytest.raises(UnknownRunError, match="start with: nixt ingest DIR"):
        nixt.open_run("nothing", settings)


def test_a_run_below_the_landing_directory_is_named_by_its_path(settings: Settings, tmp_path: Path) -> None:
    assert run_name(settings.landing_dir / "team" / "nccl-inspector-1", settings) == "team__nccl-inspector-1"
    assert run_name(tmp_path / "elsewhere" / "nccl-inspector-1", settings) == "nccl-inspector-1"


def test_every_analysis_of_a_run_is_materialised_and_visible(settings: Settings) -> None:
    nixt.ingest_run(FIXTURES / "job_2.30.7_8ranks", settings)
    nixt.analyse_run("job_2.30.7_8ranks", settings)
    run = nixt.open_run("job_2.30.7_8ranks", settings)
    assert (
        run.sql("SELECT sum(records) FROM summary_histogram").fetchall()
        == run.sql("SELECT count(*) FROM events").fetchall()
    )
    assert run.table("hot_kernels").num_rows > 0
