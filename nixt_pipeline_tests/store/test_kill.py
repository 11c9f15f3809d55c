import signal
from pathlib import Path

import pytest

from benchmarks.kill_ingest import check
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.fan_out import _workers
from nixt_pipeline_tests.conftest import FIXTURES


@pytest.mark.slow
def test_an_ingest_that_is_killed_leaves_the_old_state_or_the_new_one() -> None:
    seen = check(Path(FIXTURES) / "job_2.30.7_8ranks", kills=4, seed=1, longest_s=1.2)
    assert seen["killed"] + seen["ended before"] == 4


@pytest.mark.slow
def test_workers_leave_ctrl_c_to_the_process_that_asked_for_them(settings: Settings) -> None:
    before = signal.getsignal(signal.SIGINT)
    with _workers(2, settings.model_copy(update={"workers": 2})) as pool:
        assert pool is not None
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) == before
