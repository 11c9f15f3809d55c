import pytest

from nixt_pipeline.diagnosis.evidence.ending import Ending, ending_of
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.manifest import Manifest


def told(state: object, settings: Settings) -> Ending:
    manifest = Manifest(
        run="run", source_dir="dir", generation="gen", fingerprint="0", ingested_at="2025-08-30T21:00:00+00:00",
        incarnations=1, files={}, records={}, rejected_lines=0, foreign_lines=0, dropped_by_plugin=0, bytes={},
        seconds=1.0, run_info={"state": state},
    )  # fmt: skip
    return ending_of(manifest, settings)


@pytest.mark.parametrize(
    ("state", "name", "completed", "from_outside", "over"),
    [
        ("COMPLETED", "COMPLETED", True, False, True),
        ("TIMEOUT", "TIMEOUT", False, True, True),
        ("CANCELLED by 1000", "CANCELLED", False, True, True),
        ("CANCELLED+", "CANCELLED", False, True, True),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", False, False, True),
        ("failed", "FAILED", False, False, True),
        ("RUNNING", "RUNNING", False, False, False),
        ("COMPLETED, TIMEOUT", "", False, False, False),
        ("TIMEOUT, TIMEOUT", "TIMEOUT", False, True, True),
        (None, "", False, False, False),
        (7, "7", False, False, False),
    ],
)
def test_the_state_of_a_job_is_read_in_slurms_words(
    state: object, name: str, completed: bool, from_outside: bool, over: bool, settings: Settings
) -> None:
    found = told(state, settings)
    assert (found.state, found.completed, found.from_outside, found.over) == (name, completed, from_outside, over)


def test_a_log_that_was_written_to_shortly_before_it_was_read_is_that_of_a_running_job(settings: Settings) -> None:
    read_us = 1_756_587_600_000_000  # 2025-08-30 21:00:00 UTC
    assert told(None, settings).running(read_us - 59_000_000)
    assert not told(None, settings).running(read_us - 60_000_000)
    assert not told("FAILED", settings).running(read_us - 1)
    assert not told(None, settings).running(None)
