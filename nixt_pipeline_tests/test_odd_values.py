"""Odd values end no diagnosis and no report; `benchmarks.odd_values` tries all of them in all scopes."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from benchmarks.odd_values import FIELDS, JOBS, SCOPES, VALUES, Combination, batched, diagnosed, tried, write_job
from nixt_pipeline.settings import Settings

ONE, RANK, ALL = SCOPES
AILING, LOSSY = JOBS

ODD = st.builds(Combination, st.sampled_from(list(FIELDS)), st.sampled_from(list(VALUES)), st.sampled_from([RANK, ALL]))


@pytest.mark.parametrize("fields", batched(FIELDS), ids=lambda fields: "-".join(fields))
def test_no_value_of_a_record_ends_a_diagnosis(fields: list[str]) -> None:
    changes = [Combination(field, value, ONE) for field in fields for value in VALUES]
    assert tried(changes, report=False, analysed=False, which=[AILING]) == []


def test_no_value_of_a_record_ends_a_report() -> None:
    """What is counted, added up and drawn."""
    changes = [Combination(field, value, ONE) for field in ("n_ranks", "sn", "exec_time_us") for value in VALUES]
    assert tried(changes, report=True, which=[AILING]) == []


@hypothesis_settings(derandomize=True, database=None, deadline=None, max_examples=4)
@given(st.lists(ODD, min_size=1, max_size=3, unique_by=lambda change: change.field), st.sampled_from(list(JOBS)))
@example([Combination("msg_size_bytes", "null", ALL)], AILING)
@example([Combination("dump_timestamp_us", "1e300", ALL)], AILING)
@example([Combination("pid", "absent", ALL)], AILING)
@example([Combination("id", "null", RANK)], AILING)
@example([Combination("dump_timestamp_us", "2^31", ALL)], LOSSY)
@example([Combination("id", "null", ALL)], AILING)
def test_no_values_of_a_rank_or_a_job_end_a_diagnosis(changes: list[Combination], job: str) -> None:
    assert tried(changes, report=False, analysed=False, which=[job]) == []


def test_the_jobs_reach_the_detectors(tmp_path: Path, settings: Settings) -> None:
    """Otherwise the values would not be counted with."""
    kinds = {}
    for job in JOBS:
        write_job(job, tmp_path / job, [])
        findings = diagnosed(tmp_path / job, settings, analysed=False, report=False)["findings"]
        kinds[job] = {finding["kind"] for finding in findings}
    assert kinds == {
        AILING: {"hang", "late-arrival", "slow-transfer"},
        LOSSY: {"clock-skew", "record-loss"},
    }
