from pathlib import Path

import pytest

from benchmarks.kill_ingest import check
from nixt_pipeline_tests.conftest import FIXTURES


@pytest.mark.slow
def test_an_ingest_that_is_killed_leaves_the_old_state_or_the_new_one() -> None:
    seen = check(Path(FIXTURES) / "job_2.30.7_8ranks", kills=4, seed=1, longest_s=1.2)
    assert seen["killed"] + seen["ended before"] == 4
